"""Host resources that a request books with its GPUs (R30).

Each GPU carries a share of its host's CPUs and memory: what the pool's policy says, else the
smallest share any of its GPU hosts can give. The share is the floor, needs no quota of its own and
is recorded as ``hostShare``; what a request asks beyond it is charged.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from nodes.resources import HUGEPAGES_1GI, MEMORY_GIB, VCPU
from pools import hardware, quota
from pools.catalogue import PoolAccess
from pools.planner import request as planning
from pools.requests import NormalisedRequest

Amounts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Share:
    """What a request books of each of its hosts, at the full count, and what of it is charged."""

    recorded: dict[str, int]  #: ``hostShare``: what comes with the GPUs; zeros left out
    booked: dict[str, int]  #: what each host gives: the share, or more where more was asked
    excess: dict[str, int]  #: beyond the share, over all hosts, by quota resource
    totals: dict[str, int]  #: booked over all hosts: what a policy decides on


def host_share(access: PoolAccess, request: NormalisedRequest) -> Share:
    """The request's share of its hosts, resolved once: when the draft is written."""
    recorded = _share(access, request)
    return resolve(recorded, request)


def resolve(recorded: Amounts, request: NormalisedRequest) -> Share:
    """The share of a request whose ``hostShare`` was recorded before: for a later placement."""
    asked = request.resources
    booked = {
        name: max(recorded.get(name, 0), asked.get(name, 0))
        for name in (HUGEPAGES_1GI, MEMORY_GIB, VCPU)
    }
    nodes = request.node_count
    return Share(
        recorded=dict(recorded),
        booked={name: amount for name, amount in booked.items() if amount},
        excess={
            name: amount * nodes
            for name, amount in {
                quota.VCPU: booked[VCPU] - recorded.get(VCPU, 0),
                # 1 GiB huge pages are memory.
                quota.MEMORY_GIB: booked[MEMORY_GIB]
                - recorded.get(MEMORY_GIB, 0)
                + booked[HUGEPAGES_1GI],
            }.items()
            if amount
        },
        totals={
            VCPU: booked[VCPU] * nodes,
            MEMORY_GIB: (booked[MEMORY_GIB] + booked[HUGEPAGES_1GI]) * nodes,
        },
    )


def charges(request: NormalisedRequest, share: Share, access: PoolAccess) -> dict[str, int]:
    """All that a reservation is charged, by quota resource."""
    milli = request.gpu_milli(access.policy.sharing.replicas)
    return {quota.GPU_MILLI: milli, **share.excess}


def _share(access: PoolAccess, request: NormalisedRequest) -> dict[str, int]:
    replicas = access.policy.sharing.replicas
    gpus = Fraction(planning.full_worth(request.lines, replicas), planning.gpu_worth(replicas))
    per_gpu = _per_gpu(access)
    amounts = {name: int(rate * gpus) for name, rate in per_gpu.items()}
    return {name: amount for name, amount in sorted(amounts.items()) if amount}


def _per_gpu(access: PoolAccess) -> dict[str, Fraction]:
    policy = {
        VCPU: access.policy.per_gpu.vcpu,
        MEMORY_GIB: access.policy.per_gpu.memory_gib,
    }
    rates = {name: Fraction(amount) for name, amount in policy.items() if amount is not None}
    missing = sorted(set(policy) - set(rates))
    if missing:
        smallest = hardware.smallest_shares(access)
        rates |= {resource: smallest[resource] for resource in missing if resource in smallest}
    return rates
