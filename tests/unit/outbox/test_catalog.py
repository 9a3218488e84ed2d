"""The catalogue is what the code publishes: nothing less, and nothing more (R25)."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from bettercompute import states
from outbox import catalog, filters
from outbox.filters import Filters

ROOT = Path(__file__).parents[3]
APPS = ("outbox", "nodes", "pools", "reservations")

#: Types whose use case is still to come: the contract names them, so their names are kept.
TO_COME = {"reservation.reassigned", "reservation.binding-rejected"}


def texts() -> Iterator[str]:
    """Every string of the product that may be a type or the verb of one, f-strings in pieces."""
    for path in (path for app in APPS for path in (ROOT / app).rglob("*.py")):
        if path.name == "catalog.py" or "migrations" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


@pytest.mark.rule("R25")
def test_every_type_is_published_somewhere() -> None:
    """Its whole name is in the code, or its verb where a use case puts it behind the subject."""
    said = set(texts()) | {
        state for machine in states.MACHINES.values() for state in machine.states
    }
    never = {kind.name for kind in catalog.TYPES if not pieces(kind.name) & said}
    assert never == TO_COME


def pieces(name: str) -> set[str]:
    """What one would find of a type where it is published."""
    verb = name.partition(".")[2]
    prefixes = ("series-", "maintenance-")
    return {name, verb, *(verb.removeprefix(each) for each in prefixes if verb.startswith(each))}


def test_a_type_that_nothing_publishes_would_be_found() -> None:
    assert not pieces("reservation.imagined") & set(texts())


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ([], None),
        (["reservation.placed"], {"reservation.placed"}),
        (["node.cordoned,device.healthy"], {"node.cordoned", "device.healthy"}),
        (["device.*"], {name for name in catalog.BY_NAME if name.startswith("device.")}),
    ],
)
def test_types_are_named_or_meant_by_a_prefix(asked: list[str], found: set[str] | None) -> None:
    assert filters.types(asked) == (None if found is None else frozenset(found))


def test_a_filter_matches_where_all_that_it_says_holds() -> None:
    asked = Filters(tenant_id="ten_a", types=frozenset({"node.cordoned"}), subject="node/n")
    fits = {"tenant_id": "ten_a", "type": "node.cordoned", "subject": "node/n"}
    assert asked.match(**fits)
    for name in fits:
        assert not asked.match(**{**fits, name: "other"})
    assert Filters(tenant_id=None).match(**fits)
