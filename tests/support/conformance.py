"""Every answer of the API that a test receives is held against the OpenAPI document.

Its status must be documented for the operation, its code among those of the status, and its body as
the schema says. A test that asks something else than a documented operation is not looked at.
"""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import jsonschema_rs
from django.http import HttpResponse
from django.urls import Resolver404, resolve

from bettercompute.web import openapi

Json = dict[str, Any]


@cache
def document() -> Json:
    """The document as it is served."""
    found: Json = json.loads(openapi._document()[0])
    return found


def operation(method: str, path: str) -> Json | None:
    """What the document says of a method and path."""
    try:
        route = resolve(path.partition("?")[0]).route
    except Resolver404:
        return None
    template = "/" + route.replace("<str:", "{").replace(">", "}")
    methods: Mapping[str, Json] = document()["paths"].get(template, {})
    return methods.get("get" if method == "HEAD" else method.lower())


def check(method: str, path: str, response: HttpResponse) -> None:
    """Fail where an answer is not as documented."""
    described = operation(method, path)
    if described is None:
        return
    status = str(response.status_code)
    name = described["operationId"]
    assert status in described["responses"], (
        f"{name} answers {status}, which is not documented: {response.content[:300]!r}"
    )
    media_type = response.get("Content-Type", "").partition(";")[0]
    content = described["responses"][status].get("content", {})
    if not response.content and not content:
        return
    assert media_type in content, f"{name} answers {status} as {media_type}"
    if not media_type.endswith("json"):
        return
    body = json.loads(response.content)
    for error in _validator(name, status, media_type).iter_errors(body):
        where = "/".join(map(str, error.instance_path))
        raise AssertionError(f"{name} answers {status} with {where or 'a body'}: {error.message}")


@cache
def _validator(name: str, status: str, media_type: str) -> Any:
    described = next(
        each
        for methods in document()["paths"].values()
        for each in methods.values()
        if each["operationId"] == name
    )
    schema = described["responses"][status]["content"][media_type]["schema"]
    return jsonschema_rs.Draft202012Validator(
        {**schema, "components": {"schemas": document()["components"]["schemas"]}}
    )
