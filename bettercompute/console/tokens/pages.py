"""What the console's pages of API tokens show. Pure: from wire models to what is printed."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.urls import reverse

from bettercompute import clock
from bettercompute.iam import delegation
from bettercompute.pages import moments, parts
from bettercompute.pages.chips import Chip
from bettercompute.pages.moments import Moment
from bettercompute.pages.parts import Command, Fact, Option, Question
from bettercompute.pages.readers import Reader
from bettercompute.wire import iam as wire

STATES = {"": "In use", "all": "All, ended ones too"}

_WORKS = Chip("Works", "green", "Programs can sign in with it.")
_EXPIRED = Chip("Expired", "grey", "Its time is over: nobody can sign in with it.")
_REVOKED = Chip("Revoked", "grey", "Somebody ended it: nobody can sign in with it.")


@dataclass(frozen=True, slots=True)
class Row:
    """A token in a list."""

    href: str
    name: str
    owner: str
    agent: str
    chip: Chip
    used: Moment | None
    expires: Moment | None


@dataclass(frozen=True, slots=True)
class Listing:
    """One's own tokens, or all of the tenant's."""

    rows: tuple[Row, ...]
    states: tuple[Option, ...]
    state: str
    of_everybody: bool
    next_href: str


@dataclass(frozen=True, slots=True)
class Detail:
    """One token; its text only where it has just been made."""

    id: str
    name: str
    chip: Chip
    facts: tuple[Fact, ...]
    is_live: bool
    secret: str
    commands: tuple[Command, ...]
    admin_href: str


def listing(
    found: Sequence[wire.Token], reader: Reader, *, state: str, of_everybody: bool, more: bool
) -> Listing:
    """The list."""
    next_href = ""
    if more:
        after = {"after": found[-1].id, **({"state": state} if state else {})}
        next_href = f"{reverse('tokens')}?{urlencode(after)}"
    return Listing(
        rows=tuple(_row(token, reader) for token in found),
        states=parts.options(STATES.items(), state),
        state=state,
        of_everybody=of_everybody,
        next_href=next_href,
    )


def detail(
    token: wire.Token,
    reader: Reader,
    *,
    requests_per_second: int | None,
    url: str,
    secret: str = "",
    is_operator: bool = False,
) -> Detail:
    """One token's page; ``url`` is where this console is."""
    chip = _chip(token, reader)
    return Detail(
        id=token.id,
        name=token.name,
        chip=chip,
        facts=_facts(token, reader, requests_per_second),
        is_live=chip is _WORKS,
        secret=secret,
        commands=_commands(url) if secret else (),
        admin_href=reverse("admin:iam_apitoken_change", args=[token.id]) if is_operator else "",
    )


def revocation(token: wire.Token, reader: Reader, *, refusal: str = "") -> Question:
    """Whether to end it."""
    used = "It has never been used."
    if token.last_used_at is not None:
        ago = moments.relative(clock.from_ms(token.last_used_at), now=reader.now)
        used = f"It was last used {ago}: what uses it then gets no further."
    return Question(
        title="Revoke this token?",
        what=token.name,
        back_href=reverse("token", args=[token.id]),
        action_href=reverse("token-revoke", args=[token.id]),
        verb="" if refusal else "Revoke",
        consequences=(
            "Nobody can sign in with it from now on; streams of events that it opened end.",
            used,
            "What was reserved with it stays. A token that is revoked cannot be brought back.",
        ),
        refusal=refusal,
    )


def _row(token: wire.Token, reader: Reader) -> Row:
    return Row(
        href=reverse("token", args=[token.id]),
        name=token.name,
        owner=token.username,
        agent="" if token.delegation is None else token.delegation.agent,
        chip=_chip(token, reader),
        used=reader.maybe(token.last_used_at),
        expires=reader.maybe(token.expires_at),
    )


def _facts(token: wire.Token, reader: Reader, rate: int | None) -> tuple[Fact, ...]:
    limit = "as for everybody" if rate is None else f"{rate:,} a second" if rate else "no limit"
    facts = (
        Fact("Acts for", token.username),
        Fact("Agent", "" if token.delegation is None else token.delegation.agent),
        Fact("Asks first for", _held(token)),
        Fact("Made", reader.text(token.created_at)),
        Fact("Last used", reader.text(token.last_used_at) or "never"),
        Fact("Expires", reader.text(token.expires_at) or "never"),
        Fact("Requests", limit),
        Fact("Revoked", reader.text(token.revoked_at)),
    )
    return tuple(fact for fact in facts if fact.value)


def _held(token: wire.Token) -> str:
    """What its agent asks the person before."""
    held = () if token.delegation is None else token.delegation.confirm
    return ", ".join(delegation.WORDS.get(each, each).lower() for each in held)


def _commands(url: str) -> tuple[Command, ...]:
    return (
        Command("login", "On the command line", f"better-compute login --url {url}"),
        Command(
            "curl",
            "Over the API",
            f'curl -H "Authorization: Bearer $BETTER_COMPUTE_TOKEN" {url}/api/v1/whoami',
        ),
    )


def _chip(token: wire.Token, reader: Reader) -> Chip:
    if token.revoked_at is not None:
        return _REVOKED
    is_over = token.expires_at is not None and token.expires_at <= clock.to_ms(reader.now)
    return _EXPIRED if is_over else _WORKS
