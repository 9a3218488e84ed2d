"""What the nodes' reports make of a hold's allocations (R26).

Pure: what the nodes reported in, what that makes of each allocation out.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bettercompute.states import AllocationState
from nodes.assignments import AssignmentReport
from nodes.models import ReportedState
from reservations.models import Allocation


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the reports make of a reservation's allocations."""

    bound: tuple[Allocation, ...]  # newly reported bound
    lost: tuple[Allocation, ...]  # was bound, and the node let go of it
    failed: tuple[Allocation, ...]  # the node could not bind it
    waiting: tuple[Allocation, ...]  # nothing said yet

    @property
    def complete(self) -> bool:
        """Whether every node has bound its part."""
        return not (self.failed or self.waiting or self.lost)


def judge(allocations: Sequence[Allocation], reports: Mapping[str, AssignmentReport]) -> Verdict:
    """Sort the allocations by what their nodes last said."""
    bound, lost, failed, waiting = [], [], [], []
    for allocation in allocations:
        said = _said(reports.get(allocation.id))
        match allocation.state, said:
            case AllocationState.BINDING, ReportedState.BOUND:
                bound.append(allocation)
            case AllocationState.BINDING, ReportedState.FAILED:
                failed.append(allocation)
            case AllocationState.BINDING, _:
                waiting.append(allocation)
            case AllocationState.BOUND, ReportedState.RELEASED | ReportedState.FAILED:
                lost.append(allocation)
            case _:
                pass
    return Verdict(tuple(bound), tuple(lost), tuple(failed), tuple(waiting))


def _said(report: AssignmentReport | None) -> str:
    return ReportedState.NONE if report is None else report.reported


def document(allocation: Allocation, report: AssignmentReport) -> dict[str, Any]:
    """The binding as answered. A slice counts only when it is exactly this allocation's (R31)."""
    cgroup_parent = report.report.get("cgroupParent")
    own_slice = f"bcd-alloc-{allocation.id}.slice"
    return {
        "nodeId": allocation.node_id,
        "cdiDevices": list(report.report.get("cdiDevices", [])),
        "envFile": report.report.get("envFile", ""),
        "cgroupParent": own_slice if cgroup_parent == own_slice else None,
        "attested": False,
    }


def reason(allocations: Iterable[Allocation], reports: Mapping[str, AssignmentReport]) -> str:
    """Why the failed ones failed, as their nodes said it."""
    texts = {str(reports[a.id].report.get("reason", "")) for a in allocations if a.id in reports}
    return "; ".join(sorted(text for text in texts if text))
