"""Renewing a lease: a holder that may die without cleaning up says that it lives (R32)."""

from datetime import timedelta

from django.db import transaction

from bettercompute import errors, states
from bettercompute.acts import Thing
from bettercompute.audit import entries
from bettercompute.iam.callers import Caller
from bettercompute.web import etags
from reservations import lifecycle, queries, rights
from reservations.confirming import asking
from reservations.confirming.asking import Approval
from reservations.confirming.rows import Intent
from reservations.models import Reservation


def renew(
    caller: Caller, *, reservation_id: str, if_match: frozenset[int] | None = None
) -> Reservation:
    """Move the lease's deadline to now plus its length; ``during`` stays as it is.

    Raises:
        errors.NotFound: the caller's tenant has no such reservation.
        errors.AccessDenied: a policy denies it.
        errors.ConfirmationRequired: an agent's person has to approve it first.
        errors.PreconditionFailed: ``if_match`` has not the current version (C2).
        errors.InvalidState: it has no lease, is not placed, or has ended.
    """
    granted = _authorise(caller, queries.access(caller, reservation_id))
    with transaction.atomic(durable=True):
        reservation = queries.access_locked(caller, reservation_id)
        etags.require(reservation.version, if_match)
        _require_lease(reservation)
        assert reservation.lease_seconds is not None
        # The reconciler's next look stays where it was: it finds the later deadline then.
        deadline = reservation.read_at + timedelta(seconds=reservation.lease_seconds)
        lifecycle.amend(reservation, {"lease_until": deadline})
        asking.use(granted)
        entries.record(
            "compute:reservations:renew", Thing("reservation", reservation_id), until=deadline
        )
    return reservation


def _authorise(caller: Caller, reservation: Reservation) -> Approval | None:
    decision = rights.may_extend(caller, reservation)
    if decision.effect == "confirm":
        _require_lease(reservation)  # else nothing would come of it, and nobody is asked
    asked = {"verb": "renew", "leaseSeconds": reservation.lease_seconds}
    return asking.approval(caller, decision, Intent(rights.EXTEND, reservation.id, asked))


def _require_lease(reservation: Reservation) -> None:
    if reservation.lease_seconds is None:
        raise errors.InvalidState(
            "It was made without leaseSeconds, so there is nothing to renew.",
            state=reservation.state,
        )
    if reservation.state not in states.HOLDING:
        raise errors.InvalidState(
            f"Only what is placed, binding or active is renewed; this is {reservation.state}.",
            state=reservation.state,
        )
