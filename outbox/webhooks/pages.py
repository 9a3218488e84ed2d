"""What the console's pages of webhooks show. Pure: from wire models to what is printed."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.urls import reverse

from bettercompute.pages import parts
from bettercompute.pages.chips import Chip
from bettercompute.pages.moments import Moment
from bettercompute.pages.parts import Fact, Notice, Option, Question
from bettercompute.pages.readers import Reader
from bettercompute.states import EndpointState
from bettercompute.wire import webhooks as wire
from outbox.webhooks.form import Form

SPANS = {"1h": "the last hour", "1d": "the last day", "3d": "the last three days"}

_WORKS = Chip("Works", "green", "What it was sent last was taken.")
_NEW = Chip("No event yet", "blue", "It was sent no event so far; tests do not count.")
_FAILING = Chip("Failing", "amber", "What it was sent last was not taken; it is tried again.")
_DISABLED = Chip("Disabled", "red", "Nothing is sent to it.")
DELIVERIES = {
    "pending": Chip("Pending", "amber", "To be sent, or to be tried again."),
    "delivered": Chip("Delivered", "green", "The receiver took it."),
    "failed": Chip("Failed", "red", "Not taken, and not tried again by itself."),
}

_WITH_OVERLAP = (
    "For 24 hours messages are signed with the old one, too: nothing is lost meanwhile.",
    "After that, a receiver that knows only the old one refuses what it is sent.",
)
_AT_ONCE = (
    "From now on messages are signed with nothing else, also not with those before.",
    "A receiver refuses what it is sent until it has the new one; that is tried again.",
)


@dataclass(frozen=True, slots=True)
class Row:
    """A webhook in a list."""

    href: str
    url: str
    description: str
    events: str
    chip: Chip
    delivered: Moment | None


@dataclass(frozen=True, slots=True)
class Listing:
    """The tenant's webhooks, and for an operator the platform's."""

    rows: tuple[Row, ...]
    platform: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class DeliveryRow:
    """A delivery in a list."""

    href: str
    event_type: str
    subject: str
    chip: Chip
    attempts: str
    happened: Moment
    next_try: Moment | None


@dataclass(frozen=True, slots=True)
class Detail:
    """One webhook with what it was sent."""

    id: str
    url: str
    chip: Chip
    facts: tuple[Fact, ...]
    enabled: bool
    states: tuple[Option, ...]
    spans: tuple[Option, ...]
    rows: tuple[DeliveryRow, ...]
    filtered: bool
    next_href: str
    notice: Notice | None
    secret: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """One time that it was sent."""

    number: int
    at: Moment
    took: str
    chip: Chip
    error: str
    answer: str
    headers: tuple[tuple[str, str], ...]
    again: Moment | None


@dataclass(frozen=True, slots=True)
class Delivery:
    """One delivery with its attempts, the latest first."""

    id: str
    webhook_id: str
    webhook_url: str
    event_type: str
    chip: Chip
    facts: tuple[Fact, ...]
    body: str
    attempts: tuple[Attempt, ...]
    can_send: bool
    notice: Notice | None


@dataclass(frozen=True, slots=True)
class Editing:
    """The form, of a webhook that there is or of a new one."""

    form: Form
    webhook: wire.Webhook | None


def listing(
    own: Sequence[wire.Webhook], platform: Sequence[wire.Webhook], reader: Reader
) -> Listing:
    """The list."""
    return Listing(
        rows=tuple(_row(each, reader) for each in own),
        platform=tuple(_row(each, reader) for each in platform),
    )


def detail(
    webhook: wire.Webhook,
    deliveries: wire.DeliveryList,
    reader: Reader,
    *,
    state: str = "",
    notice: Notice | None = None,
    secret: str = "",
) -> Detail:
    """One webhook's page."""
    href = reverse("webhook", args=[webhook.id])
    more = {"state": state} if state else {}
    labels = {"": "Any state", **{value: chip.label for value, chip in DELIVERIES.items()}}
    next_href = ""
    if deliveries.next_cursor is not None:
        next_href = f"{href}?{urlencode({**more, 'cursor': deliveries.next_cursor})}"
    return Detail(
        id=webhook.id,
        url=webhook.url,
        chip=_chip(webhook),
        facts=_facts(webhook, reader),
        enabled=webhook.state is EndpointState.ENABLED,
        states=parts.options(labels.items(), state),
        spans=parts.options(SPANS.items(), "1d"),
        rows=tuple(_delivery_row(each, reader) for each in deliveries.items),
        filtered=bool(state),
        next_href=next_href,
        notice=notice or _notice(webhook),
        secret=secret,
    )


def delivery(
    webhook: wire.Webhook,
    found: wire.DeliveryWithAttempts,
    reader: Reader,
    *,
    notice: Notice | None = None,
) -> Delivery:
    """One delivery's page."""
    # A test is no event of the outbox, and the platform is told of other tenants' too.
    is_elsewhere = found.test or webhook.tenant_id is None
    facts = [
        Fact(
            "Event", found.event_id, "" if is_elsewhere else reverse("event", args=[found.event_id])
        ),
        Fact("About", found.subject),
        Fact("Happened", reader.moment(found.event_time).text),
        Fact("Attempts", str(found.attempts)),
    ]
    if (again := reader.maybe(found.next_at)) is not None:
        facts.append(Fact("Next try", again.text))
    if found.test:
        facts.append(Fact("Sent", "as a test, by request; tried once"))
    return Delivery(
        id=found.id,
        webhook_id=webhook.id,
        webhook_url=webhook.url,
        event_type=found.event_type,
        chip=DELIVERIES[found.state],
        facts=tuple(facts),
        body=found.body,
        attempts=tuple(_attempt(each, reader) for each in reversed(found.tries)),
        can_send=webhook.state is EndpointState.ENABLED and not found.test,
        notice=notice,
    )


