"""Bad input of any kind, on every route: a problem+json 4xx that names the field, never a 500, and
nothing changed (A3, A5, A11, R2).

The routes are those of the URL configuration; a new one fails here until it has a body in
tests/support/valid_requests.py, from which the bad ones are made.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.http import HttpResponse

from tests.support import cast, routes, supply, valid_requests
from tests.support.valid_requests import READS, TENANT_OPTIONAL, WRITES, World, name

pytestmark = [pytest.mark.django_db, pytest.mark.rule("A3", "A5", "A11", "R2")]

# Of the caller, or of the whole system: no tenant is asked for.
OF_NO_TENANT = {"/whoami", "/leases", "/selfcheck", "/policies/examples"}
NULL_MEANS = {
    ("/api/v1/feeds", "poolId"),  # a feed of one's own
    ("/api/v1/tokens", "delegation"),  # a token for oneself
}

# What no body may be, and where the refusal says it is wrong.
BROKEN = [
    (b"{", "body"),
    (b"\xff", "body"),
    (b"[]", "body"),
    (b"null", "body"),
    (b'"text"', "body"),
    (b"17", "body"),
    (b'{"tenantId": NaN}', "body"),
    (b'{"tenantId": 1e999}', "body"),
    (b'{"tenantId": ' + b"9" * 5000 + b"}", "body"),
    (b'{"tenantId": "a", "tenantId": "b"}', "tenantId"),
    (b'{"tenantId": "a\\u0000b"}', "tenantId"),
    (b'{"tenantId": "\\ud800"}', "tenantId"),
    (b'{"deep": ' + b"[" * 20_000 + b"]" * 20_000 + b"}", "body"),
    (b'{"deep": ' + b"[" * 20 + b"]" * 20 + b"}", "deep" + "[0]" * 15),
]
# What a reservation may not say of itself.
OUT_OF_RANGE = [
    ("start", "2026-03-02T10:00:00"),
    ("start", "tomorrow"),
    ("start", "2026-02-30T10:00:00Z"),
    ("start", -1),
    ("start", 10**18),
    ("start", "9999-12-31T23:59:59-12:00"),
    ("duration", 0),
    ("duration", -1),
    ("duration", "0h"),
    ("duration", "-3h"),
    ("duration", "1y"),
    ("duration", "P1M"),
    ("duration", 10**18),
    ("duration", "9" * 60 + "h"),
    ("leaseSeconds", 0),
    ("priority", 10**6),
    ("wait", {"timeoutMs": -1}),
    ("resources", {"vcpu": 4097}),
    ("resources", {"memoryGiB": 65_537}),
    ("gang", {"nodes": 1025}),
    ("binding", "ribbon"),
    ("labels", {"": "x"}),
    ("labels", {"k" * 300: "x"}),
    ("users", ["u"] * 300),
]


@pytest.fixture(scope="module")
def ids(module_database: None) -> tuple[str, str, str]:
    """Of acme, a pool and a node; no test here changes anything of them."""
    pool = supply.pool()
    return cast.tenant("acme").pk, pool.pk, supply.node(pool).pk


@pytest.fixture
def world(ids: tuple[str, str, str]) -> World:
    """Alice, who is acme's admin, with a pool and a node."""
    made = World(cast.api("alice"), *ids)
    made.api.get("/whoami")  # writes last_used_at, once
    return made


def refused(
    answer: HttpResponse, *, status: int = 400, code: str = "INVALID_INPUT", field: str = ""
) -> None:
    document = cast.problem(answer, status, code)
    if field:
        named = [error["path"] for error in document["details"]["errors"]]
        assert field in named, (field, named)


@pytest.fixture
def unchanged() -> Iterator[list[bool]]:
    """Fails when anything was stored since the test armed it."""
    before: list[Any] = []
    yield before
    assert before, "arm it"
    assert valid_requests.snapshot() == before[0]


def valid(world: World, case: tuple[str, routes.Route]) -> dict[str, Any]:
    method, route = case
    return valid_requests.bodies(world)[method, route.template.removeprefix("/api/v1")]


