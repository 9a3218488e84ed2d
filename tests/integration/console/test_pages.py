"""Pages as a signed-in person gets them: what they show, what they do, whom they refuse."""

import re
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from bettercompute.pages import visitors
from pools import catalogue
from pools.models import Pool
from reservations.models import Reservation
from tests.conftest import SimulatedClock
from tests.support import cast, make

pytestmark = pytest.mark.django_db(transaction=True)

PAGES = ["/", "/pools", "/reserve", "/reservations"]


@pytest.fixture
def alice() -> Client:
    return cast.session("alice", check_csrf=False)


@pytest.fixture
def pool() -> Pool:
    return make.pool(nodes=2)


def fill(pool: Pool, /, **changes: str) -> dict[str, str]:
    """The form as a person leaves it."""
    return {
        "key": "form-1",
        "pool": pool.pk,
        "device_class": "gpu",
        "count": "2",
        "topology": "same-node",
        "profile": "",
        "duration": "8h",
        "start": "",
        "binding": "hold",
        "vcpu": "",
        "memory": "",
        **changes,
    }


def text(response: HttpResponse) -> str:
    return re.sub(r"\s+", " ", response.content.decode())


def _menu(response: HttpResponse) -> str:
    """What is behind More."""
    page = response.content.decode()
    return page[page.index('class="menu-panel places"') : page.index("</nav>")]


class TestWhoMayLook:
    @pytest.mark.parametrize("path", [*PAGES, "/pools/pool_x", "/reservations/rsv_x"])
    def test_a_stranger_is_sent_to_sign_in_and_back(self, path: str) -> None:
        response = Client().get(path)
        assert response.status_code == 302
        assert response["Location"] == f"/login?next={path}"

    def test_a_fragment_of_a_stranger_sends_the_whole_page_to_sign_in(self) -> None:
        response = Client().post("/reserve/preview", HTTP_HX_REQUEST="true")
        assert (response.status_code, response["HX-Redirect"]) == (204, "/login")

    @pytest.mark.rule("R38")
    def test_another_tenants_reservation_is_not_there(self, pool: Pool) -> None:
        theirs = make.reservation(cast.caller("alice"), pool)
        mallory = cast.session("mallory", check_csrf=False)
        for tail in ("", "/status", "/release", "/cancel"):
            assert mallory.get(f"/reservations/{theirs.pk}{tail}").status_code == 404
        assert mallory.post(f"/reservations/{theirs.pk}/release").status_code == 404
        assert Reservation.objects.get(pk=theirs.pk).state == "placed"

    @pytest.mark.rule("R38")
    def test_a_pool_that_is_not_offered_is_not_there(self, pool: Pool) -> None:
        assert cast.session("mallory").get(f"/pools/{pool.pk}").status_code == 404

    def test_posts_need_the_token_of_the_form(self, pool: Pool) -> None:
        guarded = cast.session("alice")
        for path in ("/reserve", "/reserve/preview", "/logout", "/timezone"):
            assert guarded.post(path, fill(pool)).status_code == 403, path
        assert not Reservation.objects.exists()

    @pytest.mark.parametrize(
        ("path", "form"),
        [
            ("/tokens/new", {"name": "a\0b"}),
            ("/policies/new", {"name": "a", "text": "// \0\nforbid(principal, action, resource);"}),
            ("/webhooks/new", {"url": "https://hooks.example.com/", "description": "a\0b"}),
            ("/reserve", {"a\0b": "1"}),
        ],
    )
    def test_nul_in_a_form_is_refused(self, alice: Client, path: str, form: dict[str, str]) -> None:
        response = alice.post(path, form)
        assert response.status_code == 400
        assert "must not have NUL" in text(response)

    def test_an_account_without_a_tenant_is_told_what_to_do(self) -> None:
        account = cast.account("bob")
        account.memberships.all().delete()
        response = cast.session("bob").get("/")
        assert response.status_code == 403
        assert "You belong to no tenant yet" in text(response)

    def test_acting_for_another_tenant_needs_a_seat_there(self, alice: Client) -> None:
        alice.post("/tenant", {"tenant": cast.tenant("globex").pk})
        assert visitors.TENANT not in alice.session


