"""What a tenant may hold at once: charged before placing, given back at the end (C14, R11).

A charge is one guarded statement that also writes a *charge row* per resource; a refund deletes
those rows and gives back what they said. So use is always the sum of the charge rows, no refund
happens twice, and no charge passes the limit, whoever else runs. A resource without a row is
granted nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bettercompute import errors, sql

QUOTA = sql.load(__package__, "quota")

GPU_MILLI = "gpuMilli"
VCPU = "vcpu"
MEMORY_GIB = "memoryGiB"
RESOURCES = (GPU_MILLI, MEMORY_GIB, VCPU)
AMOUNT_MAX = 2**63 - 1

Amounts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Usage:
    """One quota: what is held of a resource, and the most that may be."""

    resource: str
    used: int
    max: int


@dataclass(frozen=True, slots=True)
class Unbalanced:
    """A quota whose use is not the sum of its charges."""

    tenant_id: str
    resource: str
    used: int
    charged: int


def charge(tenant_id: str, owner_key: str, amounts: Amounts) -> None:
    """Charge a reservation for all these amounts or none, in the caller's transaction.

    Raises:
        errors.QuotaExceeded: with the resource, what is used of it, the limit and what was asked.
        errors.InvalidInput: an amount that no quota can hold.
    """
    asked = _checked(amounts)
    if not asked:
        return
    charged = QUOTA.run(
        "charge",
        tenant_id=tenant_id,
        owner_key=owner_key,
        resources=list(asked),
        amounts=list(asked.values()),
    )
    if charged != len(asked):
        assert charged == 0, "a charge is all or nothing"
        raise _exceeded(tenant_id, asked)


def refund(owner_key: str) -> None:
    """Give back all that a reservation was charged; nothing the second time."""
    refund_many([owner_key])


def refund_many(owner_keys: Sequence[str]) -> None:
    """``refund`` for many reservations, in one statement."""
    QUOTA.run("refund", owner_keys=list(owner_keys))


def lower(owner_key: str, amounts: Amounts) -> None:
    """Charge only this much from now on, where more was charged: a count range took fewer."""
    assert all(amount > 0 for amount in amounts.values()), "a charge is positive; else refund"
    QUOTA.run(
        "lower",
        owner_key=owner_key,
        resources=list(amounts),
        amounts=list(amounts.values()),
    )


def usage(tenant_id: str) -> list[Usage]:
    """Every quota of a tenant."""
    return [Usage(*row) for row in QUOTA.all("usage", tenant_id=tenant_id)]


def after(tenant_id: str, amounts: Amounts) -> list[Usage]:
    """The quotas a charge would touch, as they would be after it; over the limit included."""
    known = {row.resource: row for row in usage(tenant_id)}
    return [
        Usage(resource, row.used + amount, row.max)
        for resource, amount in _checked(amounts).items()
        for row in [known.get(resource, Usage(resource, 0, 0))]
    ]


def set_max(tenant_id: str, resource: str, maximum: int) -> None:
    """Set a tenant's limit; below what is held is accepted and admits nothing new.

    Raises:
        errors.InvalidInput: an unknown resource, or a limit that cannot be stored.
    """
    if resource not in RESOURCES:
        raise errors.InvalidInput.at("resource", f"must be one of {', '.join(RESOURCES)}")
    if not 0 <= maximum <= AMOUNT_MAX:
        raise errors.InvalidInput.at("max", "must be between 0 and 2^63 - 1")
    QUOTA.run("set_max", tenant_id=tenant_id, resource=resource, max=maximum)


def grant_missing(tenant_id: str, amounts: Amounts) -> None:
    """Give limits to a tenant that has none for these resources: an offer names them (R30)."""
    granted = _checked(amounts)
    QUOTA.run(
        "grant_missing",
        tenant_id=tenant_id,
        resources=list(granted),
        amounts=list(granted.values()),
    )


def unbalanced() -> list[Unbalanced]:
    """Quotas whose books do not balance; there must be none."""
    return [Unbalanced(*row) for row in QUOTA.all("unbalanced")]


def _checked(amounts: Amounts) -> dict[str, int]:
    """The positive amounts, sorted by resource (the lock order within the table)."""
    for resource, amount in amounts.items():
        if not 0 <= amount <= AMOUNT_MAX:
            raise errors.InvalidInput.at(resource, "is more than any quota can hold")
    return {name: amounts[name] for name in sorted(amounts) if amounts[name]}


def _exceeded(tenant_id: str, asked: Amounts) -> errors.QuotaExceeded:
    """Which quota is in the way; read after the fact, so it may have room again by now."""
    known = {row.resource: row for row in usage(tenant_id)}
    rows = [known.get(resource, Usage(resource, 0, 0)) for resource in asked]
    row = max(rows, key=lambda row: row.used + asked[row.resource] - row.max)
    amount = asked[row.resource]
    return errors.QuotaExceeded(
        f"{amount} {row.resource} more would exceed the quota: {row.used} of {row.max} are in use.",
        resource=row.resource,
        used=row.used,
        max=row.max,
        asked=amount,
    )
