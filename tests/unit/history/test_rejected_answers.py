"""Answers, keys and versions that no correct system gives: each is rejected for what it is."""

from typing import Any

import pytest

from tests.support.history import checker
from tests.support.history.anomalies import Kind
from tests.support.history.recording import Answer, Call, FinalState
from tests.unit.history.script import HOUR, T0, Script, body, final, shown

REJECTED: dict[str, tuple[set[Kind], Script, FinalState | None]] = {}


def reject(
    name: str, kind: Kind | set[Kind], script: Script, end: FinalState | None = None
) -> None:
    """This history has exactly these anomalies."""
    REJECTED[name] = ({kind} if isinstance(kind, Kind) else kind, script, end)


def answer(op: str, status: int, content: Any, **headers: str) -> Script:
    """One operation with this very answer."""
    call = Call(op, caller="alice", tenant="ten_acme", target="rsv-k1" if op == "get" else None)
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Script().raw((0, 1), call, Answer(status, content, names))


PROBLEM = "application/problem+json"
OK = {"x_request_id": "req-x", "content_type": "application/json"}

# --- answers

reject("500", Kind.SERVER_ERROR, Script().refused((0, 1), "get", 500, "INTERNAL", target="r"))
reject(
    "401 in the middle",
    Kind.UNEXPECTED_STATUS,
    Script().refused((0, 1), "get", 401, "UNAUTHENTICATED", target="r"),
)
reject(
    "503 without Retry-After",
    Kind.NO_RETRY_AFTER,
    Script().refused(
        (0, 1),
        "list",
        503,
        "UNAVAILABLE",
        headers={"x-request-id": "req-x", "content-type": PROBLEM},
    ),
)
reject(
    "an answer without a request id",
    Kind.NO_REQUEST_ID,
    answer("list", 200, {"items": [], "nextCursor": None}, content_type="application/json"),
)
reject(
    "a page of a proxy",
    Kind.BAD_PROBLEM,
    answer("get", 404, "<html>", x_request_id="req-x", content_type="text/html"),
)
reject(
    "a problem of another request",
    Kind.BAD_PROBLEM,
    answer(
        "get",
        404,
        {"status": 404, "code": "NOT_FOUND", "requestId": "req-y"},
        x_request_id="req-x",
        content_type=PROBLEM,
    ),
)
reject("an ETag of another version", Kind.BAD_ETAG, answer("get", 200, shown(), **OK, etag='"1"'))
WAITING = {**shown(), "waiting": {"position": 2}}
reject(
    "an ETag of what waits that says nothing of its place in the line",
    Kind.BAD_ETAG,
    answer(
        "get", 200, {**shown(), "waiting": {"position": 2}}, **OK, etag=f'"{shown()["version"]}"'
    ),
)
reject(
    "an ETag of what waits with another version",
    Kind.BAD_ETAG,
    answer("get", 200, WAITING, **OK, etag='"77.0a1b"'),
)
reject("200 and no reservation", Kind.WRONG_RESERVATION, answer("get", 200, {}, **OK))
reject(
    "another than the one asked for",
    Kind.WRONG_RESERVATION,
    Script().read((0, 1), shown("k1"), target="rsv-k2"),
)
reject(
    "another key's reservation",
    {Kind.WRONG_RESERVATION},
    Script().create((0, 1), shown("k1"), key="k2"),
)
reject(
    "another tenant's reservation",
    Kind.FOREIGN,
    Script().read((0, 1), shown(), caller="mallory"),
)
reject(
    "another tenant's in a list", Kind.FOREIGN, Script().list_((0, 1), shown(), caller="mallory")
)

# --- keys

