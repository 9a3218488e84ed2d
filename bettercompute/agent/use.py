"""Whether workloads use what is held, where a host can tell (capability ``allocations.use``)."""

from collections.abc import Collection, Mapping
from typing import Protocol

from nodes.protocol.messages import Assignment


class Use(Protocol):
    """What can tell which holds are used."""

    def of(self, held: Mapping[str, Assignment]) -> Collection[str]:
        """Those of these holds that a workload uses now."""
