"""`better-compute`: the command line.

Exit codes: 0 ok, 1 error, 2 usage, 3 not authenticated, 4 denied, 5 no capacity, conflict or quota,
6 not found, 7 timed out waiting, 130 interrupted.
"""

import sys
from collections.abc import Sequence

import click

from bettercompute.cli import (
    doctor,
    exits,
    extend,
    feeds,
    fleet,
    login,
    maintenance,
    policy,
    reserve,
    series,
    sharing,
    spending,
    up,
)
from bettercompute.cli.exits import Exit
from bettercompute.cli.output import Output
from bettercompute.cli.session import Session
from bettercompute.cli.settings import NotSignedIn, UnreadableFile
from bettercompute.client.failures import ClientError

EPILOGUE = (
    "Exit codes: 0 ok, 1 error, 2 usage, 3 not authenticated, 4 denied, 5 no capacity, conflict or "
    "quota, 6 not found, 7 timed out waiting, 130 interrupted."
)


@click.group(
    name="better-compute",
    epilog=EPILOGUE,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="bettercompute", prog_name="better-compute")
def cli() -> None:
    """Reserve GPUs, see them, and give them back."""


for each in (
    login.login,
    reserve.reserve,
    reserve.get,
    reserve.list_,
    extend.extend,
    extend.renew,
    sharing.users,
    feeds.feeds,
    reserve.release,
    reserve.cancel,
    series.series,
    fleet.capacity,
    fleet.pools,
    spending.usage,
    spending.budget,
    policy.policy,
    fleet.leases,
    maintenance.maintenance,
    doctor.doctor,
    up.up,
):
    cli.add_command(each)


def main() -> None:
    """Run the command line and exit."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run a command and answer its exit code; whatever went wrong is said on stderr."""
    session = Session()
    try:
        _require_text(arguments)
        answered = cli.main(
            list(arguments), prog_name="better-compute", standalone_mode=False, obj=session
        )
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, NotSignedIn, UnreadableFile, ClientError, OSError) as error:
        return _explain(session.out, error)
    return answered if isinstance(answered, int) else Exit.OK


def _require_text(arguments: Sequence[str]) -> None:
    """Python passes bytes that are no UTF-8 on as lone surrogates, which no request can carry."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError as error:
            raise click.UsageError(f"{argument!a} is not valid UTF-8.") from error


def _explain(out: Output, error: Exception) -> Exit:
    """Say what went wrong and what to do next; how it counts."""
    match error:
        case ClientError():
            _explain_answer(out, error)
            return exits.code(error)
        case NotSignedIn():
            out.fail(str(error), code="NOT_SIGNED_IN")
            return Exit.NOT_AUTHENTICATED
        case click.Abort(__cause__=KeyboardInterrupt()):
            out.fail("interrupted", code="INTERRUPTED")
            return Exit.INTERRUPTED
        case click.Abort():  # a prompt whose input ended
            out.fail("nothing was entered", code="NO_INPUT")
        case _:  # the settings file, a disk that is full, a permission that is missing
            out.fail(str(error), code="LOCAL")
    return Exit.ERROR


def _explain_answer(out: Output, error: ClientError) -> None:
    out.fail(
        error.detail,
        advice=exits.advice(error),
        code=error.code,
        status=error.status,
        details=dict(error.details),
        requestId=error.request_id,
        idempotencyKey=error.idempotency_key,
    )


if __name__ == "__main__":
    main()
