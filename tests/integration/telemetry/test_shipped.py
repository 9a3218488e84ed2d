"""The shipped dashboard and alerts speak of metrics, labels and pages that there are."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest
import yaml
from django.conf import settings
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.parser import text_string_to_metric_families

from bettercompute import wiring
from bettercompute.telemetry import metrics
from bettercompute.web import metrics_page

pytestmark = pytest.mark.django_db

DEPLOY = settings.BASE_DIR / "deploy"
RULES = DEPLOY / "prometheus" / "rules.yml"
DASHBOARDS = sorted((DEPLOY / "grafana").glob("*.json"))
SCRAPED = {"job", "instance"}  # what Prometheus adds
_SAMPLES: dict[str, dict[str, set[str]]] = {
    "counter": {"_total": set()},
    "gauge": {"": set()},
    "histogram": {"_bucket": {"le"}, "_sum": set(), "_count": set()},
}
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@dataclass
class Known:
    """The metrics there are: their labels, and the values that a scrape shows."""

    labels: dict[str, set[str]] = field(default_factory=dict)
    values: dict[tuple[str, str], set[str]] = field(default_factory=dict)


def _known() -> Known:
    known = Known()
    for metric in vars(metrics).values():
        if isinstance(metric, MetricWrapperBase):
            (family,) = metric.describe()
            for suffix, more in _SAMPLES[family.type].items():
                known.labels[family.name + suffix] = set(metric._labelnames) | more
    for look in wiring.gauges():
        for gauge in look():
            known.labels[f"better_compute_{gauge.name}"] = set(gauge.labels)
    metrics_page.ROWS.forget()
    for scraped in text_string_to_metric_families(metrics_page.text().decode()):
        for sample in scraped.samples:
            known.labels.setdefault(sample.name, set(sample.labels))
            for label, value in sample.labels.items():
                known.values.setdefault((sample.name, label), set()).add(value)
    return known


def _rules() -> list[dict[str, Any]]:
    document = yaml.safe_load(RULES.read_text())
    return [rule for group in document["groups"] for rule in group["rules"]]


def _panels() -> Iterator[dict[str, Any]]:
    for path in DASHBOARDS:
        yield from json.loads(path.read_text())["panels"]


def _expressions() -> list[str]:
    shown = [target["expr"] for panel in _panels() for target in panel.get("targets", ())]
    return [rule["expr"] for rule in _rules()] + shown


def _parsed(expression: str) -> Any:
    return promql.parse(expression.replace("$__rate_interval", "5m"))


def _nodes(expression: Any) -> list[Any]:
    found: list[Any] = []
    promql.walk(expression, pre_visit=found.append)
    return found


def _selectors(expression: Any) -> list[Any]:
    inner = [
        node.vector_selector if isinstance(node, promql.MatrixSelector) else node
        for node in _nodes(expression)
    ]
    return [node for node in inner if isinstance(node, promql.VectorSelector)]


def faults(expression: str, known: Known) -> list[str]:
    """What an expression says that no scrape can answer."""
    parsed = _parsed(expression)
    selectors = _selectors(parsed)
    missing = {each.name for each in selectors} - known.labels.keys()
    if missing:
        return [f"no metric {name}" for name in sorted(missing)]
    labels = SCRAPED.union(*(known.labels[each.name] for each in selectors))
    found = [wrong for each in selectors for wrong in _mismatches(each, known)]
    for node in _nodes(parsed):
        if isinstance(node, promql.AggregateExpr) and node.modifier is not None:
            strange = [label for label in node.modifier.labels if label not in labels]
            found += [f"nothing has the label {label}" for label in strange]
    return found


def _mismatches(selector: Any, known: Known) -> Iterator[str]:
    for matcher in selector.matchers.matchers:
        if matcher.name not in known.labels[selector.name]:
            yield f"{selector.name} has no label {matcher.name}"
        shown = known.values.get((selector.name, matcher.name))
        exact = matcher.op == promql.MatchOp.Equal and selector.name not in _counted()
        if exact and shown and matcher.value not in shown:
            yield f"{selector.name} is never {matcher.name}={matcher.value}"


@cache
def _counted() -> set[str]:
    """Metrics of processes: what has not happened here shows no value."""
    wrapped = [each for each in vars(metrics).values() if isinstance(each, MetricWrapperBase)]
    names = {each.describe()[0].name for each in wrapped}
    return names | {
        f"{name}_{suffix}" for name in names for suffix in ("total", "bucket", "sum", "count")
    }


def test_every_metric_label_and_value_that_they_name_is_in_a_scrape() -> None:
    known = _known()
    expressions = _expressions()
    assert len(expressions) > 50
    found = {each: wrong for each in expressions if (wrong := faults(each, known))}
    assert found == {}


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("max(better_compute_nothing)", "no metric better_compute_nothing"),
        ('better_compute_agents{state="connected"}', "better_compute_agents has no label state"),
        (
            'better_compute_agents{condition="Unreachable"}',
            "better_compute_agents is never condition=Unreachable",
        ),
        ("sum by (tenant) (better_compute_agents)", "nothing has the label tenant"),
    ],
)
def test_a_wrong_expression_is_seen(expression: str, fault: str) -> None:
    assert faults(expression, _known()) == [fault]


def test_every_alert_says_what_and_where_to_read_on() -> None:
    alerts = [rule for rule in _rules() if "alert" in rule]
    assert len({rule["alert"] for rule in alerts}) == len(alerts) > 10
    for rule in alerts:
        assert rule["labels"]["severity"] in {"warning", "critical"}, rule["alert"]
        assert rule["annotations"]["summary"].endswith("."), rule["alert"]
        page, _, anchor = rule["annotations"]["runbook"].partition("#")
        assert anchor in _anchors(settings.BASE_DIR / page), rule["annotations"]["runbook"]


def test_every_panel_has_a_place_of_its_own_and_names_what_it_shows() -> None:
    panels = list(_panels())
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        assert panel["title"]
        for target in panel.get("targets", ()):
            # The outermost aggregation decides which labels are left: it is written first.
            kept = re.search(r"by \(([^)]*)\)", target["expr"])
            labels = set(kept[1].split(", ")) if kept else set()
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= labels, panel["title"]


def _anchors(path: Path) -> set[str]:
    """The headings of a page as GitHub links them."""
    titles = _HEADING.findall(path.read_text())
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_metric_is_on_the_page_about_monitoring() -> None:
    page = (settings.BASE_DIR / "docs/operations/monitoring.md").read_text()
    told = set(re.findall(r"`(\w+)`", page))
    shown = {name.removeprefix("better_compute_") for name in _known().labels}
    families = {re.sub(r"_seconds_(bucket|sum|count|created)$", "_seconds", name) for name in shown}
    counted = {name for name in families if not name.endswith("_created")}
    assert counted - told == set()