def rotation(
    webhook: wire.Webhook, reader: Reader, *, leaked: bool = False, refusal: str = ""
) -> Question:
    """Whether to give it a new secret; with ``leaked``, and to sign with no other any more."""
    if not leaked:
        refusal = _too_many(webhook, reader) or refusal
    query = urlencode({"version": webhook.version} | ({"leaked": 1} if leaked else {}))
    return Question(
        title="Replace a secret that leaked?" if leaked else "Rotate its secret?",
        what=webhook.url,
        back_href=reverse("webhook", args=[webhook.id]),
        action_href=f"{reverse('webhook-rotate', args=[webhook.id])}?{query}",
        verb="" if refusal else "Replace" if leaked else "Rotate",
        consequences=(
            "You are shown the new secret once. Give it to the receiver.",
            *(_AT_ONCE if leaked else _WITH_OVERLAP),
        ),
        refusal=refusal,
    )


def _too_many(webhook: wire.Webhook, reader: Reader) -> str:
    ends = [each.until for each in webhook.former_secrets]
    if len(ends) < wire.FORMER_SECRETS_MAX:
        return ""
    return (
        f"{len(ends)} former secrets of it sign still, the first of them until"
        f" {reader.text(min(ends))}: rotate it after that. Where one leaked, “It leaked…” on the"
        " webhook's page ends all of them at once."
    )


def deletion(webhook: wire.Webhook, *, refusal: str = "") -> Question:
    """Whether to end it."""
    return Question(
        title="Delete this webhook?",
        what=webhook.url,
        back_href=reverse("webhook", args=[webhook.id]),
        action_href=reverse("webhook-delete", args=[webhook.id]),
        verb="" if refusal else "Delete",
        consequences=(
            "Nothing is sent to it any more, what waits for it included.",
            "What it was sent is forgotten. To keep that, disable it instead.",
        ),
        refusal=refusal,
    )


def _row(webhook: wire.Webhook, reader: Reader) -> Row:
    return Row(
        href=reverse("webhook", args=[webhook.id]),
        url=webhook.url,
        description=webhook.description,
        events=_events(webhook),
        chip=_chip(webhook),
        delivered=reader.maybe(webhook.last_success_at),
    )


def _facts(webhook: wire.Webhook, reader: Reader) -> tuple[Fact, ...]:
    facts = [
        Fact("What for", webhook.description),
        Fact("Of", "the platform: events of all tenants" if webhook.tenant_id is None else ""),
        Fact("Events", _events(webhook)),
        Fact("About", webhook.subject or "anything"),
        Fact("Made", reader.moment(webhook.created_at).text),
        Fact("Last event taken", reader.text(webhook.last_success_at) or "none so far"),
        Fact("Failing since", reader.text(webhook.failing_since)),
        Fact("Disabled", reader.text(webhook.disabled_at)),
    ]
    if webhook.former_secrets:
        facts.append(Fact("Former secrets", _former(webhook, reader)))
    return tuple(fact for fact in facts if fact.value)


def _former(webhook: wire.Webhook, reader: Reader) -> str:
    """Until when how many sign, those of the same minute together."""
    ends = Counter(reader.text(each.until) for each in webhook.former_secrets)
    told = [f"{count} until {end}" if count > 1 else f"until {end}" for end, count in ends.items()]
    return f"sign too, {', '.join(told)}"


def _events(webhook: wire.Webhook) -> str:
    return ", ".join(webhook.event_types) or "all"


def _chip(webhook: wire.Webhook) -> Chip:
    if webhook.state is EndpointState.DISABLED:
        return _DISABLED
    if webhook.failing_since is not None:
        return _FAILING
    return _NEW if webhook.last_success_at is None else _WORKS


def _notice(webhook: wire.Webhook) -> Notice | None:
    """What is wrong with it, where something is."""
    if webhook.notice is None:
        return None
    is_off = webhook.state is EndpointState.DISABLED
    title = "Nothing is sent to it" if is_off else "It does not take what it is sent"
    return Notice(title, webhook.notice, "red" if is_off else "amber")


def _delivery_row(found: wire.Delivery, reader: Reader) -> DeliveryRow:
    return DeliveryRow(
        href=reverse("webhook-delivery", args=[found.webhook_id, found.id]),
        event_type=found.event_type,
        subject=found.subject,
        chip=DELIVERIES[found.state],
        attempts=parts.count(found.attempts, "attempt"),
        happened=reader.moment(found.event_time),
        next_try=reader.maybe(found.next_at),
    )


def _attempt(found: wire.Attempt, reader: Reader) -> Attempt:
    answered = "No answer" if found.response_status is None else str(found.response_status)
    tone, meaning = ("red", found.error) if found.error else ("green", "The receiver took it.")
    return Attempt(
        number=found.number,
        at=reader.moment(found.started_at),
        took=f"{found.latency_ms:,} ms",
        chip=Chip(answered, tone, meaning),
        error=found.error,
        answer=found.response_head,
        headers=tuple(found.request_headers.items()),
        again=reader.maybe(found.retry_at),
    )
