"""Budgets under rivals: as many are admitted as there is room for, whoever asks (R39)."""

import threading

import pytest

from bettercompute import errors
from bettercompute.wire.reservations import ExtendRequest
from pools import budgets, catalogue
from pools.budgets import NewBudget
from reservations.extending import extension
from reservations.models import Reservation
from tests.support import cast, invariants, make, races, sessions

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("R39")]


def budget(gpu_hours: int) -> None:
    budgets.create(cast.tenant().pk, NewBudget(name="lab", gpu_milli_hours=gpu_hours * 1_000))


def extend(reservation: Reservation) -> extension.Extended:
    alice = cast.caller("alice")
    wanted = ExtendRequest(tenant_id=alice.tenant_id, by="1h")
    return extension.extend(
        alice, wanted, reservation_id=reservation.pk, idempotency_key=make.key()
    )


def test_of_eight_creates_at_once_a_budget_for_three_admits_three():
    pool, alice = make.pool(nodes=2), cast.caller("alice")
    budget(3)

    def create() -> str:
        try:
            return make.reservation(alice, pool, duration="1h").state
        except errors.BudgetExceeded:
            return "refused"

    outcomes = sessions.race(*[create] * 8)
    assert outcomes.count("refused") == 5
    assert Reservation.objects.filter(state="draft").count() == 5
    assert invariants.violations() == []


def _extensions_that_meet(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two extensions, of which one has been judged by the budget and has yet to commit.

    A budget for one of them. Answers how each came out.
    """
    pool, alice = make.pool(nodes=2), cast.caller("alice")
    first, second = (make.active(alice, pool) for _ in range(2))
    budget(3)
    judged, go_on, real = threading.Event(), threading.Event(), catalogue.lock

    def pause(pool_id: str) -> None:
        if not judged.is_set():
            judged.set()
            assert go_on.wait(races.GATE_SECONDS_MAX)
        real(pool_id)

    monkeypatch.setattr(catalogue, "lock", pause)
    outcomes = []
    with sessions.opened("rival", "late") as (rival, late):
        early = rival.start(lambda: extend(first))
        assert judged.wait(races.GATE_SECONDS_MAX)
        step = late.start(lambda: extend(second))
        try:
            step.must_block()
        finally:
            go_on.set()
        for each in (early, step):
            try:
                outcomes.append(f"extended {each.result().extended}")
            except errors.BudgetExceeded as refused:
                outcomes.append(f"refused, {refused.details['left']:g} left")
    return outcomes


def test_an_extension_waits_for_a_rivals_and_is_judged_by_what_it_left(monkeypatch):
    assert _extensions_that_meet(monkeypatch) == ["extended True", "refused, 0 left"]


def test_negative_control_without_the_lock_both_are_judged_by_the_same_rest(monkeypatch):
    pool, alice = make.pool(nodes=2), cast.caller("alice")
    reservations = [make.active(alice, pool) for _ in range(2)]
    budget(3)
    races.without(monkeypatch, budgets.BUDGETS, "lock", "FOR NO KEY UPDATE OF budgets")
    both_are_judged, real = threading.Barrier(2), catalogue.lock

    def meet(pool_id: str) -> None:
        both_are_judged.wait(timeout=races.GATE_SECONDS_MAX)
        real(pool_id)

    monkeypatch.setattr(catalogue, "lock", meet)
    outcomes = sessions.race(*[lambda each=each: extend(each).extended for each in reservations])
    assert outcomes == [True, True], "four hours of three: the race that the lock is for"
