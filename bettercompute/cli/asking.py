"""The options that describe what is wanted: the same for `reserve` and `capacity --preview`."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from bettercompute import durations
from bettercompute.cli import completing, repeating, times
from bettercompute.cli import session as sessions
from bettercompute.cli.session import Session
from bettercompute.pages import spans, zones
from bettercompute.wire.reservations import (
    KEY_MAX,
    PRIORITY_MAX,
    Binding,
    DeviceClass,
    GangTopology,
    Topology,
)

if TYPE_CHECKING:
    from bettercompute.client.blocking import Client

_COUNT = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?\Z")
_MEMORY = re.compile(r"([0-9]{1,9})\s*(?:g|gb|gib)?\Z", re.IGNORECASE)
_MEMORY_TERA = re.compile(r"([0-9]{1,6})\s*(?:t|tb|tib)\Z", re.IGNORECASE)


class Count(click.ParamType["int | dict[str, int]"]):
    """``4``, or ``2-4`` for as many as fit."""

    name = "N[-M]"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | dict[str, int]:
        """An int, or the range as on the wire."""
        match = _COUNT.match(str(value))
        if match is None or int(match[1]) < 1:
            self.fail(f"{value!r} is no count: 4, or 2-4 for as many as fit", param, ctx)
        if match[2] is None:
            return int(match[1])
        return {"min": int(match[1]), "max": int(match[2])}


class Length(click.ParamType[int]):
    """``8h``, ``90 minutes``, ``1d 12h``."""

    name = "DURATION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Milliseconds."""
        if isinstance(value, int):
            return value
        try:
            return spans.parse(value)
        except spans.NotUnderstood as error:
            self.fail(str(error), param, ctx)


class Key(click.ParamType[str]):
    """An idempotency key."""

    name = "KEY"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """As it is, where it has a length that a server takes."""
        key = str(value)
        if not 1 <= len(key) <= KEY_MAX:
            self.fail(f"has 1 to {KEY_MAX} characters", param, ctx)
        return key


class Memory(click.ParamType[int]):
    """``64``, ``64GiB`` or ``1TiB``."""

    name = "GIB"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """GiB."""
        if match := _MEMORY.match(str(value)):
            return int(match[1])
        match = _MEMORY_TERA.match(str(value))
        if match is None:
            self.fail(f"{value!r} is no amount of memory: 64 or 64GiB", param, ctx)
        return int(match[1]) * 1_024


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for on the command line."""

    pool: str
    fields: Mapping[str, Any]
    users: tuple[str, ...]
    start_ms: int | None


OPTIONS: tuple[sessions.Option, ...] = (
    click.option(
        "--pool", metavar="POOL", shell_complete=completing.pools, help="The pool, by name or id."
    ),
    click.option(
        "--gpus",
        "--count",
        "count",
        type=Count(),
        help="How many GPUs, MIG instances or slots; 2-4: as many as fit.",
    ),
    click.option("--for", "length", type=Length(), help="How long: 8h, 3 days."),
    click.option(
        "--start",
        metavar="WHEN",
        help='When: "Mon 09:00", "in 2h", 2026-03-09T09:00+01:00. Local time unless it has an '
        "offset; left out: as soon as it is placed.",
    ),
    click.option(
        "--class",
        "device_class",
        type=click.Choice([str(each) for each in DeviceClass]),
        default=str(DeviceClass.GPU),
        show_default=True,
        help="Whole GPUs, MIG instances or shared slots.",
    ),
    click.option("--profile", metavar="PROFILE", help="The MIG profile, such as 1g.10gb."),
    click.option("--model", metavar="MODEL", help="Only this model, such as H100."),
    click.option(
        "--topology",
        type=click.Choice([str(each) for each in Topology]),
        help="How they must be connected.  [default: same-node]",
    ),
    click.option("--nodes", type=click.IntRange(1), help="That many on each of so many nodes."),
    click.option(
        "--gang-topology",
        type=click.Choice([str(each) for each in GangTopology]),
        help="Where the nodes of --nodes must stand.  [default: any]",
    ),
    click.option(
        "--cpus", type=click.IntRange(0), help="CPUs per node, at least the pool's share."
    ),
    click.option("--memory", type=Memory(), help="Memory per node, at least the pool's share."),
    click.option("--kubernetes", is_flag=True, help="Hand the devices to Kubernetes."),
    click.option(
        "--spot", is_flag=True, help="Gives way, with notice, to what does not fit otherwise."
    ),
    click.option(
        "--priority",
        type=click.IntRange(-PRIORITY_MAX, PRIORITY_MAX),
        help="Its place in the pool's line; the pool says how high it may be.  [default: 0]",
    ),
    click.option(
        "--repeat",
        type=repeating.Rule(),
        help='Again and again: "weekly mon,wed until 2027-03-01", "daily 10 times". Needs --start.',
    ),
    click.option(
        "--time-zone",
        type=repeating.Zone(),
        help="Whose clock what repeats goes by.  [default: this machine's]",
    ),
    click.option("--lease", type=Length(), help="Ends by itself if not renewed for so long."),
    click.option(
        "--user",
        "users",
        multiple=True,
        metavar="NAME",
        help="A member who may use it too, by name or id; may be given several times.",
    ),
)


_NEEDED = {"pool": "--pool", "count": "--gpus", "length": "--for"}


def options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command all of them."""
    for option in reversed(OPTIONS):
        function = option(function)
    return function


