"""What is said for each of several offers."""

from types import SimpleNamespace

from bettercompute.wire.capacity_offers import OfferKind
from pools import capacity_offers
from pools.alternatives import Ranked

HOUR = 3_600_000


def way(start, hours, cost):
    return SimpleNamespace(start_ms=start * HOUR, length_ms=hours * HOUR, cost=cost)


def test_what_is_as_good_as_the_first_of_its_kind_is_not_said_to_come_after_it():
    first, later, shorter = ways = [way(0, 2, 4), way(1, 2, 4), way(2, 1, 2)]

    def said(one, *kinds, best=False):
        return capacity_offers.why(Ranked(one, kinds, best), ways)

    every = (OfferKind.SOONEST, OfferKind.LONGEST)
    assert said(first, *every, best=True) == "Starts soonest and lasts longest."
    assert said(later, OfferKind.LONGEST) == "Lasts as long."
    assert said(shorter, OfferKind.LONGEST) == "Lasts next longest."
    assert said(shorter, OfferKind.CHEAPEST) == "Costs no more."
    assert said(later, OfferKind.CHEAPEST) == "Costs little more."
    assert said(later, OfferKind.SOONEST) == "Starts next."
