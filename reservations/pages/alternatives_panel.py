"""Other times that would fit, as the form lists them: each a button that fills it (U2)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from bettercompute import clock, durations, errors
from bettercompute.pages import moments, parts, spans, starts
from bettercompute.pages.visitors import Visitor
from bettercompute.wire.capacity_offers import CapacityOffer, CapacityOffersRequest
from bettercompute.wire.reservations import ReservationRequest
from reservations import previews
from reservations.pages.form import Entry

ASK = "alternatives"  # the button that asks for them
TAKE = "instead"  # the button that takes one
AHEAD = timedelta(days=14)
SHORTEST_MS = 15 * 60_000
PARTS_MIN = 4  # a quarter of what was asked is worth an offer


@dataclass(frozen=True, slots=True)
class Alternative:
    """One of them: as a person reads it, and as the form takes it."""

    when: str
    why: str
    value: str


def find(visitor: Visitor, request: ReservationRequest) -> tuple[Alternative, ...]:
    """Starts within two weeks, and shorter times; none where the request cannot be judged."""
    try:
        found = previews.offers(visitor.caller, _ranged(request, now_ms=clock.to_ms(visitor.now)))
    except errors.ApiError:
        return ()
    return tuple(_shown(visitor, offer) for offer in found.offers)


def fill(entry: Entry, chosen: str, *, visitor: Visitor) -> Entry:
    """The form with the start and the length of one; as it was where that is none of ours."""
    start, _, length = chosen.partition("|")
    if not (_is_number(start) and _is_number(length)):
        return entry
    at = starts.whole_minute(clock.from_ms(int(start)))
    return replace(
        entry, start=starts.typed(at, zone=visitor.zone), duration=spans.text(int(length))
    )


def _ranged(request: ReservationRequest, *, now_ms: int) -> CapacityOffersRequest:
    """The request from its start on for two weeks, for all of its time or less."""
    given = request.model_dump(mode="json", by_alias=True, exclude_unset=True)
    length_ms = durations.parse(request.duration)
    earliest = request.start if isinstance(request.start, int) else now_ms
    shortest = min(length_ms, max(SHORTEST_MS, length_ms // PARTS_MIN))
    body: Mapping[str, object] = {
        **{name: value for name, value in given.items() if name != "offerId"},
        "start": {"earliest": earliest, "latest": earliest + AHEAD // timedelta(milliseconds=1)},
        "duration": {"min": shortest, "max": length_ms},
    }
    return CapacityOffersRequest.model_validate_json(json.dumps(body))


def _shown(visitor: Visitor, offer: CapacityOffer) -> Alternative:
    start, end = clock.from_ms(offer.during.start), clock.from_ms(offer.during.end)
    length_ms = offer.during.end - offer.during.start
    window = moments.window(start, end, now=visitor.now, zone=visitor.zone)
    hours = f"{parts.number(offer.quote.gpu_hours)} GPU-hours"
    return Alternative(
        when=f"{window}, {spans.text(length_ms)}, {hours}",
        why=offer.why,
        value=f"{offer.during.start}|{length_ms}",
    )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < len(text) < 15
