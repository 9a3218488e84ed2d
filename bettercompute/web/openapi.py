"""The OpenAPI 3.1 document, made from the routes once a process, and a page to read it."""

import json
import threading
from functools import cache
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema

from bettercompute import errors
from bettercompute.web import etags, methods, problems, queries


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the document describes ``ApiAuthentication``."""

    target_class = "bettercompute.web.authentication.ApiAuthentication"
    name = ["token", "session"]

    def get_security_definition(self, auto_schema: AutoSchema) -> list[dict[str, str]]:
        """Both ways in."""
        return [
            {"type": "http", "scheme": "bearer", "description": "an API token, `bct_…`"},
            {
                "type": "apiKey",
                "in": "cookie",
                "name": "sessionid",
                "description": "the console's session; writes need the X-CSRFToken header",
            },
        ]

    def get_security_requirement(self, auto_schema: AutoSchema) -> list[dict[str, list[str]]]:
        """Either of them, not both."""
        return [{"token": []}, {"session": []}]


_building = threading.Lock()

_VERBS = {
    "GET": "get",
    "POST": "create",
    "PUT": "replace",
    "PATCH": "update",
    "DELETE": "delete",
}


class Schema(AutoSchema):
    """Names operations by path and method, and groups them by resource."""

    def get_operation_id(self) -> str:
        """``reservations.release``, ``reservations.list``, …"""
        parts = [part for part in self.path.removeprefix("/api/v1/").split("/") if part]
        names = [part for part in parts if not part.startswith("{")]
        by_method = _VERBS[self.method]
        is_item = parts[-1].startswith("{")
        is_list = not is_item and names[-1].endswith("s")
        if self.method == "GET" and is_list and (len(names) == 1 or len(parts) > len(names)):
            by_method = "list"  # /webhooks, and /webhooks/{id}/deliveries
        if self.method == "GET" and names[-1] == "catalog" and not is_item:
            by_method = "list"
        if self.method == "POST" and len(parts) > 1:
            return ".".join(names)  # a verb is in the path: reservations.release
        return ".".join([*names, by_method])

    def get_tags(self) -> list[str]:
        """The resource."""
        return [self.path.removeprefix("/api/v1/").partition("/")[0]]


@methods.reading
def document(request: HttpRequest) -> HttpResponse:
    """``/api/v1/openapi.json``: public, since it says nothing of any tenant."""
    queries.refuse_unknown(request.GET, None)
    content, etag = _document()
    if etags.is_not_modified(request, etag):
        answered = HttpResponse(status=304, content_type="application/json")
    else:
        answered = HttpResponse(content, content_type="application/json")
    answered["ETag"] = etag
    answered["Cache-Control"] = "public, max-age=60"
    return answered


@methods.reading
def page(request: HttpRequest) -> HttpResponse:
    """The document as a page. Its script and styles are our own files: the CSP allows no other."""
    return render(request, "web/api.html")


@methods.reading
def error_page(request: HttpRequest) -> HttpResponse:
    """``/docs/errors``: what ``type`` of a problem points at."""
    codes = [
        {
            "anchor": problems.type_of(code).partition("#")[2],
            "code": code.code,
            "status": code.status,
            "title": code.title,
            "meaning": code().message,
        }
        for code in errors.ALL
    ]
    return render(request, "web/errors.html", {"codes": codes})


def build() -> dict[str, Any]:
    """The document as data."""
    generator = SchemaGenerator()  # type: ignore[no-untyped-call]
    generated: dict[str, Any] = generator.get_schema(  # type: ignore[no-untyped-call]
        request=None, public=True
    )
    return generated


def _document() -> tuple[bytes, str]:
    # The generator resolves its extensions at first use, and not for two threads at once.
    with _building:
        return _built()


@cache
def _built() -> tuple[bytes, str]:
    content = json.dumps(build(), indent=1).encode()
    return content, etags.of_content(content)
