"""The console's form of a policy: what is in it, and what it says when it comes back. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict
from pydantic import ValidationError

from bettercompute import errors
from bettercompute.iam import cedar
from bettercompute.pages import parts, spans
from bettercompute.pages.parts import Field, Option
from bettercompute.web import parsing
from bettercompute.wire import iam as wire
from bettercompute.wire.dryrun import PolicyDryRun

LINES_AROUND = 2
AGENT = "agent"
ASKERS = {"member": "a member", "admin": "an admin", AGENT: "an agent of a member"}
ACTION = "compute:reservations:create"
RECENT = 100  # of the tenant's latest reservations, how many are judged as well
ASKED_DEFAULT = {"role": "member", "count": "1", "duration": "8h"}


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the text, as it is shown beside what is wrong in it."""

    number: int
    text: str
    is_wrong: bool


@dataclass(frozen=True, slots=True)
class Form:
    """The form as it is printed; ``version`` is the one that was read, empty for a new policy."""

    name: Field
    text: Field
    enabled: bool
    version: str
    excerpt: tuple[Line, ...]
    role: tuple[Option, ...]
    pools: tuple[Option, ...]
    count: Field
    duration: Field
    other_error: str = ""


Pools = Sequence[tuple[str, str]]  # ids and names of those that can be asked for


def empty(pools: Pools, *, name: str = "", text: str = "") -> Form:
    """Before anything was typed; perhaps with an example to start from."""
    return _form({"name": name, "text": text, "enabled": "on"}, pools)


def of(policy: wire.Policy, pools: Pools) -> Form:
    """As the policy is."""
    given = {"name": policy.name, "text": policy.text, "version": str(policy.version)}
    return _form({**given, "enabled": "on" if policy.enabled else ""}, pools)


def given(sent: QueryDict, pools: Pools, *, version: str | None = None) -> Form:
    """As it was sent; ``version`` in place of the one that was read."""
    known = _known(sent)
    return _form(known if version is None else {**known, "version": version}, pools)


def refused(sent: QueryDict, refusal: errors.ApiError, pools: Pools) -> Form:
    """As it was sent, with what is wrong beside each field."""
    wrong: dict[str, str] = {}
    for each in refusal.details.get("errors", ()):
        name = _FIELDS.get(each["path"].removeprefix("reservation."), "")
        wrong.setdefault(name, parts.sentence(each["message"]))
    cause = refusal.__cause__
    line = cause.line if isinstance(cause, cedar.InvalidPolicy) else 0
    other = wrong.get("", "") if wrong else refusal.message
    return _form(_known(sent), pools, wrong, line=line, other_error=other)


def read(sent: QueryDict, *, tenant_id: str) -> wire.PolicyWrite:
    """What the form says.

    Raises:
        errors.InvalidInput: something in it is not allowed.
    """
    document: dict[str, Any] = {
        "tenantId": tenant_id,
        "name": sent.get("name", ""),
        "text": _text(sent),
        "enabled": bool(sent.get("enabled")),
    }
    try:
        return wire.PolicyWrite.model_validate(document)
    except ValidationError as error:
        raise parsing.invalid(error, document) from error


def version(sent: QueryDict) -> frozenset[int]:
    """The version that the form was made from: what is saved must still be that one."""
    text = sent.get("version", "")
    return frozenset({int(text)} if text.isascii() and text.isdecimal() and len(text) < 19 else ())


def asked(sent: QueryDict, *, tenant_id: str, replaces: str | None) -> PolicyDryRun:
    """What the policy is tried on: one request, and what was reserved of late.

    Raises:
        errors.InvalidInput: something in it is not allowed.
    """
    who = sent.get("role", ASKED_DEFAULT["role"])
    document: dict[str, Any] = {
        "tenantId": tenant_id,
        "action": ACTION,
        "role": "member" if who == AGENT else who,
        "delegated": who == AGENT,
        "text": _text(sent),
        "replaces": replaces,
        "recent": RECENT,
    }
    if pool_id := sent.get("pool", ""):
        document["reservation"] = _reservation(sent, pool_id, tenant_id)
    return parsing.parse(PolicyDryRun, document)


def _reservation(sent: QueryDict, pool_id: str, tenant_id: str) -> dict[str, Any]:
    try:
        duration = spans.parse(sent.get("duration", ""))
    except spans.NotUnderstood as error:
        raise errors.InvalidInput.at("duration", str(error).rstrip(".")) from error
    count = sent.get("count", "")
    if not (count.isascii() and count.isdecimal() and len(count) < 7):
        raise errors.InvalidInput.at("devices[0].count", "must be a whole number")
    devices = [{"class": "gpu", "count": int(count)}]
    wanted = {"devices": devices, "duration": duration}
    return {"tenantId": tenant_id, "poolId": pool_id, **wanted}


# The wire's paths, and the form's field beside each.
_FIELDS = {
    "name": "name",
    "text": "text",
    "devices[0].count": "count",
    "duration": "duration",
}


def _known(sent: QueryDict) -> dict[str, str]:
    return {**{name: sent.get(name, "") for name in sent}, "text": _text(sent)}


def _text(sent: QueryDict) -> str:
    """A browser sends lines that end in CR LF, whatever they ended in before."""
    return sent.get("text", "").replace("\r\n", "\n")


def _form(
    known: Mapping[str, str],
    pools: Pools,
    wrong: Mapping[str, str] | None = None,
    *,
    line: int = 0,
    other_error: str = "",
) -> Form:
    wrong = wrong or {}

    def field(name: str) -> Field:
        return Field(name, known.get(name, ASKED_DEFAULT.get(name, "")), wrong.get(name, ""))

    first = pools[0][0] if pools else ""
    return Form(
        name=field("name"),
        text=field("text"),
        enabled=bool(known.get("enabled")),
        version=known.get("version", ""),
        excerpt=_excerpt(known.get("text", ""), line),
        role=parts.options(ASKERS.items(), known.get("role", ASKED_DEFAULT["role"])),
        pools=parts.options(pools, known.get("pool", first)),
        count=field("count"),
        duration=field("duration"),
        other_error=other_error,
    )


def _excerpt(text: str, line: int) -> tuple[Line, ...]:
    """The lines around the one that is wrong."""
    if not line:
        return ()
    lines = text.split("\n")
    start = max(0, line - 1 - LINES_AROUND)
    shown = lines[start : line + LINES_AROUND]
    return tuple(Line(start + n, each, start + n == line) for n, each in enumerate(shown, start=1))
