"""Budgets: what is reserved of them is metered, and what would pass them is refused (R39)."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.db import IntegrityError, transaction

from bettercompute import clock as clocks
from bettercompute import errors
from bettercompute.wire.reservations import ExtendRequest
from nodes.models import ReportedState
from pools import budgets
from pools.budgets import NewBudget
from pools.models import Budget, BudgetPeriod
from reservations import ending, previews, spending, usage
from reservations.extending import extension
from reservations.models import ExtendHold, Reservation
from tests.support import cast, make

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("R39")]

UTC_ZONE = ZoneInfo("UTC")
NOON = clocks.to_ms(datetime(2026, 3, 3, 12, tzinfo=UTC))


def budget(gpu_hours: float, slug: str = "acme", **changes) -> Budget:
    terms = {"name": f"lab-{gpu_hours}", "gpu_milli_hours": int(gpu_hours * 1_000), **changes}
    return budgets.create(cast.tenant(slug).pk, NewBudget(**terms))


def spent() -> list[tuple[float, float, float]]:
    """Used, reserved and left of each budget, in GPU-hours."""
    return [
        tuple(map(spending.gpu_hours, (row.used, row.reserved, row.left)))
        for row in spending.present(cast.caller("alice"))
    ]


def extend(reservation: Reservation, by: str) -> extension.Extended:
    alice = cast.caller("alice")
    wanted = ExtendRequest(tenant_id=alice.tenant_id, by=by)
    return extension.extend(
        alice, wanted, reservation_id=reservation.pk, idempotency_key=make.key()
    )


def test_a_create_that_passes_what_is_left_is_refused_and_stays_a_draft(clock):
    pool, alice = make.pool(), cast.caller("alice")
    made = budget(10)
    make.reservation(alice, pool, gpus=4, duration="2h")
    with pytest.raises(errors.BudgetExceeded) as refused:
        make.reservation(alice, pool, gpus=3, duration="1h", idempotency_key="k")
    month = {"start": 1_772_323_200_000, "end": 1_775_001_600_000}  # March 2026
    assert refused.value.details == {
        "budget": made.pk,
        "name": "lab-10",
        "poolId": None,
        "period": month,
        "gpuHours": 10.0,
        "used": 0.0,
        "reserved": 8.0,
        "left": 2.0,
        "asked": 3.0,
    }
    assert "3 GPU-hours, of which 2 are left of 10 from 2026-03-01 to 2026-03-31" in str(
        refused.value
    )
    assert Reservation.objects.get(idempotency_key="k").state == "draft"
    budgets.change(made.pk, gpu_milli_hours=11_000)
    # The same key is decided again, and now fits to the last minute.
    assert make.reservation(alice, pool, gpus=3, duration="1h", idempotency_key="k").state == (
        "placed"
    )
    with pytest.raises(errors.BudgetExceeded):
        make.reservation(alice, pool, duration="1ms")


def test_a_release_gives_its_rest_back_and_what_was_used_stays_used(clock):
    alice = cast.caller("alice")
    budget(40)
    reservation = make.active(alice, make.pool(), gpus=4, duration="8h")
    assert spent() == [(0.0, 32.0, 8.0)]
    clock.advance("90m")
    assert spent() == [(6.0, 26.0, 8.0)]
    ending.release(alice, reservation_id=reservation.pk)
    clock.advance("1h")
    assert spent() == [(6.0, 0.0, 34.0)]


def test_what_is_used_is_what_usage_meters(clock):
    pool, alice = make.pool(nodes=2), cast.caller("alice")
    budget(1_000)
    later = clock.now_ms() + 7_200_000
    make.active(alice, pool, gpus=2, duration="5h")
    released = make.look(make.reservation(alice, pool, gpus=3, duration="4h"))
    withdrawn = make.reservation(alice, pool, start=later)
    let_go = make.reservation(alice, pool, start=later)
    make.reservation(alice, pool, start=later, duration="3h")
    clock.advance("1h")
    for each in (released, let_go):
        ending.release(alice, reservation_id=each.pk)
    ending.cancel(alice, reservation_id=withdrawn.pk)
    clock.advance("30m")
    for time in ("1m", "24h"):
        clock.advance(time)
        now = clocks.now()
        metered = usage.metered(
            alice, start=now - timedelta(days=3), end=now + timedelta(days=3), zone=UTC_ZONE
        )
        ((used, reserved, _),) = spent()
        assert used == sum(row.gpu_milli_hours for row in metered) / 1_000
    assert (used, reserved) == (2 * 5 + 3 + 3, 0)


def test_what_waits_counts_as_planned_from_now(clock):
    pool, alice = make.pool(gpus=1), cast.caller("alice")
    budget(10)
    make.reservation(alice, pool, duration="2h")
    waiting = make.reservation(alice, pool, duration="6h")
    assert waiting.state == "pending"
    assert spent() == [(0.0, 8.0, 2.0)]
    clock.advance("1h")
    assert spent() == [(1.0, 7.0, 2.0)]
    ending.release(alice, reservation_id=waiting.pk)
    assert spent() == [(1.0, 1.0, 8.0)]


def test_a_range_counts_at_its_most_until_what_it_took_is_bound(clock):
    pool, alice = make.pool(gpus=2), cast.caller("alice")
    budget(100)
    ranged = {"devices": [{"class": "gpu", "count": {"min": 1, "max": 8}}]}
    placed = make.look(make.reservation(alice, pool, duration="10h", **ranged))
    assert spent() == [(0.0, 80.0, 20.0)]
    make.report(placed, ReportedState.BOUND)
    make.look(placed)
    assert spent() == [(0.0, 20.0, 80.0)]


def test_one_that_spans_two_months_counts_in_each(clock):
    clock.set(datetime(2026, 3, 31, 12, tzinfo=UTC))
    pool, alice = make.pool(), cast.caller("alice")
    budget(20)
    # 12 h in March and 12 in April.
    reservation = make.active(alice, pool, duration="24h")
    assert spent() == [(0.0, 12.0, 8.0)]
    # 8 hours are left of each; this takes 4 of March and 9 of April.
    late = {"start": clock.now_ms() + 8 * 3_600_000, "duration": "13h"}
    with pytest.raises(errors.BudgetExceeded) as refused:
        make.reservation(alice, pool, **late)
    assert (refused.value.details["left"], refused.value.details["asked"]) == (8.0, 9.0)
    assert make.reservation(alice, pool, **{**late, "duration": "12h"}).state == "placed"
    clock.advance("24h")
    make.look(reservation)
    # April: 12 of the first, 8 of the second of which it is noon.
    assert spent() == [(20.0, 0.0, 0.0)]


def test_budgets_of_a_pool_of_a_window_and_over_all_must_all_have_room(clock):
    here, there, alice = make.pool(), make.pool(), cast.caller("alice")
    now = clocks.now()
    budget(3, name="here", pool=here)
    budget(6, name="all")
    window = {"starts_at": now + timedelta(days=7), "ends_at": now + timedelta(days=8)}
    budget(1, name="fair", period=BudgetPeriod.WINDOW, **window)
    make.reservation(alice, here, gpus=3)
    for pool, hours, which in ((here, 1, "here"), (there, 4, "all")):
        with pytest.raises(errors.BudgetExceeded) as refused:
            make.reservation(alice, pool, gpus=hours)
        assert refused.value.details["name"] == which
    make.reservation(alice, there, gpus=3)
    # Another month has room again; the window has its own.
    next_month = now + timedelta(days=31)
    assert make.reservation(alice, here, gpus=3, start=clocks.to_ms(next_month)).state == "placed"
    Budget.objects.filter(name="all").delete()
    in_window = {"start": clocks.to_ms(now + timedelta(days=7, hours=-1))}
    make.reservation(alice, there, gpus=1, duration="2h", **in_window)
    with pytest.raises(errors.BudgetExceeded) as refused:
        make.reservation(alice, there, gpus=1, duration="61m", **in_window)
    assert refused.value.details["name"] == "fair"


def test_an_extension_is_refused_by_what_it_adds_and_changes_nothing(clock):
    alice = cast.caller("alice")
    budget(10)
    reservation = make.active(alice, make.pool(), gpus=2, duration="3h")
    with pytest.raises(errors.BudgetExceeded) as refused:
        extend(reservation, "3h")
    assert (refused.value.details["left"], refused.value.details["asked"]) == (4.0, 6.0)
    assert not ExtendHold.objects.exists()
    assert Reservation.objects.get(pk=reservation.pk).ends_at == reservation.ends_at
    assert extend(reservation, "2h").extended
    assert spent() == [(0.0, 10.0, 0.0)]


def test_a_budget_cut_below_what_is_reserved_ends_nothing_and_admits_nothing(clock):
    pool, alice = make.pool(), cast.caller("alice")
    made = budget(10)
    make.active(alice, pool, duration="8h")
    budgets.change(made.pk, gpu_milli_hours=5_000)
    assert spent() == [(0.0, 8.0, -3.0)]
    with pytest.raises(errors.BudgetExceeded):
        make.reservation(alice, pool)
    budgets.remove(made.pk)
    assert make.reservation(alice, pool).state == "placed"


def test_another_tenants_budget_is_not_ours(clock):
    pool = make.pool()
    budget(0, slug="globex")
    assert make.reservation(cast.caller("alice"), pool).state == "placed"
    assert spent() == []


@pytest.mark.rule("R20")
@pytest.mark.case(20)
def test_occurrences_that_fit_leave_less_of_the_budget_for_those_behind(clock):
    pool, alice = make.pool(), cast.caller("alice")
    budget(5)
    daily = {"rule": "FREQ=DAILY;COUNT=4", "timeZone": "UTC"}
    asked = make.request(alice, pool, gpus=2, duration="1h", start=NOON, recurrence=daily)
    shown = previews.preview(alice, asked).occurrences
    assert [each.fits for each in shown] == [True, True, False, False]
    assert "2 GPU-hours, of which 1 are left of 5" in shown[2].reasons[0].needs


def test_a_preview_says_what_a_create_would_be_told(clock):
    pool, alice = make.pool(), cast.caller("alice")
    budget(2)
    assert previews.preview(alice, make.request(alice, pool, gpus=2)).fits
    shown = previews.preview(alice, make.request(alice, pool, gpus=3))
    assert not shown.fits
    assert [(reason.filter, reason.needs) for reason in shown.reasons] == [
        ("budget", "3 GPU-hours, of which 2 are left of 2 from 2026-03-01 to 2026-03-31")
    ]
    assert shown.earliest is None


def test_over_rest_with_what_is_left_of_each(clock):
    pool = make.pool()
    made = budget(2.5, pool=pool, time_zone="Europe/Berlin")
    make.reservation(cast.caller("alice"), pool)
    body = {
        "tenantId": cast.tenant().pk,
        "poolId": pool.pk,
        "devices": [{"class": "gpu", "count": 4}],
        "duration": "1h",
        "idempotencyKey": "k",
    }
    refused = cast.problem(cast.api("bob").post("/reservations", body), 409, "BUDGET_EXCEEDED")
    assert refused["details"]["left"] == 1.5
    shown = cast.api("bob").post("/capacity/preview", body).json()
    assert [reason["filter"] for reason in shown["reasons"]] == ["budget"]
    (item,) = cast.api("bob").get("/budgets").json()["items"]
    assert item == {
        "id": made.pk,
        "name": "lab-2.5",
        "poolId": pool.pk,
        "period": "month",
        "timeZone": "Europe/Berlin",
        "during": {"start": 1_772_319_600_000, "end": 1_774_994_400_000},
        "gpuHours": 2.5,
        "used": 0.0,
        "reserved": 1.0,
        "left": 1.5,
    }
    assert cast.api("mallory").get("/budgets").json()["items"] == []
    foreign = cast.api("mallory").get(f"/budgets?tenantId={cast.tenant().pk}")
    cast.problem(foreign, 404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        ({"name": ""}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"name": "lab\nEND"}, "name"),
        ({"gpu_milli_hours": -1}, "gpu_milli_hours"),
        ({"gpu_milli_hours": 2**53}, "gpu_milli_hours"),
        ({"time_zone": "Mars/Base"}, "time_zone"),
        ({"time_zone": "posixrules"}, "time_zone"),
        ({"ends_at": datetime(2026, 4, 1, tzinfo=UTC)}, "starts_at"),
        ({"period": BudgetPeriod.WINDOW}, "ends_at"),
    ],
)
def test_a_budget_that_is_none_is_refused(wrong, path):
    with pytest.raises(errors.InvalidInput) as refused:
        budget(1, **wrong)
    assert refused.value.details["errors"][0]["path"] == path
    with pytest.raises(IntegrityError), transaction.atomic():
        Budget.objects.create(
            tenant=cast.tenant(), name="raw", gpu_milli_hours=1, period=BudgetPeriod.WINDOW
        )
    budget(1)
    with pytest.raises(errors.Conflict):
        budget(1)
