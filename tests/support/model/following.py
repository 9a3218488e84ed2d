"""What may become of each reservation by itself, once all that was due has been done.

First all that ends, so that what is given back is there for those who are placed; then the rest.
"""

from collections.abc import Mapping
from typing import Any

from tests.support.model import entries, wish
from tests.support.model.cloud import Cloud, Key
from tests.support.model.disagreement import require
from tests.support.model.entries import Entry, Held, Said
from tests.support.model.ground import Claim

Shown = Mapping[str, Any]
LIVE = ("placed", "binding", "bound")


def follow(cloud: Cloud, known: Mapping[Key, Entry], shown: Mapping[Key, Shown], now: int) -> None:
    """Every reservation from what it was to what it is shown as, or disagree."""
    for key in sorted(known):
        _end(cloud, known[key], now)
    for key in sorted(known):
        _give_up(cloud, known[key], now)
    placed = [key for key in sorted(known) if _move(cloud, known[key], shown[key], now)]
    for key in placed:
        _legal(cloud, known[key], alone=len(placed) == 1)
    for key in sorted(known):
        _begin(cloud, known[key], now)
        _compare(known[key], shown[key])
        _conditions(cloud, known[key], shown[key], now)
        cloud.seen[known[key].state, known[key].reason] += 1
    for node in cloud.ground.nodes.values():
        late = cloud.overdue(now) & node.devices.keys()
        cloud.seen["kept for too long"] += len(late)
        node.quarantined |= late


def _end(cloud: Cloud, entry: Entry, now: int) -> None:
    """Ends come before starts."""
    if entry.state == "pending":
        pool = cloud.pool_of(entry)
        if entry.created + pool.max_pending <= now:
            cloud.close(entry, "expired", "expired", now)
    elif entry.state in entries.HOLDING and entry.is_over(now):
        cloud.close(entry, "released", "expired", now)
    elif entry.state in entries.HOLDING and entry.has_lapsed(now):
        cloud.close(entry, "released", "lease-lapsed", now)


def _give_up(cloud: Cloud, entry: Entry, now: int) -> None:
    """Nodes that failed, were silent or blocked lose it; the third failure is the last."""
    if entry.state == "placed" and entry.start is not None and entry.start <= now:
        entry.state = "binding"
        _enter(cloud, entry, now)  # before anybody looks who is in the way
    if entry.state != "binding":
        return
    said = {each: _said(cloud, entry, each) for each in entry.live}
    if all(each is Said.BOUND for each in said.values()):
        entry.state = "active"
        return
    deadline = entry.bind_deadline
    if entry.failed or (deadline is not None and deadline <= now):
        cloud.seen["failed to bind" if entry.failed else "silent for too long"] += 1
        entry.failures += 1
        if entry.failures == entries.FAILURES_MAX:
            cloud.close(entry, "failed", "bind-failed", now)
        else:
            _line_up(cloud, entry, now)
    elif deadline is None and _is_blocked_too_long(cloud, entry, now):
        cloud.seen["blocked for too long"] += 1
        _line_up(cloud, entry, now)


def _said(cloud: Cloud, entry: Entry, allocation: str) -> Said:
    held = cloud.held.get(allocation)
    return Said.NOTHING if held is None or allocation in entry.failed else held.said


def _line_up(cloud: Cloud, entry: Entry, now: int) -> None:
    cloud.let_go(entry, set(entry.live), now)
    entry.state = "pending"
    if entry.wish.start is None or entry.wish.start <= now:
        entry.start = entry.end = None


def _is_blocked_too_long(cloud: Cloud, entry: Entry, now: int) -> bool:
    assert entry.start is not None
    blockers = [held for each in entry.live for held in cloud.blockers(each)]
    left = [held.left_at for held in blockers]
    if not left or any(each is None for each in left):
        return False
    last = max(each for each in left if each is not None)
    return max(last, entry.start) + entries.UNBIND_GIVEN_UP <= now


def _move(cloud: Cloud, entry: Entry, shown: Shown, now: int) -> bool:
    """Take over where it is placed now, if that is new."""
    parts = {part["id"]: part for part in shown["allocations"] if part["state"] in LIVE}
    if entry.state == "pending" and shown["state"] in entries.HOLDING:
        start = entry.wish.begins(now)
        entry.start, entry.end = start, start + entry.duration
        entry.state = "placed"
        lease = entry.wish.lease
        entry.lease_until = None if lease is None else now + lease
        _take(cloud, entry, parts)
        return True
    if entry.state == "placed" and parts.keys() != entry.live:
        _repair(cloud, entry, parts, now)
        cloud.seen["repaired"] += 1
        return True
    return False


def _repair(cloud: Cloud, entry: Entry, parts: Mapping[str, Mapping[str, Any]], now: int) -> None:
    _require(entry.is_checked(now), entry, f"was moved to {parts}")
    unfit = {each for each in entry.live if not cloud.serves(entry, each)}
    replaced = entry.live - parts.keys()
    _require(unfit and unfit <= replaced, entry, f"{unfit} cannot serve, {replaced} were replaced")
    fresh = {key: part for key, part in parts.items() if key not in entry.live}
    _take(cloud, entry, fresh)  # before the old ones go: nothing is lost where nothing is found
    cloud.let_go(entry, replaced, now)


