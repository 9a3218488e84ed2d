"""Webhooks as people read them at a terminal. Pure."""

from collections.abc import Sequence

from bettercompute.cli.output import Cell, Shown, Table, facts
from bettercompute.cli.views import Reader
from bettercompute.states import EndpointState
from bettercompute.wire.webhooks import (
    Attempt,
    Delivery,
    DeliveryWithAttempts,
    Webhook,
    WebhookWithSecret,
)

ANSWER_SHOWN_MAX = 200  # characters of an answer; --json has what is kept of it
_COLOURS = {"delivered": "green", "failed": "red", "pending": "yellow"}


def several(found: Sequence[Webhook], reader: Reader, *, more: bool) -> Shown:
    """Webhooks, newest first."""
    rows = [
        (
            each.id,
            _state(each),
            each.url,
            _types(each),
            reader.moment(each.last_success_at) or "none so far",
            each.description,
        )
        for each in found
    ]
    columns = ("ID", "STATE", "URL", "EVENTS", "LAST EVENT TAKEN", "DESCRIPTION")
    return Shown(
        document={"items": found, "more": more},
        ids=[each.id for each in found],
        human=[Table(columns, rows, "No webhooks.")],
    )


def one(found: Webhook, reader: Reader) -> Shown:
    """One with all that is known of it."""
    human: list[str | Table] = [f"{found.id}  {_state(found).text}"]
    human += facts(
        [
            ("URL", found.url),
            ("Description", found.description),
            ("Of", "the platform: events of all tenants" if found.tenant_id is None else ""),
            ("Events", _types(found)),
            ("About", found.subject or "anything"),
            ("Last event taken", reader.moment(found.last_success_at) or "none so far"),
            ("Failing since", reader.moment(found.failing_since)),
            ("Disabled", reader.moment(found.disabled_at)),
            ("Notice", found.notice or ""),
            ("Secret", former(found, reader)),
        ]
    )
    return Shown(document=found, ids=[found.id], human=human)


def secret(made: WebhookWithSecret) -> Shown:
    """The secret, which is shown this once."""
    return Shown(document=made, ids=[made.id], human=[made.secret])


def former(found: Webhook, reader: Reader) -> str:
    """Which of its former secrets sign too; empty where none does."""
    ends = [reader.moment(each.until) for each in found.former_secrets]
    if not ends:
        return ""
    if len(ends) == 1:
        return f"The one before signs too until {ends[0]}."
    return f"{len(ends)} former ones sign too, until {', '.join(ends[:-1])} and {ends[-1]}."


def deliveries(found: Sequence[Delivery], reader: Reader, *, more: bool) -> Shown:
    """What a webhook was sent and is to be sent, newest first."""
    rows = [
        (
            each.id,
            Cell(each.state, _COLOURS[each.state]),
            each.event_type,
            each.subject,
            str(each.attempts),
            reader.moment(each.created_at),
            reader.moment(each.next_at),
        )
        for each in found
    ]
    columns = ("ID", "STATE", "EVENT", "ABOUT", "ATTEMPTS", "SINCE", "NEXT TRY")
    return Shown(
        document={"items": found, "more": more},
        ids=[each.id for each in found],
        human=[Table(columns, rows, "No deliveries.")],
    )


def delivery(found: DeliveryWithAttempts, reader: Reader) -> Shown:
    """One delivery, and what came of each attempt."""
    human: list[str | Table] = [f"{found.id}  {found.state}"]
    human += facts(
        [
            ("Event", f"{found.event_type}  {found.event_id}"),
            ("About", found.subject),
            ("Next try", reader.moment(found.next_at)),
        ]
    )
    attempts = [_attempt(each, reader) for each in found.tries]
    human += ["", Table(("ATTEMPT", "AT", "TOOK", "ANSWER", ""), attempts, "Not sent yet.")]
    if found.tries and (answer := " ".join(found.tries[-1].response_head.split())):
        human += facts([("Answered", _shortened(answer))])
    return Shown(document=found, ids=[found.id], human=human)


def _attempt(found: Attempt, reader: Reader) -> Sequence[str | Cell]:
    status = "none" if found.response_status is None else str(found.response_status)
    return (
        str(found.number),
        reader.moment(found.started_at),
        f"{found.latency_ms} ms",
        Cell(status, "red" if found.error else "green"),
        found.error,
    )


def _state(found: Webhook) -> Cell:
    if found.state is EndpointState.DISABLED:
        return Cell("disabled", "red")
    return (
        Cell("failing", "yellow") if found.failing_since is not None else Cell("enabled", "green")
    )


def _types(found: Webhook) -> str:
    return ", ".join(found.event_types) or "all"


def _shortened(text: str) -> str:
    return text if len(text) <= ANSWER_SHOWN_MAX else f"{text[:ANSWER_SHOWN_MAX]} …"
