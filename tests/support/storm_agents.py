"""Agents in a storm, as far as the control plane can tell of them."""

import itertools
import random
import threading
from typing import Any

from bettercompute import clock
from nodes import desired, reports
from nodes.models import NodeSession
from nodes.protocol.messages import ReportEntry, ReportKind, canonical


class Agent:
    """One of a node: it reports what is wanted of it."""

    def __init__(self, node_id: str) -> None:
        self.node_id = node_id
        self._speaking = threading.Lock()  # a journal has one order
        self._numbers = itertools.count(1)
        self.said: dict[str, ReportKind] = {}
        now = clock.now()
        NodeSession.objects.create(
            node_id=node_id,
            epoch=1,
            token_hash="",
            gateway_id="",
            connected_at=now,
            last_seen_at=now,
        )

    def report(self, *, silent: float, failing: float, rng: random.Random | None = None) -> int:
        """Say what became of what is wanted, perhaps not all of it; answers how much was said."""
        rng = rng or random.Random(0)
        with self._speaking:
            said = {
                each.allocation_id: ReportKind.ALLOCATION_FAILED
                if rng.random() < failing
                else ReportKind.ALLOCATION_BOUND
                for each in desired.read(self.node_id).assignments
                if each.allocation_id not in self.said and rng.random() >= silent
            }
            said |= {
                allocation_id: ReportKind.ALLOCATION_RELEASED
                for allocation_id in reports.ending(self.node_id)
                if rng.random() >= silent
            }
            entries = [self._entry(*each) for each in said.items()]
            if entries:
                reports.apply(self.node_id, epoch=1, entries=entries)
                self.said |= said
            return len(entries)

    def _entry(self, allocation_id: str, kind: ReportKind) -> ReportEntry:
        seq = next(self._numbers)
        body: dict[str, Any] = {"nodeId": self.node_id, "seq": seq, "kind": kind}
        body["allocationId"] = allocation_id
        if kind == ReportKind.ALLOCATION_BOUND:
            body |= {"cdiDevices": ["bcd.dev/gpu=0"], "envFile": f"/run/bcd/{allocation_id}.env"}
        else:
            body["reason"] = "storm"
        return ReportEntry(seq=seq, kind=kind, body=canonical(body))
