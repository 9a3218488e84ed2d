"""What an agent's person holds for confirmation waits for them, and is done once (R36)."""

from datetime import timedelta

import pytest

from bettercompute import clock as clocks
from bettercompute import errors, wiring
from bettercompute.coordination.runner import Runner
from bettercompute.iam import callers, policies
from outbox.models import Event
from pools.models import QuotaCharge
from reservations import admission, ending, previews, renewal, sharing
from reservations.confirming import deciding, lookups, reconciler
from reservations.extending import extension
from reservations.models import Confirmation, Reservation
from reservations.series import cancelling
from tests.support import cast, delegates, invariants, make
from tests.support.delegates import CREATE, EXTEND, RELEASE, SHARE, create, refused

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("R36")]


@pytest.fixture
def alice():
    return cast.caller("alice")


def told(confirmation):
    return list(
        Event.objects.filter(subject=f"confirmation/{confirmation.pk}")
        .order_by("seq")
        .values_list("type", flat=True)
    )


def test_a_held_create_waits_without_a_charge_and_is_placed_when_the_agent_returns(alice):
    agent, pool = delegates.agent("alice", CREATE), make.pool()
    confirmation = refused(lambda: create(agent, pool))
    reservation = Reservation.objects.get()
    assert (reservation.state, reservation.agent) == ("awaiting-confirmation", "trainer")
    assert reservation.conditions[0]["reason"] == "AwaitingPerson"
    assert not QuotaCharge.objects.exists()
    assert invariants.violations() == []

    deciding.approve(alice, confirmation_id=confirmation.pk)
    waiting = Reservation.objects.get()
    assert waiting.state == "awaiting-confirmation", "an approval places nothing by itself"
    assert waiting.conditions[0]["reason"] == "AwaitingAgent"
    assert not QuotaCharge.objects.exists()

    placed = create(agent, pool)
    assert (placed.pk, placed.state, placed.conditions) == (reservation.pk, "placed", [])
    assert placed.decision["effect"] == "allow"
    confirmation.refresh_from_db()
    assert (confirmation.state, confirmation.decided_by_id) == ("used", alice.account_id)
    assert told(confirmation) == ["confirmation.requested", "confirmation.approved"]
    assert create(agent, pool).pk == placed.pk, "the key still reaches it"
    assert Confirmation.objects.count() == 1
    assert invariants.violations() == []


def test_the_same_call_before_the_decision_asks_the_same_question(clock):
    agent, pool = delegates.agent("alice", CREATE), make.pool()
    first = refused(lambda: create(agent, pool))
    clock.advance("29m")
    assert refused(lambda: create(agent, pool)).pk == first.pk
    assert first.expires_at - first.asked_at == timedelta(minutes=30)
    assert told(first) == ["confirmation.requested"]


def test_who_asks_before_it_shares_asks_before_a_create_that_shares(alice):
    agent, pool = delegates.agent("alice", SHARE), make.pool()
    shared = {"users": [cast.account("bob").pk]}
    assert create(agent, pool, "alone").state == "placed"
    wanted = make.request(agent.caller, pool, **shared)
    assert previews.preview(agent.caller, wanted).needs_confirmation
    confirmation = refused(lambda: create(agent, pool, **shared))
    deciding.approve(alice, confirmation_id=confirmation.pk)
    assert create(agent, pool, **shared).state == "placed"
    assert Confirmation.objects.get().state == "used"


def test_a_denied_create_stays_denied_and_says_why(alice):
    agent, pool = delegates.agent("alice", CREATE), make.pool()
    confirmation = refused(lambda: create(agent, pool))
    deciding.deny(alice, confirmation_id=confirmation.pk, reason="too  many GPUs.")
    assert Reservation.objects.get().state == "denied"
    for _ in range(2):
        with pytest.raises(errors.AccessDenied, match="denied this: too many GPUs"):
            create(agent, pool)
    assert told(confirmation) == ["confirmation.requested", "confirmation.denied"]
    assert invariants.violations() == []


