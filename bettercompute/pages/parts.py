"""The small things that pages are made of: frozen, ready to print, unable to query."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from bettercompute.pages import axis, moments


@dataclass(frozen=True, slots=True)
class Fact:
    """A name and its value, perhaps with a link."""

    label: str
    value: str
    href: str = ""


@dataclass(frozen=True, slots=True)
class Tile:
    """A number worth a large type size."""

    label: str
    value: str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Option:
    """One choice of a select or a row of radio buttons."""

    value: str
    label: str
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class Field:
    """What stands in a field of a form, and what is wrong with it."""

    name: str
    value: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """One of several places to go; the current one is marked."""

    href: str
    label: str
    current: bool = False
    icon: str = ""
    thumb_only: bool = False  # where a wide screen has a button of its own


@dataclass(frozen=True, slots=True)
class Command:
    """Something to copy into a terminal."""

    id: str
    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Meter:
    """A share, and perhaps a second one that would come on top."""

    first: str
    label: str
    second: str = ""
    tone: str = ""


@dataclass(frozen=True, slots=True)
class QuotaLine:
    """One quota in words and as a meter."""

    label: str
    text: str
    meter: Meter


@dataclass(frozen=True, slots=True)
class Countdown:
    """How long until an instant; static/js/countdown.js keeps it true while the page is open."""

    text: str
    until: str = ""
    now: str = ""
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the reader should know or do."""

    title: str
    text: str
    tone: str = "amber"
    href: str = ""
    action: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """Whether to do something, and what it would mean: ``components/confirm.html``."""

    title: str
    what: str
    back_href: str
    action_href: str
    verb: str  # empty where it cannot be done
    consequences: tuple[str, ...]
    refusal: str = ""


def options(choices: Iterable[tuple[str, str]], chosen: str) -> tuple[Option, ...]:
    """Options from ``(value, label)`` pairs, with the chosen one marked."""
    return tuple(Option(value, label, value == chosen) for value, label in choices)


def filter_options(choices: Iterable[tuple[str, str]], chosen: str) -> tuple[Option, ...]:
    """Options of a filter: one that an address asks for beside them is shown as chosen, too."""
    known = dict(choices)
    return options((known | {chosen: known.get(chosen, chosen)}).items(), chosen)


def countdown(until: datetime, *, now: datetime, before: str, after: str) -> Countdown:
    """``Ends in 3 h``, or ``after`` once the instant has passed."""
    if until <= now:
        return Countdown(after)
    return Countdown(
        text=f"{before} {moments.relative(until, now=now).removeprefix('in ')}",
        until=moments.iso(until),
        now=moments.iso(now),
        before=before,
        after=after,
    )


def elapsed(start: datetime, end: datetime, *, now: datetime) -> Meter:
    """How much of a window has passed."""
    share = min(100.0, max(0.0, (now - start) / (end - start) * 100))
    return Meter(axis.percent(share), f"{share:.0f} % of the window has passed")


def quota(label: str, *, used: int, maximum: int, unit: int, added: int = 0) -> QuotaLine:
    """``24 of 256``; ``added`` is the part of ``used`` that is only proposed."""
    before, share = used - added, 100 / maximum if maximum else 0.0
    text = f"{number(used / unit)} of {number(maximum / unit)}"
    if added:
        text = f"{number(before / unit)} → {text}"
    return QuotaLine(
        label=label,
        text=text,
        meter=Meter(
            first=axis.percent(min(100.0, before * share)),
            second=axis.percent(min(100.0, added * share)) if added else "",
            label=f"{label}: {text}",
            tone="over" if used > maximum else "",
        ),
    )


def number(amount: float) -> str:
    """``1,024`` or ``0.5``: at most two decimals, none for nothing."""
    return f"{amount:,.2f}".rstrip("0").rstrip(".")


def sentence(words: str) -> str:
    """With a capital and a full stop; nothing for nothing."""
    return f"{words[:1].upper()}{words[1:].rstrip('.')}." if words else ""


def count(amount: int, noun: str, plural: str = "") -> str:
    """``1 GPU``, ``2 GPUs``."""
    return f"{amount:,} {noun if amount == 1 else plural or noun + 's'}"
