"""One approval lets one act, however many come with it, and an answer is one answer (R36)."""

import threading
from contextlib import contextmanager
from functools import partial

import pytest

from bettercompute import errors, failpoints, wiring
from bettercompute.coordination.runner import Runner
from bettercompute.failpoints import Failpoint
from pools.models import QuotaCharge
from reservations import admission, renewal
from reservations.confirming import asking, deciding, rows
from reservations.confirming.asking import Approval
from reservations.models import Confirmation, Reservation
from tests.support import cast, delegates, invariants, make, races, sessions
from tests.support.delegates import CREATE, EXTEND

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("R36")]

RIVALS = 4


def outcome(call):
    """In a word: what came of it."""
    try:
        call()
    except errors.ApiError as error:
        return error.code
    return "done"


def approved_create(pool):
    """An agent that may come back now, and how it does."""
    agent, alice = delegates.agent("alice", CREATE), cast.caller("alice")

    def create():
        wanted = make.request(agent.caller, pool)
        return admission.admit(agent.caller, wanted, idempotency_key="k")

    with pytest.raises(errors.ConfirmationRequired) as caught:
        create()
    confirmation = delegates.asked(caught.value)
    deciding.approve(alice, confirmation_id=confirmation.pk)
    return create


def test_of_several_retries_at_once_one_makes_it_and_all_get_it():
    create = approved_create(make.pool())
    with races.meeting_at(Failpoint.PLACEMENT_PLANNED, parties=RIVALS):
        admitted = sessions.race(*[create] * RIVALS)
    failpoints.disarm()
    assert sorted(each.created for each in admitted) == [False] * (RIVALS - 1) + [True]
    assert len({each.reservation_id for each in admitted}) == 1
    assert QuotaCharge.objects.filter(resource="gpuMilli").count() == 1
    assert Confirmation.objects.get().state == "used"
    assert invariants.violations() == []


def test_two_first_calls_at_once_ask_one_question():
    agent, pool = delegates.agent("alice", CREATE, EXTEND), make.pool()
    made = make.reservation(cast.caller("alice"), pool, duration="8h", leaseSeconds=600)

    def create():
        admission.admit(agent.caller, make.request(agent.caller, pool), idempotency_key="k")

    def renew():
        renewal.renew(agent.caller, reservation_id=made.pk)

    for act in (create, renew):
        said = sessions.race(*[lambda act=act: outcome(act)] * RIVALS)
        assert said == ["CONFIRMATION_REQUIRED"] * RIVALS
    assert Confirmation.objects.count() == 2


def question(act):
    """What an agent does once it may, and the id of what it has asked."""
    if act == "create":
        agent, pool = delegates.agent("alice", CREATE), make.pool()
        wanted = make.request(agent.caller, pool)
        call = partial(admission.admit, agent.caller, wanted, idempotency_key="k")
    else:
        agent = delegates.agent("alice", EXTEND)
        made = make.reservation(cast.caller("alice"), make.pool(), duration="8h", leaseSeconds=600)
        call = partial(renewal.renew, agent.caller, reservation_id=made.pk)
    assert outcome(call) == "CONFIRMATION_REQUIRED"
    return call, Confirmation.objects.get().pk


@pytest.mark.parametrize("act", ["create", "renew"])
def test_approving_and_denying_at_once_leaves_one_answer(act):
    alice = cast.caller("alice")
    call, key = question(act)
    said = sessions.race(
        *[lambda: outcome(lambda: deciding.approve(alice, confirmation_id=key))] * 2,
        *[lambda: outcome(lambda: deciding.deny(alice, confirmation_id=key))] * 2,
    )
    state = Confirmation.objects.get().state
    wins, loses = said[:2], said[2:]
    if state == "denied":
        wins, loses = loses, wins
    assert (wins, loses) == (["done"] * 2, ["INVALID_STATE"] * 2)
    assert outcome(call) == ("done" if state == "approved" else "ACCESS_DENIED")
    assert invariants.violations() == []


@contextmanager
def looked(act, key, meet):
    """What the agent calls has found the approval, and comes to ``meet`` before it acts on it."""
    with pytest.MonkeyPatch.context() as patch:
        if act == "create":
            failpoints.arm(Failpoint.PLACEMENT_PLANNED, meet)
        else:
            patch.setattr(asking, "approval", lambda *_: (meet(), Approval(key))[1])
        yield
        failpoints.disarm()


