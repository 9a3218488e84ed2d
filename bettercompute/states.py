"""Every state table (C3): the only source of what may follow what.

The database trigger of each table, the OpenAPI enums and the diagrams in docs/states.md are
generated from these or compared with them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class ReservationState(StrEnum):
    """Where a reservation is on its way from request to end (R23)."""

    DRAFT = "draft"
    AWAITING_CONFIRMATION = "awaiting-confirmation"
    PENDING = "pending"
    PLACED = "placed"
    BINDING = "binding"
    ACTIVE = "active"
    DENIED = "denied"
    RELEASED = "released"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


#: What anybody is shown: drafts are internal (R9).
VISIBLE = tuple(state for state in ReservationState if state is not ReservationState.DRAFT)

#: It has its devices, or will at its start: it can be extended, renewed and released.
HOLDING = (ReservationState.PLACED, ReservationState.BINDING, ReservationState.ACTIVE)


class ConfirmationState(StrEnum):
    """What an agent asks its person for (R36)."""

    OPEN = "open"  # the person has yet to answer
    APPROVED = "approved"  # the agent may do it, once
    USED = "used"  # and has
    DENIED = "denied"
    EXPIRED = "expired"  # nobody answered, or the agent did not come back, in time


class SeriesState(StrEnum):
    """A recurring reservation: whether more of its occurrences are booked."""

    ACTIVE = "active"
    ENDED = "ended"  # its rule has no occurrence ahead
    CANCELLED = "cancelled"


class AllocationState(StrEnum):
    """A reservation's part on one node: from booked to given back (R26, R35)."""

    PLACED = "placed"  # booked; the node need not know yet
    BINDING = "binding"  # in the node's desired state, not yet reported bound
    BOUND = "bound"  # the node reported its CDI devices
    RELEASING = "releasing"  # ended; the node has yet to confirm that it let go
    RELEASED = "released"
    FAILED = "failed"


class NodeState(StrEnum):
    """What a node is to the scheduler (C36); eligibility is this, cordons and taints together."""

    READY = "ready"
    UNREACHABLE = "unreachable"  # silent for over five minutes
    RETIRED = "retired"


class CommandState(StrEnum):
    """A command to a node (N10, N18)."""

    QUEUED = "queued"
    SENT = "sent"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    EXPIRED = "expired"


class ProvisionState(StrEnum):
    """Deploying a profile on a machine leased whole (R28)."""

    QUEUED = "queued"
    DEPLOYING = "deploying"
    VERIFYING = "verifying"
    READY = "ready"
    FAILED = "failed"


class EndpointState(StrEnum):
    """A webhook endpoint (A6)."""

    ENABLED = "enabled"
    DISABLED = "disabled"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Machine:
    """One state table: the table it guards and what may follow what."""

    table: str
    transitions: Mapping[str, frozenset[str]]

    @property
    def states(self) -> frozenset[str]:
        """All states of this machine."""
        return frozenset(self.transitions)

    @property
    def terminal(self) -> frozenset[str]:
        """States that nothing follows."""
        return frozenset(state for state, after in self.transitions.items() if not after)

    def allows(self, before: str, after: str) -> bool:
        """Whether ``after`` may follow ``before``."""
        return after in self.transitions[before]


def _machine(table: str, kind: type[StrEnum], moves: Mapping[StrEnum, set[StrEnum]]) -> Machine:
    transitions = {str(s): frozenset(str(t) for t in moves.get(s, set())) for s in kind}
    return Machine(table, transitions)


_R, _Q, _S, _A, _N, _C, _P, _E = (
    ReservationState,
    ConfirmationState,
    SeriesState,
    AllocationState,
    NodeState,
    CommandState,
    ProvisionState,
    EndpointState,
)

RESERVATION = _machine(
    "reservations",
    _R,
    {
        _R.DRAFT: {_R.AWAITING_CONFIRMATION, _R.DENIED, _R.PENDING, _R.PLACED, _R.EXPIRED},
        _R.AWAITING_CONFIRMATION: {_R.PENDING, _R.PLACED, _R.DENIED, _R.EXPIRED},
        _R.PENDING: {_R.PLACED, _R.CANCELLED, _R.EXPIRED, _R.FAILED},
        _R.PLACED: {_R.BINDING, _R.ACTIVE, _R.PENDING, _R.CANCELLED, _R.RELEASED, _R.FAILED},
        _R.BINDING: {_R.ACTIVE, _R.PENDING, _R.RELEASED, _R.FAILED},
        _R.ACTIVE: {_R.RELEASED},
    },
)
CONFIRMATION = _machine(
    "confirmations",
    _Q,
    {
        _Q.OPEN: {_Q.APPROVED, _Q.DENIED, _Q.EXPIRED},
        # denied: the person took it back, or a policy came between approval and act
        _Q.APPROVED: {_Q.USED, _Q.DENIED, _Q.EXPIRED},
    },
)
SERIES = _machine("reservation_series", _S, {_S.ACTIVE: {_S.ENDED, _S.CANCELLED}})
ALLOCATION = _machine(
    "allocations",
    _A,
    {
        _A.PLACED: {_A.BINDING, _A.BOUND, _A.RELEASED, _A.FAILED},
        _A.BINDING: {_A.BOUND, _A.RELEASING, _A.RELEASED, _A.FAILED},
        # back to binding: the node reported it released while it should hold it (BindingLost)
        _A.BOUND: {_A.BINDING, _A.RELEASING, _A.RELEASED},
        _A.RELEASING: {_A.RELEASED},
    },
)
NODE = _machine(
    "nodes",
    _N,
    {
        _N.READY: {_N.UNREACHABLE, _N.RETIRED},
        _N.UNREACHABLE: {_N.READY, _N.RETIRED},
    },
)
COMMAND = _machine(
    "commands",
    _C,
    {
        _C.QUEUED: {_C.SENT, _C.SUCCEEDED, _C.FAILED, _C.EXPIRED},
        _C.SENT: {_C.SUCCEEDED, _C.FAILED, _C.EXPIRED},
    },
)
PROVISION = _machine(
    "provisions",
    _P,
    {
        _P.QUEUED: {_P.DEPLOYING, _P.FAILED},
        _P.DEPLOYING: {_P.VERIFYING, _P.FAILED},
        _P.VERIFYING: {_P.READY, _P.FAILED},
    },
)
ENDPOINT = _machine(
    "webhook_endpoints",
    _E,
    {
        _E.ENABLED: {_E.DISABLED, _E.DELETED},
        _E.DISABLED: {_E.ENABLED, _E.DELETED},
    },
)

MACHINES: dict[str, Machine] = {
    "reservation": RESERVATION,
    "confirmation": CONFIRMATION,
    "reservation series": SERIES,
    "allocation": ALLOCATION,
    "node": NODE,
    "command": COMMAND,
    "provision": PROVISION,
    "webhook endpoint": ENDPOINT,
}
