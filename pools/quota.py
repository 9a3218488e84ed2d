"""What a tenant may hold at once: charged before placing, given back at the end (C14, R11).

A charge is one guarded statement that also writes a *charge row* per resource; a refund deletes
those rows and gives back what they said. So use is always the sum of the charge rows, no refund
happens twice, and no charge passes a limit, whoever else runs.

A tenant has one quota of each resource over all its pools; a resource without one is granted
nothing. Beside it a pool, or the offer of a pool, may limit what the tenant holds there
(``pools.limits``); then all that apply must have room. A charge row names its pool, so each quota
counts the charges of its scope.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from django.db import transaction

from bettercompute import errors, sql, units
from outbox import events

QUOTA = sql.load(__package__, "quota")

GPU_MILLI = "gpuMilli"
VCPU = "vcpu"
MEMORY_GIB = "memoryGiB"
RESOURCES = (GPU_MILLI, MEMORY_GIB, VCPU)
AMOUNT_MAX = 2**63 - 1

Amounts = Mapping[str, int]
Scope = Literal["tenant", "pool", "offer"]
QuotaKey = tuple[str, str | None, str | None]


@dataclass(frozen=True, slots=True)
class Usage:
    """One quota: what is held of a resource, and the most that may be."""

    resource: str
    used: int
    max: int
    pool_id: str | None = None  #: None: over all pools
    pool_offer_id: str | None = None  #: by which the pool's owner lets the tenant book it

    @property
    def scope(self) -> Scope:
        """What it counts: all of the tenant's, what is in a pool, or held by a pool's offer."""
        if self.pool_id is None:
            return "tenant"
        return "pool" if self.pool_offer_id is None else "offer"

    @property
    def key(self) -> QuotaKey:
        """What tells it from the tenant's other quotas."""
        return (self.resource, self.pool_id, self.pool_offer_id)

    def as_wire(self) -> dict[str, Any]:
        """The fields it has on the wire."""
        return {**asdict(self), "scope": self.scope}


@dataclass(frozen=True, slots=True)
class Held:
    """What one member of a tenant holds or waits for."""

    reservations: int
    gpu_milli: int


@dataclass(frozen=True, slots=True)
class Unbalanced:
    """A quota whose use is not the sum of its charges."""

    tenant_id: str
    resource: str
    used: int
    charged: int
    pool_id: str | None = None
    offer_id: str | None = None


def charge(
    tenant_id: str,
    owner_key: str,
    amounts: Amounts,
    *,
    pool_id: str | None = None,
    account_id: str | None = None,
) -> None:
    """Charge a reservation for all these amounts or none, in the caller's transaction.

    Raises:
        errors.QuotaExceeded: with the quota that is in the way, what is used of it, its limit and
            what was asked.
        errors.InvalidInput: an amount that no quota can hold.
    """
    asked = _checked(amounts)
    if not asked:
        return
    charged = QUOTA.run(
        "charge",
        tenant_id=tenant_id,
        owner_key=owner_key,
        pool_id=pool_id,
        account_id=account_id,
        resources=list(asked),
        amounts=list(asked.values()),
    )
    if charged != len(asked):
        assert charged == 0, "a charge is all or nothing"
        raise _exceeded(tenant_id, asked, pool_id)


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
    """Every quota of a tenant: over all its pools first, then by pool."""
    return [Usage(*row) for row in QUOTA.all("usage", tenant_id=tenant_id)]


def held(tenant_id: str, account_id: str, *, besides: str = "") -> Held:
    """What a member of the tenant is charged for now, without the reservation ``besides``."""
    row = QUOTA.one("held", tenant_id=tenant_id, account_id=account_id, besides=besides)
    assert row is not None
    return Held(*row)


def after(tenant_id: str, amounts: Amounts, *, pool_id: str | None = None) -> list[Usage]:
    """The quotas a charge would touch, as they would be after it; over the limit included."""
    return beyond(usage(tenant_id), amounts, pool_id=pool_id)


def beyond(usages: Sequence[Usage], amounts: Amounts, *, pool_id: str | None) -> list[Usage]:
    """The same where all of a tenant's quotas have been read. Pure."""
    asked = _checked(amounts)
    return [
        replace(row, used=row.used + asked[row.resource])
        for row in _applying(usages, asked, pool_id)
    ]


def set_max(tenant_id: str, resource: str, maximum: int) -> None:
    """Set a tenant's limit; below what is held is accepted and admits nothing new.

    Raises:
        errors.InvalidInput: an unknown resource, or a limit that cannot be stored.
    """
    check_limit(resource, maximum)
    with transaction.atomic(savepoint=False):
        if QUOTA.run("set_max", tenant_id=tenant_id, resource=resource, max=maximum):
            tell(tenant_id, resource, maximum)


def tell(tenant_id: str, resource: str, maximum: int | None, *, pool_id: str | None = None) -> None:
    """Publish a new limit, or that one is gone, in the transaction that changed it (C20)."""
    events.publish(
        "quota.changed",
        tenant_id=tenant_id,
        subject=f"quota/{resource}",
        data={"resource": resource, "max": maximum, "poolId": pool_id},
    )


def check_limit(resource: str, maximum: int) -> None:
    """Refuse a limit that is none.

    Raises:
        errors.InvalidInput: an unknown resource, or a limit that cannot be stored.
    """
    if resource not in RESOURCES:
        raise errors.InvalidInput.at("resource", f"must be one of {', '.join(RESOURCES)}")
    if not 0 <= maximum <= AMOUNT_MAX:
        raise errors.InvalidInput.at("max", "must be between 0 and 2^63 - 1")


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


def _applying(usages: Sequence[Usage], asked: Amounts, pool_id: str | None) -> list[Usage]:
    """The quotas that a charge is judged by; the tenant's own too where it has none."""
    applying = [
        row
        for row in usages
        if row.resource in asked and (row.pool_id is None or row.pool_id == pool_id)
    ]
    granted = {row.resource for row in applying if row.pool_id is None}
    missing = [Usage(resource, 0, 0) for resource in asked if resource not in granted]
    return sorted(
        [*applying, *missing],
        key=lambda row: (row.pool_id or "", row.pool_offer_id or "", row.resource),
    )


def _exceeded(tenant_id: str, asked: Amounts, pool_id: str | None) -> errors.QuotaExceeded:
    """Which quota is in the way; read after the fact, so it may have room again by now."""
    rows = _applying(usage(tenant_id), asked, pool_id)
    row = max(rows, key=lambda row: row.used + asked[row.resource] - row.max)
    amount = asked[row.resource]
    named = {"poolId": row.pool_id, "poolOfferId": row.pool_offer_id}
    return errors.QuotaExceeded(
        f"{units.text(row.resource, amount)} more would exceed {_WHOSE[row.scope]}: "
        f"{units.number(row.resource, row.used)} of {units.text(row.resource, row.max)} are"
        " in use.",
        quota=row.scope,
        **{name: value for name, value in named.items() if value is not None},
        resource=row.resource,
        used=row.used,
        max=row.max,
        asked=amount,
    )


_WHOSE: Mapping[Scope, str] = {
    "tenant": "the quota",
    "pool": "the quota in this pool",
    "offer": "what this pool's offer allows",
}
