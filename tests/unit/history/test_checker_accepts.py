"""Histories that a correct system can produce: the checker must find nothing in them."""

import pytest

from tests.support.history import checker
from tests.support.history.recording import FinalState
from tests.unit.history.script import HOUR, T0, Script, body, final, row, shown

ACCEPTED: dict[str, tuple[Script, FinalState | None]] = {}

ACCEPTED["nothing at all"] = Script(), final()

ACCEPTED["a life"] = (
    Script()
    .create((0, 1), shown(version=2))
    .read((2, 3), shown(state="binding", version=3))
    .read((4, 5), shown(state="active", version=5))
    .read((6, 7), shown(state="released", version=6, end=T0 + 9), op="release")
    .read((8, 9), shown(state="released", version=6, end=T0 + 9)),
    final(shown(state="released", version=6, end=T0 + 9)),
)

ACCEPTED["a lost create is found by its replay"] = (
    Script()
    .lost("create", 0, key="k1", asked=body())
    .create((1, 2), shown(), status=200, asked=body()),
    final(shown()),
)

ACCEPTED["a lost create never happened"] = (
    Script().lost("create", 0, key="k1", asked=body()),
    final(),
)

ACCEPTED["a lost create happens after everything else"] = (
    Script()
    .lost("create", 0, key="k1", asked=body())
    .list_((5, 6))
    .refused((7, 8), "get", 404, "NOT_FOUND", target="rsv-k1"),
    final(shown()),
)

ACCEPTED["reads that overlap may come in any order"] = (
    Script()
    .create((0, 1), shown(version=2))
    .read((2, 9), shown(state="active", version=5))
    .read((3, 8), shown(state="binding", version=3)),
    None,
)

ACCEPTED["one holder after the other"] = (
    Script().create((0, 1), shown("k1")).create((2, 3), shown("k2", start=T0 + HOUR)),
    final(shown("k1"), shown("k2", start=T0 + HOUR)),
)

ACCEPTED["an end that moves later, booked by two rows that touch"] = (
    Script().create((0, 1), shown("k1")).read((2, 3), shown("k1", version=3, end=T0 + 2 * HOUR)),
    final(
        shown("k1", version=3, end=T0 + 2 * HOUR),
        bookings=(
            row("alloc-k1", T0 + HOUR, T0 + 2 * HOUR),
            row("alloc-k1", T0, T0 + HOUR),
        ),
    ),
)

ACCEPTED["an extension takes the time that another gave back before it began"] = (
    Script()
    .create((0, 1), shown("k1"))
    .create((2, 3), shown("k2", start=T0 + HOUR, asked=body(start=T0 + HOUR)))
    .read(
        (4, 5),
        shown("k2", state="cancelled", version=3, start=T0 + HOUR, asked=body(start=T0 + HOUR)),
        op="cancel",
    )
    .read((6, 7), shown("k1", version=3, end=T0 + 2 * HOUR))
    .read((8, 9), shown("k1", state="released", version=6, end=T0 + 2 * HOUR, reason="expired")),
    None,
)

ACCEPTED["the next holder begins the millisecond the first gave back"] = (
    Script()
    .create((0, 1), shown("k1"))
    .read((2, 5), shown("k1", state="released", version=3, end=T0 + 50), op="release")
    .create((3, 4), shown("k2", start=T0 + 50)),
    final(
        shown("k1", state="released", version=3, end=T0 + 50),
        shown("k2", start=T0 + 50),
    ),
)

ACCEPTED["a window given back before it began held nothing"] = (
    Script()
    .create((0, 1), shown("k1", start=T0 + HOUR, asked=body(start=T0 + HOUR)))
    .read(
        (2, 3),
        shown("k1", state="released", version=3, start=T0 + HOUR, asked=body(start=T0 + HOUR)),
        op="release",
    )
    .create((4, 5), shown("k2", start=T0 + HOUR)),
    None,
)

ACCEPTED["the first may have been given back by a release whose answer was lost"] = (
    Script()
    .create((0, 1), shown("k1"))
    .lost("release", 2, target="rsv-k1")
    .create((3, 4), shown("k2")),
    None,
)

ACCEPTED["two who were each shown once may have held in turn"] = (
    Script().create((0, 10), shown("k1")).create((1, 9), shown("k2")),
    None,
)

ACCEPTED["placed again elsewhere, and another has the devices"] = (
    Script()
    .create((0, 1), shown("k1", devices=("g0",)))
    .create((4, 5), shown("k2", devices=("g0",), start=T0 + 7))
    .read((6, 7), shown("k1", version=4, devices=("g1",), allocation="a2", start=T0 + 8)),
    final(
        shown("k1", version=4, devices=("g1",), allocation="a2", start=T0 + 8),
        shown("k2", devices=("g0",), start=T0 + 7),
    ),
)

ACCEPTED["another body under a known key conflicts, the same body does not"] = (
    Script()
    .create((0, 1), shown("k1"), asked=body())
    .refused(
        (2, 3),
        "create",
        409,
        "CONFLICT",
        key="k1",
        asked=body(gpus=2),
        details={"reservationId": "rsv-k1"},
    )
    .create((4, 5), shown("k1"), status=200, asked=body()),
    final(shown("k1")),
)

