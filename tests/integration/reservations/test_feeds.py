"""Calendar feeds: what is in them, who can read them, and for how long (R38)."""

from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client
from icalendar import Calendar

from bettercompute.iam import memberships
from bettercompute.iam.models import Account
from pools import catalogue
from pools.models import Pool
from reservations import ending, sharing
from reservations.feeds import entries, keeping
from reservations.models import CalendarFeed
from reservations.sharing import Change
from tests.conftest import SimulatedClock
from tests.support import cast, forms, make

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("R38")]

DAY_MS = 86_400_000


def address(by: str = "bob", pool: Pool | None = None) -> str:
    _, text = keeping.create(cast.caller(by), pool_id=None if pool is None else pool.pk)
    return f"/feeds/{text}.ics"


def fetch(path: str, **headers: str) -> HttpResponse:
    return Client().get(path, headers={name.replace("_", "-"): v for name, v in headers.items()})


def events(path: str) -> list[Any]:
    answer = fetch(path)
    assert answer.status_code == 200, answer.content
    assert answer["Content-Type"] == "text/calendar; charset=utf-8"
    return list(Calendar.from_ical(answer.content).walk("VEVENT"))


def statuses(path: str) -> dict[str, str]:
    return {event["url"].rpartition("/")[2]: str(event["status"]) for event in events(path)}


def ahead(clock: SimulatedClock, days: int) -> int:
    return int(clock.now().timestamp() * 1_000) + days * DAY_MS


def test_a_person_sees_own_and_shared_ones_and_nobody_elses(clock: SimulatedClock) -> None:
    pool = make.pool(nodes=2)
    mine = make.reservation(cast.caller("bob"), pool, start=ahead(clock, 1), gpus=2)
    shared = make.active(cast.caller("carol"), pool, users=[cast.account("bob").pk])
    make.reservation(cast.caller("carol"), pool, start=ahead(clock, 1))
    found = {event["url"].rpartition("/")[2]: event for event in events(address())}
    assert set(found) == {mine.pk, shared.pk}
    assert str(found[mine.pk]["summary"]) == f"2 × H100 in {pool.name}"
    assert str(found[shared.pk]["summary"]).endswith(f"in {pool.name} (carol)")
    assert found[mine.pk]["dtstart"].dt == mine.starts_at
    assert found[mine.pk]["sequence"] == mine.version
    assert found[mine.pk]["url"] == f"http://testserver/reservations/{mine.pk}"


def test_what_waits_is_tentative_and_what_was_withdrawn_is_told_while_it_would_matter(
    clock: SimulatedClock,
) -> None:
    pool, bob = make.pool(nodes=1, gpus=1), cast.caller("bob")
    start = ahead(clock, 1)
    placed = make.reservation(bob, pool, start=start)
    pending = make.reservation(bob, pool, start=start)
    make.reservation(bob, pool)  # placed now, and over in two days
    given_up = make.reservation(bob, pool, start=ahead(clock, 3))
    ending.release(bob, reservation_id=given_up.pk)
    path = address()
    told = statuses(path)
    assert told[placed.pk] == "CONFIRMED"
    assert told[pending.pk] == "TENTATIVE"
    assert told[given_up.pk] == "CANCELLED"
    clock.advance("4d")
    assert given_up.pk not in statuses(path)


