"""Whether a selector's term holds, of a device or of a node's label (R3)."""

from collections.abc import Sequence

from pools.planner.request import Term
from pools.planner.snapshot import Cell, Node


def device_holds(term: Term, cell: Cell) -> bool:
    """A term on model, memoryGiB or driver. Models compare whatever their case."""
    actual = {"model": cell.model, "memoryGiB": cell.memory_gib, "driver": cell.driver}[term.key]
    return _holds(
        term.op,
        str(actual).casefold() or None,
        [str(value).casefold() for value in term.values],
    )


def label_holds(term: Term, node: Node) -> bool:
    """A term on a label; ``!=`` holds where the label is missing."""
    return _holds(term.op, node.label(term.key), [str(value) for value in term.values])


def number(text: str) -> tuple[int, ...] | None:
    """A number or dotted version in a form that compares, or None where the text is neither."""
    parts = text.split(".")
    if len(parts) > 8 or not all(
        part.isascii() and part.isdigit() and len(part) <= 18 for part in parts
    ):
        return None
    return tuple(int(part) for part in parts)


def _holds(op: str, actual: str | None, values: Sequence[str]) -> bool:
    if actual is None:
        return op == "!="
    match op:
        case "exists":
            return True
        case "!=":
            return actual != values[0]
        case ">=":
            have, need = number(actual), number(values[0])
            return have is not None and need is not None and have >= need
        case _:
            return actual in values