@pytest.mark.parametrize("confirm", [CREATE, RELEASE])
def test_an_approval_can_be_withdrawn_until_it_is_used(clock, alice, confirm):
    agent, pool = delegates.agent("alice", confirm), make.pool()
    made = make.reservation(alice, pool, duration="8h")
    acts = {
        CREATE: lambda: create(agent, pool),
        RELEASE: lambda: ending.release(agent.caller, reservation_id=made.pk),
    }
    key = refused(acts[confirm]).pk
    with pytest.raises(errors.InvalidState, match="deny it"):
        deciding.withdraw(alice, confirmation_id=key)
    deciding.approve(alice, confirmation_id=key)
    with pytest.raises(errors.InvalidState, match="withdraw that"):
        deciding.deny(alice, confirmation_id=key)
    withdrawn = deciding.withdraw(alice, confirmation_id=key, reason="not  before noon.")
    assert deciding.withdraw(alice, confirmation_id=key).version == withdrawn.version
    assert (withdrawn.state, withdrawn.reason) == ("denied", "not before noon.")
    assert told(withdrawn)[1:] == ["confirmation.approved", "confirmation.denied"]
    for _ in range(2):
        with pytest.raises(
            errors.AccessDenied, match="withdrew their approval of this: not before noon"
        ):
            acts[confirm]()
    with pytest.raises(errors.InvalidState, match="It is denied"):
        deciding.approve(alice, confirmation_id=key)
    assert Reservation.objects.get(pk=made.pk).state == "placed"
    assert invariants.violations() == []


@pytest.mark.parametrize("passes", ["used", "expired"])
def test_what_was_done_or_is_over_is_not_withdrawn(clock, alice, passes):
    agent = delegates.agent("alice", RELEASE)
    made = make.reservation(alice, make.pool(), duration="8h")
    key = refused(lambda: ending.release(agent.caller, reservation_id=made.pk)).pk
    deciding.approve(alice, confirmation_id=key)
    if passes == "used":
        ending.release(agent.caller, reservation_id=made.pk)
    else:
        clock.advance("30m")
    with pytest.raises(errors.InvalidState) as caught:
        deciding.withdraw(alice, confirmation_id=key)
    assert caught.value.details["state"] == passes


@pytest.mark.parametrize("approved", [False, True])
def test_after_the_deadline_a_late_retry_finds_it_expired(clock, alice, approved):
    agent, pool = delegates.agent("alice", CREATE), make.pool()
    confirmation = refused(lambda: create(agent, pool))
    if approved:
        deciding.approve(alice, confirmation_id=confirmation.pk)
    clock.advance("30m")
    assert create(agent, pool).state == "expired"
    confirmation.refresh_from_db()
    assert confirmation.state == "expired"
    with pytest.raises(errors.InvalidState):
        deciding.deny(alice, confirmation_id=confirmation.pk)
    assert invariants.violations() == []


@pytest.mark.parametrize("confirm", [CREATE, RELEASE])
def test_at_the_deadline_a_worker_ends_what_nobody_answered(clock, confirm):
    agent, pool = delegates.agent("alice", confirm), make.pool()
    if confirm == CREATE:
        confirmation = refused(lambda: create(agent, pool))
    else:
        made = make.reservation(cast.caller("alice"), pool, duration="8h")
        confirmation = refused(lambda: ending.release(agent.caller, reservation_id=made.pk))
    runner = Runner(wiring.reconcilers())
    runner.drain()
    clock.advance("29m")
    runner.drain()
    confirmation.refresh_from_db()
    assert confirmation.state == "open"
    clock.advance("1m")
    runner.drain()
    confirmation.refresh_from_db()
    assert confirmation.state == "expired"
    assert told(confirmation)[-1] == "confirmation.expired"
    if confirm == CREATE:
        assert Reservation.objects.get().state == "expired"
    assert invariants.violations() == []


def test_what_is_not_held_an_agent_does_at_once(alice):
    agent, pool = delegates.agent("alice", RELEASE), make.pool()
    placed = create(agent, pool)
    assert (placed.state, placed.agent) == ("placed", "trainer")
    assert not Confirmation.objects.exists()


AGENTS_STAY_SMALL = """
forbid (principal, action == Action::"compute:reservations:create", resource)
when { context.delegated && context.gpus > 1 };
"""
NOBODY_TAKES_MANY = """
forbid (principal, action == Action::"compute:reservations:create", resource)
when { context.gpus > 1 };
"""
TWO = [{"class": "gpu", "count": 2}]


def test_what_is_refused_to_agents_their_person_may_confirm_where_it_is_held(alice):
    policies.create(alice, draft=policies.Draft("small", AGENTS_STAY_SMALL))
    pool = make.pool()
    with pytest.raises(errors.AccessDenied):
        create(delegates.agent("alice"), pool, devices=TWO)
    held = delegates.agent("alice", CREATE)
    confirmation = refused(lambda: create(held, pool, "held", devices=TWO))
    deciding.approve(alice, confirmation_id=confirmation.pk)
    assert create(held, pool, "held", devices=TWO).state == "placed"
    assert make.reservation(alice, pool, devices=TWO).state == "placed", "she needs nobody"