class TestSigningIn:
    def test_the_right_password_leads_on_to_where_the_person_was_going(self) -> None:
        cast.account("alice")
        response = Client().post("/login?next=/pools", {"username": "alice", "password": "alice"})
        assert (response.status_code, response["Location"]) == (302, "/pools")

    def test_it_never_leads_to_another_site(self) -> None:
        cast.account("alice")
        response = Client().post(
            "/login?next=//evil.example/", {"username": "alice", "password": "alice"}
        )
        assert response["Location"] == "/"

    @pytest.mark.parametrize("username", ["alice", "nobody", "nul\0", "x" * 9_000])
    def test_a_wrong_one_is_answered_the_same_for_every_name(self, username: str) -> None:
        cast.account("alice")
        response = Client().post("/login", {"username": username, "password": "wrong"})
        assert response.status_code == 400
        assert "do not belong together" in text(response)


class TestEveryPage:
    @pytest.mark.parametrize("path", PAGES)
    def test_it_teaches_while_there_is_nothing(self, alice: Client, path: str) -> None:
        response = alice.get(path)
        assert response.status_code == 200
        assert "Better Compute" in text(response)

    @pytest.mark.parametrize("path", PAGES)
    @pytest.mark.rule("U7")
    def test_it_has_no_inline_code_or_style(self, alice: Client, pool: Pool, path: str) -> None:
        make.active(cast.caller("alice"), pool, gpus=3)
        page = alice.get(path).content.decode()
        assert not re.findall(r"<script(?![^>]*src=)[^>]*>|<style|\sstyle=|\son\w+=", page)

    def test_every_place_behind_more_marks_itself_there(self) -> None:
        olga = cast.session("olga")
        places = re.findall(r'<a href="([^"]+)">', _menu(olga.get("/")))
        assert {"/tokens", "/webhooks", "/events", "/usage", "/series", "/audit"} <= set(places)
        for place in set(places) - {"/admin/"}:
            assert f'<a href="{place}" aria-current="page">' in _menu(olga.get(place))

    @pytest.mark.rule("U2")
    def test_it_shows_the_zone_of_its_times(self, alice: Client) -> None:
        alice.cookies["zone"] = "Asia/Kathmandu"
        assert "UTC+05:45" in text(alice.get("/"))

    def test_a_zone_that_is_chosen_stays_with_the_account(self, alice: Client) -> None:
        alice.post("/timezone", {"zone": "America/New_York", "next": "/pools"})
        assert cast.account("alice").time_zone == "America/New_York"
        assert "UTC-05:00" in text(cast.session("alice").get("/"))

    @pytest.mark.parametrize("zone", ["Mars/Olympus", "../../etc/passwd", "", "x" * 500, "Europe"])
    def test_a_zone_that_is_none_changes_nothing(self, alice: Client, zone: str) -> None:
        response = alice.post("/timezone", {"zone": zone}, follow=True)
        assert "There is no such time zone" in text(response)
        assert cast.account("alice").time_zone == "UTC"


class TestHome:
    @pytest.mark.rule("U1")
    def test_it_says_what_i_hold_and_what_is_free(self, alice: Client, pool: Pool) -> None:
        make.active(cast.caller("alice"), pool, gpus=3)
        page = text(alice.get("/"))
        assert "You hold 3 devices" in page
        assert "Ends in 1 h" in page
        assert '<span class="strong">13</span> <span class="faint">of 16</span>' in page

    def test_what_a_colleague_holds_is_not_mine(self, alice: Client, pool: Pool) -> None:
        make.active(cast.caller("bob"), pool, gpus=3)
        assert "You hold nothing now" in text(alice.get("/"))


class TestPools:
    @pytest.mark.rule("U4")
    def test_foreign_bookings_tell_when_and_nothing_else(self, pool: Pool) -> None:
        catalogue.offer(pool, cast.tenant("globex"))
        make.grant("globex", gpus=8)
        hidden = make.reservation(cast.caller("bob"), pool, gpus=4)
        page = text(cast.session("mallory").get(f"/pools/{pool.pk}"))
        assert "another tenant" in page
        assert "bob" not in page
        assert hidden.pk not in page

    def test_my_tenants_bookings_link_to_their_reservations(
        self, alice: Client, pool: Pool
    ) -> None:
        theirs = make.reservation(cast.caller("bob"), pool, gpus=4)
        page = text(alice.get(f"/pools/{pool.pk}?range=7d"))
        assert "Free in one piece" in page
        assert f'href="/reservations/{theirs.pk}"' in page
        assert "bob · 4 devices" in page

    def test_an_unknown_range_shows_the_usual_one(self, alice: Client, pool: Pool) -> None:
        assert alice.get(f"/pools/{pool.pk}?range=nonsense").status_code == 200


