"""Answers as people read them at a terminal. Pure: from wire models to lines and tables."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from bettercompute import durations, wanted
from bettercompute.cli import times, waits
from bettercompute.cli.output import Cell, Shown, Table, facts
from bettercompute.pages import chips, endings, spans
from bettercompute.states import ReservationState as S
from bettercompute.wire.capacity import Preview, Reason
from bettercompute.wire.operating import Lease
from bettercompute.wire.pools import PoolDevices
from bettercompute.wire.reservations import Allocation, NodeBinding, Reservation

_COLOURS = {
    S.ACTIVE: "green",
    S.PLACED: "cyan",
    S.BINDING: "cyan",
    S.PENDING: "yellow",
    S.AWAITING_CONFIRMATION: "yellow",
    S.DENIED: "red",
    S.FAILED: "red",
}
_ADVICE = {
    "policy": "see the pool's limits, better-compute pools NAME, or ask an admin of your tenant",
    "quota": "release something, or ask for more quota",
    "budget": "release something, or ask for more budget",
    "busy": "start later, or ask for fewer",
    "gang": "ask for fewer nodes",
    "topology": "allow another --topology",
    "resources": "ask for fewer --cpus or less --memory",
}


@dataclass(frozen=True, slots=True)
class Reader:
    """Who reads: their time, their zone, and what they call the pools."""

    now: datetime
    zone: ZoneInfo
    pools: Mapping[str, str]
    people: Mapping[str, str] = field(default_factory=dict)
    #: by id of a pool, which devices it has
    devices: Mapping[str, Sequence[PoolDevices]] = field(default_factory=dict)

    def pool(self, pool_id: str) -> str:
        """A pool's name, or its id where it is not known."""
        return self.pools.get(pool_id, pool_id)

    def moment(self, milliseconds: int | None) -> str:
        """A moment by their clock; empty where there is none."""
        if milliseconds is None:
            return ""
        return times.moment(milliseconds, now=self.now, zone=self.zone)

    def window(self, start_ms: int, end_ms: int) -> str:
        """``today 14:00 – 22:00``"""
        return times.window(start_ms, end_ms, now=self.now, zone=self.zone)

    def window_in_full(self, start_ms: int, end_ms: int) -> str:
        """The window with its length, zone and how far away it is."""
        return times.window_in_full(start_ms, end_ms, now=self.now, zone=self.zone)


def deleted(identifier: str) -> Shown:
    """What was taken away, of which nothing is left to show."""
    document = {"id": identifier, "deleted": True}
    return Shown(document=document, ids=[identifier], human=[f"{identifier}  deleted"])


def reservation(found: Reservation, reader: Reader) -> Shown:
    """One reservation with all that is known of it."""
    return Shown(document=found, ids=[found.id], human=_details(found, reader))


def reservations(found: Sequence[Reservation], reader: Reader, *, more: bool) -> Shown:
    """A list of them, newest first."""
    rows = [
        (
            each.id,
            Cell(str(each.state), _COLOURS.get(each.state)),
            reader.pool(each.pool_id),
            devices(each.request, reader.devices.get(each.pool_id, ())),
            _when(each, reader),
        )
        for each in found
    ]
    table = Table(("ID", "STATE", "POOL", "DEVICES", "WHEN"), rows, "No reservations.")
    return Shown(
        document={"items": found, "more": more}, ids=[each.id for each in found], human=[table]
    )


def _details(found: Reservation, reader: Reader) -> list[str | Table]:
    lines: list[str | Table] = [f"{found.id}  {found.state}"]
    lines += facts(
        [
            ("Pool", reader.pool(found.pool_id)),
            ("Devices", devices(found.request, reader.devices.get(found.pool_id, ()))),
            ("When", when_in_full(found, reader)),
            ("Lease", _lease(found, reader)),
            ("Host share", _host_share(found.host_share)),
            ("Nodes", ", ".join(map(_node, found.allocations))),
            ("Cost", cost(found)),
            ("Shared with", ", ".join(reader.people.get(each, each) for each in found.users)),
            ("Asked by", f"agent {found.agent}" if found.agent else ""),
            ("Series", found.series_id or ""),
            ("Ended because", endings.in_words(found.reason)),
            ("Confirmation", found.confirmation_id or ""),
            *(
                (each.type, each.message or each.reason)
                for each in found.conditions
                if each.status == "True"
            ),
            *waits.facts(found.waiting, now=reader.now, zone=reader.zone),
        ]
    )
    for allocation in found.allocations:
        if allocation.binding is not None and found.state is S.ACTIVE:
            lines += ["", f"Use it on {_node(allocation)}:", run_command(allocation.binding)]
    return lines


def _node(allocation: Allocation) -> str:
    return allocation.node or allocation.node_id


