"""The demo that `make up` starts with."""

import json

import pytest
from django.core.management import CommandError, call_command

from bettercompute.iam import tokens
from bettercompute.iam.models import Account, Membership
from nodes.models import Device, DeviceBooking, Node
from pools import catalogue, quota
from pools.models import Pool
from reservations import demo
from reservations.models import Reservation
from tests.support import cast

pytestmark = pytest.mark.django_db(transaction=True)

MAIN_GPUS_FREE_MIN = 20


@pytest.fixture
def kept():
    return demo.Secrets({}, {})


@pytest.mark.rule("U10")
def test_it_has_the_cast_the_pools_and_their_devices(kept):
    made = demo.build(kept)

    assert set(made) == {"tenant", "tenants", "pools", "tokens", "logins"}
    assert made["tenants"]["alice"] == made["tenants"]["bob"] == made["tenant"]
    assert made["tenants"]["mallory"] not in {made["tenant"], made["tenants"]["olga"]}
    roles = dict(Membership.objects.values_list("account__username", "role"))
    assert [roles["alice"], roles["bob"]] == ["admin", "member"]
    assert Account.objects.get(username="olga").is_staff
    main = Device.objects.filter(node__pool_id=made["pools"]["main"], bookable_mode="whole")
    assert main.count() == 32
    assert Node.objects.filter(pool_id=made["pools"]["main"]).count() == 4
    limit = {usage.resource: usage.max for usage in quota.usage(made["tenant"])}
    assert limit["gpuMilli"] == 256_000


@pytest.mark.rule("U10", "R38")
def test_globex_is_offered_mig_only(kept):
    made = demo.build(kept)
    offered = catalogue.pools_for(tokens_caller("mallory"))
    assert [pool.pool_id for pool in offered] == [made["pools"]["mig"]]


@pytest.mark.rule("U10")
def test_running_it_again_changes_nothing(kept):
    first = demo.build(kept)
    reservations = set(Reservation.objects.values_list("pk", flat=True))
    assert demo.build(kept) == first
    assert set(Reservation.objects.values_list("pk", flat=True)) == reservations
    for name, login in first["logins"].items():
        assert Account.objects.get(username=name).check_password(login["password"])
        assert tokens.find(first["tokens"][name]).account.username == name


@pytest.mark.rule("U10")
def test_twenty_gpus_of_main_stay_free_whatever_days_it_is_started_on(kept, clock):
    for _ in range(4):
        made = demo.build(kept)
        clock.advance("17h")
    bookings = DeviceBooking.objects.filter(device__node__pool_id=made["pools"]["main"])
    windows = [(b.during.lower, b.during.upper) for b in bookings]
    peak = max(sum(lower <= start < upper for lower, upper in windows) for start, _ in windows)
    assert 32 - peak >= MAIN_GPUS_FREE_MIN


@pytest.mark.rule("U10")
def test_bookings_that_do_not_fit_are_left_out_and_do_not_pile_up(kept, clock):
    made = demo.build(kept)
    clock.advance("48h")  # its own bookings are over
    body = {"tenantId": made["tenant"], "poolId": made["pools"]["main"], "duration": "9d"}
    body |= {"devices": [{"class": "gpu", "count": 8}], "gang": {"nodes": 4}}
    everything = api(made["tokens"]["alice"]).post("/reservations", body | {"idempotencyKey": "k"})
    assert everything.json()["state"] == "placed"
    for _ in range(3):
        clock.advance("24h")
        demo.build(kept)
    booked = Reservation.objects.filter(idempotency_key__startswith="demo-")
    states = set(booked.values_list("state", flat=True))
    assert "cancelled" in states  # there was one that did not fit
    assert "pending" not in states


@pytest.mark.rule("U10")
def test_limits_that_people_set_do_not_keep_it_from_starting(kept, clock):
    made = demo.build(kept)
    Pool.objects.filter(pk=made["pools"]["main"]).update(policy={"maxDuration": "1h"})
    clock.advance("24h")
    assert demo.build(kept)["pools"] == made["pools"]


@pytest.mark.rule("R16", "U10")
def test_a_gang_may_ask_for_one_rack_of_main(kept):
    made = demo.build(kept)
    body = {"tenantId": made["tenant"], "poolId": made["pools"]["main"], "duration": "1h"}
    body |= {"devices": [{"class": "gpu", "count": 8}]}
    for topology in ("same-rack", "same-switch"):
        body |= {"gang": {"nodes": 2, "topology": topology}}
        preview = api(made["tokens"]["alice"]).post("/capacity/preview", body).json()
        assert preview["fits"], preview["reasons"]


@pytest.mark.rule("U10")
def test_its_bookings_are_placed_before_any_agent_connects(kept):
    demo.build(kept)
    assert set(Reservation.objects.values_list("state", flat=True)) == {"placed"}


@pytest.mark.rule("U10")
def test_a_years_lead_is_allowed(kept, clock):
    made = demo.build(kept)
    ahead = clock.now_ms() + 365 * 86_400_000
    body = {"tenantId": made["tenant"], "poolId": made["pools"]["main"], "start": ahead}
    body |= {"devices": [{"class": "gpu", "count": 8}], "duration": "8h", "idempotencyKey": "k"}
    assert api(made["tokens"]["alice"]).post("/reservations", body).status_code == 201
    body |= {"start": clock.now_ms() + 400 * 86_400_000, "idempotencyKey": "far"}
    cast.problem(api(made["tokens"]["alice"]).post("/reservations", body), 403, "ACCESS_DENIED")


@pytest.mark.rule("U10")
def test_production_refuses_it(settings):
    settings.DEMO_ALLOWED = False
    with pytest.raises(CommandError, match="production"):
        call_command("seed")
    assert not Account.objects.exists()


@pytest.mark.rule("U10")
def test_the_command_prints_one_line_of_json_and_keeps_the_secrets(tmp_path, capsys):
    kept = tmp_path / "secrets.json"
    kept.write_text("{}")
    call_command("seed", secrets=kept)
    printed = json.loads(capsys.readouterr().out)
    assert json.loads(kept.read_text())["tokens"] == printed["tokens"]
    assert kept.stat().st_mode & 0o077 == 0


def test_more_nodes_become_a_fleet_of_their_own(kept):
    made = demo.build(kept, nodes=7)
    assert Node.objects.filter(pool_id=made["pools"]["fleet"]).count() == 2


def tokens_caller(name: str):
    account = Account.objects.get(username=name)
    return cast.callers.for_tenant(account, account.memberships.get().tenant_id)


def api(token: str) -> cast.Api:
    return cast.Api(cast.Client(headers={"Authorization": f"Bearer {token}"}))
