"""Who may see the metrics, and what they say of the rows."""

from pathlib import Path

import pytest
from django.db import DatabaseError
from django.test import Client, override_settings
from prometheus_client.parser import text_string_to_metric_families

from bettercompute import wiring
from bettercompute.coordination import leases, workqueue
from bettercompute.coordination.models import WorkItem
from bettercompute.telemetry import files
from bettercompute.web import metrics_page
from tests.support import cast, make

pytestmark = pytest.mark.django_db

TOKEN = "a-token-of-the-scraper"


@pytest.fixture(autouse=True)
def _read_anew() -> None:
    metrics_page.ROWS.forget()


def _scrape(token: str | None) -> tuple[int, dict[tuple[str, ...], float]]:
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    answer = Client().get("/metrics", headers=headers)
    if answer.status_code != 200:
        cast.problem(answer, answer.status_code, answer.json()["code"])
        return answer.status_code, {}
    samples = {
        (sample.name.removeprefix("better_compute_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.content.decode())
        for sample in family.samples
    }
    return 200, samples


@pytest.mark.parametrize(
    ("presented", "status"),
    [
        (None, 401),
        ("", 401),
        ("something else", 401),
        (TOKEN, 200),
        (TOKEN + "x", 401),
    ],
)
def test_the_token_of_the_metrics_lets_in_and_nothing_else(
    presented: str | None, status: int
) -> None:
    with override_settings(METRICS_TOKEN=TOKEN):
        assert _scrape(presented)[0] == status


@pytest.mark.parametrize("nothing", ["", " ", "\t"])
def test_an_empty_setting_is_no_token(nothing: str) -> None:
    with override_settings(METRICS_TOKEN=""):
        answer = Client().get("/metrics", headers={"authorization": f"Bearer {nothing}"})
    assert answer.status_code == 401


def test_an_operators_token_lets_in_and_an_admins_does_not() -> None:
    assert _scrape(cast.token("olga")[1])[0] == 200
    assert _scrape(cast.token("alice")[1])[0] == 403


@pytest.mark.rule("C26", "C27")
def test_what_rows_say_is_there_and_what_nobody_has_is_zero() -> None:
    workqueue.enqueue("node", "node_a")
    workqueue.enqueue("pool", "pool_a")
    WorkItem.objects.filter(key="pool_a").update(attempts=7)
    leases.take("shard:3")
    with override_settings(METRICS_TOKEN=TOKEN):
        _, samples = _scrape(TOKEN)
    assert samples["work_queue_items", "node", "due"] == 1
    assert samples["work_queue_failing_items", "pool"] == 1
    assert samples["work_queue_failing_items", "node"] == 0
    assert samples["lease_held", "shard:3"] == 1
    assert samples["lease_held", "shard:4"] == 0
    assert samples["reservations", "pending"] == 0
    assert {value for name, value in samples.items() if name[0] == "scrape_ok"} == {1.0}


def test_gpus_are_booked_idle_or_of_no_use() -> None:
    alice = cast.caller("alice")
    make.active(alice, make.pool(gpus=4))
    with override_settings(METRICS_TOKEN=TOKEN):
        _, samples = _scrape(TOKEN)
    uses = {name[3]: value for name, value in samples.items() if name[0] == "pool_gpus"}
    assert uses == {"booked": 1, "idle": 3, "unavailable": 0}


def test_one_look_that_fails_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> list[object]:
        raise DatabaseError("a statement that took too long")

    looks = wiring.gauges()
    broken.__module__ = "pools.gauges"
    monkeypatch.setattr(wiring, "gauges", lambda: [broken, *looks])
    with override_settings(METRICS_TOKEN=TOKEN):
        _, samples = _scrape(TOKEN)
    assert samples["scrape_ok", "pools.broken"] == 0
    assert samples["scrape_ok", "pools.gpus"] == 1
    assert ("processes", "web") in samples


@pytest.mark.rule("A3")
def test_what_cannot_be_told_is_a_problem(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As when somebody empties the directory while it is in use."""
    monkeypatch.setenv(files.VARIABLE, str(tmp_path / "gone"))
    with override_settings(METRICS_TOKEN=TOKEN):
        assert _scrape(TOKEN)[0] == 500


def test_rows_are_read_once_however_many_ask(django_assert_num_queries) -> None:  # type: ignore[no-untyped-def]
    with override_settings(METRICS_TOKEN=TOKEN):
        _scrape(TOKEN)
        with django_assert_num_queries(0):
            assert _scrape(TOKEN)[0] == 200
