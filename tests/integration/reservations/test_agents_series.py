"""A series that an agent asked for: each occurrence is decided as its first was (R36)."""

from importlib import import_module

import pytest
from django.db import connection

from bettercompute import errors
from bettercompute.iam import policies
from bettercompute.iam.policies import Draft
from bettercompute.wire.dryrun import PolicyDryRun
from reservations import admission, dryrun, ending
from reservations.confirming import deciding, reconciler
from reservations.models import Confirmation, Reservation, Series
from reservations.series import cancelling, queries
from tests.support import cast, delegates, invariants, make, repeating
from tests.support.delegates import CREATE, create, refused

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.rule("R36"),
    pytest.mark.case(20),
]

AGENTS_HOLD_FEW = """
forbid (principal, action == Action::"compute:reservations:create", resource)
when { context.delegated && context.heldGpus >= 2 };
"""
NOBODY_HOLDS_MANY = """
forbid (principal, action == Action::"compute:reservations:create", resource)
when { context.heldGpus >= 3 };
"""


@pytest.fixture
def alice():
    return cast.caller("alice")


def daily(clock, times):
    return {
        "start": clock.now_ms() + 86_400_000,
        "duration": "1h",
        "recurrence": {"rule": f"FREQ=DAILY;COUNT={times}", "timeZone": "UTC"},
    }


def opened(agent, pool, **wanted):
    """The series of the agent's create, with all that may be booked."""
    first = create(agent, pool, **wanted)
    repeating.look(first.series_id)
    return Series.objects.get(pk=first.series_id)


def approved(alice, agent, pool, **wanted):
    """The same once its person has approved it."""
    confirmation = refused(lambda: create(agent, pool, **wanted))
    deciding.approve(alice, confirmation_id=confirmation.pk)
    return opened(agent, pool, **wanted), confirmation


def test_what_a_policy_forbids_to_agents_it_forbids_to_the_later_occurrences_too(clock, alice):
    policies.create(alice, draft=Draft("few", AGENTS_HOLD_FEW))
    series = opened(delegates.agent("alice"), make.pool(), **daily(clock, 4))
    assert repeating.states(series) == ["placed", "placed", "draft", "draft"]
    assert repeating.why(repeating.occurrences(series)[2]) == "AccessDenied"
    assert {each.agent for each in repeating.occurrences(series)} == {"trainer"}
    shown = queries.get(alice, series.pk)
    assert (shown.agent, shown.confirmation_id) == ("trainer", None)
    assert invariants.violations() == []


def test_an_approved_series_asks_no_more_and_a_policy_for_all_binds_it(clock, alice):
    policies.create(alice, draft=Draft("few", AGENTS_HOLD_FEW))
    policies.create(alice, draft=Draft("many", NOBODY_HOLDS_MANY))
    agent, pool = delegates.agent("alice", CREATE), make.pool()
    series, confirmation = approved(alice, agent, pool, **daily(clock, 4))
    assert repeating.states(series) == ["placed", "placed", "placed", "draft"]
    assert "many" in repeating.occurrences(series)[3].conditions[0]["message"]
    assert Confirmation.objects.get().state == "used"
    assert {each.confirmation_id for each in repeating.occurrences(series)} == {confirmation.pk}
    assert queries.get(alice, series.pk).confirmation_id == confirmation.pk
    assert invariants.violations() == []


def test_a_dry_run_judges_an_occurrence_as_it_was_judged(clock, alice):
    pool = make.pool()
    opened(delegates.agent("alice"), pool, **daily(clock, 2))
    approved(alice, delegates.agent("alice", CREATE, name="asks"), pool, **daily(clock, 3), key="a")
    text = AGENTS_HOLD_FEW.replace("context.heldGpus >= 2", "context.gpus == 1")
    wanted = PolicyDryRun(tenant_id=alice.tenant_id, action=CREATE, text=text, recent=50)
    verdict = dryrun.judge(alice, wanted)
    assert verdict.recent is not None
    assert (verdict.recent.judged, len(verdict.recent.denied)) == (5, 2)


