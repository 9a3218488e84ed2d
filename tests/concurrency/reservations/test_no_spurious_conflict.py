"""A reconciler's version is no conflict for who said no version (C2)."""

import pytest
from django.db import transaction

from nodes import eligibility
from nodes.models import Node
from reservations import ending, lifecycle, queries
from reservations.models import Reservation
from tests.support import cast, make, races
from tests.support.races import Operation

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("C2")]

BUMPS = 6


def bump(reservation_id: str) -> None:
    """As a reconciler does, over and over."""
    for _ in range(BUMPS):
        with transaction.atomic(durable=True):
            locked = queries.locked(reservation_id)
            assert locked is not None
            lifecycle.touch(locked)


def relabel(node_id: str, name: str) -> None:
    for number in range(BUMPS):
        eligibility.set_labels(node_id, {"by": name, "turn": str(number)})


def test_a_release_among_bumps_is_never_a_conflict() -> None:
    alice, pool = cast.caller("alice"), make.pool()
    held = [make.active(alice, pool) for _ in range(4)]
    operations = []
    for each in held:
        operations += [Operation("bump", lambda key=each.pk: bump(key)) for _ in range(3)]
        operations.insert(
            -1, Operation("release", lambda key=each.pk: ending.release(alice, reservation_id=key))
        )
    outcomes = races.crowd(operations, connections=8)
    assert [str(outcome) for outcome in outcomes if outcome.error is not None] == []
    assert {row.state for row in Reservation.objects.all()} == {"released"}


def test_cordons_among_other_changes_are_never_conflicts() -> None:
    pool = make.pool()
    node_id = Node.objects.get(pool=pool).pk
    operations = [Operation("relabel", lambda n=n: relabel(node_id, str(n))) for n in range(3)]
    operations += [
        Operation("cordon", lambda: eligibility.cordon(node_id)),
        Operation("uncordon", lambda: eligibility.uncordon(node_id)),
    ] * 4
    outcomes = races.crowd(operations, connections=8)
    assert [str(outcome) for outcome in outcomes if outcome.error is not None] == []


def test_of_many_who_say_the_same_version_one_gets_it() -> None:
    """The other way round: a version that was said is a guard, whoever else is at it."""
    pool = make.pool()
    node = Node.objects.get(pool=pool)
    seen = frozenset({node.version})
    operations = [
        Operation(
            f"label {number}",
            lambda number=number: eligibility.set_labels(
                node.pk, {"by": str(number)}, if_match=seen
            ),
        )
        for number in range(8)
    ]
    outcomes = races.crowd(operations, connections=8)
    assert sum(outcome.error is None for outcome in outcomes) == 1
    assert {getattr(o.error, "code", "") for o in outcomes if o.error} == {"PRECONDITION_FAILED"}