def test_only_a_span_is_told_and_the_nearest_of_too_many(
    clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, bob = make.pool(), cast.caller("bob")
    soon, later = (make.reservation(bob, pool, start=ahead(clock, days)) for days in (2, 3))
    far = make.reservation(bob, pool, start=ahead(clock, 181))
    path = address()
    assert set(statuses(path)) == {soon.pk, later.pk}
    monkeypatch.setattr(entries, "ENTRIES_MAX", 1)
    assert set(statuses(path)) == {soon.pk}
    monkeypatch.undo()
    clock.advance("780h")
    assert set(statuses(path)) == {later.pk, far.pk}, "what ended 30 days ago is gone"


def test_a_pools_feed_tells_of_foreign_bookings_when_and_how_many(clock: SimulatedClock) -> None:
    pool, mallory = make.pool(), cast.caller("mallory")
    catalogue.offer(pool, cast.tenant("globex"))
    make.grant("globex", gpus=8)
    foreign = make.reservation(mallory, pool, gpus=3, start=ahead(clock, 1))
    ours = make.reservation(cast.caller("carol"), pool, start=ahead(clock, 2))
    path, other = address(pool=pool), address("carol", pool=pool)
    raw = fetch(path).content.decode()
    for secret in (foreign.pk, mallory.account_id, mallory.tenant_id, "mallory", "globex"):
        assert secret not in raw.replace("\r\n ", "")
    booked, own = events(path)
    assert str(booked["summary"]) == "Booked: 3 devices"
    assert booked["dtstart"].dt == foreign.starts_at
    assert own["url"].endswith(ours.pk)
    assert events(other)[1]["uid"] == own["uid"]
    assert events(other)[0]["uid"] != booked["uid"], "of no use beside another feed"
    assert fetch(path).content.decode() == raw


def test_what_has_not_changed_is_not_sent_again(clock: SimulatedClock) -> None:
    pool, bob = make.pool(), cast.caller("bob")
    made = make.reservation(bob, pool, start=ahead(clock, 1))
    path = address()
    first = fetch(path)
    assert "private" in first["Cache-Control"]
    clock.advance("3m")
    again = fetch(path, If_None_Match=first["ETag"])
    assert (again.status_code, again.content) == (304, b"")
    ending.cancel(bob, reservation_id=made.pk)
    changed = fetch(path, If_None_Match=first["ETag"])
    assert changed.status_code == 200
    assert "STATUS:CANCELLED" in changed.content.decode()


def leave_the_tenant(pool: Pool) -> None:
    memberships.remove(cast.account("bob"), cast.tenant())


def disable_the_account(pool: Pool) -> None:
    Account.objects.filter(pk=cast.account("bob").pk).update(is_active=False)


def revoke_it(pool: Pool) -> None:
    for feed in CalendarFeed.objects.all():
        keeping.revoke(cast.caller("bob"), feed.pk)


@pytest.mark.parametrize("end", [leave_the_tenant, disable_the_account, revoke_it])
def test_an_address_that_is_no_longer_good_is_as_one_that_nobody_has(end: Any) -> None:
    pool = make.pool()
    mine, pools = address(), address(pool=pool)
    unknown = mine.replace("bcf_", "bcf_")[:-10] + "aaaaaa.ics"
    assert fetch(mine).status_code == fetch(pools).status_code == 200
    end(pool)
    told = [cast.problem(fetch(path), 404, "NOT_FOUND") for path in (mine, pools, unknown)]
    assert len({problem["detail"] for problem in told}) == 1
    cast.problem(fetch("/feeds/bcf_x.ics"), 404, "NOT_FOUND")


def test_a_pool_that_is_no_longer_offered_is_read_no_more() -> None:
    pool = make.pool()
    offer = catalogue.offer(pool, cast.tenant("globex"))
    path = address("mallory", pool=pool)
    assert fetch(path).status_code == 200
    offer.delete()
    cast.problem(fetch(path), 404, "NOT_FOUND")


def test_reads_are_bounded_by_the_hour(
    clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "READS_PER_HOUR_MAX", 2)
    path = address()
    assert [fetch(path).status_code for _ in range(3)] == [200, 200, 429]
    assert fetch(path)["Retry-After"] == str(keeping.RETRY_AFTER_SECONDS)
    clock.advance("1h")
    assert fetch(path).status_code == 200


def test_the_secret_is_shown_once_and_kept_only_as_a_hash(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api, tenant = cast.api("bob"), {"tenantId": cast.tenant().pk}
    made = api.post("/feeds", tenant)
    assert made.status_code == 201
    url = made.json()["url"]
    secret = url.rpartition("_")[2].removesuffix(".ics")
    listed = api.get("/feeds")
    assert [item["id"] for item in listed.json()["items"]] == [made.json()["id"]]
    assert secret not in listed.content.decode()
    assert secret not in str(list(CalendarFeed.objects.values()))
    assert Client().get(url).status_code == 200
    monkeypatch.setattr(keeping, "FEEDS_MAX", 1)
    cast.problem(api.post("/feeds", tenant), 409, "CONFLICT")
    ended = api.post(f"/feeds/{made.json()['id']}/revoke", tenant)
    assert ended.json()["revokedAt"] is not None
    assert api.post("/feeds", tenant).status_code == 201, "a revoked one does not count"


def test_members_see_their_own_and_an_admin_ends_anyones() -> None:
    address("bob")
    (feed,) = CalendarFeed.objects.all()
    assert cast.api("carol").get("/feeds").json()["items"] == []
    tenant = {"tenantId": cast.tenant().pk}
    cast.problem(cast.api("carol").post(f"/feeds/{feed.pk}/revoke", tenant), 404, "NOT_FOUND")
    assert len(cast.api("alice").get("/feeds").json()["items"]) == 1
    assert cast.api("alice").post(f"/feeds/{feed.pk}/revoke", tenant).status_code == 200


@pytest.mark.rule("U3")
def test_the_page_makes_one_shows_it_once_and_ends_it() -> None:
    pool = make.pool()
    browser = cast.session("bob", check_csrf=False)
    page = forms.send(browser, "/calendar-feeds", {"pool": pool.pk}, follow=True).content.decode()
    start = page.index("http://testserver/feeds/bcf_")
    url = page[start : page.index(".ics", start) + 4]
    assert fetch(url).status_code == 200
    again = browser.get("/calendar-feeds").content.decode()
    assert "bcf_" not in again
    assert f"Bookings in {pool.name}" in again
    (feed,) = CalendarFeed.objects.all()
    assert browser.post(f"/calendar-feeds/{feed.pk}/revoke").status_code == 302
    assert "There are none." in browser.get("/calendar-feeds").content.decode()
    assert fetch(url).status_code == 404


def test_what_is_shared_later_and_no_more_comes_and_goes(clock: SimulatedClock) -> None:
    made = make.reservation(cast.caller("carol"), make.pool(), start=ahead(clock, 1))
    path, bob = address(), cast.account("bob").pk
    for wanted, seen in ((Change(add=(bob,)), [made.pk]), (Change(remove=(bob,)), [])):
        sharing.change(cast.caller("carol"), wanted, reservation_id=made.pk)
        assert list(statuses(path)) == seen