def _take(cloud: Cloud, entry: Entry, parts: Mapping[str, Mapping[str, Any]]) -> None:
    pool = cloud.pool_of(entry)
    assert entry.start is not None
    assert entry.end is not None
    for key, part in parts.items():
        devices = frozenset(part["deviceIds"])
        _require(len(devices) == len(part["deviceIds"]), entry, f"has a device twice: {part}")
        vcpu = entry.wish.amount(pool, len(devices))
        cloud.ground.add(
            Claim(entry.id, key, part["nodeId"], devices, vcpu, entry.start, entry.end)
        )
        entry.live.add(key)


def _legal(cloud: Cloud, entry: Entry, *, alone: bool) -> None:
    """Where it was placed it may be: so many devices of the kind, on nodes that take it."""
    claims = [cloud.ground.claims[each] for each in entry.live]
    nodes = [cloud.ground.nodes[claim.node] for claim in claims]
    _require(len({claim.node for claim in claims}) == entry.wish.nodes, entry, "nodes")
    _require(all(node.pool == entry.wish.pool for node in nodes), entry, "pool")
    if entry.wish.same_rack:
        racks = {node.rack for node in nodes}
        _require(len(racks) == 1 and None not in racks, entry, f"stands in {racks}")
    for claim, node in zip(claims, nodes, strict=True):
        _require(cloud.serves(entry, claim.allocation), entry, f"has {claim} of {node}")
        count = len(claim.devices)
        _require(entry.wish.minimum <= count <= entry.wish.maximum, entry, f"has {count} devices")
        _require(cloud.ground.room(node, claim.start, claim.end) >= 0, entry, f"CPUs of {node}")
        if alone and count < entry.wish.maximum:  # then there was no more to have
            _require(not _has_more(cloud, entry, claim), entry, f"could have more of {node}")


def _has_more(cloud: Cloud, entry: Entry, claim: Claim) -> bool:
    node, pool = cloud.ground.nodes[claim.node], cloud.pool_of(entry)
    count = len(claim.devices)
    if not cloud.ground.free(node, entry.wish.kind, claim.start, claim.end):
        return False
    more = entry.wish.amount(pool, count + 1) - claim.vcpu
    return not claim.vcpu or cloud.ground.room(node, claim.start, claim.end) >= more


def _begin(cloud: Cloud, entry: Entry, now: int) -> None:
    """At its start its nodes are asked, each once no earlier holder is in the way."""
    if entry.state == "placed" and entry.start is not None and entry.start <= now:
        entry.state = "binding"
    if entry.state == "active":
        # A range is charged at its most until it is sure what it has.
        given = sum(len(cloud.ground.claims[each].devices) for each in entry.live)
        entry.charges["gpuMilli"] = wish.MILLI[entry.wish.kind[0]] * given
    if entry.state == "binding":
        _enter(cloud, entry, now)


def _enter(cloud: Cloud, entry: Entry, now: int) -> None:
    for allocation in entry.live - entry.entered.keys():
        if not cloud.blockers(allocation):
            claim = cloud.ground.claims[allocation]
            entry.entered[allocation] = now
            cloud.held[allocation] = Held(claim.node, claim.devices)


def _compare(entry: Entry, shown: Shown) -> None:
    """The answer says what the model says."""
    parts = {part["id"]: part["state"] for part in shown["allocations"]}
    window = shown["during"]
    said = {
        "state": shown["state"],
        "reason": shown["reason"],
        "window": None if window is None else (window["start"], window["end"]),
        "live": {key for key, state in parts.items() if state in LIVE},
        "releasing": {key for key, state in parts.items() if state == "releasing"},
    }
    expected = {
        "state": entry.state,
        "reason": entry.reason,
        "window": None if entry.start is None else (entry.start, entry.end),
        "live": entry.live,
        "releasing": entry.releasing,
    }
    if entry.state in entries.HOLDING:
        said["lease"], expected["lease"] = shown["leaseUntil"], entry.lease_until
    _require(said == expected, entry, f"is shown as {said}, not {expected}")
    _require(shown["version"] >= entry.version, entry, "went back to an earlier version")
    entry.version = shown["version"]


def _conditions(cloud: Cloud, entry: Entry, shown: Shown, now: int) -> None:
    """While it is active: what is wrong with what it has, and that its end is near."""
    if entry.state != "active":
        return
    assert entry.end is not None
    reasons = {each["type"]: each["reason"] for each in shown["conditions"]}
    soon = entry.end - entries.ENDING_NOTICE <= now
    _require(("EndingSoon" in reasons) == soon, entry, f"ends at {entry.end}: {reasons}")
    claims = [cloud.ground.claims[each] for each in entry.live]
    nodes = [cloud.ground.nodes[claim.node] for claim in claims]
    if not all(node.reachable for node in nodes):
        _require(reasons.get("Degraded") == "NodeUnreachable", entry, f"silent node: {reasons}")
    elif any(node.sick & claim.devices for claim, node in zip(claims, nodes, strict=True)):
        _require(reasons.get("Degraded") == "DeviceUnhealthy", entry, f"sick device: {reasons}")
    else:
        _require(
            reasons.get("Degraded") in {None, "HostOvercommitted"}, entry, f"all is well: {reasons}"
        )


def _require(holds: object, entry: Entry, message: str) -> None:
    require(holds, f"{entry.id} {message}; {entry}")
