"""The product's own wiring, for a worker process whose database lives in simulated time."""

from bettercompute import clock
from bettercompute.wiring import companions, reconcilers, ticks

__all__ = ["companions", "reconcilers", "ticks"]

clock.follow_sim_clock()
