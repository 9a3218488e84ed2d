"""The catalogue for programs: JSON Schema 2020-12 of every type of event, whole."""

from functools import cache
from typing import Any

from bettercompute import errors
from bettercompute.wire import events as wire
from outbox import catalog
from outbox.catalog import EventType

DIALECT = "https://json-schema.org/draft/2020-12/schema"
EXAMPLE_TIME = 1_772_442_000_000
_TENANT = "ten_01kb2v9q3n8x4t6m2h5r7w1y0z"
# An id of each kind of thing that events are about.
_SUBJECTS = {
    "reservation": "rsv_abc",
    "series": "ser_abc",
    "confirmation": "cnf_01kb2v9q3n8x4t6m2h5r7w1y0z",
    "node": "node_01kb2v9q3n8x4t6m2h5r7w1y0z",
    "device": "GPU-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c",
    "pool": "pool_01kb2v9q3n8x4t6m2h5r7w1y0z",
    "quota": "gpuMilli",
    "webhook": "whk_01kb2v9q3n8x4t6m2h5r7w1y0z",
}


@cache
def all_types() -> wire.EventCatalog:
    """Every type, in the order of the catalogue."""
    return wire.EventCatalog(items=[shown(kind) for kind in catalog.TYPES])


def named(name: str) -> wire.EventType:
    """One type.

    Raises:
        NotFound: the catalogue has none of this name.
    """
    kind = catalog.BY_NAME.get(name)
    if kind is None:
        raise errors.NotFound(f"There is no type of event {name[:100]}; GET /api/v1/events/catalog")
    return shown(kind)


def shown(kind: EventType) -> wire.EventType:
    """A type with its schema and an example."""
    return wire.EventType(
        type=kind.name, meaning=kind.meaning, example=example(kind), json_schema=schema(kind)
    )


def schema(kind: EventType) -> dict[str, Any]:
    """JSON Schema of a whole event of this type; clients ignore fields that it does not know."""
    return {
        "$schema": DIALECT,
        "title": kind.name,
        "description": kind.meaning,
        "type": "object",
        "properties": {
            "id": {"type": "string", "pattern": "^evt_"},
            "type": {"const": kind.name},
            "tenantId": {"type": "string"},
            "subject": {"type": "string", "pattern": f"^{kind.subject}/"},
            "data": data_schema(kind),
            "time": {"type": "integer", "description": "Epoch milliseconds."},
        },
        "required": ["id", "type", "tenantId", "subject", "data", "time"],
    }


def data_schema(kind: EventType) -> dict[str, Any]:
    """What is in ``data``. What is null inside is left out on the wire."""
    found = kind.data.model_json_schema(by_alias=True, mode="serialization")
    # A later release may say more: that is no break, so a schema must not forbid it.
    found.pop("additionalProperties", None)
    found["properties"] = {name: _never_null(each) for name, each in found["properties"].items()}
    optional = {field.alias for field in kind.data.model_fields.values() if not field.is_required()}
    found["required"] = [name for name in found["properties"] if name not in optional]
    return found


def example(kind: EventType) -> wire.Event:
    """A whole event with the example's data."""
    return wire.Event(
        id="evt_01kb2v9q3n8x4t6m2h5r7w1y0z",
        type=kind.name,
        tenant_id=_TENANT,
        subject=f"{kind.subject}/{_SUBJECTS[kind.subject]}",
        data=dict(kind.example),
        time=EXAMPLE_TIME,
    )


def _never_null(field: dict[str, Any]) -> dict[str, Any]:
    branches = [each for each in field.get("anyOf", []) if each != {"type": "null"}]
    rest = {name: value for name, value in field.items() if name not in {"anyOf", "default"}}
    if len(branches) > 1:
        rest["anyOf"] = branches
    elif branches:
        rest.update(branches[0])
    return rest
