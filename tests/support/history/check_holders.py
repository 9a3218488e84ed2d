"""Who holds a device when. Never a false alarm: here is why.

A *claim* is one allocation of a placed, binding or active reservation with its window. An answer
shows it as it was at some instant between invocation and completion; which instant is unknown. As
long as a reservation shows a claim, the claim is booked; allocations are never used again, so
between the first and the last instant at which it was shown it was booked without a gap. Call this
its *hull*. Two claims on one device with overlapping windows are an anomaly exactly if their hulls
meet however the instants are chosen. The first hull can lie wholly before the second exactly if the
latest of its invocations (``sure_until``: every instant as early as can be) is no later than the
earliest of the other's completions (``sure_from``: every instant as late as can be). If neither can
lie before the other, they meet.

This uses real time only to order instants, and windows only as the server says them, so it needs no
relation between the clients' clock and the server's.

What is over counts too. A release cuts the window to the time it was used, and that part stays a
fact for ever: ``[start, end as answered)`` with a hull that never ends. That is known only if the
window had begun; one given back before keeps the window it asked for, and held nothing. A claim
whose end nobody saw (it was placed anew elsewhere) counts by its hull alone.

Two claims that one list shows are booked at one instant: a list is one statement.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from tests.support.history import model
from tests.support.history.anomalies import Anomaly, Kind
from tests.support.history.evidence import FINAL, Evidence, Observation
from tests.support.history.recording import NEVER


@dataclass(slots=True)
class Claim:
    """A device, held by an allocation for a window."""

    device: str
    reservation: str
    allocation: str
    start: int
    end: int
    sure_from: float = NEVER
    sure_until: float = -NEVER
    operations: set[int] = field(default_factory=set)

    def seen(self, by: Observation) -> None:
        """One more answer shows it: the least window counts."""
        assert by.end is not None
        self.end = min(self.end, by.end)
        self.sure_from = min(self.sure_from, by.completed)
        self.sure_until = max(self.sure_until, by.invoked)
        self.operations.add(by.operation)

    def meets(self, other: "Claim") -> bool:
        """Whether both are held at one instant, for one moment of the windows, surely."""
        if self.reservation == other.reservation:
            return False
        overlap = max(self.start, other.start) < min(self.end, other.end)
        hulls_meet = self.sure_until > other.sure_from and other.sure_until > self.sure_from
        together = (self.operations & other.operations) - {FINAL}
        return overlap and (hulls_meet or bool(together))


def check(evidence: Evidence) -> Iterator[Anomaly]:
    """Anomalies of what is held."""
    by_device: dict[str, list[Claim]] = defaultdict(list)
    for seen in evidence.observations.values():
        for claim in claims(seen):
            by_device[claim.device].append(claim)
        for each in seen:
            yield from _as_asked(each)
    for device, held in by_device.items():
        yield from _double(device, held)
    yield from _rows(evidence)


def claims(seen: list[Observation]) -> list[Claim]:
    """All that one reservation held or holds, as far as it is sure.

    An extension moves the end of what is held, and only later: so whatever was shown with an end
    was held to each earlier end, too, and each end that was shown is a claim of its own.
    """
    shown: dict[tuple[str, str, int], list[Observation]] = defaultdict(list)
    for each in seen:
        if each.start is None or each.end is None:
            continue
        for allocation, _, devices in each.booked:
            for device in devices:
                shown[device, allocation, each.start].append(each)
    found = [
        _claim(device, allocation, start, end, observations)
        for (device, allocation, start), observations in shown.items()
        for end in sorted({each.end for each in observations if each.end is not None})
    ]
    return [*found, *_past(seen, found)]


def _claim(
    device: str, allocation: str, start: int, end: int, observations: list[Observation]
) -> Claim:
    claim = Claim(device, observations[0].id, allocation, start, end)
    for each in observations:
        if each.end is not None and each.end >= end:
            claim.seen(each)
    return claim


def _past(seen: list[Observation], shown: list[Claim]) -> Iterator[Claim]:
    """What was used until it was given back: a fact for ever, once it was held so long."""
    last = max(seen, key=lambda each: each.version)
    if last.state != "released" or last.start is None or last.end is None:
        return
    if not _had_begun(last, seen):
        return
    kept = {part["id"] for part in last.shown["allocations"]}
    used: dict[tuple[str, str], list[Claim]] = defaultdict(list)
    for claim in shown:
        if claim.allocation in kept and claim.start == last.start:
            used[claim.device, claim.allocation].append(claim)
    for (device, allocation), held in used.items():
        long = [claim for claim in held if claim.end >= last.end]
        operations = {last.operation, *(each for claim in long for each in claim.operations)}
        yield Claim(
            device,
            last.id,
            allocation,
            last.start,
            last.end,
            min([last.completed, *(claim.sure_from for claim in long)]),
            NEVER,
            operations - {FINAL},
        )


def _had_begun(last: Observation, seen: list[Observation]) -> bool:
    """Whether the window of a released reservation had surely begun."""
    assert last.start is not None
    assert last.end is not None
    request = last.shown["request"]
    asked, duration = request.get("start"), model.duration_ms(request)
    return (
        asked is None  # it began when it was placed
        or asked < last.start
        or last.shown.get("reason") == "expired"
        or (duration is not None and last.end - last.start < duration)
        or any(e.state in {"binding", "active"} and e.start == last.start for e in seen)
        or any(_was_cut(e, last) for e in seen)
    )


def _was_cut(each: Observation, last: Observation) -> bool:
    """Whether it was to go on longer, for the same window: only what has begun is cut short."""
    return (
        each.state in model.HOLDING
        and each.start == last.start
        and each.end is not None
        and last.end is not None
        and each.end > last.end
    )


def _double(device: str, held: list[Claim]) -> Iterator[Anomaly]:
    told: set[tuple[str, str]] = set()
    for one, other in combinations(sorted(held, key=lambda claim: claim.start), 2):
        pair = (one.reservation, other.reservation)
        if one.meets(other) and pair not in told:
            told |= {pair, pair[::-1]}
            message = (
                f"{one.reservation} [{one.start}, {one.end}) and "
                f"{other.reservation} [{other.start}, {other.end})"
            )
            operations = tuple(sorted(one.operations | other.operations))
            yield Anomaly(Kind.DOUBLE_HOLDING, device, message, operations)


def _as_asked(each: Observation) -> Iterator[Anomaly]:
    """Whoever is placed has what was asked for: so many devices, so many nodes, that window."""
    if each.state not in model.HOLDING:
        return
    wrong = list(_wrong(each))
    if wrong:
        yield Anomaly(Kind.NOT_AS_ASKED, each.id, "; ".join(wrong), (each.operation,))


def _wrong(each: Observation) -> Iterator[str]:
    request: Mapping[str, Any] = each.shown["request"]
    devices = [device for _, _, part in each.booked for device in part]
    nodes = {node for _, node, _ in each.booked}
    asked = model.gpus_asked(request)
    if asked is not None and len(devices) != asked:
        yield f"has {len(devices)} devices for {asked}"
    if len(set(devices)) != len(devices):
        yield "has a device twice"
    if request.get("gang") and len(nodes) != model.nodes_asked(request):
        yield f"is on {len(nodes)} nodes for {model.nodes_asked(request)}"
    if each.start is None or each.end is None:
        yield "has no window"
        return
    duration = model.duration_ms(request)
    if duration is not None and each.end - each.start < duration:
        yield f"lasts {each.end - each.start} ms for {duration}"
    if request.get("start", each.start) > each.start:
        yield "starts before it was asked to"


def _rows(evidence: Evidence) -> Iterator[Anomaly]:
    """The database's own claims: one a device at any instant, and one behind each that is shown."""
    final = evidence.final
    if final is None or final.bookings is None:
        return
    by_device: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in final.bookings:
        by_device[row["device"]].append(row)
    for device, rows in by_device.items():
        for one, other in combinations(rows, 2):
            if max(one["start_us"], other["start_us"]) < min(one["end_us"], other["end_us"]):
                message = f"{one['allocation']} and {other['allocation']}"
                yield Anomaly(Kind.DOUBLE_BOOKING, device, message)
    for shown in final.reservations.values():
        for claim in claims([Observation(FINAL, final.since, NEVER, shown)]):
            if not _covers(by_device[claim.device], claim):
                message = f"{claim.reservation} shows {claim.device} and has no booking of it"
                yield Anomaly(Kind.UNBOOKED, claim.reservation, message)


def _covers(rows: list[Mapping[str, Any]], claim: Claim) -> bool:
    """Whether its rows book all of it: an extension is a row that begins where another ends."""
    reached = claim.start * 1_000
    for row in sorted(rows, key=lambda row: int(row["start_us"])):
        if row["allocation"] == claim.allocation and int(row["start_us"]) <= reached:
            reached = max(reached, int(row["end_us"]))
    return reached >= claim.end * 1_000
