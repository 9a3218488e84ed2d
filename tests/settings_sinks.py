"""Settings of the worker processes that deliver events to several sinks in a fault test."""

from tests.settings import *  # noqa: F403

WIRING = "tests.support.sink_wiring"
