"""Ends, holders, quotas and lists that no correct system has: each is rejected for what it is."""

from typing import Any

import pytest

from tests.support.history import checker
from tests.support.history.anomalies import Kind
from tests.support.history.recording import FinalState
from tests.unit.history.script import HOUR, T0, Script, body, final, row, shown

REJECTED: dict[str, tuple[set[Kind], Script, FinalState | None]] = {}


def reject(
    name: str, kind: Kind | set[Kind], script: Script, end: FinalState | None = None
) -> None:
    """This history has exactly these anomalies."""
    REJECTED[name] = ({kind} if isinstance(kind, Kind) else kind, script, end)


# --- ends

reject(
    "a release that leaves it active",
    Kind.NOT_ENDED,
    Script().read((0, 1), shown(state="active", version=5), op="release"),
)
reject(
    "a cancel that releases",
    Kind.NOT_ENDED,
    Script().read((0, 1), shown(state="released", version=5), op="cancel"),
)
reject(
    "live after it was released",
    {Kind.RESURRECTED, Kind.ILLEGAL_TRANSITION},
    Script()
    .read((0, 1), shown(state="released", version=5), op="release")
    .read((2, 3), shown(state="active", version=6)),
)
reject(
    "an old answer after the release",
    {Kind.RESURRECTED, Kind.STALE_READ},
    Script()
    .create((0, 1), shown(version=2))
    .read((2, 3), shown(state="released", version=3), op="release")
    .read((4, 5), shown(version=2)),
)
reject(
    "cancelled twice",
    Kind.CANCELLED_TWICE,
    Script()
    .read((0, 1), shown(state="cancelled", version=3, start=None, devices=()), op="cancel")
    .read((2, 3), shown(state="cancelled", version=3, start=None, devices=()), op="cancel"),
)
reject(
    "a pending one that cannot be cancelled",
    Kind.END_REFUSED,
    Script()
    .create((0, 1), shown("k1", state="pending"))
    .refused((2, 3), "cancel", 409, "INVALID_STATE", target="rsv-k1")
    .read((4, 5), shown("k1", state="pending")),
)
reject(
    "an active one that cannot be released",
    Kind.END_REFUSED,
    Script()
    .create((0, 1), shown("k1", state="active", version=5))
    .refused((2, 3), "release", 409, "INVALID_STATE", target="rsv-k1"),
)

# --- holders

reject(
    "two at once, both there before and after",
    Kind.DOUBLE_HOLDING,
    Script()
    .create((0, 1), shown("k1"))
    .create((2, 3), shown("k2", start=T0 + 5))
    .read((4, 5), shown("k1")),
)
reject(
    "two at once in the end",
    Kind.DOUBLE_HOLDING,
    Script().create((0, 1), shown("k1")).create((2, 3), shown("k2", start=T0 + 5)),
    final(shown("k1"), shown("k2", start=T0 + 5)),
)
reject(
    "two at once in one list",
    Kind.DOUBLE_HOLDING,
    Script().list_((0, 9), shown("k1"), shown("k2", start=T0 + 5)),
)
reject(
    "an extension into what another holds",
    Kind.DOUBLE_HOLDING,
    Script()
    .create((0, 1), shown("k1"))
    .create((2, 3), shown("k2", start=T0 + HOUR))
    .read((4, 5), shown("k1", version=3, end=T0 + 2 * HOUR))
    .read((6, 7), shown("k2", start=T0 + HOUR)),
)
reject(
    "an extension that is booked with a hole",
    Kind.UNBOOKED,
    Script().create((0, 1), shown("k1")),
    final(
        shown("k1", version=3, end=T0 + 2 * HOUR),
        bookings=(
            row("alloc-k1", T0, T0 + HOUR),
            row("alloc-k1", T0 + HOUR + 1, T0 + 2 * HOUR),
        ),
    ),
)
reject(
    "an extended past that overlaps a past",
    Kind.DOUBLE_HOLDING,
    Script()
    .create((0, 1), shown("k1"))
    .read((2, 3), shown("k1", version=3, end=T0 + 2 * HOUR))
    .read((4, 5), shown("k1", state="released", version=4, end=T0 + HOUR + 90), op="release")
    .create((6, 7), shown("k2", start=T0 + HOUR + 50))
    .read((8, 9), shown("k2", state="active", version=5, start=T0 + HOUR + 50)),
)
AHEAD: dict[str, Any] = {"start": T0 + HOUR, "asked": body(start=T0 + HOUR)}

