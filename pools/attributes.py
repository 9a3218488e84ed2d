"""What a request asks for, as the policies see it (R38): the same for a preview and a create."""

from collections.abc import Sequence
from dataclasses import replace

from bettercompute.iam import decisions
from bettercompute.iam.callers import Caller
from bettercompute.iam.decisions import Attributes
from pools import hardware, prices, quota
from pools.catalogue import PoolAccess
from pools.planner.request import Line
from pools.quota import Held
from pools.requests import NormalisedRequest
from pools.shares import Share

MINUTE_MS = 60_000


def of(access: PoolAccess, request: NormalisedRequest, share: Share, *, now_ms: int) -> Attributes:
    """Sums over all nodes, counts at their most, every class and model that may be given.

    Durations round up, so that a cap of 60 minutes refuses 60 minutes and a second.
    """
    lines = [line for options in request.lines for line in options]
    ahead_ms = 0 if request.start_ms is None else max(0, request.start_ms - now_ms)
    return Attributes(
        gpus=request.gpus,
        gpu_milli=request.gpu_milli(access.policy.sharing.replicas),
        classes=tuple(sorted({str(line.device_class) for line in lines})),
        models=_models(access, lines),
        region=access.region,
        duration_minutes=-(-request.duration_ms // MINUTE_MS),
        lead_minutes=ahead_ms // MINUTE_MS,
        ahead_minutes=-(-(ahead_ms + request.duration_ms) // MINUTE_MS),
        vcpu=share.totals["vcpu"],
        memory_gib=share.totals["memoryGiB"],
        spot=request.spot,
        binding=str(request.binding),
        nodes=request.node_count,
        priority=request.priority,
        pool=access.pool_id,
        users=len(request.users),
        shared_with=request.users,
    )


def held(caller: Caller, *, owner_id: str, besides: str = "") -> Held | None:
    """What the owner holds beside this reservation; None where no policy weighs it."""
    if not decisions.weigh_holdings(caller):
        return None
    return quota.held(caller.tenant_id, owner_id, besides=besides)


def beside(asked: Attributes, held: Held | None) -> Attributes:
    """What is asked for, beside what its owner holds."""
    if held is None:
        return asked
    gpus = -(-held.gpu_milli // prices.MILLI)
    return replace(asked, held_gpus=gpus, held_reservations=held.reservations)


def _models(access: PoolAccess, lines: Sequence[Line]) -> tuple[str, ...]:
    """The models named; and of the pool's, those that a line which names none may be given.

    So a rule for H100s also meets the request that would take any GPU of a pool of H100s.
    """
    named: set[str] = set()
    open_lines = []
    for line in lines:
        terms = [term for term in line.selector if term.key == "model" and term.op in {"=", "in"}]
        named.update(str(value) for term in terms for value in term.values)
        if not terms:
            open_lines.append(line)
    if open_lines:
        named.update(hardware.models(access))
    return tuple(sorted(named))
