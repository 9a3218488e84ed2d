"""Who this process is to leases and heartbeats.

The id is random per process start and never the host's name: a restarted process must not match
its own stale lease and believe it had been in charge all along, through the gap that made it
restart (C32).
"""

import os
import socket

from bettercompute import ids

OWNER = ids.new("own")


def note() -> str:
    """Where this process runs, for people only."""
    return f"{socket.gethostname()} pid {os.getpid()}"


def _be_somebody_else() -> None:
    global OWNER  # noqa: PLW0603  # a process has one name
    OWNER = ids.new("own")


# A forked child shares its parent's memory; sharing its id would share its leases.
os.register_at_fork(after_in_child=_be_somebody_else)