def send(
    world: World, case: tuple[str, routes.Route], body: str | bytes, **more: Any
) -> HttpResponse:
    path = case[1].path(world.node).removeprefix("/api/v1")
    return world.api.raw(case[0], path, body, **more)


@pytest.mark.parametrize("case", WRITES, ids=name)
def test_a_broken_body_changes_nothing(
    world: World, unchanged: list[Any], case: tuple[str, routes.Route]
) -> None:
    unchanged.append(valid_requests.snapshot())
    for raw, field in BROKEN:
        answer = send(world, case, raw)
        assert answer.status_code == 400, raw[:20]
        refused(answer, field=field)


@pytest.mark.parametrize("case", WRITES, ids=name)
def test_every_field_refuses_every_wrong_type_by_name(
    world: World, unchanged: list[Any], case: tuple[str, routes.Route]
) -> None:
    unchanged.append(valid_requests.snapshot())
    body = valid(world, case)
    for field in body:
        may_be_null = (case[1].template, field) in NULL_MEANS or (
            field == "tenantId" and case[1].template.startswith(TENANT_OPTIONAL)
        )
        for wrong in (*(() if may_be_null else (None,)), {}, True, 1.5, -1, "a\x00b", [[["x"]]]):
            answer = send(world, case, json.dumps(body | {field: wrong}))
            document = cast.problem(answer, 400, "INVALID_INPUT")
            named = [error["path"] for error in document["details"]["errors"]]
            assert any(path.startswith(field) for path in named), (field, wrong, named)


@pytest.mark.parametrize("case", WRITES, ids=name)
def test_unknown_missing_and_misspelt_fields_are_named(
    world: World, unchanged: list[Any], case: tuple[str, routes.Route]
) -> None:
    unchanged.append(valid_requests.snapshot())
    body = valid(world, case)
    refused(send(world, case, json.dumps(body | {"colour": 1})), field="colour")
    refused(send(world, case, json.dumps(body | {"tenant_id": "x"})), field="tenant_id")
    if case[1].template.startswith(TENANT_OPTIONAL):
        return
    without = {key: value for key, value in body.items() if key != "tenantId"}
    refused(send(world, case, json.dumps(without)), field="tenantId")
    refused(send(world, case, ""), field="tenantId")


@pytest.mark.parametrize("case", WRITES, ids=name)
def test_sizes_types_and_encodings_of_bodies(
    world: World, unchanged: list[Any], case: tuple[str, routes.Route]
) -> None:
    unchanged.append(valid_requests.snapshot())
    body = json.dumps(valid(world, case))
    huge = json.dumps({"x": "y" * 300_000})
    refused(send(world, case, huge), status=413, code="PAYLOAD_TOO_LARGE")
    for media_type in (
        "text/plain",
        "application/xml",
        "multipart/form-data",
        "",
        "application/json; charset=utf-16",
    ):
        answer = send(world, case, body, content_type=media_type)
        refused(answer, status=415, code="UNSUPPORTED_MEDIA_TYPE")
    for encoding in ("gzip", "br", "identity, gzip"):
        answer = send(world, case, body, Content_Encoding=encoding)
        refused(answer, status=415, code="UNSUPPORTED_MEDIA_TYPE")
    answer = send(world, case, body, Transfer_Encoding="chunked")
    refused(answer, status=411, code="LENGTH_REQUIRED")
    long_text = json.dumps(valid(world, case) | {"tenantId": "t" * 256})
    refused(send(world, case, long_text), field="tenantId")


@pytest.mark.rule("R38")
@pytest.mark.parametrize("case", WRITES, ids=name)
def test_a_foreign_tenant_in_the_body_is_not_found(
    world: World, unchanged: list[Any], case: tuple[str, routes.Route]
) -> None:
    foreign = cast.tenant("globex").pk
    unchanged.append(valid_requests.snapshot())
    for tenant_id in (foreign, "ten_none", "'; DROP TABLE tenants; --", "ü" * 255):
        body = json.dumps(valid(world, case) | {"tenantId": tenant_id})
        refused(send(world, case, body), status=404, code="NOT_FOUND")