def test_what_the_person_may_not_do_no_confirmation_helps(alice):
    policies.create(alice, draft=policies.Draft("few", NOBODY_TAKES_MANY))
    agent = delegates.agent("alice", CREATE)
    with pytest.raises(errors.AccessDenied):
        create(agent, make.pool(), devices=TWO)
    assert not Confirmation.objects.exists()


def test_a_policy_that_came_between_approval_and_retry_ends_both(alice):
    agent, pool = delegates.agent("alice", CREATE), make.pool()
    confirmation = refused(lambda: create(agent, pool, devices=TWO))
    deciding.approve(alice, confirmation_id=confirmation.pk)
    policies.create(alice, draft=policies.Draft("few", NOBODY_TAKES_MANY))
    agent = delegates.Agent(_fresh(agent), agent.api, agent.token)
    with pytest.raises(errors.AccessDenied, match="few"):
        create(agent, pool, devices=TWO)
    confirmation.refresh_from_db()
    assert (confirmation.state, Reservation.objects.get().state) == ("denied", "denied")
    assert invariants.violations() == []


def _fresh(agent):
    return callers.for_tenant(agent.token, agent.token.tenant_id)


def test_quota_that_is_gone_by_the_retry_leaves_the_approval(alice):
    agent, pool = delegates.agent("alice", CREATE), make.pool(quota_gpus=1)
    confirmation = refused(lambda: create(agent, pool))
    deciding.approve(alice, confirmation_id=confirmation.pk)
    rival = make.reservation(alice, pool)
    with pytest.raises(errors.QuotaExceeded):
        create(agent, pool)
    ending.release(alice, reservation_id=rival.pk)
    assert create(agent, pool).state == "placed"


def test_a_start_that_passed_while_it_waited_begins_when_it_is_placed(clock, alice):
    agent, pool = delegates.agent("alice", CREATE), make.pool()
    start = clock.now_ms() + 10 * 60_000
    wanted = {"start": start, "duration": "1h"}
    confirmation = refused(lambda: create(agent, pool, **wanted))
    clock.advance("20m")
    deciding.approve(alice, confirmation_id=confirmation.pk)
    placed = create(agent, pool, **wanted)
    assert placed.state == "placed"
    assert clocks.to_ms(placed.starts_at) == clock.now_ms()
    assert placed.ends_at - placed.starts_at == timedelta(hours=1)


def test_the_key_of_a_person_reaches_what_their_agent_asked_for_and_places_nothing(alice):
    agent, pool = delegates.agent("alice", CREATE), make.pool()
    refused(lambda: create(agent, pool))
    admitted = admission.admit(alice, make.request(alice, pool), idempotency_key="k")
    assert not admitted.created
    other = delegates.agent("alice", CREATE, name="other")
    assert create(other, pool).state == "awaiting-confirmation"
    assert Confirmation.objects.count() == 1


def _extend(who, reservation_id, *, key="e", **asked):
    wanted = extension.ExtendRequest(tenant_id=who.tenant_id, **asked)
    return extension.extend(
        who, wanted, reservation_id=reservation_id, idempotency_key=key
    ).reservation


def _share(who, reservation_id):
    change = sharing.Change(add=(cast.account("bob").pk,))
    return sharing.change(who, change, reservation_id=reservation_id)


