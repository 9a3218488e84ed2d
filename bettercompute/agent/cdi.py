"""How a workload reaches held devices: a CDI spec and an env file (N12). Pure text.

The spec is written for CDI 0.6.0, the lowest version that knows annotations: loaders refuse a
version below the fields used. The assignment itself is one annotation, so the spec on disk is the
hold, with nothing beside it to disagree with.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bettercompute.agent.atoms import Atom
from nodes.protocol import messages
from nodes.protocol.messages import Assignment

VERSION = "0.6.0"
KIND = "bcd.dev/gpu"
ASSIGNMENT_KEY = "bcd.dev/assignment"
CGROUP_KEY = "bcd.dev/cgroup-parent"
CONTROL_NODES = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")

SPEC_DIRECTORY = "etc/cdi"
ENV_DIRECTORY = "run/bcd/allocations"
_SPEC_NAME = re.compile(r"bcd-([A-Za-z0-9_-]{1,128})\.json\Z")


@dataclass(frozen=True, slots=True)
class Bound:
    """What is reported of a hold."""

    cdi_devices: tuple[str, ...]
    env_file: str
    cgroup_parent: str


def bound(assignment: Assignment) -> Bound:
    """The names that a hold of this assignment has, on any host."""
    return Bound(
        cdi_devices=tuple(f"{KIND}={device_name(each)}" for each in assignment.device_ids),
        env_file="/" + env_path(assignment.allocation_id),
        cgroup_parent=cgroup_parent(assignment),
    )


def device_name(atom: str) -> str:
    """The atom as CDI spells it: neither ``/`` nor ``+`` may be in a device's name."""
    return atom.replace("/", ":").replace("+", ".")


def cgroup_parent(assignment: Assignment) -> str:
    """The slice that its workload must run in, or nothing where it has no limits (R31)."""
    if not assignment.limits.any():
        return ""
    return f"bcd-alloc-{assignment.allocation_id}.slice"


def spec_path(allocation_id: str) -> str:
    """Where the spec is, below the root."""
    return f"{SPEC_DIRECTORY}/bcd-{allocation_id}.json"


def env_path(allocation_id: str) -> str:
    """Where the env file is, below the root."""
    return f"{ENV_DIRECTORY}/{allocation_id}.env"


def allocation_of(file_name: str) -> str | None:
    """The allocation whose spec has this file name; None for anybody else's file."""
    match = _SPEC_NAME.match(file_name)
    return match[1] if match else None


def spec(assignment: Assignment, atoms: Sequence[Atom]) -> dict[str, Any]:
    """The CDI spec of this hold."""
    annotations = {ASSIGNMENT_KEY: messages.canonical(assignment.to_wire())}
    if parent := cgroup_parent(assignment):
        annotations[CGROUP_KEY] = parent
    return {
        "cdiVersion": VERSION,
        "kind": KIND,
        "annotations": annotations,
        "devices": [_device(assignment, atom) for atom in atoms],
        "containerEdits": {
            "env": _environment(assignment, atoms),
            "deviceNodes": [{"path": path} for path in CONTROL_NODES],
        },
    }


def assignment_of(text: str) -> Assignment | None:
    """The assignment that a spec holds; None where the text is no spec of ours."""
    try:
        return Assignment.from_json(json.loads(text)["annotations"][ASSIGNMENT_KEY])
    except (ValueError, KeyError, TypeError):
        return None


def env_text(assignment: Assignment, atoms: Sequence[Atom]) -> str:
    """The env file of this hold."""
    return "".join(f"{line}\n" for line in _environment(assignment, atoms))


def _environment(assignment: Assignment, atoms: Sequence[Atom]) -> list[str]:
    visible = ",".join(dict.fromkeys(atom.visible for atom in atoms))
    lines = [
        f"BCD_ALLOCATION={assignment.allocation_id}",
        f"NVIDIA_VISIBLE_DEVICES={visible}",
        f"CUDA_VISIBLE_DEVICES={visible}",
    ]
    if parent := cgroup_parent(assignment):
        lines.append(f"BCD_CGROUP_PARENT={parent}")
    return lines


def _device(assignment: Assignment, atom: Atom) -> dict[str, Any]:
    # A device without any edit is refused by loaders; the allocation is true of each.
    edits: dict[str, Any] = {"env": [f"BCD_ALLOCATION={assignment.allocation_id}"]}
    if atom.minor is not None:
        edits["deviceNodes"] = [{"path": f"/dev/nvidia{atom.minor}"}]
    return {"name": device_name(atom.name), "containerEdits": edits}
