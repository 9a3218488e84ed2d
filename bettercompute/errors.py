"""Every error code of the wire, once (A3). Codes are never renamed or reused.

A use case raises one of these, or a subclass that lives beside it. The class docstring is the
default message; ``details`` is what a program reads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar


class ApiError(Exception):
    """Something went wrong on our side."""

    code: ClassVar[str] = "INTERNAL"
    status: ClassVar[int] = 500
    title: ClassVar[str] = "Internal error"

    def __init__(self, message: str | None = None, **details: Any) -> None:
        self.message = message or " ".join((type(self).__doc__ or self.title).split())
        self.details: Mapping[str, Any] = details
        super().__init__(self.message)


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing wrong with the input: where (``devices[0].count``) and what is allowed."""

    path: str
    message: str


class InvalidInput(ApiError):
    """The request has something that is not allowed."""

    code = "INVALID_INPUT"
    status = 400
    title = "Invalid input"

    def __init__(self, message: str | None = None, *, errors: Sequence[FieldError] = ()) -> None:
        if message is None and errors:
            message = "; ".join(f"{e.path}: {e.message}" for e in list(errors)[:3])
        super().__init__(message, errors=[asdict(error) for error in errors])

    @classmethod
    def at(cls, path: str, message: str) -> "InvalidInput":
        """One field is wrong."""
        return cls(errors=[FieldError(path, message)])

    def within(self, field: str) -> "InvalidInput":
        """The same, said of what lies in a field of a larger request."""
        found = [FieldError(**each) for each in self.details["errors"]]
        return InvalidInput(
            errors=[FieldError(f"{field}.{each.path}", each.message) for each in found]
        )


class Unauthenticated(ApiError):
    """Send an API token as `Authorization: Bearer bct_…`, or sign in."""

    code = "UNAUTHENTICATED"
    status = 401
    title = "Not authenticated"


class AccessDenied(ApiError):
    """A policy denies this action."""

    code = "ACCESS_DENIED"
    status = 403
    title = "Access denied"


class ConfirmationRequired(ApiError):
    """A person must confirm this action first."""

    code = "CONFIRMATION_REQUIRED"
    status = 403
    title = "Confirmation required"


class NotFound(ApiError):
    """There is no such thing, or you may not see it."""

    code = "NOT_FOUND"
    status = 404
    title = "Not found"


class MethodNotAllowed(ApiError):
    """This path does not have that method."""

    code = "METHOD_NOT_ALLOWED"
    status = 405
    title = "Method not allowed"


class NotAcceptable(ApiError):
    """This API answers JSON."""

    code = "NOT_ACCEPTABLE"
    status = 406
    title = "Not acceptable"


class Conflict(ApiError):
    """Somebody else changed this first."""

    code = "CONFLICT"
    status = 409
    title = "Conflict"


class InvalidState(ApiError):
    """This cannot be done in the state it is in."""

    code = "INVALID_STATE"
    status = 409
    title = "Invalid state"


class QuotaExceeded(ApiError):
    """This would exceed the quota."""

    code = "QUOTA_EXCEEDED"
    status = 409
    title = "Quota exceeded"


class BudgetExceeded(ApiError):
    """This would exceed the budget."""

    code = "BUDGET_EXCEEDED"
    status = 409
    title = "Budget exceeded"


class LengthRequired(ApiError):
    """Send Content-Length with a body; a chunked body is not read."""

    code = "LENGTH_REQUIRED"
    status = 411
    title = "Length required"


class PreconditionFailed(ApiError):
    """It has changed since you looked: its version is not the one that you meant."""

    code = "PRECONDITION_FAILED"
    status = 412
    title = "Precondition failed"


class PayloadTooLarge(ApiError):
    """A request body may have at most 256 KiB."""

    code = "PAYLOAD_TOO_LARGE"
    status = 413
    title = "Payload too large"


class UnsupportedMediaType(ApiError):
    """Send the body as application/json."""

    code = "UNSUPPORTED_MEDIA_TYPE"
    status = 415
    title = "Unsupported media type"


class Unsupported(ApiError):
    """This is not supported."""

    code = "UNSUPPORTED"
    status = 422
    title = "Unsupported"


class RateLimited(ApiError):
    """Too many requests; wait as Retry-After says."""

    code = "RATE_LIMITED"
    status = 429
    title = "Rate limited"


class Internal(ApiError):
    """Something went wrong on our side; the request id finds it in our logs."""

    code = "INTERNAL"
    status = 500
    title = "Internal error"


class Unavailable(ApiError):
    """This cannot be answered right now; try again as Retry-After says."""

    code = "UNAVAILABLE"
    status = 503
    title = "Unavailable"


ALL: tuple[type[ApiError], ...] = (
    InvalidInput,
    Unauthenticated,
    AccessDenied,
    ConfirmationRequired,
    NotFound,
    MethodNotAllowed,
    NotAcceptable,
    Conflict,
    InvalidState,
    QuotaExceeded,
    BudgetExceeded,
    LengthRequired,
    PreconditionFailed,
    PayloadTooLarge,
    UnsupportedMediaType,
    Unsupported,
    RateLimited,
    Internal,
    Unavailable,
)