class TestReserving:
    def reserve(self, client: Client, data: dict[str, str], **extra: Any) -> HttpResponse:
        return client.post("/reserve", data, **extra)

    @pytest.mark.rule("U2")
    def test_the_form_reserves_and_shows_the_reservation(self, alice: Client, pool: Pool) -> None:
        response = self.reserve(alice, fill(pool, count="4", duration="3 days"))
        made = Reservation.objects.get()
        assert response["Location"] == f"/reservations/{made.pk}"
        assert (made.state, made.duration_ms) == ("placed", 3 * 86_400_000)

    @pytest.mark.rule("U2", "R19")
    def test_a_ticked_box_makes_it_spot(self, alice: Client, pool: Pool) -> None:
        self.reserve(alice, fill(pool, spot="on"))
        made = Reservation.objects.get()
        assert made.spot
        assert "it gives way" in text(alice.get(f"/reservations/{made.pk}"))

    @pytest.mark.rule("U2", "R8")
    def test_sending_it_twice_books_once(self, alice: Client, pool: Pool) -> None:
        first = self.reserve(alice, fill(pool))
        again = self.reserve(alice, fill(pool))
        assert first["Location"] == again["Location"]
        assert Reservation.objects.count() == 1

    def test_sending_it_changed_says_what_it_booked_and_offers_a_fresh_key(
        self, alice: Client, pool: Pool
    ) -> None:
        self.reserve(alice, fill(pool))
        changed = self.reserve(alice, fill(pool, count="5"))
        assert changed.status_code == 409
        assert "This form has booked already" in text(changed)
        assert 'name="key" value="form-1"' not in text(changed)
        assert Reservation.objects.count() == 1

    def test_a_form_without_its_key_books_nothing(self, alice: Client, pool: Pool) -> None:
        response = self.reserve(alice, fill(pool, key="\x01"))
        assert response.status_code == 400
        assert "came without its key" in text(response)
        assert not Reservation.objects.exists()

    def test_every_form_has_a_key_of_its_own(self, alice: Client, pool: Pool) -> None:
        keys = {
            re.search(r'name="key" value="([^"]+)"', text(alice.get("/reserve")))[1]  # type: ignore[index]
            for _ in range(3)
        }
        assert len(keys) == 3

    @pytest.mark.parametrize(
        ("field", "value", "said"),
        [
            ("count", "0", "At least 1."),
            ("count", "many", "A whole number, please."),
            ("duration", "3", "Add a unit to 3"),
            ("duration", "999 weeks", "Must be at most 5 years."),
            ("start", "some day", "Not a time we understand."),
            ("start", "2020-01-01 09:00", "Is more than a minute in the past."),
            ("vcpu", "4097", "At most 4096."),
            ("memory", "-1", "At least 0."),
            ("topology", "on-the-moon", "Choose one of these."),
        ],
    )
    @pytest.mark.rule("U2")
    def test_what_is_wrong_is_said_beside_its_field(
        self, alice: Client, pool: Pool, field: str, value: str, said: str
    ) -> None:
        response = self.reserve(alice, fill(pool, **{field: value}))
        assert response.status_code == 400
        page = text(response)
        assert re.search(rf'<span class="error" id="{field}-error">{said}', page), said
        assert f'aria-describedby="{field}-error"' in page
        assert not Reservation.objects.exists()

    @pytest.mark.rule("U2")
    def test_empty_host_resources_are_the_pools_share_and_given_ones_are_booked(
        self, alice: Client, pool: Pool
    ) -> None:
        self.reserve(alice, fill(pool, vcpu="100"))
        assert Reservation.objects.get().request["resources"] == {"vcpu": 100}
        self.reserve(alice, fill(pool, key="form-2"))
        assert "resources" not in Reservation.objects.get(idempotency_key="form-2").request

    @pytest.mark.rule("R16", "R37")
    def test_several_nodes_of_one_rack_and_a_lease_are_asked_for(
        self, alice: Client, pool: Pool
    ) -> None:
        self.reserve(alice, fill(pool, nodes="2", gang_topology="same-rack", lease="90m"))
        made = Reservation.objects.get()
        assert made.request["gang"] == {"nodes": 2, "topology": "same-rack"}
        assert made.lease_seconds == 5_400
        page = text(alice.get("/reserve"))
        assert '<option value="same-rack">in one rack</option>' in page
        assert '<details class="more">' in page

    @pytest.mark.parametrize(
        ("field", "value", "said"),
        [
            ("nodes", "0", "At least 1."),
            ("nodes", "two", "A whole number, please."),
            ("lease", "soon", "Not a duration"),
            ("lease", "400 weeks", "At most 157680000."),
        ],
    )
    @pytest.mark.rule("U2")
    def test_what_is_wrong_behind_more_opens_it(
        self, alice: Client, pool: Pool, field: str, value: str, said: str
    ) -> None:
        page = text(self.reserve(alice, fill(pool, **{field: value})))
        assert f'<span class="error" id="{field}-error">{said}' in page
        assert '<details class="more" open>' in page

    def test_a_refusal_by_quota_is_said_above_the_form(self, alice: Client, pool: Pool) -> None:
        make.grant("acme", gpus=1)
        response = self.reserve(alice, fill(pool))
        assert response.status_code == 409
        assert "Nothing was booked" in text(response)

    @pytest.mark.parametrize("junk", ["\0", "\0" * 300, "🦄" * 300, "<script>alert(1)</script>"])
    def test_no_text_in_any_field_is_a_server_error(
        self, alice: Client, pool: Pool, junk: str
    ) -> None:
        for field in fill(pool):
            response = self.reserve(alice, fill(pool, **{field: junk}))
            assert response.status_code in (302, 400, 404), field
            assert "<script>alert(1)" not in response.content.decode()