@pytest.mark.rule("R38")
@pytest.mark.parametrize("case", READS, ids=name)
def test_a_foreign_tenant_in_the_query_is_not_found(
    world: World, unchanged: list[Any], case: tuple[str, routes.Route]
) -> None:
    foreign = cast.tenant("globex").pk
    unchanged.append(valid_requests.snapshot())
    method, route = case
    path = route.path("x").removeprefix("/api/v1")
    if path in OF_NO_TENANT:
        refused(world.api.raw(method, f"{path}?tenantId={foreign}", ""), field="tenantId")
        return
    answer = world.api.raw(method, f"{path}?tenantId={foreign}{valid_requests.required(route)}", "")
    refused(answer, status=404, code="NOT_FOUND")


@pytest.mark.parametrize("case", READS + WRITES, ids=name)
def test_unknown_repeated_and_broken_parameters_are_named(
    world: World, unchanged: list[Any], case: tuple[str, routes.Route]
) -> None:
    unchanged.append(valid_requests.snapshot())
    method, route = case
    path = route.path("x").removeprefix("/api/v1")
    body = "{}" if case in WRITES else ""

    def ask(query: str) -> HttpResponse:
        return world.api.raw(method, f"{path}?{query}", body)

    refused(ask("colour=red"), field="colour")
    refused(ask("tenant_id=x"), field="tenant_id")
    refused(ask("tenantId=a%00b"), field="tenantId")
    refused(ask("tenantId=a&tenantId=b"), field="tenantId")
    refused(ask("tenantId=%ff"), field="tenantId")
    refused(ask("tenantId="), field="tenantId")
    refused(ask("tenantId=" + "x" * 256), field="tenantId")
    refused(ask("limit=0"), field="limit")
    refused(ask("limit=" + "9" * 400), field="limit")
    refused(ask("limit=ten"), field="limit")
    refused(ask("cursor=%F0%9F%98%80"), field="cursor")


@pytest.mark.parametrize(
    ("method", "route"),
    [(method, route) for method, route in READS + WRITES if "<" in route.template],
    ids=str,
)
def test_a_hostile_id_in_the_path(
    world: World, unchanged: list[Any], method: str, route: routes.Route
) -> None:
    """Whatever the id, it is not found; what can be no id is refused."""
    unchanged.append(valid_requests.snapshot())
    body = json.dumps(valid(world, (method, route))) if method in valid_requests.WITH_BODY else ""
    for hostile in ("x", "rsv_none", "%27%3B--", "%F0%9F%98%80", "%FF%FE", "..%5C..", "x" * 255):
        path = route.path(hostile).removeprefix("/api/v1") + (
            "" if body else f"?tenantId={world.tenant}{valid_requests.required(route)}"
        )
        refused(world.api.raw(method, path, body), status=404, code="NOT_FOUND")
    for hostile in ("a%00b", "x" * 256):
        answer = world.api.raw(method, route.path(hostile).removeprefix("/api/v1"), body)
        refused(answer, code="INVALID_INPUT")


@pytest.mark.parametrize("path", ["/reservations", "/capacity/preview"])
def test_ranges_and_times_of_a_reservation(world: World, unchanged: list[Any], path: str) -> None:
    unchanged.append(valid_requests.snapshot())
    whole = valid_requests.bodies(world)["POST", path]
    for field, value in OUT_OF_RANGE:
        document = cast.problem(world.api.post(path, whole | {field: value}), 400, "INVALID_INPUT")
        named = [error["path"] for error in document["details"]["errors"]]
        assert any(found.startswith(field) for found in named), (field, value, named)


@pytest.mark.parametrize(
    ("headers", "code", "status"),
    [
        ({"If-Match": "3"}, "INVALID_INPUT", 400),
        ({"If-Match": 'W/"3"'}, "PRECONDITION_FAILED", 412),
    ],
)
def test_a_broken_precondition_changes_nothing(
    world: World, unchanged: list[Any], headers: dict[str, str], code: str, status: int
) -> None:
    unchanged.append(valid_requests.snapshot())
    answer = world.api.post(f"/nodes/{world.node}/cordon", {"tenantId": world.tenant}, **headers)
    refused(answer, status=status, code=code)
