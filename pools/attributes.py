"""What a request asks for, as the policies see it (R38): the same for a preview and a create."""

from collections.abc import Sequence

from bettercompute.iam.decisions import Attributes
from pools import hardware
from pools.catalogue import PoolAccess
from pools.planner.request import Line
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
        vcpu=share.totals["vcpu"],
        memory_gib=share.totals["memoryGiB"],
        spot=request.spot,
        binding=str(request.binding),
        nodes=request.node_count,
        pool=access.pool_id,
        users=len(request.users),
        shared_with=request.users,
    )


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
