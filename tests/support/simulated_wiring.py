"""The product's own wiring, for a worker process whose database lives in simulated time."""

from bettercompute import clock
from bettercompute.wiring import reconcilers, ticks

__all__ = ["reconcilers", "ticks"]

clock.follow_sim_clock()
