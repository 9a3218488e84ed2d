"""One truth about what may follow what: states.py, the triggers, and nobody else (C2, C3)."""

import ast
import json
import re
from itertools import product
from pathlib import Path

import pytest
from django.apps import apps
from django.db import IntegrityError, connection, transaction

from bettercompute import states
from bettercompute.web import openapi

pytestmark = pytest.mark.rule("C3")

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("bettercompute", "outbox", "nodes", "pools", "reservations")
STATEFUL = {model._meta.db_table for model in apps.get_models() if hasattr(model, "state")} - {
    "authz_changes"
}
# Where a row in memory is brought in line with what transitions.move has just written.
MIRRORS = {"reservations/lifecycle.py", "reservations/confirming/rows.py"}
GUARDED = [machine for machine in states.MACHINES.values() if machine.table in STATEFUL]


def test_every_table_with_a_state_has_a_machine():
    assert {machine.table for machine in states.MACHINES.values()} >= STATEFUL
    assert {"reservations", "allocations", "nodes"} <= STATEFUL


@pytest.mark.django_db
@pytest.mark.parametrize("machine", GUARDED, ids=lambda machine: machine.table)
def test_the_triggers_table_is_the_one_in_states(machine):
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT tgargs FROM pg_trigger WHERE tgname = %s", [f"{machine.table}_state_guard"]
        )
        (arguments,) = cursor.fetchone()
    told = json.loads(bytes(arguments).rstrip(b"\x00"))
    assert told == {before: sorted(after) for before, after in machine.transitions.items()}


@pytest.mark.django_db
@pytest.mark.parametrize("machine", GUARDED, ids=lambda machine: machine.table)
def test_the_trigger_refuses_every_illegal_pair_and_allows_every_legal_one(machine):
    """On a table of its own with the product's trigger, since rows need no other column."""
    _make_copy(machine)
    wrong = [
        (before, after)
        for before, after in product(sorted(machine.states), repeat=2)
        if before != after and _accepted(before, after) != machine.allows(before, after)
    ]
    assert wrong == []


@pytest.mark.django_db
@pytest.mark.rule("C2")
@pytest.mark.parametrize("machine", GUARDED, ids=lambda machine: machine.table)
def test_the_trigger_refuses_a_state_that_changes_without_its_version(machine):
    _make_copy(machine)
    legal = [(b, a) for b in machine.states for a in machine.transitions[b]]
    assert not any(_accepted(before, after, version=1) for before, after in legal)


def _make_copy(machine):
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgname = %s",
            [f"{machine.table}_state_guard"],
        )
        (definition,) = cursor.fetchone()
        cursor.execute("DROP TABLE IF EXISTS guarded")
        cursor.execute("CREATE TEMP TABLE guarded (id text, state text, version bigint)")
        cursor.execute(definition.replace(f"ON public.{machine.table} ", "ON guarded "))


def _accepted(before, after, version=2):
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM guarded")
        cursor.execute("INSERT INTO guarded VALUES ('x', %s, 1)", [before])
        try:
            with transaction.atomic():
                cursor.execute("UPDATE guarded SET state = %s, version = %s", [after, version])
        except IntegrityError:
            return False
        return True


DRAWN = {}
for _block in (ROOT / "docs" / "states.md").read_text(encoding="utf-8").split("\n## ")[1:]:
    DRAWN[_block.partition("\n")[0].lower()] = _block


@pytest.mark.parametrize("name", states.MACHINES)
def test_the_diagram_in_docs_draws_exactly_the_table(name):
    """Read back from the page, not from what generates it."""
    machine, block = states.MACHINES[name], DRAWN[name]
    named = {short: full for full, short in re.findall(r'state "([^"]+)" as (\w+)', block)}
    arrows = [
        (named.get(before, before), named.get(after, after))
        for before, after in re.findall(r"^    (\S+) --> (\S+)$", block, re.MULTILINE)
    ]
    assert len(arrows) == len(set(arrows))
    inside = {(before, after) for before, after in arrows if "[*]" not in (before, after)}
    assert inside == {(b, a) for b in machine.states for a in machine.transitions[b]}
    assert {before for before, after in arrows if after == "[*]"} == machine.terminal
    assert [after for before, after in arrows if before == "[*]"] == [
        next(iter(machine.transitions))
    ]


def test_no_diagram_is_of_a_machine_that_there_is_not():
    assert set(DRAWN) == set(states.MACHINES)


