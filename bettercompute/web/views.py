"""The base of every API view.

A view is a class a route with ``get`` and ``post`` of a few lines: parse, call, print::

    class Reservations(ApiView):
        @schema.describe(body=ReservationRequest, answers={201: Reservation})
        def post(self, request: Request) -> HttpResponse:
            wanted = self.body(ReservationRequest)
            admitted = admission.admit(self.caller(wanted.tenant_id), wanted)
            return self.answer(admitted.reservation, status=201, version=admitted.version)

Query parameters must be declared with ``schema.describe(query=…)``; any other is refused before
the view runs (A5).
"""

from typing import Any, NoReturn

import structlog
from django.http import HttpResponse
from pydantic import BaseModel
from pydantic.alias_generators import to_camel
from rest_framework.request import Request
from rest_framework.views import APIView

from bettercompute.errors import (
    InvalidInput,
    LengthRequired,
    MethodNotAllowed,
    PayloadTooLarge,
    Unauthenticated,
    UnsupportedMediaType,
)
from bettercompute.iam import callers
from bettercompute.iam.callers import Caller, Identity
from bettercompute.web import etags, limits, parsing, queries, rendering
from bettercompute.web.buckets import Allowance
from bettercompute.wire.reservations import KEY_MAX

JSON = "application/json"
ID_MAX = 255


class ApiView(APIView):
    """Authentication, bounds and JSON in and out, the same on every route."""

    content_negotiation_class = rendering.JsonNegotiation
    metadata_class = None
    # OPTIONS is 405: the OpenAPI document describes the routes.
    http_method_names = ("get", "post", "put", "patch", "delete", "head")
    throttle_classes = ()
    #: What is left of the caller's limit, once it is counted.
    allowance: Allowance | None = None

    def perform_authentication(self, request: Request) -> None:
        """Find out who calls, and count it: by who it is, or by address where nobody is known."""
        try:
            super().perform_authentication(request)
        except Unauthenticated:
            limits.count_attempt(request._request)
            raise
        if request.auth is None:
            limits.count_attempt(request._request)
            raise Unauthenticated
        try:
            self.allowance = limits.count(self.identity)
        except limits.Exceeded as refused:
            self.allowance = refused.allowance
            raise

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Authenticate, then refuse what no view could want.

        A method that the path does not have comes before that: nobody may, and a session need not
        send its CSRF token to be told so.
        """
        method = (request.method or "").lower()
        handler = getattr(self, method, None) if method in self.http_method_names else None
        if handler is None:
            self.http_method_not_allowed(request, *args, **kwargs)
        super().initial(request, *args, **kwargs)
        _name_in_logs(self.identity)
        _check_path(kwargs)
        if request.GET:
            queries.refuse_unknown(request.GET, getattr(handler, "query_model", None))

    def http_method_not_allowed(  # type: ignore[override]  # it never returns
        self, request: Request, *args: Any, **kwargs: Any
    ) -> NoReturn:
        """405 with what there is."""
        raise MethodNotAllowed(f"{request.method} is not allowed here.", allow=self.allowed_methods)

    def finalize_response(  # type: ignore[override]  # our views answer Django's responses
        self, request: Request, response: Any, *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Every answer to somebody known says what is left of the limit, errors included."""
        answered: HttpResponse = super().finalize_response(request, response, *args, **kwargs)
        if self.allowance is not None:
            for name, value in limits.headers(self.allowance).items():
                answered[name] = value
        return answered

    @property
    def identity(self) -> Identity:
        """Who is authenticated, with all seats."""
        identity = self.request.auth
        assert isinstance(identity, Identity), "IsCaller lets nobody else in"
        return identity

    def caller(self, tenant_id: str | None = None) -> Caller:
        """The caller acting for a tenant; without one, for the only tenant there is."""
        if tenant_id is None:
            caller = callers.for_only_tenant(self.identity)
        else:
            caller = callers.for_tenant(self.identity, tenant_id)
        structlog.contextvars.bind_contextvars(tenant_id=caller.tenant_id)
        return caller

    def body(self, model: type[parsing.Model]) -> parsing.Model:
        """The body as a model of the wire; an absent body is an empty object."""
        meta = self.request.META
        if "chunked" in meta.get("HTTP_TRANSFER_ENCODING", "").lower():
            raise LengthRequired
        if meta.get("HTTP_CONTENT_ENCODING", "identity").strip().lower() not in {"", "identity"}:
            raise UnsupportedMediaType("Send the body as it is: no Content-Encoding is read.")
        if int(meta.get("CONTENT_LENGTH") or 0) > parsing.BODY_BYTES_MAX:
            raise PayloadTooLarge
        data = self.request.data if meta.get("CONTENT_LENGTH") not in {None, "", "0"} else {}
        return parsing.parse(model, data)

    def query(self, model: type[parsing.Model]) -> parsing.Model:
        """The query string as a model."""
        return queries.read(self.request.GET, model)

    def if_match(self) -> frozenset[int] | None:
        """The versions a write may meet, from If-Match; None where any will do."""
        return etags.if_match(self.request._request)

    def idempotency_key(self) -> str | None:
        """The header Idempotency-Key, an alias of the body's field (R8)."""
        key: str | None = self.request.META.get("HTTP_IDEMPOTENCY_KEY")
        if key is None:
            return None
        key = _as_sent(key)
        if not 1 <= len(key) <= KEY_MAX or "\x00" in key:
            raise InvalidInput.at("Idempotency-Key", f"must have 1 to {KEY_MAX} characters")
        return key

    def answer(
        self,
        content: BaseModel | list[Any] | dict[str, Any],
        *,
        status: int = 200,
        version: int | None = None,
        live: bool = False,
    ) -> HttpResponse:
        """A JSON answer. With a version it has an ETag; a get that the client has is 304.

        ``live`` says that it also shows what changes without its version.
        """
        body = rendering.to_bytes(content)
        is_read = self.request.method in {"GET", "HEAD"}
        etag = None
        if version is not None and live:
            etag = etags.of_version_and_content(version, body)
        elif version is not None:
            etag = etags.of_version(version)
        elif is_read:
            etag = etags.of_content(body)
        if etag and is_read and etags.is_not_modified(self.request._request, etag):
            answered = HttpResponse(status=304, content_type=JSON)
        else:
            answered = HttpResponse(body, status=status, content_type=JSON)
        if etag:
            answered["ETag"] = etag
        answered["Cache-Control"] = "private, no-cache" if is_read else "no-store"
        return answered


def _name_in_logs(identity: Identity) -> None:
    """Every line of this request says who asked."""
    structlog.contextvars.bind_contextvars(account_id=identity.account_id)
    if identity.token_id is not None:
        structlog.contextvars.bind_contextvars(token_id=identity.token_id)


def _as_sent(header: str) -> str:
    """A header's text: WSGI hands bytes over as Latin-1, and clients send UTF-8."""
    raw = header.encode("latin-1", "replace")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return header


def _check_path(parts: dict[str, Any]) -> None:
    for name, value in parts.items():
        if isinstance(value, str) and (len(value) > ID_MAX or "\x00" in value):
            raise InvalidInput.at(to_camel(name), f"must have 1 to {ID_MAX} characters and no NUL")
