"""The timeline: where blocks and ticks lie, also on the days clocks change (U2, U4)."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bettercompute.pages import axis, timeline
from bettercompute.pages.timeline import Booking, Device, Proposal, Whose

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
DAY = timedelta(days=1)
SCALE = axis.Scale(NOW, NOW + DAY)
NODE = [Device(f"d{n}", "gpu-1", "H100") for n in range(8)]
MANY = [Device(f"d{n}", f"gpu-{n // 8}", "H100") for n in range(timeline.LANES_MAX + 8)]


def booked(
    device: str, start: float, end: float, whose: Whose = Whose.MINE, **more: str
) -> Booking:
    hour = timedelta(hours=1)
    return Booking(
        device, more.pop("allocation", "a"), NOW + start * hour, NOW + end * hour, whose, **more
    )


def build(devices: list[Device], bookings: list[Booking], **more: object) -> timeline.Timeline:
    return timeline.build(devices, bookings, scale=SCALE, now=NOW, zone=BERLIN, **more)  # type: ignore[arg-type]


class TestLanes:
    def test_neighbours_of_one_allocation_are_one_block(self) -> None:
        (group,) = build(NODE, [booked(f"d{n}", 6, 12) for n in (1, 2, 3, 6)]).groups
        assert [(b.y, b.height) for b in group.blocks] == [(15, 45), (90, 15)]
        assert {(b.x, b.width) for b in group.blocks} == {("25.000%", "25.000%")}

    def test_two_allocations_side_by_side_are_two_blocks(self) -> None:
        rows = [booked("d0", 0, 6, allocation="a"), booked("d1", 0, 6, allocation="b")]
        (group,) = build(NODE, rows).groups
        assert len(group.blocks) == 2

    def test_what_reaches_beyond_the_window_is_cut_at_its_edge(self) -> None:
        (group,) = build(NODE, [booked("d0", -9, 99)]).groups
        assert (group.blocks[0].x, group.blocks[0].width) == ("0.000%", "100.000%")

    def test_what_only_touches_the_window_is_not_in_it(self) -> None:
        assert build(NODE, [booked("d0", -3, 0), booked("d1", 24, 30)]).rows == ()

    def test_a_label_that_would_be_cut_is_left_out_and_told_in_the_title(self) -> None:
        rows = [booked("d0", 0, 1, label="alice · 1 device"), booked("d2", 0, 9, label="alice")]
        (group,) = build(NODE, rows).groups
        assert [block.label for block in group.blocks] == ["", "alice"]
        assert "alice · 1 device" in group.blocks[0].title

    def test_the_proposed_window_lies_on_the_devices_it_would_take(self) -> None:
        proposal = Proposal(NOW + DAY / 2, NOW + DAY, True, frozenset({"d4", "d5"}))
        drawn = build(NODE, [], proposal=proposal)
        assert [(b.x, b.y, b.height) for b in drawn.groups[0].proposed] == [("50.000%", 60, 30)]
        assert drawn.band == timeline.Band("50.000%", "50.000%", True)

    def test_now_is_drawn_only_inside_the_window(self) -> None:
        assert build(NODE, []).now_x == "0.000%"
        later = axis.Scale(NOW + DAY, NOW + 2 * DAY)
        assert timeline.build(NODE, [], scale=later, now=NOW, zone=BERLIN).now_x == ""


class TestArea:
    def test_many_devices_are_drawn_as_steps(self) -> None:
        drawn = build(MANY, [booked("d0", 0, 6), booked("d1", 3, 12, Whose.FOREIGN)])
        assert drawn.is_area
        free = [int(step.title.split(" ")[0]) for step in drawn.steps]
        assert free == [71, 70, 71, 72]

    @given(
        st.lists(
            st.tuples(
                st.integers(0, len(MANY) - 1),
                st.integers(-30, 30),
                st.integers(1, 30),
                st.sampled_from(Whose),
            ),
            max_size=40,
        )
    )
    def test_steps_tile_the_window_and_layers_never_leave_it(
        self, rows: list[tuple[int, int, int, Whose]]
    ) -> None:
        drawn = build(MANY, [booked(f"d{d}", s, s + n, w) for d, s, n, w in rows])
        assert sum(float(step.width[:-1]) for step in drawn.steps) == pytest.approx(100, abs=0.1)
        for step in drawn.steps:
            assert all(float(layer.y[:-1]) >= 0 for layer in step.layers)


class TestWords:
    def test_the_table_says_the_same_and_hides_the_same(self) -> None:
        rows = [
            booked("d0", 0, 6, label="alice · 2 devices", href="/r/1"),
            booked("d1", 0, 6, label="alice · 2 devices", href="/r/1"),
            booked("d2", 3, 6, Whose.FOREIGN, allocation="b"),
        ]
        mine, foreign = build(NODE, rows).rows
        assert (mine.devices, mine.whose, mine.href) == ("2 on gpu-1", "yours", "/r/1")
        assert (foreign.whose, foreign.label, foreign.href) == ("another tenant", "", "")


class TestTheAxis:
    def hours(self, day: datetime) -> tuple[list[str], axis.Axis]:
        start = day.astimezone(UTC)
        end = (day + DAY).astimezone(UTC)  # wall-clock arithmetic: the next local midnight
        built = axis.build(axis.Scale(start, end), zone=BERLIN)
        return [tick.label for tick in built.hours if tick.label], built

    def test_an_ordinary_day_has_even_ticks(self) -> None:
        labels, built = self.hours(datetime(2026, 3, 2, tzinfo=BERLIN))
        assert labels[:4] == ["00:00", "03:00", "06:00", "09:00"]
        assert built.hours[1].x == "12.500%"
        assert built.shifts == ()

    @pytest.mark.rule("U2")
    def test_a_day_of_23_hours_has_a_short_night(self) -> None:
        _, built = self.hours(datetime(2026, 3, 29, tzinfo=BERLIN))
        assert built.hours[1].label == "03:00"
        assert built.hours[1].x == axis.percent(2 / 23 * 100)
        assert [shift.label for shift in built.shifts] == ["clocks +1\u00a0h"]

    @pytest.mark.rule("U2")
    def test_a_day_of_25_hours_has_a_long_one(self) -> None:
        _, built = self.hours(datetime(2026, 10, 25, tzinfo=BERLIN))
        assert built.hours[1].x == axis.percent(4 / 25 * 100)
        assert built.shifts[0].x == axis.percent(3 / 25 * 100)
        assert built.shifts[0].label == "clocks −1\u00a0h"

    def test_a_day_whose_midnight_is_skipped_begins_where_clocks_resume(self) -> None:
        cairo = ZoneInfo("Africa/Cairo")  # forward at midnight, on the last Friday of April
        start = datetime(2026, 4, 23, 12, 0, tzinfo=UTC)
        built = axis.build(axis.Scale(start, start + DAY), zone=cairo)
        (day,) = [tick for tick in built.days if tick.major]
        assert day.x == axis.percent(10 / 24 * 100)  # 22:00 UTC is both 00:00 and 01:00

    @given(
        st.sampled_from(
            ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC", "Asia/Kathmandu"]
        ),
        st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1)),  # noqa: DTZ001
        st.integers(1, 24 * 60),
    )
    def test_ticks_are_in_order_and_inside(self, name: str, start: datetime, hours: int) -> None:
        instant = start.replace(tzinfo=UTC)
        scale = axis.Scale(instant, instant + timedelta(hours=hours))
        built = axis.build(scale, zone=ZoneInfo(name))
        for ticks in (built.days, built.hours):
            places = [float(tick.x[:-1]) for tick in ticks]
            assert places == sorted(places)
            assert all(0 <= place <= 100 for place in places)
