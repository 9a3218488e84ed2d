"""A tiny sequential cloud that keeps every promise, and histories of clients that use it at once.

Operations take effect one after the other; each is then given an invocation before and a completion
after its effect, so that they overlap as they do for real clients. Some answers are lost.
"""

import random
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

from tests.support.history import clients
from tests.support.history.recording import (
    Answer,
    Call,
    FinalState,
    History,
    Operation,
)

T0 = 1_772_442_000_000
CALLERS = {"alice": "ten_acme", "bob": "ten_acme", "mallory": "ten_globex"}
LIMIT = 6_000
LIVE = ("placed", "binding", "active")
CHARGED = ("pending", *LIVE)
NAMES = ["create", "create", "replay", "twist", "get", "get", "list", "release", "cancel", "quotas"]

Answered = tuple[int, dict[str, Any]]


@dataclass
class Cloud:
    """Two hosts of three devices, two tenants, and a clock."""

    rng: random.Random
    now: int = T0
    nodes: Mapping[str, tuple[str, ...]] = field(
        default_factory=lambda: {n: tuple(f"{n}-g{i}" for i in range(3)) for n in ("n0", "n1")}
    )
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    bookings: list[dict[str, Any]] = field(default_factory=list)
    bodies: dict[str, dict[str, Any]] = field(default_factory=dict)
    numbers: int = 0

    def do(self, call: Call) -> Answered:
        """The answer to one call, and its effect."""
        self.now += self.rng.randint(1, 400_000)
        match call.op:
            case "create":
                return self._create(call)
            case "list":
                return self._list(call)
            case "quotas":
                row = {"resource": "gpuMilli", "used": self._used(call.tenant), "max": LIMIT}
                return 200, {"items": [row]}
            case _:
                return self._on_row(call)

    def work(self) -> None:
        """The control plane does something of its own accord."""
        self.now += self.rng.randint(1, 400_000)
        for row in self.rows.values():
            if row["state"] in LIVE and row["during"]["end"] <= self.now:
                self._end(row, "released", reason="expired")
        live = [row for row in self.rows.values() if row["state"] in CHARGED]
        if live:
            self._advance(self.rng.choice(live))

    def final(self, since: float) -> FinalState:
        """Everything, with the rows behind it."""
        return FinalState(
            deepcopy(self.rows),
            tuple(sorted(set(CALLERS.values()))),
            since,
            {tenant: {"gpuMilli": LIMIT} for tenant in CALLERS.values()},
            closed=True,
            bookings=tuple(
                {**b, "start_us": b["start"] * 1_000, "end_us": b["end"] * 1_000}
                for b in self.bookings
            ),
        )

    def _create(self, call: Call) -> Answered:
        assert call.key is not None
        key, asked = f"rsv-{call.caller}-{call.key}", dict(call.asked)
        if key in self.rows:
            if self.bodies[key] != asked:
                return problem(409, "CONFLICT", reservationId=key)
            return 200, self.rows[key]
        self.bodies.setdefault(key, asked)
        if self.bodies[key] != asked:
            return problem(409, "CONFLICT", reservationId=key)
        if self._used(call.tenant) + _milli(asked) > LIMIT:
            return problem(409, "QUOTA_EXCEEDED", resource="gpuMilli")
        row = self.rows[key] = drafted(call, key, self.now)
        self._place(row)
        return 201, row

    def _place(self, row: dict[str, Any]) -> None:
        asked = row["request"]
        start = max(asked.get("start", self.now), self.now)
        end = start + int(asked["duration"][:-2])
        nodes = self._fits(asked, start, end)
        if not nodes:
            if row["state"] != "pending":
                self._move(row, "pending", during=None)
            return
        parts = []
        for node, devices in nodes.items():
            self.numbers += 1
            part = {"id": f"alloc-{self.numbers}", "nodeId": node, "deviceIds": list(devices)}
            parts.append({**part, "state": "placed", "binding": None})
            self.bookings += [
                {"device": d, "allocation": part["id"], "start": start, "end": end} for d in devices
            ]
        self._move(row, "placed", during={"start": start, "end": end}, allocations=parts)

    def _fits(self, asked: Mapping[str, Any], start: int, end: int) -> dict[str, list[str]]:
        count, wanted = asked["devices"][0]["count"], asked.get("gang", {}).get("nodes", 1)
        found: dict[str, list[str]] = {}
        for node in self.rng.sample(sorted(self.nodes), len(self.nodes)):
            free = [d for d in self.nodes[node] if not self._booked(d, start, end)]
            if len(free) >= count and len(found) < wanted:
                found[node] = free[:count]
        return found if len(found) == wanted else {}

    def _booked(self, device: str, start: int, end: int) -> bool:
        return any(
            b["device"] == device and max(b["start"], start) < min(b["end"], end)
            for b in self.bookings
        )

    def _advance(self, row: dict[str, Any]) -> None:
        state = row["state"]
        if state == "pending":
            self._place(row)
        elif row["during"]["start"] > self.now or state == "active":
            return
        elif state == "placed":
            self._bind(row, "binding")
        elif self.rng.random() < 0.7:
            self._bind(row, "active")
        else:  # a node failed to bind it: back into the line, the devices are free again
            self._free(row, row["allocations"])
            self._move(row, "pending", during=None, allocations=[])

    def _bind(self, row: dict[str, Any], state: str) -> None:
        for part in row["allocations"]:
            part["state"] = {"binding": "binding", "active": "bound"}[state]
        self._move(row, state)

    def _on_row(self, call: Call) -> Answered:
        row = self.rows.get(call.target or "")
        if row is None or row["tenantId"] != call.tenant:
            return problem(404, "NOT_FOUND")
        if call.op == "release" and row["state"] == "pending":
            self._end(row, "cancelled")
        elif call.op == "release" and row["state"] in LIVE:
            self._end(row, "released", reason="release")
        elif call.op == "cancel":
            ahead = row["state"] == "placed" and row["during"]["start"] > self.now
            if row["state"] != "pending" and not ahead:
                return problem(409, "INVALID_STATE")
            self._end(row, "cancelled")
        return 200, row

    def _end(self, row: dict[str, Any], state: str, *, reason: str | None = None) -> None:
        during = row["during"] and dict(row["during"])
        self._free(row, row["allocations"])
        if state == "released" and during["start"] <= self.now:
            during["end"] = min(self.now, during["end"])
        for part in row["allocations"]:
            part["state"] = "released"
        self._move(row, state, during=during, reason=reason)

    def _free(self, row: dict[str, Any], parts: list[dict[str, Any]]) -> None:
        ids = {part["id"] for part in parts}
        for booking in self.bookings:
            if booking["allocation"] in ids:
                booking["end"] = min(booking["end"], self.now)
        self.bookings = [b for b in self.bookings if b["start"] < b["end"]]

    def _move(self, row: dict[str, Any], state: str, **values: Any) -> None:
        row.update(values, state=state, version=row["version"] + 1)

    def _list(self, call: Call) -> Answered:
        found = [row for row in self.rows.values() if row["tenantId"] == call.tenant]
        if call.asked["scope"] == "mine":
            found = [row for row in found if row["ownerIdentityId"] == f"id-{call.caller}"]
        if "state" in call.asked:
            found = [row for row in found if row["state"] == call.asked["state"]]
        found.sort(key=lambda row: row["createdAt"], reverse=True)
        page = found[: call.asked["limit"]]
        return 200, {"items": page, "nextCursor": page[-1]["id"] if found[len(page) :] else None}

    def _used(self, tenant: str) -> int:
        rows = [r for r in self.rows.values() if r["tenantId"] == tenant and r["state"] in CHARGED]
        return sum(_milli(row["request"]) for row in rows)


