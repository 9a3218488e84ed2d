"""What `--debug` says: each request with its answer, and where an error came from, no secret."""

import json
import os
import re
import sys
import traceback
from typing import TYPE_CHECKING, Any

import click

from bettercompute import redaction
from bettercompute.cli.output import printable

if TYPE_CHECKING:
    from bettercompute.client.calls import Answer, Call, Lost

SHOWN_MAX = 2_000
#: What begins like a secret of ours, also where it is mistyped or cut off.
_BEGUN = re.compile(r"\b(?:bct|bcf|whsec)_[A-Za-z0-9_+/=-]+")


def exchanged(call: "Call[Any]", outcome: "Answer | Lost", seconds: float) -> None:
    """One request and what came back."""
    query = "&".join(f"{name}={value}" for name, value in call.query)
    _say(f"> {call.method} {call.path}{'?' + query if query else ''}")
    if call.body is not None:
        _say(f"> {_body(call.body)}")
    from bettercompute.client.calls import Answer

    if not isinstance(outcome, Answer):
        _say(f"< nothing in {seconds:.2f} s: {outcome.reason}")
        return
    request_id = outcome.headers.get("x-request-id", "")
    _say(f"< {outcome.status} in {seconds:.2f} s {request_id}".rstrip())
    if outcome.body:
        _say(f"< {_body(outcome.body)}")


def traceback_of(error: BaseException) -> None:
    """Where it came from, with what caused it."""
    for line in traceback.format_exception(error):
        _say(line.rstrip("\n"))


def redacted(text: str) -> str:
    """The text without what would let its reader in."""
    return _BEGUN.sub(redaction.REDACTED, str(redaction.scrub(text)))


def close_stdout() -> None:
    """Say nothing more on it: nobody reads, and Python would complain at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _body(body: bytes) -> str:
    try:
        text = json.dumps(redaction.scrub(json.loads(body)), ensure_ascii=False)
    except ValueError:
        text = body.decode("utf-8", "replace")
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]} …"


def _say(line: str) -> None:
    click.echo(printable(redacted(line)), err=True)
