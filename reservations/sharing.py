"""Sharing: naming members of the tenant who may use a reservation, beside its owner.

They read it and its binding, find it among what is shared with them, and see it in their calendar.
They do not release, extend or share it on. Only members can be named; whoever leaves the tenant is
off the list with that, since membership is looked up when the list is read and not stored in it.
The owner needs no entry, so naming the owner changes nothing.
"""

from dataclasses import dataclass

from django.db import transaction

from bettercompute import errors, sql, states
from bettercompute.iam import memberships, projection
from bettercompute.iam.callers import Caller
from bettercompute.web import etags
from bettercompute.wire.reservations import USERS_MAX
from reservations import lifecycle, queries, rights
from reservations.confirming import asking
from reservations.confirming.asking import Approval
from reservations.confirming.rows import Intent
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


@dataclass(frozen=True, slots=True)
class _Lists:
    """The list as it was decided about, as it becomes, and who let an agent do that."""

    before: frozenset[str]
    after: frozenset[str]
    granted: Approval | None


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
        errors.ConfirmationRequired: an agent's person has to approve it first.
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
        granted = _authorise(caller, reservation, before, after)
        listed = _Lists(before, after, granted)
        try:
            return _apply(caller, reservation_id, listed, if_match=if_match)
        except _Overtaken:
            pass
    raise errors.Conflict("Who may use it was changed meanwhile.", reservationId=reservation_id)


def named(reservation_id: str) -> frozenset[str]:
    """Everybody on the list, also who has left the tenant since."""
    return frozenset(key for (key,) in SHARING.all("named", id=reservation_id))


def _authorise(
    caller: Caller, reservation: Reservation, before: frozenset[str], after: frozenset[str]
) -> Approval | None:
    decision = rights.may_share(caller, reservation, users=sorted(after))
    if decision.effect == "confirm":
        _require_live(reservation)
        if after == before:
            return asking.UNASKED
    asked = {"verb": "share", "users": sorted(after)}
    return asking.approval(caller, decision, Intent(rights.SHARE, reservation.id, asked))


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
    lists: _Lists,
    *,
    if_match: frozenset[int] | None,
) -> Reservation:
    """Make the list ``after``, provided that it is still the one that was decided about."""
    before, after = lists.before, lists.after
    with transaction.atomic(durable=True):
        reservation = queries.access_locked(caller, reservation_id)
        etags.require(reservation.version, if_match)
        _require_live(reservation)
        if named(reservation_id) != before:
            raise _Overtaken
        if after != before:
            _write(reservation, lists)
    return reservation


def _require_live(reservation: Reservation) -> None:
    if reservation.state in states.RESERVATION.terminal:
        raise errors.InvalidState(
            f"It is {reservation.state}; nobody can use it any more.", state=reservation.state
        )


def _write(reservation: Reservation, lists: _Lists) -> None:
    added = sorted(lists.after - lists.before)
    removed = sorted(lists.before - lists.after)
    SHARING.run("add", id=reservation.id, account_ids=added)
    SHARING.run("remove", id=reservation.id, account_ids=removed)
    lifecycle.touch(reservation)
    left = sorted(named(reservation.id))
    projection.amend(reservation.id, {"users": len(left), "shared_with": left})
    effects = Effects()
    effects.event(reservation, "users-changed", added=added, removed=removed)
    asking.use(lists.granted)
    effects.flush()