@pytest.mark.parametrize(
    ("began", "placed_by", "booked"),
    [("alice", "trainer", 2), ("trainer", "alice", 4), ("alice", "asks", 4), ("asks", "asks", 4)],
)
def test_who_has_a_draft_placed_is_who_asked_for_it(clock, alice, began, placed_by, booked):
    """The draft of another try with the same key, which was over the quota, does not say who."""
    policies.create(alice, draft=Draft("few", AGENTS_HOLD_FEW))
    pool, wanted = make.pool(quota_gpus=0), daily(clock, 4)
    who = {
        "alice": alice,
        "trainer": delegates.agent("alice").caller,
        "asks": delegates.agent("alice", CREATE, name="asks").caller,
    }

    def call(name):
        asked = make.request(who[name], pool, **wanted)
        return admission.admit(who[name], asked, idempotency_key="k").reservation_id

    if began != "asks":
        with pytest.raises(errors.QuotaExceeded):
            call(began)
    make.grant("acme", gpus=256)
    if placed_by == "asks":
        deciding.approve(alice, confirmation_id=refused(lambda: call("asks")).pk)
    first = Reservation.objects.get(pk=call(placed_by))
    repeating.look(first.series_id)
    series = Series.objects.get()
    agent = "" if placed_by == "alice" else placed_by
    assert repeating.states(series) == ["placed"] * booked + ["draft"] * (4 - booked)
    assert {each.agent for each in [series, *repeating.occurrences(series)]} == {agent}
    assert bool(series.confirmation_id) == (placed_by == "asks")


def test_what_an_agent_was_denied_is_said_of_the_agent(clock, alice):
    """Also where its person's own try had left the draft."""
    policies.create(alice, draft=Draft("none", AGENTS_HOLD_FEW.replace(">= 2", ">= 0")))
    agent, pool = delegates.agent("alice"), make.pool(quota_gpus=0)
    for who, refusal in ((alice, errors.QuotaExceeded), (agent.caller, errors.AccessDenied)):
        with pytest.raises(refusal):
            admission.admit(who, make.request(who, pool), idempotency_key="k")
    assert Reservation.objects.get().agent == "trainer"


def test_what_a_reservation_rests_on_is_kept_until_it_is_over(clock, alice):
    agent, pool = delegates.agent("alice", CREATE), make.pool()
    wanted = {"start": clock.now_ms() + 120 * 86_400_000}
    confirmation = refused(lambda: create(agent, pool, **wanted))
    deciding.approve(alice, confirmation_id=confirmation.pk)
    made = create(agent, pool, **wanted)
    clock.advance("91d")
    assert reconciler.forget(make.fence) == 0
    ending.cancel(alice, reservation_id=made.pk)
    assert reconciler.forget(make.fence) == 1


def test_what_an_active_series_rests_on_is_kept(clock, alice):
    agent, pool = delegates.agent("alice", CREATE), make.pool(recurrenceAhead="10d")
    wanted = daily(clock, 200)
    series, confirmation = approved(alice, agent, pool, **wanted)
    clock.advance("91d")
    assert reconciler.forget(make.fence) == 0
    cancelling.cancel(alice, series_id=series.pk)
    assert reconciler.forget(make.fence) == 0  # nobody has ended those whose time came
    for occurrence in repeating.occurrences(series):
        make.look(occurrence)
    assert reconciler.forget(make.fence) == 1
    assert not Confirmation.objects.filter(pk=confirmation.pk).exists()


def test_an_upgrade_learns_of_each_series_who_asked_for_it(clock, alice):
    pool = make.pool()
    own = opened(delegates.agent("alice"), pool, **daily(clock, 2))
    asked, confirmation = approved(
        alice, delegates.agent("alice", CREATE, name="asks"), pool, **daily(clock, 2), key="a"
    )
    persons = make.series(alice, pool)
    Series.objects.update(agent="", confirmation_id="")
    later = Reservation.objects.exclude(request__has_key="recurrence")
    later.update(agent="", confirmation_id="")
    migration = import_module("reservations.migrations.0013_remember_who_asked_for_a_series")
    with connection.cursor() as cursor:
        cursor.execute(migration.REMEMBER)
    known = {each.pk: (each.agent, each.confirmation_id) for each in Series.objects.all()}
    assert known == {
        own.pk: ("trainer", ""),
        asked.pk: ("asks", confirmation.pk),
        persons: ("", ""),
    }
    for series in (own, asked):
        rows = {(each.agent, each.confirmation_id) for each in repeating.occurrences(series)}
        assert rows == {known[series.pk]}
