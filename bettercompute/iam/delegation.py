"""Delegation: a person lets a program act for them, and keeps some of it for themselves (R36).

A token with a delegation is an agent's. It may what its person may, policies see
``context.delegated``, and the actions it holds for confirmation wait for the person. It never makes
credentials or changes rules, whatever policies say (``access.require_person``).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import get_args

from bettercompute.wire.iam import DelegationAsk, Holdable

HOLDABLE: tuple[str, ...] = get_args(Holdable)
#: In words: what a person is asked about.
WORDS = {
    "compute:reservations:create": "Reserving",
    "compute:reservations:extend": "Extending, and renewing a lease",
    "compute:reservations:release": "Releasing and cancelling",
    "compute:reservations:share": "Sharing",
}


@dataclass(frozen=True, slots=True)
class Delegation:
    """Which agent acts, and what its person confirms first."""

    agent: str
    confirm: frozenset[str] = frozenset()

    def asking_before(self, action: str) -> "Delegation":
        """The same with one action more that waits for the person."""
        return replace(self, confirm=self.confirm | {action})


def asked(wanted: DelegationAsk | None) -> Delegation | None:
    """As the wire asks for it; None where a token is for oneself."""
    return None if wanted is None else Delegation(wanted.agent, frozenset(wanted.confirm))


def remaining(agent: str, *, confirmed: bool) -> Delegation | None:
    """For judging anew what an agent asked for: as the agent's, without asking anybody again.

    What its person has confirmed is judged as their own, as it was then.
    """
    return None if confirmed else stored(agent, ())


def stored(agent: str, confirm: Sequence[str]) -> Delegation | None:
    """As a token's row says it; None where its owner uses it themselves."""
    return Delegation(agent, frozenset(confirm)) if agent else None
