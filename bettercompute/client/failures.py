"""What can go wrong with a call: an exception for each code of the wire (A3), and three of ours.

``code`` is for programs, ``detail`` for people; both are stable for the codes of the wire.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from bettercompute.wire.reservations import Reservation

NOTHING: Mapping[str, Any] = MappingProxyType({})


class ClientError(Exception):
    """A call did not do what was asked."""

    code: str = "INTERNAL"

    def __init__(
        self,
        detail: str,
        *,
        status: int | None = None,
        details: Mapping[str, Any] = NOTHING,
        request_id: str | None = None,
        retry_after_seconds: float | None = None,
        answered_at_ms: int | None = None,
    ) -> None:
        self.detail = detail
        self.status = status
        self.details = details
        self.request_id = request_id
        self.retry_after_seconds = retry_after_seconds
        #: the server's clock when it answered, in epoch milliseconds, where it said so
        self.answered_at_ms = answered_at_ms
        #: What was called, such as ``/api/v1/reservations/rsv_…/release``.
        self.path = ""
        #: How often the call was sent before this was raised.
        self.attempts = 1
        #: Some attempt may have been done, although the server did not say so.
        self.may_have_happened = False
        #: The key of a create: calling again with it reaches the same reservation.
        self.idempotency_key: str | None = None
        super().__init__(detail)


class Trouble(StrEnum):
    """Why there is no answer."""

    NAME = "name"  # there is no such host
    REFUSED = "refused"  # nothing listens there
    TRUST = "trust"  # its certificate, or that it speaks TLS at all
    TIME = "time"  # it takes too long
    BROKEN = "broken"  # the connection ended in between


class Unreachable(ClientError):
    """No answer. Whether the server did what was asked is not known, unless nothing was sent."""

    code = "UNREACHABLE"

    def __init__(self, detail: str, *, trouble: Trouble = Trouble.BROKEN) -> None:
        super().__init__(detail)
        self.trouble = trouble


class UnexpectedAnswer(ClientError):
    """An answer that is not of this API: a proxy's page, or another version's."""

    code = "UNEXPECTED_ANSWER"
    #: the address that it points to, where it is a redirect
    points_to: str | None = None
    #: it is a page for people
    is_page: bool = False


class WaitTimedOut(ClientError):
    """The time to wait has passed; the reservation goes on."""

    code = "WAIT_TIMED_OUT"

    def __init__(self, goal: str, *, seconds: float, reservation: Reservation) -> None:
        super().__init__(
            f"{reservation.id} is not {goal} after {round(seconds, 1):g} s; "
            f"it is {reservation.state}."
        )
        #: What was waited for: ``placed`` or ``active``.
        self.goal = goal
        self.reservation = reservation


class Refused(ClientError):
    """The server answered with a problem; one of a code this client does not know is this class."""


class InvalidInput(Refused):
    """Something in the request is not allowed; ``details["errors"]`` says where."""

    code = "INVALID_INPUT"


class Unauthenticated(Refused):
    """The token is missing, unknown, expired or revoked."""

    code = "UNAUTHENTICATED"


class AccessDenied(Refused):
    """A policy denies it."""

    code = "ACCESS_DENIED"


class ConfirmationRequired(Refused):
    """A person has to confirm it first; then send the same call again."""

    code = "CONFIRMATION_REQUIRED"

    @property
    def confirmation_id(self) -> str:
        """What the person is asked."""
        return str(self.details.get("confirmationId", ""))

    @property
    def expires_at(self) -> int:
        """When it can be neither answered nor used any more, in epoch milliseconds."""
        return int(self.details.get("expiresAt", 0))


class NotFound(Refused):
    """There is no such thing, or it is another tenant's."""

    code = "NOT_FOUND"


class MethodNotAllowed(Refused):
    """The server does not know this operation."""

    code = "METHOD_NOT_ALLOWED"


class NotAcceptable(Refused):
    """The server does not answer in this form."""

    code = "NOT_ACCEPTABLE"


class Conflict(Refused):
    """Somebody else was first, or the key was used for another request."""

    code = "CONFLICT"


class InvalidState(Refused):
    """It cannot be done in the state that it is in."""

    code = "INVALID_STATE"


class QuotaExceeded(Refused):
    """The tenant's quota does not allow it."""

    code = "QUOTA_EXCEEDED"


class BudgetExceeded(Refused):
    """The tenant's budget does not allow it."""

    code = "BUDGET_EXCEEDED"


class LengthRequired(Refused):
    """A body came without its length, most likely changed by a proxy."""

    code = "LENGTH_REQUIRED"


class PreconditionFailed(Refused):
    """The reservation has another version than the one that was meant."""

    code = "PRECONDITION_FAILED"


class PayloadTooLarge(Refused):
    """The request is too large."""

    code = "PAYLOAD_TOO_LARGE"


class UnsupportedMediaType(Refused):
    """The server does not read this kind of body."""

    code = "UNSUPPORTED_MEDIA_TYPE"


class Unsupported(Refused):
    """The server does not offer this."""

    code = "UNSUPPORTED"


class RateLimited(Refused):
    """Too many requests."""

    code = "RATE_LIMITED"


class Unavailable(Refused):
    """The server, or the proxy before it, cannot answer right now."""

    code = "UNAVAILABLE"


class Internal(Refused):
    """Something went wrong on the server; its log has the request id."""

    code = "INTERNAL"


BY_CODE: Mapping[str, type[Refused]] = {each.code: each for each in Refused.__subclasses__()}


def refused(code: str, detail: str, **parts: Any) -> Refused:
    """The exception of a code of the wire."""
    error = BY_CODE.get(code, Refused)(detail, **parts)
    error.code = code
    return error
