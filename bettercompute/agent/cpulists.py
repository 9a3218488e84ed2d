"""CPU lists as the kernel writes them (``0-47,96-143``), read within bounds (R31).

A list comes from a machine we do not control, so it is never trusted to be small: whatever is
too long, out of range or not a CPU list reads as empty. Empty means "unknown", never "all".
"""

import re
from collections.abc import Iterable

CPU_ID_MAX = 8191
LIST_BYTES_MAX = 32 * 1024
LIST_PARTS_MAX = 4096

_PART = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?", re.ASCII)


def read(text: str) -> frozenset[int]:
    """The CPU ids of a list; empty where it cannot be read."""
    if len(text.encode("utf-8", "replace")) > LIST_BYTES_MAX:
        return frozenset()
    parts = text.strip().split(",")
    if len(parts) > LIST_PARTS_MAX:
        return frozenset()

    ids: set[int] = set()
    for part in parts:
        span = _span(part.strip())
        if span is None:
            return frozenset()
        ids.update(span)
    return frozenset(ids)


def write(ids: Iterable[int]) -> str:
    """The shortest list of these ids, as the kernel would print it."""
    runs: list[list[int]] = []
    for cpu in sorted(set(ids)):
        if runs and runs[-1][1] == cpu - 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _span(part: str) -> range | None:
    match = _PART.fullmatch(part)
    if match is None:
        return None
    first = int(match[1])
    last = int(match[2] or first)
    return range(first, last + 1) if first <= last <= CPU_ID_MAX else None
