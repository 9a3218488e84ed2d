"""Links of the OpenAPI document: from what answers a thing to every operation on that thing.

Where in an answer the id of a thing is, is said here; the rest is read from the document. So a new
operation on a known thing is linked to as soon as there is one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

#: By parameter of paths: which operations answer such a thing, and where its id is.
ANSWERED: Mapping[str, Mapping[str, str]] = {
    "reservation_id": {
        "reservations.create": "id",
        "reservations.get": "id",
        "reservations.list": "items/0/id",
    },
    "series_id": {
        "reservations.create": "seriesId",  # null where nothing repeats
        "series.get": "id",
        "series.list": "items/0/id",
    },
    "token_id": {"tokens.create": "id", "tokens.list": "items/0/id"},
    "confirmation_id": {"confirmations.get": "id", "confirmations.list": "items/0/id"},
    "policy_id": {"policies.create": "id", "policies.get": "id", "policies.list": "items/0/id"},
    "feed_id": {"feeds.create": "id", "feeds.list": "items/0/id"},
    "webhook_id": {"webhooks.create": "id", "webhooks.get": "id", "webhooks.list": "items/0/id"},
    "delivery_id": {"webhooks.test": "id", "webhooks.deliveries.list": "items/0/id"},
    "pool_id": {"pools.list": "items/0/id", "pools.get": "id"},
    "node_id": {"nodes.list": "items/0/id", "nodes.get": "id"},
    "maintenance_id": {
        "pools.maintenance": "maintenance/id",
        "nodes.maintenance": "maintenance/id",
        "pools.maintenance.get": "items/0/id",
        "nodes.maintenance.get": "items/0/id",
    },
    "event_id": {"events.list": "items/0/id"},
    "type_name": {"events.catalog.list": "items/0/type"},
}
#: Likewise, by field of bodies that make something.
NAMED: Mapping[str, Mapping[str, str]] = {
    "poolId": {"pools.list": "items/0/id", "pools.get": "id"},
    "offerId": {"capacity.offers": "offers/0/id"},
}
_TENANT = "tenantId"
#: What others may be offered: its tenant is the owner, and not who asks.
_OFFERED = {"pool_id", "poolId", "node_id"}


@dataclass(frozen=True, slots=True)
class Operation:
    """What of an operation matters to links."""

    described: Json
    schemas: Json

    @property
    def name(self) -> str:
        """Its id."""
        return str(self.described["operationId"])

    def parameters(self, where: str) -> set[str]:
        """The names of its parameters in ``path`` or ``query``."""
        given = self.described.get("parameters", [])
        return {each["name"] for each in given if each.get("in") == where}

    def takes(self, field: str) -> bool:
        """Whether its body has a field."""
        return field in self._fields(self.described.get("requestBody", {}))

    def answers(self) -> Iterator[Json]:
        """Its answers that are documents, where it did what it was asked."""
        for status, answer in self.described["responses"].items():
            if status.startswith("2") and "application/json" in answer.get("content", {}):
                yield answer

    def tells(self, answer: Json, field: str) -> bool:
        """Whether an answer has a field."""
        return field in self._fields(answer)

    def _fields(self, content: Json) -> set[str]:
        schema = content.get("content", {}).get("application/json", {}).get("schema", {})
        return {name for one in self._ways(schema) for name in one.get("properties", {})}

    def _ways(self, schema: Json) -> Iterator[Json]:
        """What a schema stands for; several where there are several."""
        schema = self.schemas.get(schema.get("$ref", "").rpartition("/")[2], schema)
        yield schema
        for one in schema.get("oneOf", []):
            yield from self._ways(one)


def add(operations: list[Json], schemas: Json) -> None:
    """Have every answer with an id say what can be done with it."""
    known = [Operation(described, schemas) for described in operations]
    for source in known:
        for name, pointer in _ids_in(source):
            targets = [each for each in known if _leads_to(source, each, name)]
            for answer in source.answers():
                links = answer.setdefault("links", {})
                links |= {each.name: _link(source, answer, each, name, pointer) for each in targets}


def _ids_in(source: Operation) -> Iterator[tuple[str, str]]:
    for name, answered in {**ANSWERED, **NAMED}.items():
        if source.name in answered:
            yield name, answered[source.name]


def _leads_to(source: Operation, target: Operation, name: str) -> bool:
    """Whether all that the target's path needs is known then, and the id is for it."""
    needed = target.parameters("path")
    if target.name == source.name or not needed <= {name} | source.parameters("path"):
        return False
    return target.takes(name) if name in NAMED else name in needed


def _link(source: Operation, answer: Json, target: Operation, name: str, pointer: str) -> Json:
    parameters = {each: f"$request.path.{each}" for each in target.parameters("path") - {name}}
    body = {}
    if name in NAMED:
        body[name] = f"$response.body#/{pointer}"
    else:
        parameters[name] = f"$response.body#/{pointer}"
    tenant = _tenant(source, answer, name)
    if tenant and _TENANT in target.parameters("query"):
        parameters[_TENANT] = tenant
    elif tenant and target.takes(_TENANT):
        body[_TENANT] = tenant
    link: Json = {"operationId": target.name, "parameters": parameters, "requestBody": body}
    return {key: value for key, value in link.items() if value}


def _tenant(source: Operation, answer: Json, name: str) -> str | None:
    """For whom to ask: whose the thing is, or who asked for it."""
    if source.tells(answer, _TENANT) and name not in _OFFERED:
        return f"$response.body#/{_TENANT}"
    if source.takes(_TENANT):
        return f"$request.body#/{_TENANT}"
    if _TENANT in source.parameters("query"):
        return f"$request.query.{_TENANT}"
    return None
