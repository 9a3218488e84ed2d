"""When and where a page is read: from the wire's milliseconds to what is printed."""

from dataclasses import dataclass
from datetime import datetime, tzinfo

from bettercompute import clock
from bettercompute.pages import moments
from bettercompute.pages.moments import Moment


@dataclass(frozen=True, slots=True)
class Reader:
    """The instant of the page, and the zone of the one who reads it."""

    now: datetime
    zone: tzinfo

    def moment(self, milliseconds: int) -> Moment:
        """An instant as it is printed."""
        return moments.moment(clock.from_ms(milliseconds), now=self.now, zone=self.zone)

    def maybe(self, milliseconds: int | None) -> Moment | None:
        """The same, where there is one."""
        return None if milliseconds is None else self.moment(milliseconds)

    def text(self, milliseconds: int | None) -> str:
        """Its text; empty where there is none."""
        return "" if milliseconds is None else self.moment(milliseconds).text
