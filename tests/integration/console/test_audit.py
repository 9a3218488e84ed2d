"""The page of the audit, and its rows as files."""

import csv
import io
import json
import re

import pytest
from django.http import HttpResponse
from django.test import Client

from bettercompute.iam import tokens
from tests.support import cast, delegates

pytestmark = [pytest.mark.django_db, pytest.mark.rule("U8")]

FORMULA = "=HYPERLINK(1)"


def text(response: HttpResponse) -> str:
    assert response.status_code == 200
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", response.content.decode()))


@pytest.fixture(autouse=True)
def something_was_done() -> None:
    """By a token whose name a spreadsheet would take for a formula."""
    _, plaintext = tokens.mint(cast.account("bob"), cast.tenant(), name=FORMULA)
    bob = Client(headers={"Authorization": f"Bearer {plaintext}"})
    body = {"tenantId": cast.tenant().pk, "name": "ci"}
    assert bob.post("/api/v1/tokens", body, "application/json").status_code == 201
    assert bob.get("/api/v1/audit").status_code == 403


def test_an_admin_sees_who_did_what_and_what_was_refused() -> None:
    page = text(cast.session("alice").get("/audit"))
    assert "iam:tokens:create" in page
    assert "Only an admin of the tenant may read what was done there." in page
    denied = text(cast.session("alice").get("/audit?outcome=denied&span=1d"))
    assert "iam:tokens:create" not in denied


@pytest.mark.rule("R36")
def test_who_acts_for_somebody_is_named_with_them() -> None:
    agent = delegates.agent("alice", name="trainer")
    assert (
        agent.api.post("/tokens", {"tenantId": cast.tenant().pk, "name": "more"}).status_code == 403
    )
    page = text(cast.session("alice").get("/audit"))
    assert "trainer, for alice token for trainer" in page


def test_a_member_is_refused_and_not_led_there() -> None:
    bob = cast.session("bob")
    assert bob.get("/audit").status_code == 403
    assert 'href="/audit"' not in bob.get("/").content.decode()
    assert 'href="/audit"' in cast.session("alice").get("/").content.decode()


def test_what_an_address_has_beside_is_left_out() -> None:
    page = cast.session("alice").get("/audit?span=9y&outcome=maybe&x=1")
    assert page.status_code == 200


@pytest.mark.parametrize("of", ["bob", "id"])
def test_an_account_is_found_by_its_name_and_by_its_id(of: str) -> None:
    account = cast.account("bob").pk if of == "id" else of
    alice = cast.session("alice")
    agent = delegates.agent("alice").api
    assert agent.post("/tokens", {"tenantId": cast.tenant().pk, "name": "x"}).status_code == 403
    page = alice.get(f"/audit?account={account}").content.decode()
    assert f'value="{account}"' in page
    assert f'account={cast.account("bob").pk}">bob</a>' in page
    assert "trainer" not in page
    rows = alice.get(f"/audit.csv?account={account}").content.decode().splitlines()
    assert {row["Who"] for row in csv.DictReader(rows)} == {"bob"}


def test_who_is_no_member_is_told_what_is_taken() -> None:
    alice = cast.session("alice")
    for nobody in ("mallory", "%F0%9F%98%80"):  # who is of another tenant is nobody here
        page = alice.get(f"/audit?account={nobody}")
        assert page.status_code == 400
        assert "Give a member’s name or the whole id of an account" in page.content.decode()
        assert "Nothing like that" not in page.content.decode()
    assert cast.session("bob").get("/audit?account=nobody").status_code == 403


def test_an_operator_is_told_where_the_rest_is() -> None:
    olga = cast.session("olga").get("/audit").content.decode()
    assert 'href="/admin/audit/entry/"' in olga
    assert "scope=platform" in olga
    assert "scope=platform" not in cast.session("alice").get("/audit").content.decode()


def test_the_table_is_for_spreadsheets_and_starts_no_formula() -> None:
    answer = cast.session("alice").get("/audit.csv?span=all")
    rows = list(csv.DictReader(io.StringIO(answer.content.decode())))
    assert {row["Outcome"] for row in rows} == {"allowed", "denied"}
    assert {row["Token"] for row in rows} == {f"'{FORMULA}"}
    assert not any(cell[:1] in "=+-@" for row in rows for cell in row.values() if cell)
    assert "attachment" in answer["Content-Disposition"]


def test_the_lines_are_what_the_api_answers() -> None:
    lines = cast.session("alice").get("/audit.jsonl?span=all").content.decode().splitlines()
    listed = json.loads(cast.api("alice").get("/audit").content)["items"]
    assert [json.loads(line) for line in lines] == listed
