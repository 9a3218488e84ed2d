"""Capacity offers: ways to have it, ranked, good for a minute (R21)."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from bettercompute import clock as clocks
from bettercompute import errors
from bettercompute.iam import policies
from bettercompute.wire import capacity_offers as wire
from bettercompute.wire.reservations import OfferTaking
from nodes import eligibility
from nodes.models import Node
from pools import capacity_offers
from pools.models import CapacityOffer, Placer, Pool
from reservations import admission, ending
from reservations.admission import Admitted
from reservations.models import Reservation
from tests.support import cast, invariants, make

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("R21")]

HOUR_MS = 3_600_000


def ask(pool: Pool, *, by: str = "alice", **changes: Any) -> wire.CapacityOffers:
    """Offers of one GPU for one to eight hours within the next two days, unless said otherwise."""
    caller = cast.caller(by)
    body = {
        "tenantId": caller.tenant_id,
        "poolId": pool.pk,
        "devices": [{"class": "gpu", "count": 1}],
        "duration": {"min": "1h", "max": "8h"},
        "start": {"latest": clocks.now_ms() + 48 * HOUR_MS},
        **changes,
    }
    return capacity_offers.offers(
        caller, wire.CapacityOffersRequest.model_validate_json(json.dumps(body))
    )


def take(offer_id: str, *, by: str = "alice", key: str = "", **said: Any) -> Admitted:
    caller = cast.caller(by)
    body = {"tenantId": caller.tenant_id, "offerId": offer_id, **said}
    wanted = OfferTaking.model_validate_json(json.dumps(body))
    return admission.admit(caller, wanted, idempotency_key=key or make.key())


def hours(found: wire.CapacityOffers) -> list[tuple[list[str], float, float]]:
    """Of each offer its kinds, when it starts and how long it is, in hours from now."""
    now = clocks.now_ms()
    return [
        (
            [str(kind) for kind in each.kinds],
            (each.during.start - now) / HOUR_MS,
            (each.during.end - each.during.start) / HOUR_MS,
        )
        for each in found.offers
    ]


def hold(pool: Pool, *, starts_in: float = 0, **changes: Any) -> Reservation:
    start = {"start": clocks.now_ms() + int(starts_in * HOUR_MS)} if starts_in else {}
    made = make.reservation(cast.caller("bob"), pool, **start, **changes)
    assert made.state == "placed"
    return made


def test_in_an_empty_pool_now_and_all_of_it_is_best_but_costs_more(clock):
    found = ask(make.pool())
    assert hours(found) == [(["soonest", "longest"], 0, 8), (["cheapest"], 0, 1)]
    assert [each.why for each in found.offers] == [
        "Starts soonest and lasts longest.",
        "Costs least.",
    ]
    assert [each.quote.gpu_hours for each in found.offers] == [8, 1]
    assert {each.expires_at for each in found.offers} == {clocks.now_ms() + 60_000}


def test_what_comes_soonest_what_lasts_longest_and_what_lies_between(clock):
    """One GPU: three hours free now, then five behind a booking, then for ever."""
    pool = make.pool(gpus=1)
    hold(pool, starts_in=3, duration="1h")
    hold(pool, starts_in=9, duration="1h")
    now, later, last = 3 - 1 / 60, 5, 8
    assert hours(ask(pool)) == [
        (["soonest"], 0, pytest.approx(now)),
        (["cheapest"], 0, 1),
        (["longest"], 10, last),
        (["longest"], 4, later),
    ]


def test_the_longest_goes_on_where_other_devices_are_free(clock):
    """No device is free for four hours from now but the second node's."""
    pool = make.pool(nodes=2, gpus=1)
    hold(pool, starts_in=2, duration="8h")
    hold(pool, starts_in=5, duration="8h")
    found = ask(pool, start=clocks.now_ms())
    assert hours(found)[0] == (["soonest", "longest"], 0, pytest.approx(5 - 1 / 60))


def test_a_single_start_and_length_is_one_offer_of_all_kinds(clock):
    found = ask(make.pool(), start=clocks.now_ms() + HOUR_MS, duration="2h")
    assert hours(found) == [(["soonest", "cheapest", "longest"], 1, 2)]
    assert found.offers[0].why == "Starts soonest, costs least and lasts longest."


def test_fewer_devices_and_smaller_ones_are_cheaper(clock):
    pool = make.pool(gpus=4)
    found = ask(pool, duration="1h", devices=[{"class": "gpu", "count": {"min": 1, "max": 8}}])
    told = [(each.kinds[0], each.request["devices"][0]["count"]) for each in found.offers]
    assert told == [("soonest", 4), ("cheapest", 1)]
    assert [each.quote.gpu_hours for each in found.offers] == [4, 1]


