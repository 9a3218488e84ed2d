"""From what went wrong to an exit code, and to what to do next."""

import click

from bettercompute.cli.exits import Exit
from bettercompute.cli.output import Output
from bettercompute.cli.private import Unusable
from bettercompute.cli.settings import NotSignedIn
from bettercompute.client import failures
from bettercompute.client.failures import ClientError

_CODES: dict[type[ClientError], Exit] = {
    failures.InvalidInput: Exit.USAGE,
    failures.Unauthenticated: Exit.NOT_AUTHENTICATED,
    failures.AccessDenied: Exit.DENIED,
    failures.ConfirmationRequired: Exit.DENIED,
    failures.Conflict: Exit.NO_CAPACITY,
    failures.InvalidState: Exit.NO_CAPACITY,
    failures.PreconditionFailed: Exit.NO_CAPACITY,
    failures.QuotaExceeded: Exit.NO_CAPACITY,
    failures.BudgetExceeded: Exit.NO_CAPACITY,
    failures.NotFound: Exit.NOT_FOUND,
    failures.WaitTimedOut: Exit.TIMED_OUT,
}

_NEXT: dict[type[ClientError], str] = {
    failures.Unauthenticated: "Sign in again: better-compute login",
    failures.AccessDenied: "Ask an admin of your tenant which policies bind you.",
    failures.ConfirmationRequired: "Once it is confirmed, send the same again with the same --key.",
    failures.NotFound: "See what there is: better-compute list, better-compute pools",
    failures.Conflict: "See what fits: better-compute capacity --preview …",
    failures.InvalidState: "See its state: better-compute get <id>",
    failures.QuotaExceeded: "Release something (better-compute list), or ask for more quota.",
    failures.BudgetExceeded: "Release something (better-compute list), or ask for more budget.",
    failures.Unreachable: "See what is wrong: better-compute doctor",
    failures.UnexpectedAnswer: "See what is wrong: better-compute doctor",
    failures.Unavailable: "Try again in a moment; better-compute doctor tells more.",
    failures.RateLimited: "Try again in a moment, less often.",
}


def explain(out: Output, error: Exception) -> Exit:
    """Say what went wrong and what to do next; how it counts."""
    match error:
        case ClientError():
            _explain_answer(out, error)
            return code(error)
        case NotSignedIn():
            out.fail(str(error), code="NOT_SIGNED_IN")
            return Exit.NOT_AUTHENTICATED
        case click.Abort(__cause__=KeyboardInterrupt()):
            out.fail("interrupted", code="INTERRUPTED")
            return Exit.INTERRUPTED
        case click.Abort():  # a prompt whose input ended
            out.fail("nothing was entered", code="NO_INPUT")
        case OSError() | Unusable():  # a disk that is full, a permission that is missing
            out.fail(str(error), code="LOCAL")
        case _:
            kind = type(error).__name__
            out.fail(f"better-compute itself failed ({kind}: {error})", code="FAULT")
    return Exit.ERROR


def code(error: ClientError) -> Exit:
    """The exit code of an error."""
    return _CODES.get(type(error), Exit.ERROR)


def advice(error: ClientError) -> list[str]:
    """What to do next, most useful first."""
    lines = []
    if isinstance(error, failures.WaitTimedOut):
        lines.append(f"It goes on: better-compute get {error.reservation.id}")
    if error.idempotency_key and may_have_happened(error):
        lines.append(f"Run the same again to go on with it, or say --key {error.idempotency_key}")
    if error.details.get("needs") == "operator":
        lines.append("Use an operator's token; ask whoever runs the platform.")
    elif type(error) in _NEXT:
        lines.append(_NEXT[type(error)])
    if error.status is not None and error.status >= 500 and error.request_id:
        lines.append(f"An operator finds it in the logs by request id {error.request_id}")
    return lines


def may_have_happened(error: ClientError) -> bool:
    """Whether the server may have done what was asked, although it did not say so."""
    return isinstance(error, failures.Unreachable) or (error.status or 0) >= 500


def _explain_answer(out: Output, error: ClientError) -> None:
    out.fail(
        error.detail,
        advice=advice(error),
        code=error.code,
        status=error.status,
        details=dict(error.details),
        requestId=error.request_id,
        idempotencyKey=error.idempotency_key,
    )
