"""A call of the API and its answer: built and read here, sent elsewhere."""

import email.utils
import re
import urllib.parse
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from bettercompute.client import failures
from bettercompute.wire.problems import Problem

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Model = TypeVar("Model", bound=BaseModel)

API = "/api/v1"
SHOWN_MAX = 200  # characters of a foreign answer that a message quotes
TRY_LATER = {429: "RATE_LIMITED", 502: "UNAVAILABLE", 503: "UNAVAILABLE", 504: "UNAVAILABLE"}


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes


@dataclass(frozen=True, slots=True)
class Lost:
    """Nothing came back."""

    reason: str
    sent: bool  # whether the server may have seen the request
    trouble: failures.Trouble = failures.Trouble.BROKEN


@dataclass(frozen=True, slots=True)
class Call(Generic[T_co]):
    """One request, and how to read its answer."""

    method: str
    path: str
    read: Callable[[Answer], T_co]
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()
    #: Sending it twice has the effect of sending it once.
    repeatable: bool = False
    #: How long the server may hold the answer on purpose.
    holds_seconds: float = 0.0


def get(path: str, answer: type[Model], **query: str | None) -> Call[Model]:
    """A read."""
    given = tuple((name, value) for name, value in query.items() if value is not None)
    return Call("GET", API + path, reader(answer), query=given, repeatable=True)


def with_query(call: Call[T], query: Iterable[tuple[str, str]]) -> Call[T]:
    """The same call with more parameters; a name may come several times."""
    return replace(call, query=(*call.query, *query))


def between(start_ms: int | None, end_ms: int | None) -> list[tuple[str, str]]:
    """Parameters that say a span of time; an end that is left out is open."""
    ends = {"from": start_ms, "to": end_ms}
    return [(name, str(at)) for name, at in ends.items() if at is not None]


def post(
    path: str,
    body: BaseModel | Mapping[str, Any],
    answer: type[Model],
    *,
    repeatable: bool,
    headers: tuple[tuple[str, str], ...] = (),
    holds_seconds: float = 0.0,
) -> Call[Model]:
    """A write, or a question that needs a body."""
    return Call(
        "POST",
        API + path,
        reader(answer),
        body=to_json(body, by_alias=True, exclude_none=True),
        headers=(("Content-Type", "application/json"), *headers),
        repeatable=repeatable,
        holds_seconds=holds_seconds,
    )


def put(
    path: str, body: BaseModel, answer: type[Model], *, headers: tuple[tuple[str, str], ...] = ()
) -> Call[Model]:
    """A write of the whole thing."""
    call = post(path, body, answer, repeatable=not headers, headers=headers)
    return replace(call, method="PUT")


def patch(
    path: str,
    body: Mapping[str, Any],
    answer: type[Model],
    *,
    headers: tuple[tuple[str, str], ...] = (),
) -> Call[Model]:
    """A write of a part of it."""
    call = post(path, body, answer, repeatable=not headers, headers=headers)
    return replace(call, method="PATCH")


def delete(
    path: str, *, headers: tuple[tuple[str, str], ...] = (), **query: str | None
) -> Call[None]:
    """Take it away; nothing is answered."""
    given = tuple((name, value) for name, value in query.items() if value is not None)
    return Call("DELETE", API + path, read_nothing, query=given, headers=headers)


def if_match(version: int | None) -> tuple[tuple[str, str], ...]:
    """The header of a write that is meant for this version only; none for any."""
    return () if version is None else (("If-Match", f'"{version}"'),)


def segment(identifier: str) -> str:
    """An id as one part of a path, whatever it contains."""
    # An empty or dotted part would be another path: "." and ".." are not to be resolved.
    quoted = urllib.parse.quote(identifier, safe="")
    return quoted.replace(".", "%2E") if identifier.strip(".") == "" else quoted


def reader(model: type[Model]) -> Callable[[Answer], Model]:
    """Reads a good answer as a model.

    Its errors: any exception of ``failures`` for an answer that is no success.
    """

    def read(answer: Answer) -> Model:
        error = problem(answer)
        if error is not None:
            raise error
        try:
            return model.model_validate_json(answer.body)
        except ValidationError as invalid:
            raise _unexpected(answer) from invalid

    return read


def read_nothing(answer: Answer) -> None:
    """The same for a good answer without a body."""
    error = problem(answer)
    if error is not None:
        raise error


def problem(answer: Answer) -> failures.ClientError | None:
    """The error that an answer stands for, or None for a success."""
    if 200 <= answer.status < 300:
        return None
    if answer.status < 400:
        return _unexpected(answer)
    try:
        told = Problem.model_validate_json(answer.body)
    except ValidationError:
        return _foreign(answer)
    return failures.refused(
        told.code,
        told.detail,
        status=answer.status,
        details=told.details,
        request_id=told.request_id or None,
        retry_after_seconds=retry_after(answer),
        answered_at_ms=answered_at_ms(answer),
    )


def unreachable(lost: Lost) -> failures.Unreachable:
    """The error that no answer stands for."""
    return failures.Unreachable(lost.reason, trouble=lost.trouble)


def may_pass(outcome: Answer | Lost) -> bool:
    """Whether what kept a good answer away may be over in a while."""
    if isinstance(outcome, Lost):
        # A certificate does not get better by asking again.
        return outcome.trouble is not failures.Trouble.TRUST
    return outcome.status in TRY_LATER


def answered_at_ms(answer: Answer) -> int | None:
    """The server's clock by ``Date``, which has whole seconds."""
    try:
        sent = email.utils.parsedate_to_datetime(answer.headers.get("date", ""))
        return round(sent.timestamp() * 1_000)
    except (ValueError, TypeError, OverflowError):
        return None


def retry_after(answer: Answer) -> float | None:
    """Seconds of ``Retry-After``; a date counts from the answer's own ``Date``, not our clock."""
    text = answer.headers.get("retry-after", "").strip()
    if re.fullmatch(r"[0-9]{1,9}", text):
        return float(text)
    try:
        then = email.utils.parsedate_to_datetime(text)
        sent = email.utils.parsedate_to_datetime(answer.headers.get("date", ""))
        return max(0.0, (then - sent).total_seconds())
    except (ValueError, TypeError):  # no date at all; one with a zone, one without
        return None


def _foreign(answer: Answer) -> failures.ClientError:
    """What a proxy says on its own: to be tried again where its status says so."""
    code = TRY_LATER.get(answer.status)
    if code is None:
        return _unexpected(answer)
    return failures.refused(
        code,
        f"The server cannot answer right now ({answer.status}).",
        status=answer.status,
        retry_after_seconds=retry_after(answer),
    )


def _unexpected(answer: Answer) -> failures.UnexpectedAnswer:
    where = answer.headers.get("location")
    shown = (
        f"points to {where}"
        if where
        else repr(answer.body[:SHOWN_MAX].decode("utf-8", "replace"))
        if answer.body
        else "nothing"
    )
    error = failures.UnexpectedAnswer(
        f"This is no answer of Better Compute: {answer.status}, {shown}.", status=answer.status
    )
    error.points_to = where
    error.is_page = (
        "html" in answer.headers.get("content-type", "") or answer.body.lstrip()[:1] == b"<"
    )
    return error
