"""What all operations of the OpenAPI document share, added to what is said of each one.

Tags, the problem of RFC 9457, headers, conditional reads, and an example of each request with its
answer. Examples are recorded from real requests, in ``examples.json``; `make examples` writes it.
"""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any

from bettercompute import errors
from bettercompute.web import links, problems
from bettercompute.wire.problems import Problem

Json = dict[str, Any]

DESCRIPTION = """\
Reserve GPUs for a window. Times are epoch milliseconds. Fields of requests that are not described
are refused.

**Errors** are `application/problem+json`; programs read `code`, people `detail`. See
[the codes](/docs/errors).

**Versions.** What has a `version` has it in its `ETag`. A write with `If-Match` is done only to
that version (412 otherwise); a read with `If-None-Match` is 304 where nothing has changed.

**Lists** are `{items, nextCursor}`: ask again with `cursor` for what follows, until it is null.

**Links** of an answer say what can be done with what it names, and what of it goes where.

**Limits.** Each token, and each account in the console's session, may send so many requests a
second; `RateLimit` says what is left, 429 comes with `Retry-After`. Bodies have at most 256 KiB and
are nested at most 16 deep."""

TAGS: Mapping[str, str] = {
    "reservations": "GPUs for a window: make one, look at it, extend, share and end it.",
    "capacity": "What would fit, and when: previews and offers. Nothing is booked.",
    "series": "Reservations that repeat.",
    "pools": "What may be booked, how much of it is free now and over time.",
    "quotas": "How much a tenant may hold at once.",
    "usage": "What a tenant has used.",
    "budgets": "How much device-time a tenant may reserve in a month or a window.",
    "confirmations": "What agents ask their people for, and what these answer.",
    "feeds": "Reservations for calendar programs.",
    "nodes": "The machines of a pool, for its owner and operators.",
    "maintenance": "Announced work on nodes and pools, during which nothing is booked.",
    "whoami": "Who a token or a session is.",
    "members": "Who belongs to a tenant.",
    "tokens": "API tokens.",
    "policies": "Who may do what, in Cedar.",
    "events": "What happened, as a list and as a stream.",
    "webhooks": "Events sent to addresses of yours.",
    "audit": "Who did what.",
    "operating": "How the platform itself is doing, for its operators.",
}

_TEXT: Json = {"type": "string"}
_HEADERS: Mapping[str, Json] = {
    "X-Request-Id": {
        "description": "Of this request, in every line of log; your own where you sent one.",
        "schema": _TEXT,
    },
    "RateLimit-Policy": {
        "description": "The quota of your token or account, and its window in seconds.",
        "schema": _TEXT,
        "example": '"requests";q=400;w=2',
    },
    "RateLimit": {
        "description": "How many requests are left, and in how many seconds all are again.",
        "schema": _TEXT,
        "example": '"requests";r=399;t=1',
    },
    "ETag": {
        "description": "Of this version. Send it as If-None-Match of a read, If-Match of a write.",
        "schema": _TEXT,
        "example": '"3"',
    },
    "Retry-After": {"description": "Seconds to wait before the next try.", "schema": _TEXT},
    "WWW-Authenticate": {"description": "How to authenticate.", "schema": _TEXT},
}
_ALL = ("X-Request-Id", "RateLimit-Policy", "RateLimit")
_RETRIED = {errors.RateLimited.status, errors.Unavailable.status}
_IF_NONE_MATCH: Json = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "schema": _TEXT,
    "description": "The ETag of what you have: 304 where nothing of it has changed.",
}


def complete(result: Json, **_: object) -> Json:
    """The hook of drf-spectacular."""
    result["info"]["description"] = DESCRIPTION
    components = result["components"]
    components["schemas"]["Problem"] = Problem.model_json_schema(by_alias=True)
    components["schemas"] = dict(sorted(components["schemas"].items()))
    components["headers"] = {name: dict(header) for name, header in _HEADERS.items()}
    components["parameters"] = {"IfNoneMatch": dict(_IF_NONE_MATCH)}
    used: set[str] = set()
    for method, operation in _operations(result):
        used.update(operation["tags"])
        _add_headers(operation)
        if method == "get" and "application/json" in _content(operation, "200"):
            _make_conditional(operation)
        _add_examples(operation)
    links.add([each for _, each in _operations(result)], components["schemas"])
    result["tags"] = [
        {"name": name, "description": said} for name, said in TAGS.items() if name in used
    ]
    return result


def _operations(result: Json) -> Iterator[tuple[str, Json]]:
    for methods in result["paths"].values():
        yield from methods.items()


def _content(operation: Json, status: str) -> Json:
    found: Json = operation["responses"].get(status, {}).get("content", {})
    return found


def _add_headers(operation: Json) -> None:
    for status, answer in operation["responses"].items():
        names = [*_ALL]
        if int(status) in _RETRIED:
            names.append("Retry-After")
        if int(status) == errors.Unauthenticated.status:
            names = ["X-Request-Id", "WWW-Authenticate"]
        answer["headers"] = {name: {"$ref": f"#/components/headers/{name}"} for name in names}
        answer["description"] = answer["description"] or "Done."


def _make_conditional(operation: Json) -> None:
    etag = {"ETag": {"$ref": "#/components/headers/ETag"}}
    operation["responses"]["200"]["headers"] |= etag
    operation["responses"]["304"] = {
        "description": "You have it already.",
        "headers": operation["responses"]["200"]["headers"],
    }
    operation.setdefault("parameters", []).append({"$ref": "#/components/parameters/IfNoneMatch"})


def _add_examples(operation: Json) -> None:
    known = examples().get(operation["operationId"])
    for status, answer in operation["responses"].items():
        for media_type, content in answer.get("content", {}).items():
            if media_type == problems.MEDIA_TYPE:
                content["example"] = _refused(_codes(content)[0])
            elif known and str(known["status"]) == status and media_type == "application/json":
                content["example"] = known["answer"]
    if known is None:
        return
    for parameter in operation.get("parameters", []):
        if parameter.get("in") == "path" and parameter["name"] in known["path"]:
            parameter["example"] = known["path"][parameter["name"]]
    if "requestBody" in operation:
        operation["requestBody"]["content"]["application/json"]["example"] = known["request"]


@cache
def examples() -> Mapping[str, Json]:
    """By operation: the path's parameters, the body, the status and the answer."""
    text = (resources.files(__package__) / "examples.json").read_text(encoding="utf-8")
    found: dict[str, Json] = json.loads(text)
    return found


def _codes(content: Json) -> list[str]:
    """As ``schema.describe`` lists them."""
    found: list[str] = content["schema"]["allOf"][1]["properties"]["code"]["enum"]
    return found


def _refused(code: str) -> Json:
    """How a refusal reads."""
    error = next(each for each in errors.ALL if each.code == code)
    shown = error(errors=[]) if issubclass(error, errors.InvalidInput) else error()
    found: Json = json.loads(problems.body(shown, "req_01k00000000000000000000000"))
    return found