reject(
    "a replay that makes a second one",
    {Kind.KEY_MADE_TWO},
    Script()
    .create((0, 1), shown("k1"), asked=body())
    .create(
        (2, 3), shown("k1", id="rsv-2", devices=("g1",), allocation="a2"), status=200, asked=body()
    ),
)
reject(
    "a lost create that made another in the end",
    Kind.KEY_MADE_TWO,
    Script().lost("create", 0, key="k1", asked=body()).create((1, 2), shown("k1"), asked=body()),
    final(shown("k1"), shown("k1", id="rsv-2", devices=("g1",), allocation="a2")),
)
reject(
    "two keys, one reservation",
    {Kind.KEYS_SHARE_ONE, Kind.IDENTITY_CHANGED, Kind.ONE_VERSION_TWO_CONTENTS},
    Script().create((0, 1), shown("k1")).create((2, 3), shown("k2", id="rsv-k1"), status=200),
)
reject(
    "201 twice",
    Kind.CREATED_TWICE,
    Script().create((0, 1), shown("k1")).create((2, 3), shown("k1"), status=201),
)
reject(
    "another body is answered with what the first one made",
    Kind.OTHER_BODY_ACCEPTED,
    Script()
    .create((0, 1), shown("k1"), asked=body())
    .create((2, 3), shown("k1"), status=200, asked=body(gpus=2)),
)
reject(
    "another body is weighed by the quota",
    Kind.OTHER_BODY_ACCEPTED,
    Script()
    .create((0, 1), shown("k1"), asked=body())
    .refused((2, 3), "create", 409, "QUOTA_EXCEEDED", key="k1", asked=body(gpus=2)),
)
reject(
    "a replay after the start has passed is invalid",
    {Kind.REPLAY_REFUSED},
    Script()
    .create((0, 1), shown("k1"), asked=body())
    .refused((2, 3), "create", 409, "INVALID_STATE", key="k1", asked=body()),
)
reject(
    "a key that conflicts with itself",
    Kind.REPLAY_REFUSED,
    Script()
    .lost("create", 0, key="k1", asked=body())
    .refused(
        (2, 3), "create", 409, "CONFLICT", key="k1", asked=body(), details={"reservationId": "r"}
    ),
)
reject(
    "a conflict with a stranger",
    Kind.CONFLICT_NAMES_ANOTHER,
    Script()
    .create((0, 1), shown("k1"), asked=body())
    .refused(
        (2, 3),
        "create",
        409,
        "CONFLICT",
        key="k1",
        asked=body(gpus=2),
        details={"reservationId": "rsv-9"},
    ),
)
reject(
    "refused, and there all the same",
    Kind.GHOST,
    Script()
    .create((0, 1), shown("k1"))
    .refused((2, 3), "create", 409, "QUOTA_EXCEEDED", key="k2", asked=body()),
    final(shown("k1"), shown("k2", devices=("g1",))),
)

# --- the register of one reservation

reject(
    "a read of the past",
    Kind.STALE_READ,
    Script()
    .create((0, 1), shown(version=2))
    .read((2, 3), shown(state="binding", version=3))
    .read((4, 5), shown(version=2)),
)
reject(
    "an acknowledged change that the end does not know",
    {Kind.STALE_READ},
    Script().create((0, 1), shown(version=2)).read((2, 3), shown(state="binding", version=3)),
    final(shown(version=2)),
)
reject(
    "one version with two windows",
    Kind.ONE_VERSION_TWO_CONTENTS,
    Script().create((0, 1), shown()).read((2, 3), shown(end=T0 + 2 * HOUR)),
)
reject(
    "from active back to placed",
    Kind.ILLEGAL_TRANSITION,
    Script()
    .create((0, 1), shown(state="active", version=5))
    .read((2, 3), shown(state="placed", version=9)),
)
reject(
    "a step too many for one version",
    Kind.ILLEGAL_TRANSITION,
    Script()
    .create((0, 1), shown(state="pending", version=2))
    .read((2, 3), shown(state="active", version=3)),
)
reject(
    "another owner",
    Kind.IDENTITY_CHANGED,
    Script()
    .create((0, 1), shown(version=2))
    .read((2, 3), shown(version=3, ownerIdentityId="id-bob")),
)
reject(
    "an allocation that changes its devices",
    {Kind.ALLOCATION_CHANGED, Kind.MOVED},
    Script().create((0, 1), shown(version=2)).read((2, 3), shown(version=3, devices=("g1",))),
)
reject(
    "moved within one version",
    Kind.MOVED,
    Script()
    .create((0, 1), shown(version=2))
    .read((2, 3), shown(version=3, devices=("g1",), allocation="a2")),
)
reject(
    "moved while active",
    Kind.MOVED,
    Script()
    .create((0, 1), shown(state="active", version=5))
    .read((2, 3), shown(state="active", version=9, devices=("g1",), allocation="a2")),
)
reject(
    "a window that shrinks while it is held",
    Kind.WINDOW_CHANGED,
    Script()
    .create((0, 1), shown(version=2, end=T0 + 2 * HOUR))
    .read((2, 3), shown(version=3, end=T0 + HOUR)),
)
reject(
    "a release that gives longer",
    Kind.WINDOW_CHANGED,
    Script()
    .create((0, 1), shown(version=2))
    .read((2, 3), shown(state="released", version=3, end=T0 + 2 * HOUR), op="release"),
)
reject(
    "not found, after it was shown",
    Kind.VANISHED,
    Script().create((0, 1), shown("k1")).refused((2, 3), "get", 404, "NOT_FOUND", target="rsv-k1"),
)
reject(
    "acknowledged, and not there in the end",
    Kind.LOST,
    Script().create((0, 1), shown("k1")),
    final(),
)


@pytest.mark.parametrize("name", REJECTED)
def test_it_rejects(name: str) -> None:
    kinds, script, end = REJECTED[name]
    found = checker.check(script.history(), end)
    assert {anomaly.kind for anomaly in found} == kinds, [str(anomaly) for anomaly in found]
    assert all(str(anomaly) for anomaly in found)
