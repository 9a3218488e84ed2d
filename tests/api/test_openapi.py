"""The OpenAPI document: complete, readable, and true: what it says is what is answered."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import jsonschema
import pytest
import schemathesis
from django.core.handlers.wsgi import WSGIHandler
from django.test import Client
from hypothesis import HealthCheck, Phase, settings
from schemathesis import checks
from schemathesis.specs.openapi import checks as openapi_checks

from bettercompute import errors
from bettercompute.web import openapi, problems
from bettercompute.wire.problems import Problem
from tests.support import cast, routes, supply

pytestmark = pytest.mark.rule("A1", "A3")

EXAMPLES = 2
PUBLIC = {"/api/v1/openapi.json", "/api/v1/docs"}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return json.loads(openapi._document()[0])


def test_every_route_and_method_is_in_the_document(document: dict[str, Any]) -> None:
    known = {
        (route.template.replace("<str:", "{").replace(">", "}"), method.lower())
        for route in routes.under("/api/v1/")
        for method in route.methods
        if route.template not in PUBLIC
    }
    documented = {
        (path, method) for path, methods in document["paths"].items() for method in methods
    }
    assert documented == known


def test_the_document_is_openapi_3_1_with_distinct_operations(document: dict[str, Any]) -> None:
    assert document["openapi"] == "3.1.0"
    operations = [item for methods in document["paths"].values() for item in methods.values()]
    names = [operation["operationId"] for operation in operations]
    assert len(set(names)) == len(names)
    assert all(operation["summary"] for operation in operations)
    assert all(
        operation["security"] == [{"token": []}, {"session": []}] for operation in operations
    )


def test_every_operation_documents_the_problems_it_may_answer(document: dict[str, Any]) -> None:
    for methods in document["paths"].values():
        for operation in methods.values():
            described = operation["responses"]
            assert {"400", "401", "403", "404", "406", "500", "503"} <= set(described)
            if "requestBody" in operation:
                assert {"411", "413", "415"} <= set(described)
            for status, answer in described.items():
                if int(status) >= 400:
                    assert list(answer["content"]) == [problems.MEDIA_TYPE]


def test_names_on_the_wire_are_camel_case(document: dict[str, Any]) -> None:
    for name, model in document["components"]["schemas"].items():
        for field in model.get("properties", {}):
            assert "_" not in field, (name, field)


def test_schemas_are_valid_json_schema(document: dict[str, Any]) -> None:
    for model in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(model)


def test_a_problem_is_as_documented() -> None:
    answered = json.loads(problems.body(errors.QuotaExceeded(resource="gpuMilli"), "req_1"))
    assert Problem.model_validate(answered).model_dump(by_alias=True) == answered


def test_it_is_built_once_however_many_ask_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    both, built = threading.Barrier(2), []

    def build() -> dict[str, str]:
        built.append(1)
        with suppress(threading.BrokenBarrierError):
            both.wait(timeout=0.3)
        return {"openapi": "3.1.0"}

    monkeypatch.setattr(openapi, "build", build)
    openapi._built.cache_clear()
    try:
        with ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(lambda _: openapi._document(), range(2)))
    finally:
        openapi._built.cache_clear()
    assert len(built) == 1
    assert answers[0] == answers[1]


def test_the_document_is_cached_by_its_etag(client: Client) -> None:
    first = client.get("/api/v1/openapi.json")
    assert first.status_code == 200
    again = client.get("/api/v1/openapi.json", headers={"If-None-Match": first["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again["Content-Type"] == "application/json"


@pytest.mark.rule("A5")
def test_the_document_takes_no_parameters(client: Client) -> None:
    answer = client.get("/api/v1/openapi.json", {"version": "2"})
    assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_INPUT")


def test_the_page_of_errors_has_an_anchor_for_every_type(client: Client) -> None:
    page = client.get("/docs/errors").content.decode()
    for code in errors.ALL:
        assert f'id="{problems.type_of(code).partition("#")[2]}"' in page
        assert code.code in page


# --- what it says is what is answered ------------------------------------------------------------

schema = schemathesis.openapi.from_dict(openapi.build())
# A minute of its own: `make fuzz` goes through every phase, this is a sample for each change.
schema.config.phases.coverage.enabled = False


@pytest.fixture
def headers(transactional_db: None) -> dict[str, str]:
    """Alice's token, in a world with a pool and a node."""
    supply.node(supply.pool())
    return {"Authorization": f"Bearer {cast.token('alice')[1]}"}


@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_answers_conform_to_the_document(case: Any, headers: dict[str, str]) -> None:
    case.operation.app = WSGIHandler()
    response = case.call(app=case.operation.app, headers=headers)
    case.validate_response(
        response,
        checks=[
            checks.not_a_server_error,
            openapi_checks.status_code_conformance,
            openapi_checks.content_type_conformance,
            openapi_checks.response_schema_conformance,
            openapi_checks.negative_data_rejection,
        ],
    )
