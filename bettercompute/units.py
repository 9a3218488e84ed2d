"""Amounts of what is counted in quotas, as people read them: ``4 GPUs``, never 4000 gpuMilli.

Programs read the resource and a whole number of its smallest unit: there a GPU is a thousand.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Unit:
    """What people call a resource, and how many of its smallest unit make one."""

    one: str
    several: str
    parts: int = 1


UNITS: Mapping[str, Unit] = {
    "gpuMilli": Unit("GPU", "GPUs", 1_000),
    "vcpu": Unit("CPU", "CPUs"),
    "memoryGiB": Unit("GiB of memory", "GiB of memory"),
    "hugepages1Gi": Unit("huge page of 1 GiB", "huge pages of 1 GiB"),
}


def named(resource: str) -> str:
    """What a column of these amounts is called: ``GPUs``."""
    return UNITS[resource].several if resource in UNITS else resource


def number(resource: str, amount: int) -> str:
    """How many, exactly: ``4`` or ``0.142`` of GPUs; integers only, for they may be large."""
    parts = UNITS[resource].parts if resource in UNITS else 1
    whole, rest = divmod(abs(amount), parts)
    fraction = f".{rest:0{len(str(parts)) - 1}}".rstrip("0") if rest else ""
    return f"{'-' if amount < 0 else ''}{whole:,}{fraction}"


def text(resource: str, amount: int) -> str:
    """``1 GPU``, ``0.5 GPUs``, ``512 GiB of memory``."""
    unit = UNITS.get(resource)
    if unit is None:
        return f"{number(resource, amount)} {resource}"
    return f"{number(resource, amount)} {unit.one if amount == unit.parts else unit.several}"


def of(resource: str) -> Unit:
    """What a resource is counted in."""
    return UNITS.get(resource, Unit(resource, resource))


def counted(unit: Unit, amount: int) -> str:
    """``1 CPU``, ``1,000 CPUs``: so many whole ones."""
    return f"{amount:,} {unit.one if amount == 1 else unit.several}"
