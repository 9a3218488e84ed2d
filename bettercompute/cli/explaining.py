"""From what went wrong to an exit code, and to what to do next."""

import urllib.parse

import click

from bettercompute.cli import debugging, settings, times, waits
from bettercompute.cli.exits import Exit
from bettercompute.cli.private import Unusable
from bettercompute.cli.session import Session
from bettercompute.cli.settings import NotSignedIn
from bettercompute.client import calls, failures
from bettercompute.client.failures import ClientError, Trouble
from bettercompute.pages import spans

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
    failures.InvalidInput: "See what it takes: the same command with --help",
    failures.Unauthenticated: "Sign in again: better-compute login",
    failures.AccessDenied: "Ask an admin of your tenant which policies bind you.",
    failures.NotFound: "Check it, and the tenant you act for: better-compute whoami",
    failures.MethodNotAllowed: "The server does not have this yet: update it, or this program.",
    failures.NotAcceptable: "A proxy may have changed the request; better-compute doctor",
    failures.Conflict: "See what fits: better-compute capacity --preview …",
    failures.InvalidState: "Look at it as it is now, and try again.",
    failures.QuotaExceeded: "Release something (better-compute list), or ask for more quota.",
    failures.BudgetExceeded: "Release something (better-compute list), or ask for more budget.",
    failures.LengthRequired: "A proxy may have changed the request; better-compute doctor",
    failures.PreconditionFailed: "Somebody changed it meanwhile: look at it, and try again.",
    failures.PayloadTooLarge: "Ask for less at once: fewer labels, a shorter text.",
    failures.UnsupportedMediaType: "A proxy may have changed the request; better-compute doctor",
    failures.Unsupported: "The server does not offer this; ask whoever runs the platform.",
    failures.Unavailable: "Try again in a moment; better-compute doctor tells more.",
    failures.RateLimited: "Try again in a moment, less often.",
    failures.Internal: "Try again; if it stays so, tell whoever runs the platform.",
}
#: Who could, as ``details.needs`` says it.
_NEEDED = {
    "operator": "Use an operator's token; ask whoever runs the platform.",
    "person": "Only the person themselves can, with a token of their own or in the console.",
}
#: Why an offer cannot be taken, as ``details.reason`` says it.
_OFFER_IS_GONE = {"offer-gone", "offer-expired", "offer-unknown"}
#: What shows a thing, by its kind in the path of a call.
_SHOWN_BY = {
    "reservations": "get",
    "series": "series get",
    "confirmations": "confirmations show",
    "webhooks": "webhooks get",
    "maintenance": "maintenance get",
    "pools": "maintenance list --pool",
    "nodes": "maintenance list --node",
}
_DOCTOR = "See what is wrong: better-compute doctor"
_TROUBLES: dict[Trouble, str] = {
    Trouble.NAME: "There is no such host. Check the address: better-compute context",
    Trouble.REFUSED: "Nothing listens there. Check the address: better-compute context",
    Trouble.TRUST: (
        "Its certificate is not trusted here. One of your own CA: set SSL_CERT_FILE to its file. "
        "Expired or not valid yet: check this machine's clock."
    ),
    Trouble.TIME: "The server or the network is slow. Try again in a moment.",
    Trouble.BROKEN: "The connection broke off. Try again in a moment.",
}
SKEW_MS_MAX = 60_000  # a wrong clock of this much is worth a word


def explain(session: Session, error: Exception) -> Exit:
    """Say what went wrong and what to do next; how it counts."""
    out = session.out
    if session.debug:
        debugging.traceback_of(error)
    match error:
        case ClientError():
            _explain_answer(session, error)
            return code(error)
        case NotSignedIn():
            out.fail(str(error), code="NOT_SIGNED_IN")
            return Exit.NOT_AUTHENTICATED
        case click.Abort(__cause__=KeyboardInterrupt()):
            out.fail("interrupted", code="INTERRUPTED")
            return Exit.INTERRUPTED
        case click.Abort():  # a prompt whose input ended
            out.fail("nothing was entered", code="NO_INPUT")
        case BrokenPipeError():  # whoever read the output has enough, as `head` does
            debugging.close_stdout()
            return Exit.OK
        case OSError() | Unusable():  # a disk that is full, a permission that is missing
            out.fail(str(error), code="LOCAL")
        case _:
            kind = type(error).__name__
            out.fail(
                f"better-compute itself failed ({kind}: {error})",
                advice=["Please report this, with what --debug says."],
                code="FAULT",
            )
    return Exit.ERROR