reject(
    "two windows ahead that overlap, though one is given back before it begins",
    Kind.DOUBLE_HOLDING,
    Script()
    .create((0, 1), shown("k1", **AHEAD))
    .create((2, 3), shown("k2", **AHEAD))
    .read((4, 5), shown("k1", **AHEAD))
    .read((6, 7), shown("k1", state="cancelled", version=3, **AHEAD), op="cancel"),
)
reject(
    "a past that overlaps a past",
    Kind.DOUBLE_HOLDING,
    Script()
    .create((0, 1), shown("k1"))
    .read((2, 3), shown("k1", state="released", version=3, end=T0 + 90), op="release")
    .create((4, 5), shown("k2", start=T0 + 50))
    .read((6, 7), shown("k2", state="released", version=3, start=T0 + 50, end=T0 + 99)),
)
reject(
    "fewer devices than asked for",
    Kind.NOT_AS_ASKED,
    Script().create((0, 1), shown(asked=body(gpus=2))),
)
reject(
    "half a gang", Kind.NOT_AS_ASKED, Script().create((0, 1), shown(asked=body(gpus=1, nodes=2)))
)
reject("one device twice", Kind.NOT_AS_ASKED, Script().create((0, 1), shown(devices=("g0", "g0"))))
reject("too short", Kind.NOT_AS_ASKED, Script().create((0, 1), shown(end=T0 + HOUR - 1)))
reject("too early", Kind.NOT_AS_ASKED, Script().create((0, 1), shown(asked=body(start=T0 + 1))))
reject(
    "placed without a booking",
    Kind.UNBOOKED,
    Script().create((0, 1), shown("k1")),
    final(shown("k1"), bookings=()),
)
reject(
    "rows that overlap",
    Kind.DOUBLE_BOOKING,
    Script(),
    final(
        bookings=(
            {"device": "g0", "allocation": "a1", "start_us": 0, "end_us": 9},
            {"device": "g0", "allocation": "a2", "start_us": 8, "end_us": 12},
        )
    ),
)

# --- quota

LIMITS: dict[str, Any] = {"limits": {"ten_acme": {"gpuMilli": 1_000}}, "closed": True}

reject(
    "two holders where one is allowed",
    Kind.OVER_QUOTA,
    Script().create((0, 1), shown("k1")).create((2, 3), shown("k2", devices=("g1",))),
    final(shown("k1"), shown("k2", devices=("g1",)), **LIMITS),
)
reject(
    "one that waits is charged too",
    Kind.OVER_QUOTA,
    Script().create((0, 1), shown("k1")).create((2, 3), shown("k2", state="pending")),
    final(shown("k1"), shown("k2", state="pending"), **LIMITS),
)
reject(
    "more in use than may be",
    Kind.OVER_QUOTA,
    Script().quotas((0, 1), used=1_001, most=1_000),
)
reject(
    "refused, though all was given back",
    Kind.QUOTA_LEAKED,
    Script()
    .create((0, 1), shown("k1"))
    .read((2, 3), shown("k1", state="released", version=3, end=T0 + 9), op="release")
    .refused(
        (4, 5),
        "create",
        409,
        "QUOTA_EXCEEDED",
        key="k2",
        asked=body(),
        details={"resource": "gpuMilli"},
    ),
    final(shown("k1", state="released", version=3, end=T0 + 9), **LIMITS),
)

# --- lists

reject(
    "a list without what was acknowledged",
    Kind.LIST_LACKS,
    Script().create((0, 1), shown("k1")).list_((2, 3)),
)
reject(
    "a page with a gap",
    Kind.LIST_LACKS,
    Script()
    .create((0, 1), shown("k2", createdAt=T0 + 5, devices=("g1",)))
    .create((0, 1), shown("k3", createdAt=T0 + 9, devices=("g2",)))
    .list_((2, 3), shown("k1"), more="rsv-k1", limit=1),
)
reject(
    "a list of the placed without one that was placed all the time",
    Kind.LIST_LACKS,
    Script().create((0, 1), shown("k1")).list_((2, 3), state="placed").read((4, 5), shown("k1")),
)
reject(
    "oldest first",
    Kind.LIST_WRONG,
    Script().list_((0, 1), shown("k1"), shown("k2", createdAt=T0 + 5, devices=("g1",))),
)
reject("twice on a page", Kind.LIST_WRONG, Script().list_((0, 1), shown("k1"), shown("k1")))
reject(
    "a placed one among the active",
    Kind.LIST_WRONG,
    Script().list_((0, 1), shown("k1"), state="active"),
)
reject(
    "longer than asked for",
    Kind.LIST_WRONG,
    Script().list_((0, 1), shown("k1"), shown("k2", devices=("g1",)), limit=1),
)


@pytest.mark.parametrize("name", REJECTED)
def test_it_rejects(name: str) -> None:
    kinds, script, end = REJECTED[name]
    found = checker.check(script.history(), end)
    assert {anomaly.kind for anomaly in found} == kinds, [str(anomaly) for anomaly in found]
    assert all(str(anomaly) for anomaly in found)
