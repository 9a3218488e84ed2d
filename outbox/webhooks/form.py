"""The console's form of a webhook: what is in it, and what it says when it comes back. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict
from pydantic import ValidationError

from bettercompute import errors
from bettercompute.pages.parts import Field
from bettercompute.web import parsing
from bettercompute.wire import webhooks as wire
from outbox import catalog, subjects

# What a pattern means, to whom it says nothing.
_PATTERNS = {
    "subject": "Must be like rsv_… or reservation/rsv_…, or node/* for all of a kind.",
    "eventTypes": "Must be like reservation.active, or reservation.* for all of a kind.",
}
_FIELDS = ("url", "description", "subject", "eventTypes")


@dataclass(frozen=True, slots=True)
class Choice:
    """One event type to tick."""

    value: str
    meaning: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class Kind:
    """The event types of one kind of thing, and all of them in one."""

    name: str
    every: Choice
    choices: tuple[Choice, ...]
    summary: str  # how many are ticked

    @property
    def is_open(self) -> bool:
        """Whether something in it is ticked."""
        return self.every.chosen or any(choice.chosen for choice in self.choices)


@dataclass(frozen=True, slots=True)
class Form:
    """The form as it is printed."""

    url: Field
    description: Field
    subject: Field
    types_error: Field
    kinds: tuple[Kind, ...]
    other_error: str = ""


def empty() -> Form:
    """Before anything was typed."""
    return _form({}, (), {})


def of(webhook: wire.Webhook) -> Form:
    """As the webhook is."""
    return _form(
        {"url": webhook.url, "description": webhook.description, "subject": webhook.subject},
        webhook.event_types,
        {},
    )


def refused(given: QueryDict, refusal: errors.InvalidInput) -> Form:
    """As it was sent, with what is wrong beside each field."""
    wrong: dict[str, str] = {}
    for each in refusal.details["errors"]:
        field = each["path"].partition("[")[0]
        name = field if field in _FIELDS else ""
        message = f"{each['message'][:1].upper()}{each['message'][1:]}"
        wrong.setdefault(name, _PATTERNS.get(name, message) if "pattern" in message else message)
    texts = {name: given.get(name, "") for name in _FIELDS[:3]}
    return _form(texts, given.getlist("type"), wrong)


def read(given: QueryDict, *, tenant_id: str) -> wire.WebhookCreate:
    """What the form says.

    Raises:
        errors.InvalidInput: something in it is not allowed.
    """
    document: dict[str, Any] = {
        "tenantId": tenant_id,
        "url": given.get("url", "").strip(),
        "description": given.get("description", "").strip(),
        "subject": subjects.completed(given.get("subject", "").strip()),
        "eventTypes": _without_doubles(given.getlist("type")),
        "scope": "platform" if given.get("scope") == "platform" else "tenant",
    }
    try:
        return wire.WebhookCreate.model_validate(document)
    except ValidationError as error:
        raise parsing.invalid(error, document) from error


def _without_doubles(types: Sequence[str]) -> list[str]:
    """One that comes with all of its kind need not be named."""
    kinds = {name.partition(".")[0] for name in types if name.endswith(".*")}
    return [name for name in types if name.endswith(".*") or name.partition(".")[0] not in kinds]


def _form(texts: dict[str, str], types: Sequence[str], wrong: dict[str, str]) -> Form:
    chosen = set(types)

    def field(name: str) -> Field:
        return Field(name, texts.get(name, ""), wrong.get(name, ""))

    return Form(
        url=field("url"),
        description=field("description"),
        subject=field("subject"),
        types_error=Field("types", error=wrong.get("eventTypes", "")),
        kinds=tuple(_kind(name, chosen) for name in catalog.GROUPS),
        other_error=wrong.get("", ""),
    )


def _kind(name: str, chosen: set[str]) -> Kind:
    every = Choice(f"{name}.*", f"Every event of a {name}.", f"{name}.*" in chosen)
    choices = tuple(
        Choice(each.name, each.meaning, each.name in chosen)
        for each in catalog.TYPES
        if each.group == name
    )
    count = sum(choice.chosen for choice in choices)
    summary = "all" if every.chosen else f"{count} of {len(choices)}"
    return Kind(name, every, choices, summary)
