"""The form of a new API token: what is in it, and what it says when it comes back. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict
from pydantic import ValidationError

from bettercompute import durations, errors
from bettercompute.iam import delegation
from bettercompute.pages import parts
from bettercompute.pages.parts import Field, Option
from bettercompute.web import parsing
from bettercompute.wire import iam as wire

#: How long a token may be used: what the form sends, and what people read.
LIFETIMES: Mapping[str, str] = {
    "1d": "1 day",
    "7d": "7 days",
    "30d": "30 days",
    "90d": "90 days",
    "365d": "1 year",
    "": "No end",
}
LIFETIME_DEFAULT = "90d"
RATE_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the form says."""

    token: wire.TokenCreate
    requests_per_second: int | None


@dataclass(frozen=True, slots=True)
class Form:
    """The form as it is printed."""

    name: Field
    rate: Field
    agent: Field
    confirm: tuple[Option, ...]
    lifetimes: tuple[Option, ...]
    other_error: str = ""


def empty() -> Form:
    """Before anything was typed."""
    return _form({}, {}, held=delegation.HOLDABLE)


def refused(given: QueryDict, refusal: errors.InvalidInput) -> Form:
    """As it was sent, with what is wrong beside each field."""
    wrong = {each["path"]: each["message"] for each in refusal.details["errors"]}
    if "delegation.agent" in wrong:
        wrong["agent"] = wrong["delegation.agent"]
    shown = {
        name: parts.sentence(wrong[name]) for name in ("name", "agent", "rate") if name in wrong
    }
    other = "" if shown else refusal.message
    return _form(given, shown, held=given.getlist("confirm"), other_error=other)


def read(given: QueryDict, *, tenant_id: str, now_ms: int) -> Wanted:
    """What the form says.

    Raises:
        errors.InvalidInput: something in it is not allowed.
    """
    lifetime = given.get("lifetime", LIFETIME_DEFAULT)
    document: dict[str, Any] = {"tenantId": tenant_id, "name": given.get("name", "")}
    if lifetime not in LIFETIMES:
        raise errors.InvalidInput.at("lifetime", f"is one of {', '.join(LIFETIMES)}, or empty")
    if agent := given.get("agent", "").strip():
        document["delegation"] = {"agent": agent, "confirm": given.getlist("confirm")}
    if lifetime:
        document["expiresAt"] = now_ms + durations.parse(lifetime)
    try:
        token = wire.TokenCreate.model_validate(document)
    except ValidationError as error:
        raise parsing.invalid(error, document) from error
    return Wanted(token, _rate(given.get("rate", "")))


def _rate(text: str) -> int | None:
    """A limit of its own; nothing typed: as for everybody."""
    text = text.strip()
    if not text:
        return None
    if not (text.isascii() and text.isdecimal()) or len(text) > 9 or int(text) > RATE_MAX:
        raise errors.InvalidInput.at("rate", f"must be a whole number, at most {RATE_MAX:,}")
    return int(text)


def _form(
    given: Mapping[str, str],
    wrong: Mapping[str, str],
    *,
    held: Sequence[str],
    other_error: str = "",
) -> Form:
    def field(name: str) -> Field:
        return Field(name, given.get(name, ""), wrong.get(name, ""))

    lifetime = given.get("lifetime", LIFETIME_DEFAULT)
    return Form(
        name=field("name"),
        rate=field("rate"),
        agent=field("agent"),
        confirm=tuple(
            Option(action, words, action in held) for action, words in delegation.WORDS.items()
        ),
        lifetimes=parts.options(LIFETIMES.items(), lifetime),
        other_error=other_error,
    )
