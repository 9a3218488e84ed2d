"""Every exception as a problem document."""

import json

import pytest
from django.core import exceptions as django
from django.db import DatabaseError, InterfaceError, OperationalError
from django.http import Http404
from rest_framework import exceptions as drf

from bettercompute import errors
from bettercompute.web import problems

pytestmark = pytest.mark.rule("A3")


@pytest.mark.parametrize(
    ("raised", "status", "code"),
    [
        (errors.Conflict("x"), 409, "CONFLICT"),
        (Http404(), 404, "NOT_FOUND"),
        (drf.NotFound(), 404, "NOT_FOUND"),
        (drf.MethodNotAllowed("POST"), 405, "METHOD_NOT_ALLOWED"),
        (drf.NotAcceptable(), 406, "NOT_ACCEPTABLE"),
        (drf.UnsupportedMediaType("text/plain"), 415, "UNSUPPORTED_MEDIA_TYPE"),
        (drf.NotAuthenticated(), 401, "UNAUTHENTICATED"),
        (drf.AuthenticationFailed(), 401, "UNAUTHENTICATED"),
        (drf.PermissionDenied(), 403, "ACCESS_DENIED"),
        (drf.Throttled(7), 429, "RATE_LIMITED"),
        (drf.ParseError(), 400, "INVALID_INPUT"),
        (drf.APIException(), 500, "INTERNAL"),
        (django.PermissionDenied(), 403, "ACCESS_DENIED"),
        (django.RequestDataTooBig(), 413, "PAYLOAD_TOO_LARGE"),
        (django.DisallowedHost(), 400, "INVALID_INPUT"),
        (OperationalError("server closed the connection"), 503, "UNAVAILABLE"),
        (InterfaceError("connection already closed"), 503, "UNAVAILABLE"),
        (DatabaseError("a bug of ours"), 500, "INTERNAL"),
        (ZeroDivisionError("secret detail"), 500, "INTERNAL"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_whatever_is_raised_has_a_code(raised: Exception, status: int, code: str) -> None:
    response = problems.answer(raised, None)
    document = json.loads(response.content)
    assert (response.status_code, document["status"], document["code"]) == (status, status, code)
    assert response["Content-Type"] == "application/problem+json"
    assert "secret" not in response.content.decode()


def test_what_may_be_tried_again_says_when() -> None:
    assert problems.answer(errors.Unavailable(), None)["Retry-After"] == "1"
    assert problems.answer(drf.Throttled(7), None)["Retry-After"] == "7"
    assert problems.answer(errors.RateLimited(retryAfterSeconds=3), None)["Retry-After"] == "3"


def test_a_401_says_how_to_authenticate() -> None:
    assert problems.answer(errors.Unauthenticated(), None)["WWW-Authenticate"].startswith("Bearer")


def test_types_are_stable_and_distinct() -> None:
    assert problems.type_of(errors.QuotaExceeded) == "/docs/errors#quota-exceeded"
    assert len({problems.type_of(code) for code in errors.ALL}) == len(errors.ALL)
