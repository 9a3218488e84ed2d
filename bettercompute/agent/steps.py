"""What an agent does next: desired × actual → steps. Pure.

Safety: no two holds ever share silicon (C15), nothing desired is let go, and nothing is decided by
the silence of a gateway or by the agent's clock (N15): no input here tells either.
Liveness: once every step is done, all that can be held of what is desired is held, all else is let
go, and the control plane was told of each.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from bettercompute.agent import atoms as atom_names
from bettercompute.agent.atoms import Atoms
from nodes.protocol.messages import Assignment

GIB = 1024**3
BINDINGS = ("hold",)


class Said(StrEnum):
    """What this agent last journaled of an allocation."""

    BOUND = "bound"
    FAILED = "failed"
    RELEASED = "released"


class Reason(StrEnum):
    """Why an allocation failed or was let go, on the wire."""

    OVERLAP = "overlap"
    UNKNOWN_DEVICE = "unknown-device"
    RESOURCES_EXHAUSTED = "resources-exhausted"
    UNSUPPORTED_BINDING = "unsupported-binding"
    BIND_FAILED = "bind-failed"
    ENDED = "ended"
    LOST = "binding-lost"


@dataclass(frozen=True, slots=True)
class Host:
    """What can be held here. Unknown memory (0) limits nothing."""

    atoms: Atoms
    memory_gib: int = 0


@dataclass(frozen=True, slots=True)
class Unbind:
    """Let go of a hold that nobody wants any more, and say so."""

    allocation_id: str


@dataclass(frozen=True, slots=True)
class Say:
    """Report an allocation as released that this node does not hold."""

    allocation_id: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class Refuse:
    """Report an allocation as failed that this node cannot hold."""

    allocation_id: str
    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class Bind:
    """Hold these devices, or write the hold again as it is wanted now, and say so."""

    assignment: Assignment


Step = Unbind | Say | Refuse | Bind


def plan(
    *,
    desired: Sequence[Assignment],
    ending: Collection[str] = (),
    held: Mapping[str, Assignment],
    said: Mapping[str, Said],
    host: Host,
) -> list[Step]:
    """Everything to do, in order: tell what was lost, let go, then hold.

    Letting go comes first, so that devices change hands within one generation.
    """
    wanted = {each.allocation_id: each for each in desired}
    steps: list[Step] = [*_tell(wanted, ending, held, said)]
    steps += [Unbind(each) for each in sorted(held.keys() - wanted.keys())]

    kept = {key: held[key] for key in held.keys() & wanted.keys()}
    for assignment in sorted(wanted.values(), key=lambda each: each.allocation_id):
        key = assignment.allocation_id
        if _holds(kept.get(key), assignment):
            if said.get(key) is not Said.BOUND:
                steps.append(Bind(assignment))
        elif said.get(key) is not Said.FAILED:
            others = [each for each in kept.values() if each.allocation_id != key]
            refusal = refusal_of(assignment, others=others, host=host)
            if refusal is None:
                steps.append(Bind(assignment))
                kept[key] = assignment
                continue
            if kept.pop(key, None) is not None:
                # What is said to have failed must not be held either, or it is booked twice.
                steps.append(Unbind(key))
            steps.append(refusal)
    return steps


def refusal_of(
    assignment: Assignment, *, others: Collection[Assignment], host: Host
) -> Refuse | None:
    """Why this cannot be held beside the others, or None where it can (C15, N14)."""

    def refuse(reason: Reason, message: str) -> Refuse:
        return Refuse(assignment.allocation_id, reason, message)

    if assignment.binding not in BINDINGS:
        return refuse(
            Reason.UNSUPPORTED_BINDING, f"this agent cannot bind as {assignment.binding!r}"
        )
    for name in assignment.device_ids:
        if host.atoms.get(name) is None:
            return refuse(Reason.UNKNOWN_DEVICE, f"this host has no device {name} to hand out")
    for other in others:
        shared = _shared(assignment, other)
        if shared:
            return refuse(Reason.OVERLAP, f"{shared} is held by {other.allocation_id}")
    memory = sum(each.limits.memory_bytes for each in (assignment, *others))
    if host.memory_gib and memory > host.memory_gib * GIB:
        return refuse(
            Reason.RESOURCES_EXHAUSTED,
            f"{memory / GIB:.1f} GiB of memory would be promised on a host of {host.memory_gib}",
        )
    return None


def _tell(
    wanted: Mapping[str, Assignment],
    ending: Collection[str],
    held: Mapping[str, Assignment],
    said: Mapping[str, Said],
) -> list[Say]:
    """What is not held, though the control plane believes that it is."""
    gone = {
        key
        for key, last in said.items()
        if last is Said.BOUND and key not in held and (key in wanted or key not in ending)
    }
    confirmed = {
        key
        for key in ending
        if key not in wanted and key not in held and said.get(key) is not Said.RELEASED
    }
    return [Say(key, Reason.LOST) for key in sorted(gone)] + [
        Say(key, Reason.ENDED) for key in sorted(confirmed)
    ]


def _holds(hold: Assignment | None, wanted: Assignment) -> bool:
    """Whether the hold is what is wanted; how long it is wanted is not part of a hold."""
    return hold is not None and (hold.device_ids, hold.limits, hold.binding) == (
        wanted.device_ids,
        wanted.limits,
        wanted.binding,
    )


def _shared(one: Assignment, other: Assignment) -> str:
    for name in one.device_ids:
        if any(atom_names.overlap(name, theirs) for theirs in other.device_ids):
            return name
    return ""
