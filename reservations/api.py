"""REST of reservations (A4)."""

import json

from django.http import HttpResponse
from rest_framework.request import Request

from bettercompute import clock, errors
from bettercompute.web import schema
from bettercompute.web.views import ApiView
from bettercompute.wire.base import TenantBody, TenantQuery
from bettercompute.wire.capacity import Preview
from bettercompute.wire.capacity_offers import CapacityOffers, CapacityOffersRequest
from bettercompute.wire.reservations import (
    Extended,
    ExtendRequest,
    Extension,
    NewReservation,
    Reservation,
    ReservationList,
    ReservationQuery,
    ReservationRequest,
    UsersChange,
)
from reservations import admission, ending, previews, queries, renewal, sharing, waiting
from reservations.extending import extension
from reservations.queries import Filters


class ReservationsView(ApiView):
    """The tenant's reservations."""

    @schema.describe(query=ReservationQuery, answers={200: ReservationList})
    def get(self, request: Request) -> HttpResponse:
        """List reservations, newest first."""
        wanted = self.query(ReservationQuery)
        filters = Filters(wanted.scope, tuple(wanted.state), wanted.pool_id, wanted.series_id)
        page = queries.page(
            self.caller(wanted.tenant_id), filters, limit=wanted.limit, cursor=wanted.cursor
        )
        return self.answer(ReservationList(items=list(page.items), next_cursor=page.next_cursor))

    @schema.describe(
        body=NewReservation,
        answers={201: Reservation, 200: Reservation},
        raises=[
            errors.ConfirmationRequired,
            errors.Conflict,
            errors.QuotaExceeded,
            errors.BudgetExceeded,
            errors.Unsupported,
        ],
        keyed=True,
    )
    def post(self, request: Request) -> HttpResponse:
        """Reserve devices: 201 for a new reservation, 200 for the one this key already reached."""
        wanted = self.body(NewReservation).root
        key = agreed_key(wanted.idempotency_key, self.idempotency_key())
        admitted = admission.admit(self.caller(wanted.tenant_id), wanted, idempotency_key=key)
        shown = admitted.shown or waiting.latest(admitted.reservation_id)
        answered = self.answer(
            shown,
            status=201 if admitted.created else 200,
            version=shown.version,
            live=shown.waiting is not None,
        )
        answered["Location"] = f"/api/v1/reservations/{shown.id}"
        if wanted.wait is not None and shown.operation.state == "running":
            answered["X-BetterCompute-Wait"] = json.dumps(
                {
                    "reservationId": shown.id,
                    "timeoutMs": waiting.capped(wanted.wait.timeout_ms),
                }
            )
        return answered


class PreviewView(ApiView):
    """Would it fit."""

    @schema.describe(body=ReservationRequest, answers={200: Preview}, raises=[errors.Unsupported])
    def post(self, request: Request) -> HttpResponse:
        """Preview a reservation: where it would go, or why it does not fit. Writes nothing."""
        wanted = self.body(ReservationRequest)
        return self.answer(previews.preview(self.caller(wanted.tenant_id), wanted))


class CapacityOffersView(ApiView):
    """Ways to have it."""

    @schema.describe(
        body=CapacityOffersRequest, answers={200: CapacityOffers}, raises=[errors.Unsupported]
    )
    def post(self, request: Request) -> HttpResponse:
        """Offer up to six ways to have it, each good for a minute and holding nothing."""
        wanted = self.body(CapacityOffersRequest)
        return self.answer(previews.offers(self.caller(wanted.tenant_id), wanted))


class ReservationView(ApiView):
    """One reservation."""

    @schema.describe(query=TenantQuery, answers={200: Reservation})
    def get(self, request: Request, reservation_id: str) -> HttpResponse:
        """Get a reservation."""
        caller = self.caller(self.query(TenantQuery).tenant_id)
        shown = queries.get(caller, reservation_id)
        return self.answer(shown, version=shown.version, live=shown.waiting is not None)


class RenewView(ApiView):
    """Renewing its lease."""

    @schema.describe(
        body=TenantBody,
        answers={200: Reservation},
        raises=[errors.ConfirmationRequired, errors.Conflict, errors.InvalidState],
        if_match=True,
    )
    def post(self, request: Request, reservation_id: str) -> HttpResponse:
        """Renew a reservation's lease: its deadline becomes now plus `leaseSeconds`."""
        caller = self.caller(self.body(TenantBody).tenant_id)
        renewed = renewal.renew(caller, reservation_id=reservation_id, if_match=self.if_match())
        shown = queries.answer(renewed.id)
        return self.answer(shown, version=shown.version)


