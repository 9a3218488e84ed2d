"""The form of a reservation: what the chosen pool leaves to choose."""

import pytest

from bettercompute.wire.reservations import DeviceClass
from pools.catalogue import PoolAccess, PoolPolicy
from pools.models import Placer
from pools.supply import Kind, Supply
from reservations.pages import form

GPU = Kind(DeviceClass.GPU, "H100", "", 8)
SMALL = Kind(DeviceClass.MIG, "H100", "1g.10gb", 7)
LARGE = Kind(DeviceClass.MIG, "H100", "3g.40gb", 2)


def supply(pool_id: str, *kinds: Kind) -> Supply:
    access = PoolAccess(
        pool_id=pool_id,
        owner_id="ten_1",
        name=pool_id,
        region="",
        placer=Placer.INLINE,
        policy=PoolPolicy(),
        version=1,
        owned=True,
        offer=None,
        hardware=None,
        budgeted=False,
    )
    return Supply(access, "acme", 1, 1, kinds)


MIG = DeviceClass.MIG
SUPPLIES = [supply("whole", GPU), supply("slices", SMALL, LARGE), supply("both", GPU, LARGE)]


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({}, ("gpu", "")),
        ({"pool": "slices"}, (MIG, "1g.10gb")),
        ({"pool": "slices", "device_class": "gpu"}, (MIG, "1g.10gb")),
        ({"pool": "slices", "device_class": MIG, "profile": "3g.40gb"}, (MIG, "3g.40gb")),
        ({"pool": "slices", "device_class": MIG, "profile": "7g.80gb"}, (MIG, "1g.10gb")),
        ({"pool": "whole", "device_class": MIG, "profile": "1g.10gb"}, ("gpu", "1g.10gb")),
        ({"pool": "both", "device_class": MIG, "profile": "3g.40gb"}, (MIG, "3g.40gb")),
        ({"pool": "none", "device_class": MIG, "profile": "x"}, (MIG, "x")),
    ],
)
def test_a_pool_of_one_class_has_that_chosen(given: dict[str, str], read: tuple[str, str]) -> None:
    entry = form.read(given, supplies=SUPPLIES)
    assert (entry.device_class, entry.profile) == read


def test_the_page_knows_which_pools_leave_no_choice() -> None:
    entry = form.read({}, supplies=SUPPLIES)
    shown = form.view(entry, {}, supplies=[*SUPPLIES, supply("bare")])
    assert [option.only for option in shown.pools] == ["gpu", "mig", "", ""]
