"""What clients do, as steps without input and output: written once, run blocking or with asyncio.

A flow is a generator. It yields ``Send`` and gets the answer (or that it is lost), yields ``Pause``
and goes on after it, and returns its result. Only ``blocking`` and ``asynchronous`` know how to
send and how to sleep.

What a flow promises of retries: a call is sent again only where that is safe (it is repeatable, or
it never reached the server) and may help (no answer, or 429, 502, 503, 504), with growing, jittered
pauses of at least ``Retry-After``, ``ATTEMPTS_MAX`` times at most and never beyond its deadline.
"""

import itertools
import random
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from bettercompute.client import calls, failures
from bettercompute.client.calls import Answer, Call, Lost
from bettercompute.client.kept import Kept

T = TypeVar("T")

ATTEMPTS_MAX = 5
ATTEMPT_SECONDS = 15.0
PAUSE_FIRST_SECONDS = 0.2
PAUSE_SECONDS_MAX = 5.0


@dataclass(frozen=True, slots=True)
class Send:
    """Send this and hand back what comes."""

    call: Call[Any]
    seconds: float


@dataclass(frozen=True, slots=True)
class Pause:
    """Come back after so long."""

    seconds: float


Flow: TypeAlias = Generator[Send | Pause, Answer | Lost | None, T]

#: From a cursor (None: the start) to the items of that page and the cursor of the next.
Pages: TypeAlias = Callable[[str | None], Flow[tuple[list[T], str | None]]]


@dataclass(slots=True)
class Api:
    """What the flows of one client share."""

    timeout_seconds: float
    #: The tenant to act for, by id or slug; None until it is known to be the only one.
    tenant: str | None = None
    tenant_id: str | None = None
    monotonic: Callable[[], float] = time.monotonic
    jitter: Callable[[float, float], float] = field(default=random.uniform)
    kept: Kept = field(default_factory=Kept)
    #: told of each request with what came back and after how many seconds, for logs
    observe: Callable[[Call[Any], Answer | Lost, float], None] | None = None


def exchange(api: Api, call: Call[T], *, seconds: float | None = None) -> Flow[T]:
    """Send a call, again where that is safe and may help, and read its answer.

    Raises: any exception of ``failures``, with the number of attempts.
    """
    budget = api.timeout_seconds if seconds is None else seconds
    deadline = api.monotonic() + budget + call.holds_seconds
    unsure = False
    for attempt in itertools.count(1):
        remaining = max(deadline - api.monotonic(), 0.001)
        seconds_max = min(ATTEMPT_SECONDS + call.holds_seconds, remaining)
        outcome = yield from _attempt(api, call, seconds_max)
        try:
            return _read(call, outcome)
        except failures.ClientError as error:
            unsure = unsure or _is_unsure(outcome)
            error.path, error.attempts = call.path, attempt
            error.may_have_happened = unsure and not _is_definite(outcome)
            longest = min(PAUSE_FIRST_SECONDS * 2 ** (attempt - 1), PAUSE_SECONDS_MAX)
            seconds_off = pause(api, error, longest=longest)
            exhausted = attempt >= ATTEMPTS_MAX or api.monotonic() + seconds_off >= deadline
            if exhausted or not _may_repeat(call, outcome):
                raise
        yield Pause(seconds_off)
    raise AssertionError("counting never ends")


def pause(api: Api, error: failures.ClientError, *, longest: float) -> float:
    """How long to stay away: never less than asked for, and not all clients for as long."""
    return (error.retry_after_seconds or 0.0) + api.jitter(longest / 2, longest)


def _attempt(api: Api, call: Call[T], seconds: float) -> Flow[Answer | Lost]:
    """Send it once; what came back, or what that stands for."""
    asked, known = api.kept.asking(call)
    begun = api.monotonic()
    came = yield Send(asked, seconds=seconds)
    assert came is not None, "a Send is answered"
    if api.observe is not None:
        api.observe(asked, came, api.monotonic() - begun)
    return api.kept.answered(call, known, came)


def _read(call: Call[T], outcome: Answer | Lost) -> T:
    if isinstance(outcome, Lost):
        raise calls.unreachable(outcome)
    return call.read(outcome)


def _is_unsure(outcome: Answer | Lost) -> bool:
    """Whether this attempt may have been done, although it failed."""
    return outcome.sent if isinstance(outcome, Lost) else outcome.status >= 500


def _is_definite(outcome: Answer | Lost) -> bool:
    """Whether the server says that it is not done, whatever became of earlier attempts."""
    return isinstance(outcome, Answer) and 400 <= outcome.status < 500 and outcome.status != 429


def _may_repeat(call: Call[Any], outcome: Answer | Lost) -> bool:
    never_sent = isinstance(outcome, Lost) and not outcome.sent
    return calls.may_pass(outcome) and (call.repeatable or never_sent)
