"""The two ways in: a token, or the console's session with CSRF."""

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from tests.support import cast

pytestmark = [pytest.mark.django_db, pytest.mark.rule("A2")]


def test_a_token_says_who_one_is() -> None:
    answer = cast.api("alice").get("/whoami")
    assert answer.status_code == 200
    who = answer.json()
    acme = cast.tenant("acme")
    assert who["accountId"] == cast.account("alice").pk
    assert who["tenants"] == [{"id": acme.pk, "slug": "acme", "name": "Acme", "role": "admin"}]
    assert who["token"]["name"] == "alice's"
    assert who["operator"] is False


def test_a_request_by_token_costs_one_query_and_no_session(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    api = cast.api("alice")
    api.get("/whoami")  # writes last_used_at
    with django_assert_num_queries(1):
        answer = api.get("/whoami")
    assert not answer.cookies
    assert answer.get("Vary") is None


def test_a_session_reads_with_its_cookie_alone() -> None:
    answer = cast.session("olga").get("/api/v1/whoami")
    assert answer.json()["operator"] is True
    assert answer.json()["token"] is None


def test_a_session_writes_only_with_its_csrf_token() -> None:
    client = cast.session("alice")
    body = {"tenantId": cast.tenant("acme").pk, "name": "ci"}
    refused = client.post("/api/v1/tokens", body, content_type="application/json")
    document = cast.problem(refused, 403, "ACCESS_DENIED")
    assert document["details"] == {"reason": "csrf"}
    client.get("/admin/login/?next=/admin/")
    client.cookies["csrftoken"] = "a" * 32
    allowed = client.post(
        "/api/v1/tokens", body, content_type="application/json", headers={"X-CSRFToken": "a" * 32}
    )
    assert allowed.status_code == 201


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer ",
        "Bearer nonsense",
        "bct_1_2",
        "Basic YWxpY2U6YWxpY2U=",
        "Bearer bct_" + "0" * 26 + "_" + "a" * 52,
        "Bearer bct_" + "0" * 26 + "_" + "a" * 52 + "\x00",
        "Bearer " + "x" * 8000,
        "Bearer bct_ü_ü",
    ],
)
def test_credentials_that_do_not_hold_are_401_whatever_session_comes_with_them(
    header: str,
) -> None:
    client = cast.session("alice")
    answer = client.get("/api/v1/whoami", headers={"Authorization": header})
    cast.problem(answer, 401, "UNAUTHENTICATED")
    assert answer["WWW-Authenticate"] == 'Bearer realm="better-compute"'


def test_the_scheme_is_read_in_any_case() -> None:
    _, plaintext = cast.token("bob")
    answer = Client().get("/api/v1/whoami", headers={"Authorization": f"bearer {plaintext}"})
    assert answer.status_code == 200


def test_a_disabled_account_is_out_at_once() -> None:
    client, api = cast.session("bob"), cast.api("bob")
    account = cast.account("bob")
    account.is_active = False
    account.save()
    cast.problem(client.get("/api/v1/whoami"), 401, "UNAUTHENTICATED")
    cast.problem(api.get("/whoami"), 401, "UNAUTHENTICATED")