def wanted(session: Session, given: Mapping[str, Any]) -> Wanted:
    """What the options say, in the words of the wire. An understood start is shown back.

    Raises:
        click.UsageError: pool, count or length is missing.
    """
    for name, option in _NEEDED.items():
        if given[name] is None:
            raise click.UsageError(f"Missing option '{option}'.")
    start = _start(session, given["start"], given["time_zone"])
    fields: dict[str, Any] = {
        "devices": [_line(given)],
        "duration": durations.normalise(given["length"]),
    }
    resources = {"vcpu": given["cpus"], "memoryGiB": given["memory"]}
    resources = {name: amount for name, amount in resources.items() if amount is not None}
    optional = {
        "start": start,
        "binding": str(Binding.KUBERNETES) if given["kubernetes"] else None,
        "spot": given["spot"] or None,
        "priority": given["priority"],
        "gang": _gang(given),
        "resources": resources or None,
        "lease_seconds": _seconds(given["lease"]),
        "recurrence": repeating.recurrence(given),
    }
    fields.update({name: value for name, value in optional.items() if value is not None})
    return Wanted(given["pool"], fields, given["users"], start)


def request_fields(client: "Client", asked: Wanted) -> dict[str, Any]:
    """The same as fields of a request, with the ids of those who are named."""
    fields = dict(asked.fields)
    if asked.users:
        fields["users"] = client.account_ids(asked.users)
    return fields


def _gang(given: Mapping[str, Any]) -> dict[str, Any] | None:
    nodes, topology = given["nodes"], given["gang_topology"]
    if topology is not None and nodes is None:
        raise click.UsageError("--gang-topology is for several nodes: give --nodes, too.")
    gang = {"nodes": nodes, "topology": topology}
    return {name: value for name, value in gang.items() if value is not None} or None


def _line(given: Mapping[str, Any]) -> dict[str, Any]:
    line = {
        "class": given["device_class"],
        "count": given["count"],
        "profile": given["profile"],
        "topology": given["topology"],
        "selector": {"model": given["model"]} if given["model"] else None,
    }
    return {name: value for name, value in line.items() if value is not None}


def _start(session: Session, text: str | None, zone_name: str | None) -> int | None:
    if text is None:
        return None
    now, zone = times.now(), zones.named(zone_name) or times.local_zone()
    start_ms, note = times.start_ms(text, now=now, zone=zone)
    if start_ms is not None:
        session.out.note(f"Start: {times.start_in_full(start_ms, now=now, zone=zone)}")
    if note:
        session.out.note(note)
    return start_ms


def moment(session: Session, text: str, *, option: str) -> int:
    """Epoch milliseconds of a moment, shown back as understood."""
    now, zone = times.now(), times.local_zone()
    found, note = times.start_ms(text, now=now, zone=zone, param_hint=option)
    found = times.to_ms(now) if found is None else found
    session.out.note(f"{option}: {times.start_in_full(found, now=now, zone=zone)}")
    if note:
        session.out.note(note)
    return found


def _seconds(milliseconds: int | None) -> int | None:
    return None if milliseconds is None else max(1, milliseconds // 1_000)