class TestThePreview:
    def preview(self, client: Client, data: dict[str, str]) -> HttpResponse:
        return client.post("/reserve/preview", data, HTTP_HX_REQUEST="true")

    @pytest.mark.rule("U2", "R20")
    def test_it_says_that_it_fits_and_where_and_writes_nothing(
        self, alice: Client, pool: Pool
    ) -> None:
        response = self.preview(alice, fill(pool))
        assert response.content.decode().lstrip().startswith("<section")
        page = text(response)
        assert "It fits" in page
        assert "(2 devices)" in page
        assert "0 → 2 of 256" in page
        assert not Reservation.objects.exists()

    @pytest.mark.rule("U2", "R20")
    def test_it_says_why_it_does_not(self, alice: Client, pool: Pool) -> None:
        make.reservation(cast.caller("bob"), pool, gpus=8)
        make.reservation(cast.caller("bob"), pool, gpus=4)
        page = text(self.preview(alice, fill(pool, count="8")))
        assert "It does not fit" in page
        assert "Devices are booked in that window" in page

    @pytest.mark.rule("U2", "R20")
    def test_what_can_never_fit_is_told_before_and_after_the_click(
        self, alice: Client, pool: Pool
    ) -> None:
        told = "There is at most 8 GPUs on a node, even with nothing booked."
        page = text(self.preview(alice, fill(pool, count="16")))
        assert "It can never fit here" in page
        assert told in page
        assert "other times that fit" not in page
        page = text(alice.post("/reserve", fill(pool, count="16"), follow=True))
        assert "This pool can never serve it" in page
        assert "this pool, as it is, can never serve it" in page
        assert told in page
        for hopeful in (
            "waiting for devices",
            "Waiting for devices",
            "as soon as they",
            "once devices",
        ):
            assert hopeful not in page

    @pytest.mark.rule("U2", "R19")
    def test_it_says_who_would_give_way_and_both_sides_are_told(
        self, alice: Client, pool: Pool
    ) -> None:
        victims = [make.active(cast.caller("alice"), pool, gpus=8, spot=True) for _ in range(2)]
        page = text(self.preview(alice, fill(pool, count="8")))
        assert "It fits" in page
        assert "1 spot reservation will give way to it." in page

        mine = make.reservation(cast.caller("alice"), pool, gpus=8)
        assert "Spot reservations give way to it" in text(alice.get(f"/reservations/{mine.pk}"))
        pages = [text(alice.get(f"/reservations/{victim.pk}")) for victim in victims]
        assert sum("It gives way soon" in page for page in pages) == 1

    def test_without_htmx_it_is_the_whole_page(self, alice: Client, pool: Pool) -> None:
        page = text(alice.post("/reserve/preview", fill(pool)))
        assert "<!doctype html>" in page
        assert 'name="key" value="form-1"' in page

    @pytest.mark.rule("U2")
    def test_a_time_that_comes_twice_is_told(
        self, alice: Client, pool: Pool, clock: SimulatedClock
    ) -> None:
        alice.cookies["zone"] = "Europe/Berlin"
        page = text(self.preview(alice, fill(pool, start="2026-10-25 02:30")))
        assert "02:30 comes twice that night" in page
        assert "UTC+02:00" in page

    @pytest.mark.rule("U2")
    def test_a_window_across_a_clock_change_keeps_its_length(
        self, alice: Client, pool: Pool
    ) -> None:
        alice.cookies["zone"] = "Europe/Berlin"
        page = text(self.preview(alice, fill(pool, start="2026-03-28 12:00", duration="1 day")))
        assert "Sun 29 Mar 13:00" in page
        assert "Clocks go forward" in page


