"""What only operators of the platform read: the self-check and who is in charge (C29, C39)."""

import json

import pytest
from django.test import Client
from django.urls import reverse

from bettercompute import selfcheck
from bettercompute.coordination import heartbeats, leases
from bettercompute.coordination.models import Lease
from tests.conftest import SimulatedClock
from tests.support import cast, damage, supply

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """No report of another test is the latest."""
    monkeypatch.setattr(selfcheck, "LATEST", selfcheck.Latest())
    damage.equip(monkeypatch)


@pytest.mark.parametrize("path", ["/selfcheck", "/leases"])
@pytest.mark.parametrize("name", ["alice", "bob", "mallory"])
def test_tenants_are_refused(name: str, path: str) -> None:
    problem = cast.problem(cast.api(name).get(path), 403, "ACCESS_DENIED")
    assert problem["details"] == {"needs": "operator"}


@pytest.mark.parametrize("path", ["/selfcheck", "/leases"])
def test_there_is_nothing_to_ask_for(path: str) -> None:
    answer = cast.api("olga").get(f"{path}?tenantId=ten_x")
    cast.problem(answer, 400, "INVALID_INPUT")


@pytest.mark.rule("C39")
class TestSelfCheck:
    def test_a_healthy_system_keeps_every_promise(self) -> None:
        damage.healthy()
        told = cast.api("olga").get("/selfcheck").json()
        assert told["ok"]
        assert 0 <= told["ageMs"] < 60_000
        assert len(told["checks"]) > 30
        assert all(check["ok"] and check["findings"] == [] for check in told["checks"])

    def test_what_is_wrong_is_named_with_what_to_do(self) -> None:
        world = damage.healthy()
        damage.use_is_not_the_sum(world, pytest.MonkeyPatch())
        told = cast.api("olga").get("/selfcheck").json()
        assert not told["ok"]
        (bad,) = [check for check in told["checks"] if not check["ok"]]
        assert bad["check"] == "quota.charges"
        assert bad["findings"][0]["message"].startswith("Tenant ")
        assert bad["findings"][0]["do"]

    def test_asked_again_at_once_it_does_not_look_again(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        api = cast.api("olga")
        first = api.get("/selfcheck").json()
        monkeypatch.setattr(selfcheck, "run", lambda: pytest.fail("it looked again"))
        second = api.get("/selfcheck").json()
        assert second["takenAt"] == first["takenAt"]
        assert second["ageMs"] >= first["ageMs"]

    def test_while_the_first_look_is_under_way_others_are_asked_to_come_again(self) -> None:
        selfcheck.LATEST._running.acquire()
        answer = cast.api("olga").get("/selfcheck")
        cast.problem(answer, 503, "UNAVAILABLE")
        assert int(answer["Retry-After"]) > 0


@pytest.mark.rule("C39", "U8")
class TestPage:
    def test_an_operator_sees_every_check_and_its_age(self) -> None:
        world = damage.healthy()
        damage.use_is_not_the_sum(world, pytest.MonkeyPatch())
        client = cast.session("olga")
        assert reverse("self-check") in client.get("/admin/").content.decode()
        html = client.get(reverse("self-check")).content.decode()
        assert "1 found wrong" in html
        assert "quota.charges" in html
        assert "bookings.overlap" in html
        assert "No device is booked twice for one instant." in html
        assert " s ago" in html
        assert " style=" not in html

    def test_all_well_is_said(self) -> None:
        damage.healthy()
        html = cast.session("olga").get(reverse("self-check")).content.decode()
        assert "All is well." in html

    def test_a_look_under_way_is_said(self) -> None:
        selfcheck.LATEST._running.acquire()
        html = cast.session("olga").get(reverse("self-check")).content.decode()
        assert "ask again in a moment" in html

    def test_nobody_else_sees_it(self) -> None:
        assert cast.session("alice").get(reverse("self-check")).status_code in {302, 403}
        assert Client().get(reverse("self-check")).status_code == 302


@pytest.mark.rule("C29")
class TestLeases:
    def get(self) -> dict[str, dict[str, object]]:
        listed = json.loads(cast.api("olga").get("/leases").content)
        assert listed["nextCursor"] is None
        return {item["name"]: item for item in listed["items"]}

    def test_who_is_in_charge_since_when_and_for_how_long(self, clock: SimulatedClock) -> None:
        leases.take("shard:3", owner="own_a")
        since = clock.now_ms()
        clock.advance("5s")
        leases.take("shard:3", owner="own_a")
        clock.advance("2s")
        shard = self.get()["shard:3"]
        assert shard["held"] is True
        assert (shard["owner"], shard["epoch"], shard["since"]) == ("own_a", 1, since)
        assert shard["lapsesInMs"] == 13_000
        assert "pid" in str(shard["note"])
        assert shard["role"] == "shard 3 of the work queue"

    def test_a_takeover_is_another_term(self, clock: SimulatedClock) -> None:
        leases.take("singleton:liveness", owner="own_a")
        clock.advance("1m")
        lapsed = self.get()["singleton:liveness"]
        assert (lapsed["held"], lapsed["lapsesInMs"], lapsed["owner"]) == (False, 0, "own_a")
        leases.take("singleton:liveness", owner="own_b")
        job = self.get()["singleton:liveness"]
        assert (job["owner"], job["epoch"], job["since"]) == ("own_b", 2, clock.now_ms())
        assert job["role"] == "periodic job liveness"

    def test_what_nobody_has_ever_held_is_shown_as_nobodys(self) -> None:
        Lease.objects.all().delete()
        listed = self.get()
        assert len([name for name in listed if name.startswith("shard:")]) == 16
        assert all(
            (item["held"], item["epoch"], item["since"]) == (False, 0, None)
            for item in listed.values()
        )

    def test_a_gateway_is_listed_while_it_lives(self, clock: SimulatedClock) -> None:
        leases.take("gateway:own_g", owner="own_g", ttl_seconds=20)
        assert self.get()["gateway:own_g"]["role"] == "gateway of node agents"
        clock.advance("21s")
        assert "gateway:own_g" not in self.get()


def test_the_client_reads_both(live_server: object) -> None:
    from bettercompute.client.blocking import Client as ApiClient

    supply.tenant()
    heartbeats.beat("worker")
    leases.take("shard:0", owner="own_a")
    with ApiClient(live_server.url, cast.token("olga")[1]) as client:  # type: ignore[attr-defined]
        found = client.operating.self_check()
        assert {check.check for check in found.checks if not check.ok} >= {"web.alive"}
        assert {lease.name: lease.owner for lease in client.operating.leases()}["shard:0"] == (
            "own_a"
        )
