"""The fixed cast: tenants acme and globex; alice (acme's admin), bob and carol (its members),
mallory (of globex), olga (operator). Each is made on first use, through the use cases."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse
from django.test import Client

from bettercompute.iam import callers, memberships, tenants, tokens
from bettercompute.iam.callers import Caller
from bettercompute.iam.models import Account, ApiToken, Role, Tenant
from tests.support import conformance

HOMES = {
    "alice": ("acme", Role.ADMIN),
    "bob": ("acme", Role.MEMBER),
    "carol": ("acme", Role.MEMBER),
    "mallory": ("globex", Role.ADMIN),
    "olga": ("platform", Role.ADMIN),
}
OPERATORS = {"olga"}


def tenant(slug: str = "acme") -> Tenant:
    """A tenant."""
    return Tenant.objects.filter(slug=slug).first() or tenants.create(slug=slug, name=slug.title())


def account(name: str) -> Account:
    """One of the cast, in its tenant."""
    known = Account.objects.filter(username=name).first()
    if known is not None:
        return known
    made = Account.objects.create_user(username=name, password=name, is_staff=name in OPERATORS)
    slug, role = HOMES[name]
    memberships.add(made, tenant(slug), role=role)
    return made


def caller(name: str, slug: str | None = None) -> Caller:
    """One of the cast acting for its own tenant, or for another it may act for."""
    return callers.for_tenant(account(name), tenant(slug or HOMES[name][0]).pk)


def token(name: str, slug: str | None = None) -> tuple[ApiToken, str]:
    """A fresh API token of one of the cast."""
    return tokens.mint(account(name), tenant(slug or HOMES[name][0]), name=f"{name}'s")


@dataclass(frozen=True, slots=True)
class Api:
    """One of the cast calling the REST API; every answer must be as documented."""

    client: Client

    def get(self, path: str, **headers: str) -> HttpResponse:
        """GET below /api/v1."""
        answer = self.client.get(f"/api/v1{path}", headers=_named(headers))
        conformance.check("GET", f"/api/v1{path}", answer)
        return answer

    def send(self, method: str, path: str, body: object = None, **headers: str) -> HttpResponse:
        """Any method below /api/v1, with a JSON body."""
        return self.raw(method, path, json.dumps({} if body is None else body), **headers)

    def post(self, path: str, body: object = None, **headers: str) -> HttpResponse:
        """POST below /api/v1, with a JSON body."""
        return self.send("POST", path, body, **headers)

    def raw(
        self,
        method: str,
        path: str,
        body: str | bytes,
        *,
        content_type: str = "application/json",
        **headers: str,
    ) -> HttpResponse:
        """Any method below /api/v1, with these very bytes."""
        answer = self.client.generic(
            method, f"/api/v1{path}", body, content_type=content_type, headers=_named(headers)
        )
        conformance.check(method, f"/api/v1{path}", answer)
        return answer


def api(name: str | None) -> Api:
    """One of the cast with a token; None for somebody without."""
    headers = {} if name is None else {"Authorization": f"Bearer {token(name)[1]}"}
    return Api(Client(raise_request_exception=False, headers=headers))


def session(name: str, *, check_csrf: bool = True) -> Client:
    """One of the cast signed in to the console."""
    client = Client(enforce_csrf_checks=check_csrf, raise_request_exception=False)
    client.force_login(account(name))
    return client


def problem(response: HttpResponse, status: int, code: str) -> dict[str, Any]:
    """The problem document of an answer that must have this status and code."""
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/problem+json"
    document: dict[str, Any] = json.loads(response.content)
    assert document["status"] == status
    assert document["code"] == code
    assert document["requestId"] == response["X-Request-Id"]
    assert document["type"].startswith("/docs/errors#")
    assert document["title"]
    assert document["detail"]
    return document


def _named(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}
