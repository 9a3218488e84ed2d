"""What every answer has, and what there is where no view is."""

import pytest
from django.db import OperationalError
from django.test import Client

from bettercompute.web import csp
from tests.support import cast

pytestmark = pytest.mark.django_db


@pytest.mark.rule("A3")
@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/", 404),
        ("/api/v1", 404),
        ("/api/v1/", 404),
        ("/api/v1/nothing", 404),
        ("/api/v1/whoami/", 404),
        ("/api/v2/whoami", 404),
        ("/node/v1/unknown", 404),
        ("/api/v1/%ff%fe", 404),
        ("/api/v1/" + "x" * 5000, 404),
    ],
)
def test_unknown_paths_are_problems(client: Client, path: str, status: int) -> None:
    cast.problem(client.get(path), status, "NOT_FOUND")


def test_unknown_pages_are_pages(client: Client) -> None:
    answer = client.get("/nothing/here")
    assert answer.status_code == 404
    assert not answer["Content-Type"].startswith("application/")


@pytest.mark.rule("R2", "A3")
@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/api/v1/who%00ami", "path"),
        ("/api/v1/tokens?tenantId=a%00b", "tenantId"),
        ("/api/v1/tokens?a%00b=1", "a\\u0000b"),
    ],
)
def test_nul_in_path_or_query_is_named(client: Client, path: str, field: str) -> None:
    document = cast.problem(client.get(path), 400, "INVALID_INPUT")
    assert document["details"]["errors"] == [{"path": field, "message": "must not have NUL"}]


def test_nul_on_a_page_is_a_400_page(client: Client) -> None:
    for path in ("/pools/%00", "/?q=%00"):
        answer = client.get(path)
        assert answer.status_code == 400
        assert answer["Content-Security-Policy"] == csp.POLICY
        assert answer["X-Frame-Options"] == "DENY"
        assert answer["X-Content-Type-Options"] == "nosniff"


@pytest.mark.rule("A5")
def test_ten_thousand_parameters_are_a_problem(client: Client) -> None:
    query = "&".join(f"p{number}=1" for number in range(10_000))
    cast.problem(cast.api("alice").get(f"/tokens?{query}"), 400, "INVALID_INPUT")


def test_a_route_offers_what_it_has() -> None:
    """OPTIONS is none of it."""
    assert cast.api("alice").get("/tokens")["Allow"] == "GET, POST, HEAD"
    refused = cast.api("alice").raw("OPTIONS", "/tokens", "")
    cast.problem(refused, 405, "METHOD_NOT_ALLOWED")
    assert refused["Allow"] == "GET, POST, HEAD"


@pytest.mark.parametrize(
    ("presented", "kept"),
    [
        ("trace-12345678", True),
        ("short", False),
        ("x" * 65, False),
        ("bad id!", False),
        ("a\nb" * 5, False),
        ("whsec_" + "Ab3x" * 8, False),  # it would stay in the audit
    ],
)
def test_a_request_id_is_kept_where_it_is_harmless(
    client: Client, presented: str, kept: bool
) -> None:
    answer = client.get("/healthz", headers={"X-Request-Id": presented})
    assert (answer["X-Request-Id"] == presented) is kept
    assert answer["X-Request-Id"].startswith(presented if kept else "req_")


def test_every_answer_has_a_policy_that_allows_no_inline_code(client: Client) -> None:
    for path in ("/docs/errors", "/api/v1/docs", "/admin/login/", "/nothing"):
        policy = client.get(path)["Content-Security-Policy"]
        assert policy == csp.POLICY
    assert "unsafe" not in csp.POLICY
    assert "frame-ancestors 'none'" in csp.POLICY
    assert client.get("/api/v1/whoami")["Content-Security-Policy"] == csp.API_POLICY


@pytest.mark.parametrize("path", ["/docs/errors", "/api/v1/docs"])
def test_our_own_pages_have_no_inline_code_and_no_foreign_addresses(
    client: Client, path: str
) -> None:
    page = client.get(path).content.decode()
    assert "<style" not in page
    assert " style=" not in page
    assert "onclick" not in page
    assert "http" not in page.replace("<!doctype html>", "")
    for script in page.split("<script")[1:]:
        assert "src=" in script.partition(">")[0]


def away(*_: object, **__: object) -> None:
    """Stands for whatever needs a database that is gone."""
    raise OperationalError("server closed the connection unexpectedly")


def test_a_database_that_is_away_is_503_in_api_and_pages(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bettercompute.iam import tokens

    api = cast.api("alice")
    monkeypatch.setattr(tokens, "find", away)
    answer = api.get("/whoami")
    cast.problem(answer, 503, "UNAVAILABLE")
    assert answer["Retry-After"] == "1"
    monkeypatch.setattr("bettercompute.pages.rendering.render", away)
    client.raise_request_exception = False
    page = client.get("/login")
    assert page.status_code == 503
    assert page["Retry-After"] == "1"


def test_a_mistake_of_ours_is_a_500_without_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    from bettercompute.iam import tokens

    def broken(_: str) -> None:
        raise KeyError("internal words")

    api = cast.api("alice")
    monkeypatch.setattr(tokens, "find", broken)
    answer = api.get("/whoami")
    document = cast.problem(answer, 500, "INTERNAL")
    assert "internal words" not in answer.content.decode()
    assert document["requestId"]


def test_the_admin_refuses_a_form_without_its_token_by_a_page() -> None:
    client = Client(enforce_csrf_checks=True)
    answer = client.post("/admin/login/", {"username": "olga", "password": "olga"})
    assert answer.status_code == 403
    assert answer["Content-Security-Policy"] == csp.POLICY
