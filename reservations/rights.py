"""May the caller do this to a reservation that exists (R38)?"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from bettercompute.iam import decisions, projection
from bettercompute.iam.callers import Caller
from bettercompute.iam.decisions import Attributes, Decision
from pools import attributes as requested
from reservations.models import Reservation

EXTEND = "compute:reservations:extend"
READ = "compute:reservations:read"
SHARE = "compute:reservations:share"

_KNOWN = {field.name for field in fields(Attributes)}


def attributes_of(reservation: Reservation) -> Attributes:
    """What the policies know of it."""
    return _known_as(reservation, projection.attributes_of(reservation.id))


def attributes_of_many(reservations: Sequence[Reservation]) -> dict[str, Attributes]:
    """The same of several, by their ids."""
    known = projection.attributes_of_many([each.id for each in reservations])
    return {each.id: _known_as(each, known.get(each.id, {})) for each in reservations}


def _known_as(reservation: Reservation, known: Mapping[str, Any]) -> Attributes:
    values = {name: value for name, value in known.items() if name in _KNOWN}
    for name, value in values.items():
        if isinstance(value, list):
            values[name] = tuple(value)
    return Attributes(
        **{
            **values,
            "tenant": reservation.tenant_id,
            "owner": reservation.owner_id,
            "pool": reservation.pool_id,
        }
    )


def may_extend(
    caller: Caller, reservation: Reservation, *, attributes: Attributes | None = None
) -> Decision:
    """Whether the policies let the caller extend or renew it, as it is or as it would become."""
    held = requested.held(caller, owner_id=reservation.owner_id, besides=reservation.id)
    return decisions.decide(
        caller,
        EXTEND,
        resource_id=reservation.id,
        attributes=requested.beside(attributes or attributes_of(reservation), held),
    )


def require_read(caller: Caller, reservation: Reservation) -> None:
    """Raise unless the policies let the caller read it.

    Raises:
        errors.AccessDenied: they do not.
    """
    decision = decisions.decide(
        caller,
        READ,
        resource_id=reservation.id,
        attributes=Attributes(
            tenant=reservation.tenant_id,
            owner=reservation.owner_id,
            users=len(reservation.shared_with),
            shared_with=tuple(reservation.shared_with),
        ),
    )
    decision.require()


def may_share(caller: Caller, reservation: Reservation, *, users: Sequence[str]) -> Decision:
    """Whether the policies let the caller share it with exactly these."""
    after = replace(attributes_of(reservation), users=len(users), shared_with=tuple(users))
    return decisions.decide(caller, SHARE, resource_id=reservation.id, attributes=after)
