"""Sharing: naming members of the tenant who may use a reservation, beside its owner.

They read it and its binding, find it among what is shared with them, and see it in their calendar.
They do not release, extend or share it on. Only members can be named; whoever leaves the tenant is
off the list with that, since membership is looked up when the list is read and not stored in it.
The owner needs no entry, so naming the owner changes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db import transaction

from bettercompute import errors, sql, states
from bettercompute.iam import memberships, projection
from bettercompute.iam.callers import Caller
from bettercompute.web import etags
from bettercompute.wire.reservations import USERS_MAX
from reservations import lifecycle, queries, rights
from reservations.lifecycle import Effects
from reservations.models import Reservation

SHARING = sql.load(__package__, "sharing")

ATTEMPTS_MAX = 3


@dataclass(frozen=True, slots=True)
class Change:
    """Whom to put on the list, and whom to take off."""

    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()

    def after(self, before: frozenset[str], owner_id: str) -> frozenset[str]:
        """The list as it becomes."""
        return (before | set(self.add)) - set(self.remove) - {owner_id}


class _Overtaken(Exception):
    """Somebody else changed the list between our decision and our lock."""


def change(
    caller: Caller,
    wanted: Change,
    *,
    reservation_id: str,
    if_match: frozenset[int] | None = None,
) -> Reservation:
    """Change who may use it; what is so already changes nothing.

    Raises:
        errors.NotFound: the caller's tenant has no such reservation.
        errors.InvalidInput: somebody to add is no member of the tenant; or it would be too many.
        errors.AccessDenied: the caller is neither its owner nor an admin, or a policy denies it.
        errors.PreconditionFailed: ``if_match`` has not the current version (C2).
        errors.InvalidState: it has ended.
        errors.Conflict: the list kept changing meanwhile.
    """
    reservation = queries.access(caller, reservation_id)
    _check(caller, wanted)
    for _ in range(ATTEMPTS_MAX):
        before = named(reservation_id)
        after = wanted.after(before, reservation.owner_id)
        _require_room(before, after)
        rights.require_share(caller, reservation, users=sorted(after))
        try:
            return _apply(caller, reservation_id, before, after, if_match=if_match)
        except _Overtaken:
            pass
    raise errors.Conflict("Who may use it was changed meanwhile.", reservationId=reservation_id)


def named(reservation_id: str) -> frozenset[str]:
    """Everybody on the list, also who has left the tenant since."""
    return frozenset(key for (key,) in SHARING.all("named", id=reservation_id))


def _check(caller: Caller, wanted: Change) -> None:
    both = set(wanted.add) & set(wanted.remove)
    if both:
        at = next(index for index, key in enumerate(wanted.remove) if key in both)
        raise errors.InvalidInput.at(f"remove[{at}]", "is in add as well")
    memberships.require(caller.tenant_id, wanted.add, field="add")


def _require_room(before: frozenset[str], after: frozenset[str]) -> None:
    if len(after) > max(USERS_MAX, len(before)):
        raise errors.InvalidInput.at("add", f"at most {USERS_MAX} may share a reservation")


def _apply(
    caller: Caller,
    reservation_id: str,
    before: frozenset[str],
    after: frozenset[str],
    *,
    if_match: frozenset[int] | None,
) -> Reservation:
    """Make the list ``after``, provided that it is still the one that was decided about."""
    with transaction.atomic(durable=True):
        reservation = queries.access_locked(caller, reservation_id)
        etags.require(reservation.version, if_match)
        _require_live(reservation)
        if named(reservation_id) != before:
            raise _Overtaken
        if after != before:
            _write(reservation, added=sorted(after - before), removed=sorted(before - after))
    return reservation


def _require_live(reservation: Reservation) -> None:
    if reservation.state in states.RESERVATION.terminal:
        raise errors.InvalidState(
            f"It is {reservation.state}; nobody can use it any more.", state=reservation.state
        )


def _write(reservation: Reservation, *, added: Sequence[str], removed: Sequence[str]) -> None:
    SHARING.run("add", id=reservation.id, account_ids=list(added))
    SHARING.run("remove", id=reservation.id, account_ids=list(removed))
    lifecycle.touch(reservation)
    left = sorted(named(reservation.id))
    projection.amend(reservation.id, {"users": len(left), "shared_with": left})
    effects = Effects()
    effects.event(reservation, "users-changed", added=list(added), removed=list(removed))
    effects.flush()
