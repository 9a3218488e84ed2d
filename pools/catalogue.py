"""Pools: what can be had, by whom, under which policy."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any

from django.db import transaction
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, ValidationError

from bettercompute import durations, errors, sql
from bettercompute.coordination import workqueue
from bettercompute.iam.callers import Caller
from bettercompute.iam.models import Tenant
from bettercompute.web import etags
from bettercompute.wire.base import WireModel
from bettercompute.wire.reservations import PRIORITY_MAX, Binding
from nodes import notices
from outbox import events
from outbox.events import NewEvent
from pools import limits, quota
from pools.models import Offer, Placer, Pool
from pools.requests import YEARS_5_MS, NormalisedRequest

CATALOGUE = sql.load(__package__, "catalogue")

DAY_MS = 86_400_000
REPLICAS_MAX = 48
PROTECT_MAX = 10


def _milliseconds(value: Any) -> Any:
    return durations.parse(value) if isinstance(value, str) else value


def _within_reach(milliseconds: int) -> int:
    """Longer means nothing: no request is; and there is an instant so far from every other."""
    if milliseconds > YEARS_5_MS:
        raise ValueError("must be at most 5 years")
    return milliseconds


DurationMs = Annotated[
    int, BeforeValidator(_milliseconds), Field(gt=0), AfterValidator(_within_reach)
]


class PolicyModel(WireModel):
    """Base of a pool's policy: strict and camelCase, as the wire."""

    model_config = ConfigDict(extra="forbid")


class PerGpu(PolicyModel):
    """Host resources that come with a GPU; what is absent is the smallest share of any host."""

    vcpu: Annotated[int, Field(ge=0, le=4_096)] | None = None
    memory_gib: Annotated[
        Annotated[int, Field(ge=0, le=65_536)] | None, Field(alias="memoryGiB")
    ] = None


class HostReserve(PolicyModel):
    """What a host keeps for itself."""

    vcpu: Annotated[int, Field(ge=0, le=4_096)] = 2


class SharingMode(StrEnum):
    """How a GPU is shared by the holders of its slots."""

    TIME_SLICING = "time-slicing"
    MPS = "mps"


class Sharing(PolicyModel):
    """How many slots a sliced GPU has: 4 where they take turns, 10 under MPS, unless it is said."""

    mode: SharingMode = SharingMode.TIME_SLICING
    replicas: Annotated[
        int,
        Field(
            ge=1,
            le=REPLICAS_MAX,
            default_factory=lambda given: 10 if given.get("mode") is SharingMode.MPS else 4,
        ),
    ]


class Spot(PolicyModel):
    """On what terms spot reservations give way (R19)."""

    notice_seconds: Annotated[int, Field(ge=1, le=86_400)] = 120
    min_run_seconds: Annotated[int, Field(ge=0, le=604_800)] = 0


class NoShow(PolicyModel):
    """When what was handed over and is not used ends: off unless a pool has it."""

    after_minutes: Annotated[int, Field(ge=5, le=10_080)]
    warn_minutes: Annotated[int, Field(ge=1, le=1_440)] = 10


class Queue(PolicyModel):
    """How the queued placer treats those that wait (R13).

    The first ``protect`` of the line keep their place: nobody behind them delays them.
    """

    protect: Annotated[int, Field(ge=0, le=PROTECT_MAX)] = 1


class PoolPolicy(PolicyModel):
    """A pool's limits and shares, stored in ``pools.policy``. Unset limits do not limit."""

    per_gpu: PerGpu = PerGpu()
    host_reserve: HostReserve = HostReserve()
    sharing: Sharing = Sharing()
    spot: Spot = Spot()
    no_show: NoShow | None = None
    kubernetes: bool = False
    tenant_root: bool = False
    max_ahead: DurationMs | None = None
    max_duration: DurationMs | None = None
    recurrence_ahead: DurationMs = 90 * DAY_MS  # how far occurrences of a series are booked
    max_pending: DurationMs = 7 * DAY_MS
    #: the highest priority that anybody but an admin of the pool's owner may ask for
    max_priority: Annotated[int, Field(ge=-PRIORITY_MAX, le=PRIORITY_MAX)] = 0
    queue: Queue = Queue()


