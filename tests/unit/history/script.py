"""Histories written by hand: who asked what from when to when, and what was answered."""

from typing import Any, Self

from tests.support.history.recording import (
    Answer,
    Call,
    FinalState,
    History,
    Operation,
)

T0 = 1_772_442_000_000  # an instant in epoch milliseconds
HOUR = 3_600_000
TENANTS = {"alice": "ten_acme", "bob": "ten_acme", "mallory": "ten_globex"}

Interval = tuple[float, float]


def body(*, gpus: int = 1, nodes: int | None = None, start: int | None = None) -> dict[str, Any]:
    """What a create asks for."""
    asked: dict[str, Any] = {"devices": [{"class": "gpu", "count": gpus}], "duration": "1h"}
    if nodes is not None:
        asked["gang"] = {"nodes": nodes}
    if start is not None:
        asked["start"] = start
    return asked


def shown(
    key: str = "k1",
    *,
    state: str = "placed",
    version: int = 2,
    start: int | None = T0,
    end: int | None = None,
    devices: tuple[str, ...] = ("g0",),
    allocation: str | None = None,
    asked: dict[str, Any] | None = None,
    caller: str = "alice",
    **changes: Any,
) -> dict[str, Any]:
    """A reservation as answered; one of a pending state has no window and no devices."""
    if state == "pending":
        start, devices = None, ()
    parts = [
        {
            "id": allocation or f"alloc-{key}",
            "nodeId": "n0",
            "deviceIds": list(devices),
            "state": {"active": "bound", "placed": "placed", "binding": "binding"}.get(
                state, "released"
            ),
            "binding": None,
        }
    ]
    asked = asked or body(gpus=max(1, len(devices)))
    return {
        "id": f"rsv-{key}",
        "tenantId": TENANTS[caller],
        "poolId": "pool-1",
        "state": state,
        "request": {**asked, "duration": "3600000ms"},
        "during": None if start is None else {"start": start, "end": end or start + HOUR},
        "ownerIdentityId": f"id-{caller}",
        "idempotencyKey": key,
        "conditions": [],
        "binding": None,
        "version": version,
        "hostShare": {},
        "allocations": parts if devices else [],
        "createdAt": T0,
        "reason": None,
        **changes,
    }


class Script:
    """Operations, added one after the other."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []

    def history(self) -> History:
        """All of them, by invocation."""
        ordered = sorted(self.operations, key=lambda each: each.invoked)
        return History(tuple(ordered))

    def create(
        self,
        at: Interval,
        document: dict[str, Any],
        *,
        status: int = 201,
        asked: dict[str, Any] | None = None,
        key: str | None = None,
    ) -> Self:
        """An acknowledged create."""
        sent = asked or {k: v for k, v in document["request"].items() if k != "duration"}
        caller = document["ownerIdentityId"].removeprefix("id-")
        call = _call("create", caller, key=key or document["idempotencyKey"], asked=sent)
        return self._done(call, at, status, document)

    def lost(self, op: str, invoked: float, *, caller: str = "alice", **call: Any) -> Self:
        """An operation whose answer was lost."""
        self.operations.append(
            Operation(len(self.operations) + 1, _call(op, caller, **call), invoked, error="Timeout")
        )
        return self

    def read(
        self,
        at: Interval,
        document: dict[str, Any],
        *,
        op: str = "get",
        caller: str = "alice",
        target: str | None = None,
    ) -> Self:
        """An acknowledged get, release or cancel."""
        call = _call(op, caller, target=target or document["id"])
        return self._done(call, at, 200, document)

    def list_(
        self,
        at: Interval,
        *documents: dict[str, Any],
        cursor: str | None = None,
        more: str | None = None,
        caller: str = "alice",
        **asked: Any,
    ) -> Self:
        """An acknowledged page."""
        asked = {"scope": "all", "limit": 50, **asked}
        if cursor is not None:
            asked["cursor"] = cursor
        call = _call("list", caller, asked=asked)
        return self._done(call, at, 200, {"items": list(documents), "nextCursor": more})

    def quotas(self, at: Interval, *, used: int, most: int) -> Self:
        """What is held of gpuMilli, as told."""
        row = {"resource": "gpuMilli", "used": used, "max": most}
        return self._done(_call("quotas", "alice"), at, 200, {"items": [row]})

    def refused(
        self,
        at: Interval,
        op: str,
        status: int,
        code: str,
        *,
        caller: str = "alice",
        details: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        **call: Any,
    ) -> Self:
        """A problem document."""
        problem = {"status": status, "code": code, "details": details or {}, "requestId": "req-x"}
        kept = {"x-request-id": "req-x", "content-type": "application/problem+json"}
        if status in {429, 503}:
            kept["retry-after"] = "1"
        return self.raw(at, _call(op, caller, **call), Answer(status, problem, headers or kept))

    def raw(self, at: Interval, call: Call, answer: Answer) -> Self:
        """Any answer to any call."""
        self.operations.append(Operation(len(self.operations) + 1, call, *at, answer))
        return self

    def _done(self, call: Call, at: Interval, status: int, document: dict[str, Any]) -> Self:
        headers = {"x-request-id": "req-x", "content-type": "application/json"}
        if "version" in document:
            headers["etag"] = f'"{document["version"]}"'
        return self.raw(at, call, Answer(status, document, headers))


def final(*documents: dict[str, Any], since: float = 1_000.0, **more: Any) -> FinalState:
    """The final state: these reservations and no others."""
    reservations = {document["id"]: document for document in documents}
    return FinalState(reservations, tuple(sorted(set(TENANTS.values()))), since, **more)


def row(allocation: str, start: int, end: int, *, device: str = "g0") -> dict[str, Any]:
    """A booking of the database."""
    window = {"start_us": start * 1_000, "end_us": end * 1_000}
    return {"device": device, "allocation": allocation, **window}


def _call(op: str, caller: str, **more: Any) -> Call:
    return Call(op, caller=caller, tenant=TENANTS[caller], process="p1", **more)