# What has a state on the wire, and of which table it is; None: it is no row's.
SHOWN = {
    "Reservation": states.RESERVATION,
    "Allocation": states.ALLOCATION,
    "Confirmation": states.CONFIRMATION,
    "Series": states.SERIES,
    "SeriesWithOccurrences": states.SERIES,
    "Occurrence": None,  # its reservation's, if there is one
    "Node": states.NODE,
    "NodeSummary": states.NODE,
    "Operation": None,
    "Affected": states.RESERVATION,
    "WouldDeny": states.RESERVATION,
    "Maintenance": None,  # by the clock
    "MaintenanceDetails": None,
    "Webhook": states.ENDPOINT,
    "WebhookWithSecret": states.ENDPOINT,
    "Delivery": None,  # what became of it: any may be sent again
    "DeliveryWithAttempts": None,
}


def test_the_wire_knows_exactly_the_states_of_each_table():
    schemas = openapi.build()["components"]["schemas"]
    told = {
        name: _enum(schema["properties"]["state"], schemas)
        for name, schema in schemas.items()
        if "state" in schema.get("properties", {})
    }
    assert set(told) == set(SHOWN)
    wanted = {name: machine.states for name, machine in SHOWN.items() if machine is not None}
    assert {name: told[name] for name in wanted} == wanted
    # A table with states that nobody can read of would need no enum; there is none.
    assert {machine.table for machine in SHOWN.values() if machine} == {m.table for m in GUARDED}


@pytest.mark.parametrize(
    ("path", "table", "internal"),
    [
        ("nodes", "nodes", set()),
        ("reservations", "reservations", {"draft"}),
        ("series", "reservation_series", set()),
        ("confirmations", "confirmations", set()),
    ],
)
def test_a_filter_by_state_knows_the_same_states(path, table, internal):
    document = openapi.build()
    parameters = document["paths"][f"/api/v1/{path}"]["get"]["parameters"]
    # Those that many routes share stand in one place and are only referred to.
    (state,) = [parameter for parameter in parameters if parameter.get("name") == "state"]
    (machine,) = [machine for machine in GUARDED if machine.table == table]
    known = _enum(state["schema"], document["components"]["schemas"])
    assert known == machine.states - internal


def _enum(schema, schemas):
    """The values that a schema allows, through references, lists and alternatives."""
    if "$ref" in schema:
        return _enum(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    inner = [*schema.get("anyOf", ()), *schema.get("allOf", ())]
    inner += [schema["items"]] if "items" in schema else []
    return frozenset(schema.get("enum", ())).union(*(_enum(each, schemas) for each in inner))


@pytest.mark.parametrize("name", states.MACHINES)
def test_every_state_can_be_reached_and_every_move_leads_to_a_state(name):
    machine = states.MACHINES[name]
    first = next(iter(machine.transitions))
    reached, waiting = {first}, [first]
    while waiting:
        for after in machine.transitions[waiting.pop()] - reached:
            reached.add(after)
            waiting.append(after)
    assert reached == machine.states
    assert machine.terminal or name == "webhook endpoint"


@pytest.mark.rule("C2")
def test_states_are_assigned_nowhere_but_in_transitions():
    """``row.state = …``, ``update(state=…)`` and ``SET state =`` are transitions.move's alone."""
    found = [place for path in _product_files() for place in _assignments(path)]
    assert [place for place in found if place.split(":")[0] not in MIRRORS] == []


def _product_files():
    for package in PRODUCT:
        for path in sorted((ROOT / package).rglob("*.py")):
            if "migrations" not in path.parts and path.name != "transitions.py":
                yield path


def _assignments(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else []
        named = any(
            isinstance(target, ast.Attribute)
            and target.attr == "state"
            and not (isinstance(target.value, ast.Name) and target.value.id == "self")
            for target in targets
        )
        updated = (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in {"update", "bulk_update"}
            and any(keyword.arg == "state" for keyword in node.keywords)
        )
        if named or updated:
            yield f"{path.relative_to(ROOT)}:{node.lineno}"


@pytest.mark.rule("C2")
def test_no_sql_statement_sets_a_state():
    setting = re.compile(
        r"\bSET\b(?:(?!\bWHERE\b|\bFROM\b|;).)*?(?<![\w.])state\s*=", re.IGNORECASE | re.DOTALL
    )
    files = [
        path
        for package in PRODUCT
        for path in (ROOT / package).rglob("sql/*.sql")
        if "migrations" not in path.parts
    ]
    found = [str(path.relative_to(ROOT)) for path in files if setting.search(path.read_text())]
    assert found == []