def test_nothing_is_held_and_what_is_taken_is_what_was_offered(clock):
    pool = make.pool(nodes=3)
    (offer, *_) = ask(pool).offers
    assert Reservation.objects.count() == 0
    clock.advance("50s")
    taken = Reservation.objects.get(pk=take(offer.id).reservation_id)
    assert taken.state == "placed"
    (allocation,) = taken.allocations.all()
    assert [(allocation.node_id, allocation.device_ids)] == [
        (node.node_id, node.device_ids) for node in offer.nodes
    ]
    assert taken.ends_at - taken.starts_at == timedelta(hours=8)
    assert taken.request == {**offer.request, "offerId": offer.id}
    assert invariants.violations() == []


def test_an_offer_of_now_can_still_be_taken_whole_at_the_end_of_its_minute(clock):
    """Its window begins when it is taken, and the next booking comes close behind it."""
    pool = make.pool(gpus=1)
    hold(pool, starts_in=2, duration="1h")
    (soonest, *_) = ask(pool).offers
    clock.advance("59s")
    taken = Reservation.objects.get(pk=take(soonest.id).reservation_id)
    assert taken.ends_at - taken.starts_at == timedelta(hours=2, minutes=-1)


def test_whoever_is_slower_finds_it_gone_and_gets_nothing_else(clock):
    pool = make.pool(nodes=2, gpus=1)
    (offer, *_) = ask(pool).offers
    (other,) = {each.pk for each in Node.objects.all()} - {offer.nodes[0].node_id}
    eligibility.cordon(other)
    rival = hold(pool)
    eligibility.uncordon(other)
    for _ in range(2):
        with pytest.raises(errors.Conflict) as gone:
            take(offer.id, key="mine")
        assert gone.value.details["reason"] == "offer-gone"
    assert [each.pk for each in Reservation.objects.exclude(state="draft")] == [rival.pk]
    assert invariants.violations() == []
    ending.release(cast.caller("bob"), reservation_id=rival.pk)
    assert take(offer.id, key="mine").created, "the same key may find it free again"


@pytest.mark.rule("R8")
def test_a_retry_finds_what_was_made_though_the_offer_is_forgotten(clock):
    (offer, *_) = ask(make.pool()).offers
    first = take(offer.id, key="mine")
    assert first.created
    clock.advance("2h")
    assert capacity_offers.sweep() == 2
    again = take(offer.id, key="mine", duration="8h")
    assert (again.reservation_id, again.created) == (first.reservation_id, False)
    for changes in ({"offer_id": "cof_other"}, {"offer_id": offer.id, "duration": "7h"}):
        with pytest.raises(errors.Conflict) as used:
            take(**changes, key="mine")
        assert used.value.details["reservationId"] == first.reservation_id


def test_an_expired_one_says_so_and_a_foreign_one_is_not_there(clock):
    (offer, *_) = ask(make.pool()).offers
    with pytest.raises(errors.NotFound):
        take(offer.id, by="mallory")
    with pytest.raises(errors.NotFound):
        take("cof_none")
    clock.advance("60s")
    with pytest.raises(errors.Conflict) as late:
        take(offer.id)
    assert late.value.details["reason"] == "offer-expired"
    assert Reservation.objects.count() == 0
    clock.advance("1h")
    capacity_offers.sweep()
    with pytest.raises(errors.NotFound):
        take(offer.id)


@pytest.mark.rule("R2")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("duration", "7h"),
        ("start", 1_900_000_000_000),
        ("devices", [{"class": "gpu", "count": 2}]),
        ("poolId", "pool_other"),
        ("spot", True),
        ("labels", {"team": "a"}),
        ("resources", {"vcpu": 1}),
    ],
)
def test_what_contradicts_the_offer_is_named(clock, field, value):
    (offer, *_) = ask(make.pool()).offers
    with pytest.raises(errors.InvalidInput) as wrong:
        take(offer.id, **{field: value})
    assert [each["path"] for each in wrong.value.details["errors"]] == [field]
    same = {**offer.request, "duration": "8h", "spot": False}
    assert take(offer.id, **same).created, "what it says anyway may be said"


@pytest.mark.rule("R38")
def test_what_the_caller_may_not_have_is_not_offered(clock):
    pool = make.pool(quota_gpus=1, maxDuration="4h")
    found = ask(pool, devices=[{"class": "gpu", "count": {"min": 1, "max": 2}}])
    assert [each.request["devices"][0]["count"] for each in found.offers] == [1, 1]
    assert [length for _, _, length in hours(found)] == [4, 1], "as far as the pool's limit"
    text = 'forbid (principal, action == Action::"compute:reservations:create", resource);'
    policies.create(cast.caller("alice"), draft=policies.Draft("no-more", text))
    refused = ask(pool)
    assert refused.offers == []
    assert [reason.filter for reason in refused.reasons] == ["policy"]
    assert CapacityOffer.objects.count() == len(found.offers)


