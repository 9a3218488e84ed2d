"""Sharing in the browser, and a place in line on the page (U2, U3)."""

import re

import pytest
from django.http import HttpResponse

from reservations import queries
from tests.support import cast, make

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("U3")]


def text(response: HttpResponse) -> str:
    return re.sub(r"\s+", " ", response.content.decode())


def test_the_owner_picks_members_who_find_it_under_shared_with_me() -> None:
    made = make.active(cast.caller("bob"), make.pool())
    carol = cast.account("carol").pk
    path = f"/reservations/{made.pk}"
    bob = cast.session("bob", check_csrf=False)
    assert f'href="{path}/users"' in text(bob.get(path))
    assert f'<option value="{carol}">carol</option>' in text(bob.get(f"{path}/users"))
    assert bob.post(f"{path}/users", {"add": [carol]})["Location"] == f"{path}/users"
    assert "Shared with</dt><dd>carol</dd>" in text(bob.get(path))

    user = cast.session("carol", check_csrf=False)
    assert made.pk in text(user.get("/reservations?scope=shared"))
    assert made.pk not in text(user.get("/reservations"))
    page = text(user.get(path))
    assert "docker run" in page
    assert f'href="{path}/users"' not in page
    refused = user.post(f"{path}/users", {"remove": [carol]})
    assert refused.status_code == 409
    assert "Members share their own reservations" in text(refused)

    bob.post(f"{path}/users", {"remove": [carol]})
    assert queries.answer(made.pk).users == []
    stranger = bob.post(f"{path}/users", {"add": ["usr_nobody"]})
    assert stranger.status_code == 409
    assert "is no member of this tenant" in text(stranger)


@pytest.mark.rule("R24")
@pytest.mark.case(35)
def test_the_page_of_one_that_waits_says_where_it_stands() -> None:
    pool = make.pool(nodes=1, gpus=1)
    make.reservation(cast.caller("alice"), pool, duration="4h")
    made = make.look(make.reservation(cast.caller("bob"), pool))
    page = text(cast.session("bob").get(f"/reservations/{made.pk}"))
    assert "It is the only one that waits in this pool." in page
    assert "At the earliest today 13:00." in page
    assert "The first of them is free again today 13:00." in page
