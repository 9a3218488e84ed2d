"""Events as people read them at a terminal. Pure."""

import json
import re
from collections.abc import Sequence

from bettercompute import units
from bettercompute.cli import times
from bettercompute.cli.output import Shown, Table, printable
from bettercompute.cli.views import Reader
from bettercompute.states import RESERVATION
from bettercompute.wire.events import Event

_HIDDEN = {"poolId", "state"}
#: Fields that are epoch milliseconds by their names.
_MOMENTS = re.compile(r"^(start|end|occurrence)$|(At|Until|Start|End)$")


def several(found: Sequence[Event], reader: Reader, *, more: bool) -> Shown:
    """A list of events, newest first."""
    rows = [[_when(each, reader), each.type, each.subject, details(each, reader)] for each in found]
    return Shown(
        document={"items": found, "more": more},
        ids=[each.id for each in found],
        human=[Table(["TIME", "TYPE", "ABOUT", "DETAILS"], rows, "Nothing happened.")],
    )


def line(event: Event, reader: Reader) -> str:
    """One event as it comes: ``today 14:00:07  reservation.active  reservation/rsv_…``."""
    told = f"{_when(event, reader)}  {event.type:<24}  {event.subject}  {details(event, reader)}"
    return printable(told.rstrip())


def details(event: Event, reader: Reader) -> str:
    """What it says beside its type: ``reason: expired; end: today 18:00``."""
    shown = {name: value for name, value in event.data.items() if name not in _HIDDEN}
    resource = shown.pop("resource", None)  # it says what the amount beside it is of
    if isinstance(resource, str):
        shown["max"] = _most(resource, event.data.get("max"))
    amounts = event.data.get("resources")
    if isinstance(amounts, dict):
        shown["resources"] = [units.text(name, amount) for name, amount in amounts.items()]
    return "; ".join(f"{name}: {_value(name, value, reader)}" for name, value in shown.items())


def _most(resource: str, maximum: object) -> str:
    if isinstance(maximum, int):
        return units.text(resource, maximum)
    return f"no limit of {units.named(resource)}"


def is_over(event: Event) -> bool:
    """Whether nothing more happens to the reservation that this is about."""
    return event.data.get("state") in RESERVATION.terminal


def _when(event: Event, reader: Reader) -> str:
    at = times.from_ms(event.time)
    moment = reader.moment(event.time)
    return f"{moment}:{at.astimezone(reader.zone):%S}"


def _value(name: str, value: object, reader: Reader) -> str:
    if _MOMENTS.search(name) and isinstance(value, int):
        return reader.moment(value)
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value)
