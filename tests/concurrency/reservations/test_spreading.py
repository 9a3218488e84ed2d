"""Several at once where there is room for all: each gets a place of its own (C17, C18).

All of them plan on the same snapshot, so most plans collide; what decides is counted under a lock.
"""

from collections.abc import Callable

import pytest

from bettercompute.failpoints import Failpoint
from nodes import devices
from nodes.models import DeviceBooking, Mode, Node
from pools.models import Pool
from reservations.models import Reservation
from tests.support import cast, invariants, make, races, sessions, supply

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.case(3),
    pytest.mark.rule("C9", "C12", "C17", "C18"),
]

RIVALS = 4
TRIES_MAX = 5  # looks of the losers, each within a second of the last

CHEAP = {"perGpu": {"vcpu": 1, "memoryGiB": 1}}
GPU = [{"class": "gpu", "count": 1}]
SLOT = [{"class": "gpu.slot", "count": 1}]
SLICE = [{"class": "gpu.mig", "profile": "1g.10gb", "count": 1}]


def cards(nodes: int, gpus: int) -> Pool:
    return make.pool(nodes=nodes, gpus=gpus, **CHEAP)


def slots(nodes: int, each: int) -> Pool:
    """Hosts with one GPU, shared by so many."""
    pool = make.pool(nodes=nodes, gpus=1, sharing={"replicas": each}, **CHEAP)
    for node in Node.objects.all():
        (gpu,) = supply.devices(node)
        devices.set_mode(gpu, mode=Mode.SLOTS, slots=each, window_seconds=1)
    return pool


def slices() -> Pool:
    """One GPU, cut in four."""
    pool = make.pool(nodes=1, gpus=1, **CHEAP)
    (gpu,) = supply.devices(Node.objects.get())
    layout = [("1g.10gb", start) for start in range(RIVALS)]
    devices.set_mode(gpu, mode=Mode.MIG, layout=layout, window_seconds=1)
    return pool


SUPPLIES: list[tuple[str, Callable[[], Pool], list[dict[str, object]]]] = [
    ("four hosts with a card each", lambda: cards(RIVALS, 1), GPU),
    ("two hosts with two cards each", lambda: cards(2, 2), GPU),
    ("one host with four cards", lambda: cards(1, RIVALS), GPU),
    ("one host with four slots", lambda: slots(1, RIVALS), SLOT),
    ("two hosts with two slots each", lambda: slots(2, 2), SLOT),
    ("one card in four slices", slices, SLICE),
]


def together(pool: Pool, asked: list[dict[str, object]]) -> list[Reservation]:
    """So many people ask for the same at once, each after having planned."""
    alice = cast.caller("alice")

    def rival(number: int) -> Callable[[], Reservation]:
        key = f"rival-{number}"
        return lambda: make.reservation(alice, pool, devices=asked, idempotency_key=key)

    with races.meeting_at(Failpoint.PLACEMENT_PLANNED, parties=RIVALS):
        return sessions.race(*map(rival, range(RIVALS)))


def place_all(made: list[Reservation], clock) -> list[Reservation]:
    """Whoever lost is tried again a second later, a few times at most."""
    for _ in range(TRIES_MAX):
        if all(reservation.state != "pending" for reservation in made):
            return made
        clock.advance("1s")
        made = [make.look(r) if r.state == "pending" else r for r in made]
    return made


@pytest.mark.parametrize(
    ("supply_of", "asked"),
    [pytest.param(made, asked, id=name) for name, made, asked in SUPPLIES],
)
def test_all_are_placed_and_none_of_them_twice(clock, supply_of, asked) -> None:
    pool = supply_of()
    clock.advance("2s")  # the windows of mode changes are over

    made = place_all(together(pool, asked), clock)

    assert {reservation.state for reservation in made} <= {"placed", "binding"}
    taken = DeviceBooking.objects.exclude(allocation_id__startswith="cmd_")
    assert taken.count() == taken.values("device_id").distinct().count() == RIVALS
    assert invariants.violations() == []


def test_what_the_host_gives_is_counted_under_the_lock(clock) -> None:
    """Four cards, and CPUs for two of them: two wait, though each plan saw enough for its own.

    Plans that chose the same card lose to each other before CPUs count: they look again too.
    """
    pool = make.pool(nodes=1, gpus=RIVALS, perGpu={"vcpu": 90, "memoryGiB": 1})

    made = place_all(together(pool, GPU), clock)

    waiting = [reservation for reservation in made if reservation.state == "pending"]
    assert len(waiting) == RIVALS - 2
    assert DeviceBooking.objects.count() == 2
    assert invariants.violations() == []