class ExtendView(ApiView):
    """A later end."""

    @schema.describe(
        body=ExtendRequest,
        answers={200: Extended},
        raises=[
            errors.ConfirmationRequired,
            errors.Conflict,
            errors.InvalidState,
            errors.BudgetExceeded,
        ],
        if_match=True,
        keyed=True,
    )
    def post(self, request: Request, reservation_id: str) -> HttpResponse:
        """Extend a reservation, all or none; where others come next, say until when it could."""
        wanted = self.body(ExtendRequest)
        made = extension.extend(
            self.caller(wanted.tenant_id),
            wanted,
            reservation_id=reservation_id,
            idempotency_key=agreed_key(wanted.idempotency_key, self.idempotency_key()),
            if_match=self.if_match(),
        )
        shown = queries.answer(made.reservation.id)
        until = made.available_until
        answered = Extended(
            reservation=shown,
            extended=made.extended,
            available_until=None if until is None else clock.to_ms(until),
        )
        return self.answer(answered, version=shown.version)


class ExtensionView(ApiView):
    """How long it could go on."""

    @schema.describe(query=TenantQuery, answers={200: Extension}, raises=[errors.InvalidState])
    def get(self, request: Request, reservation_id: str) -> HttpResponse:
        """Get until when an extension could go now; null where nothing bounds it."""
        caller = self.caller(self.query(TenantQuery).tenant_id)
        until = extension.available_until(caller, reservation_id=reservation_id)
        return self.answer(Extension(available_until=None if until is None else clock.to_ms(until)))


class UsersView(ApiView):
    """Who may use one."""

    @schema.describe(
        body=UsersChange,
        answers={200: Reservation},
        raises=[errors.ConfirmationRequired, errors.Conflict, errors.InvalidState],
        if_match=True,
    )
    def post(self, request: Request, reservation_id: str) -> HttpResponse:
        """Share a reservation with members of the tenant, or no more."""
        wanted = self.body(UsersChange)
        sharing.change(
            self.caller(wanted.tenant_id),
            sharing.Change(tuple(wanted.add), tuple(wanted.remove)),
            reservation_id=reservation_id,
            if_match=self.if_match(),
        )
        shown = queries.answer(reservation_id)
        return self.answer(shown, version=shown.version, live=shown.waiting is not None)


class ReleaseView(ApiView):
    """Ending one."""

    @schema.describe(
        body=TenantBody,
        answers={200: Reservation},
        raises=[errors.ConfirmationRequired, errors.Conflict, errors.InvalidState],
        if_match=True,
    )
    def post(self, request: Request, reservation_id: str) -> HttpResponse:
        """Release a reservation now: a pending one is cancelled, an ended one stays as it is."""
        caller = self.caller(self.body(TenantBody).tenant_id)
        ended = ending.release(caller, reservation_id=reservation_id, if_match=self.if_match())
        shown = queries.answer(ended.id)
        return self.answer(shown, version=shown.version)


class CancelView(ApiView):
    """Withdrawing one that has not started."""

    @schema.describe(
        body=TenantBody,
        answers={200: Reservation},
        raises=[errors.ConfirmationRequired, errors.Conflict, errors.InvalidState],
        if_match=True,
    )
    def post(self, request: Request, reservation_id: str) -> HttpResponse:
        """Cancel a reservation that has not started."""
        caller = self.caller(self.body(TenantBody).tenant_id)
        ended = ending.cancel(caller, reservation_id=reservation_id, if_match=self.if_match())
        shown = queries.answer(ended.id)
        return self.answer(shown, version=shown.version)


def agreed_key(in_body: str | None, in_header: str | None) -> str:
    """The idempotency key, given as a field, as a header, or the same as both (R2).

    Raises:
        errors.InvalidInput: it is missing, or the two differ.
    """
    if in_body is not None and in_header is not None and in_body != in_header:
        raise errors.InvalidInput.at("idempotencyKey", "differs from the header Idempotency-Key")
    key = in_body if in_body is not None else in_header
    if key is None:
        raise errors.InvalidInput.at(
            "idempotencyKey", "is required, as a field or as the header Idempotency-Key"
        )
    return key