@dataclass(frozen=True, slots=True)
class OfferTerms:
    """On what terms a pool is offered to the tenant that asks."""

    id: str
    resources: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class PoolAccess:
    """A pool that the tenant may book, and as what: owner or by an offer."""

    pool_id: str
    owner_id: str
    name: str
    region: str
    placer: Placer
    policy: PoolPolicy
    version: int
    owned: bool
    offer: OfferTerms | None
    hardware: int | None  #: another number after each change of what its hosts are made of
    budgeted: bool  #: whether any budget of the tenant counts what it reserves here
    governed: bool = False  #: whoever asks is an admin of its owner

    @property
    def queued(self) -> bool:
        """Whether requests line up for the pool's placer instead of being placed at once."""
        return self.placer is Placer.QUEUED


def access_pool(caller: Caller, pool_id: str) -> PoolAccess:
    """The pool, if the caller's tenant owns it or is offered it.

    Raises:
        errors.NotFound: there is no such pool, or it is neither.
    """
    row = CATALOGUE.one("access", pool_id=pool_id, tenant_id=caller.tenant_id)
    if row is None:
        raise errors.NotFound(f"There is no pool {pool_id}, or it is not offered to you.")
    access = _access(row, caller.tenant_id)
    return replace(access, governed=access.owned and caller.role == "admin")


def pools_for(caller: Caller) -> list[PoolAccess]:
    """Every pool the caller's tenant may book, its own first."""
    rows = CATALOGUE.all("access_all", tenant_id=caller.tenant_id)
    return [_access(row, caller.tenant_id) for row in rows]


def of_tenant(tenant_id: str, pool_id: str) -> PoolAccess:
    """The pool as a tenant that already holds something in it sees it: for reconcilers.

    An offer withdrawn meanwhile takes nothing from those who hold reservations.
    """
    row = CATALOGUE.one("by_id", pool_id=pool_id, tenant_id=tenant_id)
    if row is None:
        raise errors.NotFound(f"There is no pool {pool_id}.")
    return _access(row, tenant_id)


def as_itself(pool_id: str) -> PoolAccess | None:
    """The pool as nobody's: for what reconcilers do with all of it. None where there is none."""
    row = CATALOGUE.one("by_id", pool_id=pool_id, tenant_id="")
    return None if row is None else _access(row, "")


def lock(pool_id: str) -> None:
    """Keep the pool's other extensions, and batches, out until the transaction ends (R34)."""
    CATALOGUE.all("lock", pool_id=pool_id)


def check_binding(access: PoolAccess, request: NormalisedRequest) -> None:
    """Refuse a Kubernetes binding where the pool or the tenant may not have one (R27).

    Raises:
        errors.InvalidInput: at ``binding``.
    """
    if request.binding is not Binding.KUBERNETES:
        return
    if not access.policy.kubernetes:
        raise errors.InvalidInput.at("binding", "this pool has no Kubernetes binding; use hold")
    if not access.owned:
        raise errors.InvalidInput.at("binding", "kubernetes is only for the pool's owner; use hold")


def refusals(access: PoolAccess, request: NormalisedRequest, *, now_ms: int) -> list[str]:
    """Which limits of the pool the request passes: a policy's denial, not an input error (R2)."""
    policy, found = access.policy, []
    ahead_ms = 0 if request.start_ms is None else request.start_ms - now_ms
    if policy.max_ahead is not None and ahead_ms > policy.max_ahead:
        found.append(f"start at most {durations.human(policy.max_ahead)} ahead")
    if policy.max_duration is not None and request.duration_ms > policy.max_duration:
        found.append(f"duration at most {durations.human(policy.max_duration)}")
    if request.priority > policy.max_priority and not access.governed:
        found.append(f"priority at most {policy.max_priority} for all but its owner's admins")
    return found


def create_pool(
    tenant: Tenant,
    *,
    name: str,
    region: str = "",
    placer: Placer = Placer.INLINE,
    policy: Mapping[str, Any] | None = None,
) -> Pool:
    """A new pool of a tenant.

    Raises:
        errors.InvalidInput: the policy is not one, with the paths of what is wrong.
    """
    document = dict(policy or {})
    parse_policy(json.dumps(document))
    with transaction.atomic():
        pool = Pool.objects.create(
            tenant=tenant, name=name, region=region, placer=placer, policy=document
        )
        _tell("pool.created", pool)
    return pool


