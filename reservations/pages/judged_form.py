"""The reservation form judged, as its preview panel shows it on the pool's timeline (U2)."""

from dataclasses import replace

from bettercompute import errors
from bettercompute.pages import timeline
from bettercompute.pages.visitors import Visitor
from bettercompute.wire.capacity import Preview
from pools import quota, supply
from reservations import previews
from reservations.pages import alternatives_panel, calendar, form, preview_panel
from reservations.pages.form import Parsed
from reservations.pages.preview_panel import Panel


def panel(visitor: Visitor, parsed: Parsed, pool_id: str, *, other_times: bool) -> Panel:
    """What the form would get; and where it does not fit, other times, once they are asked for."""
    judged = _judge(visitor, parsed, pool_id)
    if parsed.request is None or judged.verdict != "no" or judged.never:
        return judged
    if not other_times:
        return replace(judged, may_ask=True)
    return replace(judged, alternatives=alternatives_panel.find(visitor, parsed.request))


def _judge(visitor: Visitor, parsed: Parsed, pool_id: str) -> Panel:
    """The preview judged, drawn on the pool's timeline."""
    if parsed.request is None:
        return preview_panel.unasked(parsed)
    before = quota.usage(visitor.caller.tenant_id)
    try:
        found = previews.preview(visitor.caller, parsed.request)
    except errors.InvalidInput as error:
        return preview_panel.refused(
            next(iter(form.wrong_of(error).values()), error.message), parsed
        )
    except errors.ApiError as error:
        return preview_panel.refused(error.message, parsed)
    return preview_panel.judged(
        found,
        parsed,
        _drawing(visitor, parsed, found, pool_id),
        quota_before=before,
        now=visitor.now,
        zone=visitor.zone,
    )


def _drawing(visitor: Visitor, parsed: Parsed, found: Preview, pool_id: str) -> timeline.Timeline:
    scale = preview_panel.scale(parsed.window, now=visitor.now)
    devices = supply.devices(pool_id)
    bookings = calendar.occupied(visitor.caller, pool_id, devices, start=scale.start, end=scale.end)
    return timeline.build(
        devices,
        bookings,
        scale=scale,
        now=visitor.now,
        zone=visitor.zone,
        proposal=preview_panel.proposal(parsed.window, found),
    )