def test_without_an_offer_it_says_why_as_a_preview_does(clock):
    pool = make.pool(gpus=1)
    hold(pool, duration="3d")
    found = ask(pool)
    assert found.offers == []
    assert [reason.filter for reason in found.reasons] == ["busy"]
    assert found.earliest == clocks.now_ms() + 72 * HOUR_MS


def test_a_pool_that_places_in_turn_offers_nothing(clock):
    pool = make.pool()
    Pool.objects.filter(pk=pool.pk).update(placer=Placer.QUEUED)
    found = ask(pool)
    assert (found.offers, [reason.filter for reason in found.reasons]) == ([], ["policy"])


@pytest.mark.rule("R2")
@pytest.mark.parametrize(
    ("changes", "paths"),
    [
        ({"duration": {"min": "2h", "max": "1h"}}, ["duration.min"]),
        ({"duration": {"min": "never", "max": "6y"}}, ["duration.min", "duration.max"]),
        ({"start": {"earliest": 1, "latest": "soon"}}, ["start.earliest", "start.latest"]),
        ({"start": "2026-03-02T09:00"}, ["start"]),
        ({"devices": [{"class": "gpu.mig", "count": 1}]}, ["devices[0].profile"]),
    ],
)
def test_what_is_wrong_is_named(clock, changes, paths):
    pool = make.pool()
    with pytest.raises(errors.InvalidInput) as wrong:
        ask(pool, **changes)
    assert [each["path"] for each in wrong.value.details["errors"]] == paths


def test_however_busy_the_pool_it_asks_a_bounded_number_of_times(clock):
    pool = make.pool(nodes=2, gpus=2)
    for start in range(1, 40, 2):
        hold(pool, starts_in=start, duration="1h", gpus=2)
        hold(pool, starts_in=start + 0.5, duration="1h", gpus=2)
    wanted = {"devices": [{"class": "gpu", "count": {"min": 1, "max": 2}}]}
    ask(pool, **wanted)
    with CaptureQueriesContext(connection) as asked:
        found = ask(pool, **wanted)
    assert len(found.offers) == 6
    assert len(asked) <= 120


def test_over_the_api(clock):
    pool = make.pool()
    api = cast.api("alice")
    tenant = {"tenantId": cast.tenant().pk}
    body = {
        **tenant,
        "poolId": pool.pk,
        "devices": [{"class": "gpu", "count": 1}],
        "duration": {"min": "1h", "max": "2h"},
    }
    answer = api.post("/capacity/offers", body)
    assert answer.status_code == 200, answer.content
    (offer, *_) = answer.json()["offers"]
    taking = {**tenant, "offerId": offer["id"], "idempotencyKey": "k"}
    wrong = cast.problem(
        api.post("/reservations", {**taking, "duration": "9h"}), 400, "INVALID_INPUT"
    )
    assert wrong["details"]["errors"][0]["path"] == "duration"
    made = api.post("/reservations", taking)
    assert made.status_code == 201, made.content
    assert made.json()["request"]["offerId"] == offer["id"]
    assert api.post("/reservations", taking).status_code == 200
    unknown = api.post("/reservations", {**taking, "offers": 1})
    assert cast.problem(unknown, 400, "INVALID_INPUT")["details"]["errors"] == [
        {"path": "offers", "message": "unknown field"}
    ]


@pytest.mark.rule("U2")
def test_the_console_lists_other_times_as_buttons_that_fill_the_form(clock):
    pool = make.pool(gpus=1)
    hold(pool, starts_in=1, duration="2h")
    client = cast.session("alice", check_csrf=False)
    typed = {"key": "k", "pool": pool.pk, "count": "1", "duration": "2h", "start": ""}
    page = client.post("/reserve/preview", typed).content.decode()
    assert "Show other times that fit" in page
    asked = client.post("/reserve/preview", {**typed, "alternatives": "1"}).content.decode()
    later = clocks.now_ms() + 3 * HOUR_MS
    assert f'value="{later}|{2 * HOUR_MS}"' in asked
    assert "Starts soonest" in asked
    filled = client.post("/reserve/preview", {**typed, "instead": f"{later}|{2 * HOUR_MS}"})
    assert "It fits" in filled.content.decode()
    for odd in ("|", "1|x", f"{10**20}|1", "<b>"):
        again = client.post("/reserve/preview", {**typed, "instead": odd})
        assert again.status_code == 200