def change_pool(
    pool_id: str,
    *,
    region: str,
    policy: Mapping[str, Any],
    placer: Placer | None = None,
    if_match: frozenset[int] | None = None,
) -> None:
    """Other terms for a pool, from the next request on; what is reserved keeps its own.

    Whoever waits is looked at again: by the new placer, where that is another.

    Raises:
        errors.InvalidInput: the policy is not one, with the paths of what is wrong.
        errors.NotFound: there is no such pool.
        errors.PreconditionFailed: its version is not one of ``if_match`` (C2).
    """
    parse_policy(json.dumps(dict(policy)))
    with transaction.atomic():
        pool = Pool.objects.select_for_update(no_key=True).filter(pk=pool_id).first()
        if pool is None:
            raise errors.NotFound(f"There is no pool {pool_id}.")
        etags.require(pool.version, if_match)
        pool.region, pool.policy, pool.version = region, dict(policy), pool.version + 1
        pool.placer = pool.placer if placer is None else placer
        pool.save(update_fields=["region", "policy", "placer", "version"])
        workqueue.enqueue(notices.POOL_KIND, pool_id)
        _tell("pool.changed", pool)


def _tell(event: str, pool: Pool) -> None:
    events.publish(
        event,
        tenant_id=pool.tenant_id,
        subject=f"pool/{pool.pk}",
        data={"poolId": pool.pk, "name": pool.name},
    )


def offer(
    pool: Pool,
    tenant: Tenant,
    *,
    resources: Mapping[str, int] | None = None,
    if_match: frozenset[int] | None = None,
) -> Offer:
    """Let another tenant book a pool; once more changes nothing but the terms.

    ``resources`` are the most that the tenant may hold by it: GPUs, and CPUs and memory beyond the
    GPUs' share. For the latter it needs no quota of its own where the offer names them (R30).

    Raises:
        errors.InvalidInput: another resource is named, or an amount that is none.
        errors.PreconditionFailed: the offer's version is not one of ``if_match`` (C2).
    """
    named = dict(resources or {})
    _check_offered(named)
    with transaction.atomic():
        limits.await_charges()
        beyond_share = {name: most for name, most in named.items() if name != quota.GPU_MILLI}
        quota.grant_missing(tenant.pk, beyond_share)
        made, is_new = Offer.objects.select_for_update(no_key=True).get_or_create(
            pool=pool, tenant=tenant, defaults={"resources": named}
        )
        if not is_new:
            etags.require(made.version, if_match)
            made.resources, made.version = named, made.version + 1
            made.save(update_fields=["resources", "version"])
        limits.limit_offer(made.pk, named)
        _tell_both(pool, tenant, named)
    return made


def _tell_both(pool: Pool, tenant: Tenant, named: Mapping[str, int]) -> None:
    """An offer is told its owner and whom it is made to."""
    data = {"poolId": pool.pk, "toTenantId": tenant.pk, "resources": named or None}
    events.publish_many(
        NewEvent("pool.offered", each, f"pool/{pool.pk}", data)
        for each in dict.fromkeys((pool.tenant_id, tenant.pk))
    )


def _check_offered(named: Mapping[str, int]) -> None:
    for resource, most in named.items():
        path = f"resources.{resource}"
        if resource not in quota.RESOURCES:
            raise errors.InvalidInput.at(path, f"must be one of {', '.join(quota.RESOURCES)}")
        if type(most) is not int or not 0 <= most <= quota.AMOUNT_MAX:
            raise errors.InvalidInput.at(path, "must be a whole number between 0 and 2^63 - 1")


@lru_cache(maxsize=256)
def parse_policy(text: str) -> PoolPolicy:
    """A pool's policy from its JSON text; pure, so the cache can never be stale.

    Raises:
        errors.InvalidInput: with the path of each thing wrong.
    """
    try:
        return PoolPolicy.model_validate_json(text)
    except ValidationError as error:
        raise errors.InvalidInput(
            errors=[
                errors.FieldError(".".join(("policy", *map(str, found["loc"]))), found["msg"])
                for found in error.errors()
            ]
        ) from error


def _access(row: sql.Row, tenant_id: str) -> PoolAccess:
    (
        pool_id,
        owner_id,
        name,
        region,
        placer,
        policy,
        version,
        offer_id,
        resources,
        hardware,
        budgeted,
    ) = row
    return PoolAccess(
        pool_id=pool_id,
        owner_id=owner_id,
        name=name,
        region=region,
        placer=Placer(placer),
        policy=parse_policy(policy),
        version=version,
        owned=owner_id == tenant_id,
        offer=None if offer_id is None else OfferTerms(offer_id, json.loads(resources)),
        hardware=hardware,
        budgeted=budgeted,
    )
