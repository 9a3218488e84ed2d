"""Each operation of the API, asked for once as its example has it: a real request and its answer.

``UPDATE_EXAMPLES=1`` (``make examples``) writes the answers into the OpenAPI document. Each request
is rolled back, so that none changes what another one finds.
"""

import os
from collections.abc import Mapping
from typing import Any

import jsonschema_rs
import pytest
from django.db import transaction
from django.http import HttpResponse

from bettercompute import clock
from reservations.models import Reservation
from tests.api.test_foreign_ids import Theirs, made, path_of, theirs
from tests.support import cast, conformance, delegates, make, valid_requests
from tests.support.cast import Api
from tests.support.examples import Recorder
from tests.support.valid_requests import World

pytestmark = [pytest.mark.django_db, pytest.mark.rule("A1")]

__all__ = ["made", "theirs"]

DAY_MS = 86_400_000
OPERATORS = ("/selfcheck", "/leases")


def bodies(world: World) -> Mapping[tuple[str, str], dict[str, Any]]:
    """What is valid everywhere, and here also means something."""
    known = valid_requests.bodies(world)
    telling: dict[tuple[str, str], dict[str, Any]] = {
        ("POST", "/reservations/<str:reservation_id>/users"): {
            "add": [cast.account("bob").pk],
            "remove": [],
        },
        ("POST", "/series/<str:series_id>/skip"): {"occurrence": clock.now_ms() + DAY_MS},
        ("POST", "/reservations"): {"idempotencyKey": "train-7b-0302"},
        ("POST", "/reservations/<str:reservation_id>/extend"): {"idempotencyKey": "one-more-hour"},
    }
    return {case: body | telling.get(case, {}) for case, body in known.items()}


def ids_of(theirs: Theirs, alice: Api, template: str) -> dict[str, str]:
    """Those of the world; a reservation that can do what is asked of it."""
    ids = {"type_name": "reservation.placed", **theirs.ids}
    if template.endswith("/<str:reservation_id>/cancel"):
        ids["reservation_id"] = Reservation.objects.filter(series=ids["series_id"]).first().pk
    if template.endswith("/withdraw"):
        ids["confirmation_id"] = delegates.approved().pk
    return ids


def ask(api: Api, method: str, path: str, body: Any) -> HttpResponse:
    """One request, undone."""
    before = transaction.savepoint()  # no atomic block: what is durable allows none around it
    answer = api.get(path) if method == "GET" else api.send(method, path, body)
    transaction.savepoint_rollback(before)
    return answer


def test_every_operation_does_what_its_example_shows(theirs: Theirs) -> None:
    acme = cast.tenant("acme").pk
    alice, olga = cast.api("alice"), cast.api("olga")
    lease = make.active(cast.caller("alice"), theirs.ids["pool_id"], leaseSeconds=600)
    theirs.ids["reservation_id"] = lease.pk
    known = bodies(World(alice, acme, theirs.ids["pool_id"], theirs.ids["node_id"]))
    recorder = Recorder()
    for route in valid_requests.ROUTES:
        for method in route.methods:
            described = conformance.operation(method, route.path())
            if described is None or not _answers_json(described):
                continue
            template = route.template.removeprefix("/api/v1")
            ids = ids_of(theirs, alice, template)
            path = path_of(route, ids)
            query = "" if method != "GET" else valid_requests.required(route).replace("&", "?", 1)
            body = known.get((method, template))
            api = olga if template in OPERATORS else alice
            answer = ask(api, method, path + query, body)
            assert 200 <= answer.status_code < 300, (
                f"{method} {path}: {answer.content.decode()[:500]}. Its request stands in"
                " tests/support/valid_requests.py, ids in tests/api/test_foreign_ids.py."
            )
            recorder.add(
                described["operationId"],
                path={name: ids[name] for name in ids if f":{name}>" in route.template},
                request=body,
                status=answer.status_code,
                answer=answer.content,
            )
    if os.environ.get("UPDATE_EXAMPLES"):
        recorder.write()


def _answers_json(described: dict[str, Any]) -> bool:
    fine = [answer for status, answer in described["responses"].items() if status.startswith("2")]
    return all(set(each.get("content", {})) <= {"application/json"} for each in fine)


def test_examples_are_of_every_operation_and_as_their_schemas_say() -> None:
    document = conformance.document()
    shared = {"components": {"schemas": document["components"]["schemas"]}}
    for methods in document["paths"].values():
        for operation in methods.values():
            contents = [operation["requestBody"]] if "requestBody" in operation else []
            contents += operation["responses"].values()
            shown = [
                (content["schema"], content["example"])
                for each in contents
                for content in each.get("content", {}).values()
                if "example" in content
            ]
            for schema, example in shown:
                validator = jsonschema_rs.Draft202012Validator({**schema, **shared})
                for error in validator.iter_errors(example):
                    raise AssertionError(f"{operation['operationId']}: {error}")
            if _answers_json(operation):
                assert _has_examples(operation), f"make examples: {operation['operationId']}"


def _has_examples(operation: dict[str, Any]) -> bool:
    """Of the body where it takes one, and of one way to succeed."""
    fine = [answer for status, answer in operation["responses"].items() if status.startswith("2")]
    bodies = [content for answer in fine for content in answer.get("content", {}).values()]
    answered = not bodies or any("example" in content for content in bodies)
    asked = operation.get("requestBody", {}).get("content", {}).values()
    return answered and all("example" in content for content in asked)
