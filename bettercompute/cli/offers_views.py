"""Capacity offers as people read them at a terminal. Pure."""

from bettercompute.cli import views
from bettercompute.cli.output import Shown, Table
from bettercompute.cli.views import Reader
from bettercompute.pages import spans
from bettercompute.wire.capacity_offers import CapacityOffer, CapacityOffers


def offers(found: CapacityOffers, reader: Reader) -> Shown:
    """Ways to have it, the best first; without any, why not."""
    ids = [each.id for each in found.offers]
    if not found.offers:
        human = views.refused(found.reasons, found.earliest, reader)
        return Shown(document=found, ids=ids, human=human)
    rows = [_row(each, reader) for each in found.offers]
    columns = ("OFFER", "WHEN", "FOR", "DEVICES", "GPU-HOURS", "WHY")
    return Shown(document=found, ids=ids, human=[Table(columns, rows, "")])


def _row(offer: CapacityOffer, reader: Reader) -> tuple[str, ...]:
    start, end = offer.during.start, offer.during.end
    return (
        offer.id,
        reader.window(start, end),
        spans.text(end - start),
        views.devices(offer.request),
        f"{offer.quote.gpu_hours:g}",
        offer.why,
    )