class TestOneReservation:
    @pytest.mark.rule("U3")
    def test_it_shows_where_the_devices_are_and_how_to_use_them(
        self, alice: Client, pool: Pool
    ) -> None:
        made = make.active(cast.caller("alice"), pool, gpus=2)
        page = text(alice.get(f"/reservations/{made.pk}"))
        assert "docker run --rm -it" in page
        assert f"better-compute reserve --pool {pool.name} --gpus 2 --for 1h --wait" in page
        assert page.count("--device bcd.dev/gpu=GPU-") == 4  # docker's and podman's
        assert f'href="/reservations/{made.pk}/release"' in page

    @pytest.mark.rule("U3")
    def test_the_part_that_changes_is_sent_only_when_it_did(
        self, alice: Client, pool: Pool, clock: SimulatedClock
    ) -> None:
        made = make.look(make.reservation(cast.caller("alice"), pool))
        page = text(alice.get(f"/reservations/{made.pk}"))
        status = re.search(r'hx-get="([^"]+)" hx-trigger="every 1s"', page)
        assert status
        hx = {"HTTP_HX_REQUEST": "true"}
        assert alice.get(status[1], **hx).status_code == 204
        clock.advance("20s")
        assert alice.get(status[1], **hx).status_code == 204
        make.report(made, "bound")
        make.look(made)
        changed = alice.get(status[1], **hx)
        assert changed.status_code == 200
        assert "Active" in text(changed)
        assert 'hx-trigger="every 15s"' in text(changed)

    @pytest.mark.rule("U3", "R35")
    def test_release_asks_first_and_then_releases(self, alice: Client, pool: Pool) -> None:
        made = make.active(cast.caller("alice"), pool)
        asked = alice.get(f"/reservations/{made.pk}/release")
        assert "taken from your work at once" in text(asked)
        assert Reservation.objects.get(pk=made.pk).state == "active"
        alice.post(f"/reservations/{made.pk}/release")
        assert Reservation.objects.get(pk=made.pk).state == "released"
        page = text(alice.get(f"/reservations/{made.pk}"))
        assert "hx-trigger" not in page
        assert "/release" not in page

    @pytest.mark.rule("U3", "R35")
    def test_what_has_not_begun_is_cancelled(self, alice: Client, pool: Pool) -> None:
        made = make.reservation(cast.caller("alice"), pool, start="2026-03-03T09:00:00Z")
        page = text(alice.get(f"/reservations/{made.pk}"))
        assert f'href="/reservations/{made.pk}/cancel"' in page
        alice.post(f"/reservations/{made.pk}/cancel")
        assert Reservation.objects.get(pk=made.pk).state == "cancelled"

    def test_cancelling_what_has_begun_says_why_not(self, alice: Client, pool: Pool) -> None:
        made = make.active(cast.caller("alice"), pool)
        response = alice.post(f"/reservations/{made.pk}/cancel")
        assert response.status_code == 409
        assert "Only what has not started can be cancelled" in text(response)


class TestTheList:
    @pytest.mark.rule("U4")
    def test_filters_are_in_the_address(self, alice: Client, pool: Pool) -> None:
        mine = make.reservation(cast.caller("alice"), pool)
        theirs = make.reservation(cast.caller("bob"), pool)
        assert theirs.pk not in text(alice.get("/reservations"))
        everything = text(alice.get("/reservations?scope=all"))
        assert mine.pk in everything
        assert theirs.pk in everything
        nothing = text(alice.get("/reservations?scope=all&state=released"))
        assert mine.pk not in nothing
        assert "Nothing matches these filters" in nothing

    def test_htmx_gets_the_results_alone(self, alice: Client) -> None:
        response = alice.get("/reservations?scope=all", HTTP_HX_REQUEST="true")
        assert response.content.decode().lstrip().startswith("<section")

    @pytest.mark.parametrize(
        "query", ["state=nonsense", "scope=%F0", "pool=%3Cx%3E", "state=draft", "cursor=x"]
    )
    def test_a_strange_filter_is_no_server_error(self, alice: Client, query: str) -> None:
        assert alice.get(f"/reservations?{query}").status_code in (200, 400)