VERBS = {
    "extend": (EXTEND, lambda who, pk: _extend(who, pk, by="1h")),
    "renew": (EXTEND, lambda who, pk: renewal.renew(who, reservation_id=pk)),
    "release": (RELEASE, lambda who, pk: ending.release(who, reservation_id=pk)),
    "cancel": (RELEASE, lambda who, pk: ending.cancel(who, reservation_id=pk)),
    "share": (SHARE, _share),
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_held_verb_waits_changes_nothing_meanwhile_and_spends_its_approval(
    clock, alice, verb
):
    action, act = VERBS[verb]
    agent = delegates.agent("alice", action)
    start = clock.now_ms() + 7_200_000
    made = make.reservation(alice, make.pool(), start=start, duration="8h", leaseSeconds=6_000)
    confirmation = refused(lambda: act(agent.caller, made.pk))
    assert refused(lambda: act(agent.caller, made.pk)).pk == confirmation.pk
    assert Reservation.objects.get().version == made.version
    deciding.approve(alice, confirmation_id=confirmation.pk)
    assert Reservation.objects.get().version == made.version
    after = act(agent.caller, made.pk)
    assert after.version > made.version
    confirmation.refresh_from_db()
    assert confirmation.state == "used"
    assert invariants.violations() == []


def test_what_was_approved_is_exactly_that(alice):
    agent = delegates.agent("alice", EXTEND)
    made = make.reservation(alice, make.pool(), duration="8h")
    confirmation = refused(lambda: _extend(agent.caller, made.pk, by="1h"))
    deciding.approve(alice, confirmation_id=confirmation.pk)
    longer = refused(lambda: _extend(agent.caller, made.pk, key="f", by="2h"))
    assert longer.pk != confirmation.pk
    other = delegates.agent("alice", EXTEND, name="other")
    assert refused(lambda: _extend(other.caller, made.pk, by="1h")).pk != confirmation.pk
    _extend(agent.caller, made.pk, by="1h")
    again = refused(lambda: _extend(agent.caller, made.pk, key="g", by="1h"))
    assert again.pk != confirmation.pk, "an approval is good once"


def test_an_extension_that_meets_others_keeps_its_approval(clock, alice):
    agent, pool = delegates.agent("alice", EXTEND), make.pool(gpus=1)
    made = make.reservation(alice, pool, duration="1h")
    confirmation = refused(lambda: _extend(agent.caller, made.pk, by="1h"))
    deciding.approve(alice, confirmation_id=confirmation.pk)
    rival = make.reservation(alice, pool, start=clocks.to_ms(made.ends_at), duration="1h")
    assert _extend(agent.caller, made.pk, by="1h").ends_at == made.ends_at
    ending.cancel(alice, reservation_id=rival.pk)
    assert _extend(agent.caller, made.pk, by="1h").ends_at > made.ends_at


def test_a_denial_holds_until_its_deadline_and_then_it_may_be_asked_again(clock, alice):
    agent = delegates.agent("alice", RELEASE)
    made = make.reservation(alice, make.pool(), duration="8h")

    def release():
        return ending.release(agent.caller, reservation_id=made.pk)

    confirmation = refused(release)
    deciding.deny(alice, confirmation_id=confirmation.pk, reason="it still trains")
    with pytest.raises(errors.AccessDenied, match="it still trains"):
        release()
    clock.advance("30m")
    assert refused(release).pk != confirmation.pk


def test_nobody_is_asked_about_what_would_change_nothing(alice):
    agent = delegates.agent("alice", RELEASE, EXTEND, SHARE)
    made = make.reservation(alice, make.pool(), duration="8h")
    with pytest.raises(errors.InvalidState):
        renewal.renew(agent.caller, reservation_id=made.pk)
    _share(alice, made.pk)
    _share(agent.caller, made.pk)
    ending.release(alice, reservation_id=made.pk)
    assert ending.release(agent.caller, reservation_id=made.pk).state == "released"
    with pytest.raises(errors.InvalidState):
        ending.cancel(agent.caller, reservation_id=made.pk)
    assert not Confirmation.objects.exists()


def test_an_agents_series_is_asked_for_once_and_its_occurrences_are_the_persons(clock, alice):
    agent, pool = delegates.agent("alice", CREATE, RELEASE), make.pool()
    start = clock.now_ms() + 3_600_000
    weekly = {
        "start": start,
        "duration": "1h",
        "recurrence": {"rule": "FREQ=WEEKLY;COUNT=3", "timeZone": "UTC"},
    }
    confirmation = refused(lambda: create(agent, pool, **weekly))
    deciding.approve(alice, confirmation_id=confirmation.pk)
    first = create(agent, pool, **weekly)
    Runner(wiring.reconcilers()).drain()
    booked = Reservation.objects.filter(series_id=first.series_id, state="placed")
    assert booked.count() == 3

    def cancel():
        cancelling.cancel(agent.caller, series_id=first.series_id)

    deciding.approve(alice, confirmation_id=refused(cancel).pk)
    cancel()
    assert booked.count() == 0
    assert not Confirmation.objects.filter(state="approved").exists()


def test_what_is_long_over_is_forgotten_and_what_is_open_never(clock, alice):
    agent, pool = delegates.agent("alice", CREATE), make.pool()
    confirmation = refused(lambda: create(agent, pool))
    deciding.deny(alice, confirmation_id=confirmation.pk)
    clock.advance(timedelta(days=91))
    fresh = refused(lambda: create(agent, pool, "fresh"))
    assert reconciler.forget(make.fence) == 1
    assert lookups.live_keys() == [fresh.pk]