ACCEPTED["of two bodies at once either may come first"] = (
    Script()
    .refused(
        (0, 5),
        "create",
        409,
        "CONFLICT",
        key="k1",
        asked=body(),
        details={"reservationId": "rsv-k1"},
    )
    .create((1, 4), shown("k1", devices=("g0", "g1")), asked=body(gpus=2)),
    None,
)

ACCEPTED["refused by quota, then admitted with the same key"] = (
    Script()
    .refused((0, 1), "create", 409, "QUOTA_EXCEEDED", key="k1", asked=body())
    .create((2, 3), shown("k1"), asked=body()),
    final(shown("k1")),
)

ACCEPTED["a refused create leaves an expired draft"] = (
    Script()
    .create((0, 1), shown("k1"))
    .refused((2, 3), "create", 409, "QUOTA_EXCEEDED", key="k2", asked=body()),
    final(shown("k1"), shown("k2", state="expired", version=2, start=None, devices=())),
)

ACCEPTED["an outage says when to come back, and decides nothing"] = (
    Script()
    .refused((0, 1), "create", 503, "UNAVAILABLE", key="k1", asked=body())
    .create((2, 3), shown("k1"), status=200, asked=body())
    .refused((4, 5), "get", 503, "UNAVAILABLE", target="rsv-k1"),
    final(shown("k1")),
)

ACCEPTED["the quota passes from one to the next"] = (
    Script()
    .create((0, 1), shown("k1"))
    .read((2, 6), shown("k1", state="released", version=3, end=T0 + 1), op="release")
    .create((3, 5), shown("k2", start=T0 + 2))
    .quotas((7, 8), used=1_000, most=1_000),
    final(
        shown("k1", state="released", version=3, end=T0 + 1),
        shown("k2", start=T0 + 2),
        limits={"ten_acme": {"gpuMilli": 1_000}},
        closed=True,
    ),
)

ACCEPTED["a refusal while a lost create may hold the quota"] = (
    Script()
    .lost("create", 0, key="k1", asked=body())
    .refused(
        (1, 2),
        "create",
        409,
        "QUOTA_EXCEEDED",
        key="k2",
        asked=body(),
        details={"resource": "gpuMilli"},
    ),
    final(limits={"ten_acme": {"gpuMilli": 1_000}}, closed=True),
)

ACCEPTED["a list at the same time lacks it"] = (
    Script().create((0, 5), shown("k1")).list_((1, 6)),
    None,
)

ACCEPTED["a page ends before it"] = (
    Script()
    .create((0, 1), shown("k1", createdAt=T0))
    .create((2, 3), shown("k2", createdAt=T0 + 5, devices=("g1",)))
    .list_((4, 5), shown("k2", createdAt=T0 + 5, devices=("g1",)), more="rsv-k2", limit=1)
    .list_((6, 7), shown("k1", createdAt=T0), cursor="rsv-k2", limit=1),
    None,
)

ACCEPTED["a list of mine has not what is Bob's, a list of the placed not what is active"] = (
    Script()
    .create((0, 1), shown("k1"))
    .create((0, 1), shown("k2", caller="bob", devices=("g1",)))
    .read((2, 3), shown("k2", caller="bob", devices=("g1",), state="active", version=4))
    .list_((4, 5), shown("k1"), scope="mine")
    .list_((6, 7), shown("k1"), state="placed"),
    None,
)

ACCEPTED["a cancel of what has started is refused"] = (
    Script()
    .create((0, 1), shown("k1"))
    .refused((2, 3), "cancel", 409, "INVALID_STATE", target="rsv-k1"),
    final(shown("k1")),
)

ACCEPTED["a cancel that overlaps the placing is refused"] = (
    Script()
    .create((0, 1), shown("k1", state="pending"))
    .refused((2, 4), "cancel", 409, "INVALID_STATE", target="rsv-k1")
    .read((3, 5), shown("k1", version=3)),
    None,
)

ACCEPTED["a window that is extended"] = (
    Script().create((0, 1), shown("k1")).read((2, 3), shown("k1", version=3, end=T0 + 2 * HOUR)),
    final(shown("k1", version=3, end=T0 + 2 * HOUR)),
)

ACCEPTED["bookings of the rows behind what is shown, and of what is over"] = (
    Script().create((0, 1), shown("k1")),
    final(
        shown("k1"),
        bookings=(
            {
                "device": "g0",
                "allocation": "alloc-k1",
                "start_us": T0 * 1_000,
                "end_us": (T0 + HOUR) * 1_000,
            },
            {
                "device": "g0",
                "allocation": "alloc-k0",
                "start_us": (T0 - HOUR) * 1_000,
                "end_us": T0 * 1_000,
            },
        ),
    ),
)


@pytest.mark.parametrize("name", ACCEPTED)
def test_it_accepts(name: str) -> None:
    script, end = ACCEPTED[name]
    assert list(map(str, checker.check(script.history(), end))) == []