@pytest.mark.parametrize("act", ["create", "renew"])
def test_withdrawing_and_acting_at_once_leaves_one_of_both(act):
    alice = cast.caller("alice")
    call, key = question(act)
    deciding.approve(alice, confirmation_id=key)
    gate = threading.Barrier(3)

    def meet():
        gate.wait(timeout=races.GATE_SECONDS_MAX)

    def withdraw():
        meet()
        deciding.withdraw(alice, confirmation_id=key)

    with looked(act, key, meet):
        done, *withdrawn = sessions.race(lambda: outcome(call), *[lambda: outcome(withdraw)] * 2)
    state = Confirmation.objects.get().state
    if state == "used":
        assert (done, withdrawn) == ("done", ["INVALID_STATE"] * 2)
        assert outcome(lambda: deciding.withdraw(alice, confirmation_id=key)) == "INVALID_STATE"
    else:
        assert (state, done, withdrawn) == ("denied", "ACCESS_DENIED", ["done"] * 2)
        assert outcome(call) == "ACCESS_DENIED"
    assert invariants.violations() == []


@pytest.mark.parametrize("act", ["create", "renew"])
def test_what_is_withdrawn_between_the_look_and_the_act_is_not_done(act):
    call, key = question(act)
    alice = cast.caller("alice")
    deciding.approve(alice, confirmation_id=key)
    before = Reservation.objects.get().version
    with looked(act, key, lambda: deciding.withdraw(alice, confirmation_id=key)):
        assert outcome(call) == "ACCESS_DENIED"
    made = Reservation.objects.get()
    assert made.state == "denied" if act == "create" else made.version == before
    assert Confirmation.objects.get().state == "denied"
    assert invariants.violations() == []


@pytest.mark.parametrize("answer", [deciding.deny, deciding.withdraw])
def test_what_is_denied_before_the_look_is_said_to_be(answer):
    """The create has found its draft waiting, and comes back to it a moment too late."""
    call, key = question("create")
    alice = cast.caller("alice")
    if answer is deciding.withdraw:
        deciding.approve(alice, confirmation_id=key)
    failpoints.arm(Failpoint.DRAFT_RECORDED, lambda: answer(alice, confirmation_id=key))
    said = outcome(call)
    failpoints.disarm()
    assert said == "ACCESS_DENIED"


def test_approving_and_the_deadline_at_once_leaves_both_or_neither(clock):
    alice, pool = cast.caller("alice"), make.pool()
    agent = delegates.agent("alice", CREATE)
    with pytest.raises(errors.ConfirmationRequired) as caught:
        admission.admit(agent.caller, make.request(agent.caller, pool), idempotency_key="k")
    key = caught.value.details["confirmationId"]
    clock.advance("30m")
    with sessions.opened("worker", "person") as (worker, person):
        worker.begin()
        worker.run(lambda: rows.locked(key))
        step = person.start(lambda: outcome(lambda: deciding.approve(alice, confirmation_id=key)))
        step.must_block()
        worker.commit()
        assert step.result() == "INVALID_STATE"
    Runner(wiring.reconcilers()).drain()
    assert Confirmation.objects.get().state == Reservation.objects.get().state == "expired"
    assert invariants.violations() == []


def _renew_with_one_approval():
    """Several renewals at once, all of which found the same approval."""
    alice, agent = cast.caller("alice"), delegates.agent("alice", EXTEND)
    made = make.reservation(alice, make.pool(), duration="8h", leaseSeconds=600)

    def renew():
        return renewal.renew(agent.caller, reservation_id=made.pk)

    assert outcome(renew) == "CONFIRMATION_REQUIRED"
    deciding.approve(alice, confirmation_id=Confirmation.objects.get().pk)
    before = Reservation.objects.get().version
    found = Approval(Confirmation.objects.get().pk)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asking, "approval", lambda *_: found)
        said = sessions.race(*[lambda: outcome(renew)] * RIVALS)
    return sorted(said), Reservation.objects.get().version - before


def test_an_approval_that_several_found_lets_one_act():
    assert _renew_with_one_approval() == (["CONFLICT"] * (RIVALS - 1) + ["done"], 1)


def test_negative_control_an_approval_that_is_not_looked_at_again_lets_all(monkeypatch):
    monkeypatch.setattr(asking, "use", lambda granted: None)
    assert _renew_with_one_approval() == (["done"] * RIVALS, RIVALS)