def devices(request: Mapping[str, Any], there: Sequence[PoolDevices] = ()) -> str:
    """``4 × H100``, ``2 × H100 1g.10gb``, ``8 GPUs on each of 2 nodes``

    The model is the one that was asked for, or the only one that is there.
    """

    def only(kind: str) -> str:
        models = {each.model for each in there if each.device_class == kind}
        return models.pop() if len(models) == 1 else ""

    told = " + ".join(wanted.line(line, model_of=only) for line in request.get("devices", ()))
    gang = request.get("gang")
    return f"{told} on each of {gang['nodes']} nodes" if gang else told


def _when(found: Reservation, reader: Reader) -> str:
    if found.during is None:
        return f"{_asked_length(found)}, not placed"
    return reader.window(found.during.start, found.during.end)


def when_in_full(found: Reservation, reader: Reader) -> str:
    """Its window, or for how long it is asked."""
    if found.during is None:
        return f"{_asked_length(found)}, as soon as it is placed"
    return reader.window_in_full(found.during.start, found.during.end)


def _asked_length(found: Reservation) -> str:
    return spans.text(durations.parse(found.request["duration"]))


def _lease(found: Reservation, reader: Reader) -> str:
    if found.lease_until is None or found.state in chips.OVER:
        return ""
    lapses = reader.moment(found.lease_until)
    return f"lapses {lapses} unless it is renewed"


def _host_share(share: Mapping[str, int]) -> str:
    words = []
    if share.get("vcpu"):
        words.append(f"{share['vcpu']} CPUs")
    if share.get("memoryGiB"):
        words.append(f"{share['memoryGiB']} GiB memory")
    return ", ".join(words) + (" per node" if words else "")


def cost(found: Reservation) -> str:
    """GPU-hours, and their price where the pool has one."""
    hours = f"{found.quote.gpu_hours:g} GPU-hours"
    price = found.quote.price
    return f"{hours}, {price} {found.quote.currency or ''}".rstrip() if price else hours


def run_command(binding: NodeBinding) -> str:
    """A command to copy: a container that has exactly these devices, within their limits."""
    arguments = [f"--device {shlex.quote(each)}" for each in binding.cdi_devices]
    if binding.cgroup_parent:
        arguments.append(f"--cgroup-parent {shlex.quote(binding.cgroup_parent)}")
    arguments.append(f"--env-file {shlex.quote(binding.env_file)}")
    return " \\\n    ".join(["  docker run --rm -it", *arguments, "IMAGE nvidia-smi"])


def preview(found: Preview, reader: Reader) -> Shown:
    """Whether it would fit, and where or why not."""
    human: list[str | Table]
    if found.fits:
        human = [f"It fits. It would cost {found.quote.gpu_hours:g} GPU-hours and take"]
        rows = [(each.name, str(len(each.device_ids))) for each in found.nodes]
        human.append(Table(("NODE", "DEVICES"), rows, "no devices"))
        human += _preempting(found, reader)
        if found.needs_confirmation:
            human.append("The person you act for has to approve it first.")
    else:
        human = refused(found.reasons, found.earliest, reader)
    return Shown(document=found, ids=[each.node_id for each in found.nodes], human=human)


def _preempting(found: Preview, reader: Reader) -> list[str]:
    if found.preempts is None:
        return []
    at = reader.moment(found.preempts.start)
    count = found.preempts.reservations
    them = "1 spot reservation gives" if count == 1 else f"{count} spot reservations give"
    who = f", when {them} way to it" if count else ""
    return [f"It starts {at}{who}."]


def refused(reasons: Sequence[Reason], earliest: int | None, reader: Reader) -> list[str | Table]:
    """Why it does not fit, and when it would."""
    human: list[str | Table] = ["It does not fit:"]
    human += [f"  - {_reason(each, reader)}" for each in reasons]
    if earliest is not None:
        at = reader.moment(earliest)
        human.append(f"The first start at which it fits: {at}")
    return human


def _reason(reason: Reason, reader: Reader) -> str:
    told = f"{reason.filter}: needs {reason.needs}"
    if reason.nodes:
        such_as = f", such as {', '.join(reason.samples)}" if reason.samples else ""
        told += f"; {reason.nodes} {'node fails' if reason.nodes == 1 else 'nodes fail'}{such_as}"
    if reason.most is not None:
        told += f"; the most is {reason.most}, even with nothing booked"
    if reason.until is not None:
        told += f"; until {reader.moment(reason.until)}"
    advice = _ADVICE.get(reason.filter)
    return f"{told} ({advice})" if advice else told


def leases(found: Sequence[Lease], reader: Reader) -> Shown:
    """Who is in charge of what, since when, and when it lapses unless renewed."""
    rows = [
        (
            each.role,
            Cell(each.note or each.owner, "green") if each.held else Cell("nobody", "red"),
            each.owner if each.held else "",
            str(each.epoch),
            reader.moment(each.since if each.held else None),
            f"{each.lapses_in_ms / 1_000:.0f} s" if each.held else "",
        )
        for each in found
    ]
    columns = ("ROLE", "HELD BY", "OWNER", "EPOCH", "SINCE", "LAPSES IN")
    table = Table(columns, rows, "Nobody has ever been in charge of anything.")
    return Shown(
        document={"items": found}, ids=[each.name for each in found if each.held], human=[table]
    )
