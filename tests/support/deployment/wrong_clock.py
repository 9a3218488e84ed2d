"""The gateway on a host whose clock is wrong: ``WRONG_CLOCK_SECONDS`` says by how much.

Whatever asks Python for the time of day is told the wrong one, the server's own Date header
included. Monotonic clocks go on: no clock's setting changes how fast time passes.
"""

import datetime as dt
import os
import time
from typing import Any

OFFSET_SECONDS = float(os.environ["WRONG_CLOCK_SECONDS"])

_time, _time_ns = time.time, time.time_ns  # noqa: TID251  # to be made wrong
_datetime = dt.datetime


class _Meta(type):
    """Instants that C code made are instances too."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _datetime)


class WrongDatetime(_datetime, metaclass=_Meta):
    """A datetime whose now is wrong."""

    @classmethod
    def now(cls, tz: Any = None) -> _datetime:
        return _datetime.fromtimestamp(_time() + OFFSET_SECONDS, tz)

    @classmethod
    def utcnow(cls) -> _datetime:
        return _datetime.fromtimestamp(_time() + OFFSET_SECONDS, dt.UTC).replace(tzinfo=None)

    @classmethod
    def today(cls) -> _datetime:
        return cls.now()


time.time = lambda: _time() + OFFSET_SECONDS  # noqa: TID251
time.time_ns = lambda: _time_ns() + int(OFFSET_SECONDS * 1e9)
dt.datetime = WrongDatetime  # type: ignore[misc]

from nodes.gateway.app import application  # noqa: E402  # after the clock is wrong

__all__ = ["application"]