def code(error: ClientError) -> Exit:
    """The exit code of an error."""
    return _CODES.get(type(error), Exit.ERROR)


def advice(error: ClientError) -> list[str]:
    """What to do next, most useful first."""
    lines = []
    if isinstance(error, failures.WaitTimedOut):
        if waits.is_hopeless(error.reservation):
            lines.append(
                "This pool can never serve it, even with nothing booked, and it counts against your"
                f" quota: better-compute cancel {error.reservation.id}"
            )
        lines.append(f"It goes on: better-compute get {error.reservation.id}")
    if error.idempotency_key and error.may_have_happened:
        lines.append(f"Run the same again to go on with it, or say --key {error.idempotency_key}")
    lines += _next(error)
    if (skew := _skew(error)) is not None:
        lines.append(skew)
    if error.status is not None and error.status >= 500 and error.request_id:
        lines.append(f"An operator finds it in the logs by request id {error.request_id}")
    return lines


def _next(error: ClientError) -> list[str]:
    if (needs := error.details.get("needs")) in _NEEDED:
        return [_NEEDED[needs]]
    match error:
        case failures.Conflict(details={"reservationId": str(known)}):
            told = f"The key belongs to {known}. For another request give another --key."
        case failures.ClientError(details={"reason": str(reason)}) if reason in _OFFER_IS_GONE:
            told = "See what fits now: better-compute capacity --offers …"
        case failures.AccessDenied(details={"poolLimits": _}):
            told = "That is a limit of the pool, which its owner sets: better-compute pools NAME"
        case failures.AccessDenied(details={"confirmationId": str(known)}):
            told = (
                "The person you act for decided that, no policy: better-compute confirmations"
                f" show {known}"
            )
        case failures.ConfirmationRequired():
            known = error.confirmation_id
            told = (
                f"Your person approves it in the console, or with better-compute confirmations"
                f" approve {known}; then run the same again."
            )
        case failures.InvalidState() if (look := _look(error)) is not None:
            told = f"See its state: better-compute {look}"
        case failures.Unreachable():
            return [_TROUBLES[error.trouble], _DOCTOR]
        case failures.UnexpectedAnswer():
            told = _next_to_something_else(error)
        case _:
            return [_NEXT[type(error)]] if type(error) in _NEXT else []
    return [told]


def _look(error: failures.InvalidState) -> str | None:
    """The command that shows what is in another state; None where the call is about none."""
    if "reservationId" in error.details:
        return f"get {error.details['reservationId']}"
    kind, _, rest = error.path.removeprefix(f"{calls.API}/").partition("/")
    identifier = urllib.parse.unquote(rest.partition("/")[0])
    return f"{_SHOWN_BY[kind]} {identifier}" if kind in _SHOWN_BY and identifier else None


def _next_to_something_else(error: failures.UnexpectedAnswer) -> str:
    if error.points_to is not None:
        return f"Use the address that it points to: {error.points_to}"
    if error.is_page:
        return "That is a page for people. The address is the server's own, without a path."
    return _DOCTOR


def _skew(error: ClientError) -> str | None:
    """A word on this machine's clock, where it is so wrong that moments are read wrongly."""
    if error.answered_at_ms is None:
        return None
    ahead_ms = times.to_ms(times.now()) - error.answered_at_ms
    if abs(ahead_ms) <= SKEW_MS_MAX:
        return None
    which = "ahead of" if ahead_ms > 0 else "behind"
    amount = spans.text(abs(ahead_ms) // 60_000 * 60_000)
    return f"This machine's clock is {amount} {which} the server's: set it (NTP)."


def _explain_answer(session: Session, error: ClientError) -> None:
    lines = advice(error)
    if isinstance(error, failures.Unauthenticated) and session.token_is_from_variable:
        lines = [f"The token is the one in {settings.TOKEN_VARIABLE}.", *lines]
    session.out.fail(
        error.detail,
        advice=lines,
        code=error.code,
        status=error.status,
        details=dict(error.details),
        requestId=error.request_id,
        idempotencyKey=error.idempotency_key,
    )