def history(seed: int, *, operations: int = 60) -> tuple[History, FinalState]:
    """A history that must be accepted, and its final state."""
    rng = random.Random(seed)
    cloud = Cloud(rng)
    done = []
    for at, call in enumerate(_calls(rng, cloud, operations), start=1):
        if rng.random() < 0.4:
            cloud.work()
        begun = Operation(at, call, at - rng.uniform(0, 4))
        if rng.random() < 0.03:  # the request never arrived
            done.append(replace(begun, error="ConnectError"))
            continue
        answered = answer(*cloud.do(call))
        if rng.random() < 0.07:
            done.append(replace(begun, error="ReadTimeout"))
        else:
            done.append(replace(begun, completed=at + rng.uniform(0, 4), answer=answered))
    done.sort(key=lambda each: each.invoked)
    return History(tuple(done)), cloud.final(since=operations + 10.0)


def _calls(rng: random.Random, cloud: Cloud, number: int) -> Iterator[Call]:
    """What the clients ask, knowing what there is."""
    made: list[Call] = []
    for at in range(number):
        caller = rng.choice(list(CALLERS))
        name = rng.choice(NAMES)
        call = Call(name, caller=caller, tenant=CALLERS[caller])
        if name in {"replay", "twist"} and made:
            call = rng.choice(made)
            yield replace(call, asked=clients.twisted(call.asked)) if name == "twist" else call
        elif name in {"get", "release", "cancel"} and cloud.rows:
            yield replace(call, target=rng.choice(list(cloud.rows)))
        elif name == "list":
            asked = {"scope": rng.choice(["all", "mine"]), "limit": rng.choice([2, 5, 50])}
            more = {"state": rng.choice(CHARGED)} if rng.random() < 0.2 else {}
            yield replace(call, asked={**asked, **more})
        elif name == "quotas":
            yield call
        else:
            made.append(replace(call, op="create", key=f"k{at}", asked=_body(rng, cloud.now)))
            yield made[-1]


def _body(rng: random.Random, now: int) -> dict[str, Any]:
    body: dict[str, Any] = {
        "devices": [{"class": "gpu", "count": rng.choice([1, 1, 2])}],
        "duration": rng.choice(["600000ms", "3600000ms"]),
    }
    if rng.random() < 0.4:
        body["start"] = now + rng.choice([1, 2, 3]) * 1_800_000
    if rng.random() < 0.2:
        body["gang"] = {"nodes": 2}
    return body


def drafted(call: Call, key: str, now: int) -> dict[str, Any]:
    return {
        "id": key,
        "tenantId": call.tenant,
        "poolId": "pool-1",
        "state": "draft",
        "request": dict(call.asked),
        "during": None,
        "ownerIdentityId": f"id-{call.caller}",
        "idempotencyKey": call.key,
        "conditions": [],
        "binding": None,
        "version": 1,
        "hostShare": {},
        "allocations": [],
        "createdAt": now,
        "reason": None,
    }


def _milli(asked: Mapping[str, Any]) -> int:
    count: int = asked["devices"][0]["count"] * asked.get("gang", {}).get("nodes", 1)
    return count * 1_000


def problem(status: int, code: str, **details: Any) -> Answered:
    return status, {"status": status, "code": code, "details": details, "requestId": "req-x"}


def answer(status: int, document: Mapping[str, Any]) -> Answer:
    kind = "application/problem+json" if status >= 400 else "application/json"
    headers = {"x-request-id": "req-x", "content-type": kind}
    if "version" in document:
        headers["etag"] = f'"{document["version"]}"'
    return Answer(status, deepcopy(document), headers)
