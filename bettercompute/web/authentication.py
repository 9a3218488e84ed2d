"""Who is calling: an API token, or the console's session with CSRF (A2)."""

from typing import TYPE_CHECKING

from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from bettercompute import acts
from bettercompute.errors import AccessDenied, Unauthenticated
from bettercompute.iam import callers, tokens
from bettercompute.iam.callers import Identity
from bettercompute.iam.models import Account

if TYPE_CHECKING:  # rest_framework.views loads this module through its settings
    from rest_framework.views import APIView


class ApiAuthentication(BaseAuthentication):
    """``request.user`` becomes the account, ``request.auth`` its ``Identity``.

    A token costs one query and never touches the session; a token that is refused is refused,
    whatever session comes with it.
    """

    def authenticate(self, request: Request) -> tuple[Account, Identity] | None:
        """The account and identity, or None where nothing was presented."""
        presented = request.META.get("HTTP_AUTHORIZATION")
        if presented is not None:
            found = tokens.find(_bearer(presented))
            acts.identify(callers.actor(found.identity))
            return found.account, found.identity
        return _session(request._request)

    def authenticate_header(self, request: Request) -> str:
        """What a 401 asks for."""
        return 'Bearer realm="better-compute"'


class IsCaller(BasePermission):
    """Only authenticated requests get further than the door."""

    def has_permission(self, request: Request, view: "APIView") -> bool:
        """Whether authentication found someone."""
        return request.user is not None


class _CsrfCheck(CsrfViewMiddleware):
    """Django's check, answering its reason instead of a page."""

    def _reject(self, request: HttpRequest, reason: str) -> str:
        return reason


def _bearer(presented: str) -> str:
    scheme, _, credentials = presented.partition(" ")
    if scheme.lower() != "bearer":
        raise Unauthenticated("Send an API token as `Authorization: Bearer bct_…`.")
    return credentials.strip()


def _session(request: HttpRequest) -> tuple[Account, Identity] | None:
    account = getattr(request, "user", None)
    if not isinstance(account, Account):  # nobody is signed in
        return None
    identity = callers.of_account(account)
    acts.identify(callers.actor(identity))
    _enforce_csrf(request)
    return account, identity


def _never_called(*_: object) -> HttpResponse:
    """The check wants the view, but only to read its attributes."""
    raise AssertionError("the check calls no view")


def _enforce_csrf(request: HttpRequest) -> None:
    """A cookie alone must not do: API views are exempt from the middleware, so it is done here."""
    check = _CsrfCheck(_never_called)
    check.process_request(request)
    reason = check.process_view(request, _never_called, (), {})
    if reason:
        raise AccessDenied(
            f"The CSRF check failed: {str(reason).rstrip('.')}. Send the X-CSRFToken header, or"
            " use an API token.",
            reason="csrf",
        )
