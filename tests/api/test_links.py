"""Links of the OpenAPI document: they lead where they say, and schemathesis walks them."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
import schemathesis
from django.core.handlers.wsgi import WSGIHandler
from hypothesis import HealthCheck, Phase, settings
from schemathesis import GenerationMode, checks
from schemathesis.generation.stateful.state_machine import StepInput, StepOutput
from schemathesis.specs.openapi import checks as openapi_checks

from bettercompute.web import document, links, openapi
from tests.support import cast, make, valid_requests
from tests.support.valid_requests import World

pytestmark = pytest.mark.rule("A1")

Json = dict[str, Any]
DOCUMENT = openapi.build()


def operations() -> dict[str, Json]:
    return {each["operationId"]: each for ms in DOCUMENT["paths"].values() for each in ms.values()}


def found() -> Iterator[tuple[Json, Json]]:
    """Each link, with the operation that it is of."""
    for operation in operations().values():
        for answer in operation["responses"].values():
            for link in answer.get("links", {}).values():
                yield operation, link


def test_whatever_is_done_to_a_thing_is_linked_from_what_answers_it() -> None:
    with_ids = {
        name
        for name, operation in operations().items()
        if any(each.get("in") == "path" for each in operation.get("parameters", []))
    }
    assert with_ids <= {link["operationId"] for _, link in found()}


def test_every_id_of_a_path_is_answered_somewhere() -> None:
    named = {
        each["name"]
        for operation in operations().values()
        for each in operation.get("parameters", [])
        if each.get("in") == "path"
    }
    assert named == set(links.ANSWERED)
    assert {name for answered in links.ANSWERED.values() for name in answered} <= set(operations())


def test_what_a_link_hands_on_is_what_its_target_takes() -> None:
    """By the recorded examples: the id at its place in an answer is of the kind that goes there."""
    examples = document.examples()
    compared = 0
    for source, link in found():
        answer, target = examples[source["operationId"]]["answer"], link["operationId"]
        for name, expression in link.get("parameters", {}).items():
            place = expression.partition("$response.body#/")[2]
            value = at(answer, place) if place else None
            if value is not None and name != "tenantId":
                expected = examples[target]["path"][name] if target in examples else value
                assert kind_of(value) == kind_of(expected), (source["operationId"], target)
                compared += 1
    assert compared > 80


def at(document: Any, pointer: str) -> Any:
    """What a JSON pointer leads to; None behind the end of a list."""
    for part in pointer.split("/"):
        if isinstance(document, list):
            if int(part) >= len(document):
                return None
            document = document[int(part)]
        else:
            document = document[part]
    return document


def kind_of(identifier: str) -> str:
    return identifier.partition("_")[0]


# --- and they are walked -------------------------------------------------------------------------

EXAMPLES = 3
STEPS = 12
POOLS = "/api/v1/pools"
RESERVING = ("/api/v1/reservations",)
AROUND = ("/api/v1/webhooks", "/api/v1/tokens", "/api/v1/policies", "/api/v1/feeds")


@pytest.mark.parametrize("parts", [RESERVING, AROUND], ids=["reserving", "around"])
def test_schemathesis_walks_over_links_and_finds_what_they_name(
    parts: tuple[str, ...], transactional_db: None
) -> None:
    """At random from whatever makes something; nothing is deleted on the way."""
    pool = make.pool()
    world = World(cast.api("alice"), pool.tenant_id, pool.pk, node="")
    schema = schemathesis.openapi.from_dict(openapi.build())
    schema = schema.include(lambda context: _is_walked(context.operation, parts))
    schema.app = WSGIHandler()
    schema.config.phases.stateful.inference.algorithms = []  # no links but ours
    schema.config.generation.update(modes=[GenerationMode.POSITIVE])
    walk = Walk(world, {"Authorization": f"Bearer {cast.token('alice')[1]}"})
    machine = type("Machine", (Walker, schema.as_state_machine()), {"walk": walk})
    machine.run(
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
    )
    assert walk.not_found == []
    assert len(walk.links) >= 5, walk.links


def _is_walked(operation: Any, parts: tuple[str, ...]) -> bool:
    """Lists would be begun with again and again; that of pools says what can be reserved."""
    if operation.path == POOLS:
        return True
    is_list = operation.method == "get" and "{" not in operation.path
    return operation.path.startswith(parts) and operation.method != "delete" and not is_list


@dataclass(slots=True)
class Walk:
    """What is known at its beginning, and which links were gone with success."""

    world: World
    headers: dict[str, str]
    links: Counter[str] = field(default_factory=Counter)
    not_found: list[str] = field(default_factory=list)
    keys: Iterator[int] = field(default_factory=count)


class Walker:
    """What schemathesis makes of the document, with bodies that mean something."""

    walk: Walk

    def step(self, taken: StepInput) -> StepOutput:
        output: StepOutput = super().step(taken)  # type: ignore[misc]
        linked = {name for where, name in taken.applied_parameters if where.value == "path"}
        if taken.transition is not None and linked and linked == set(taken.case.path_parameters):
            status = output.response.status_code
            if status < 300:
                self.walk.links[taken.transition.id] += 1
            elif status == 404:
                self.walk.not_found.append(taken.transition.id)
        return output

    def before_call(self, case: Any) -> None:
        world = self.walk.world
        template = case.path.removeprefix("/api/v1").replace("{", "<str:").replace("}", ">")
        body = valid_requests.bodies(world).get((case.method, template))
        if body is not None:
            keyed = {"idempotencyKey": f"walk-{next(self.walk.keys)}"}
            case.body = body | (keyed if "idempotencyKey" in body else {})
        case.query = {"tenantId": world.tenant} if case.method == "GET" else {}
        case.headers = {}

    def get_call_kwargs(self, case: Any) -> Json:
        return {"headers": self.walk.headers}

    def validate_response(self, response: Any, case: Any, **_: Any) -> None:
        case.validate_response(
            response,
            checks=[
                checks.not_a_server_error,
                openapi_checks.status_code_conformance,
                openapi_checks.content_type_conformance,
                openapi_checks.response_schema_conformance,
            ],
        )
