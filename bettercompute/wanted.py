"""Devices that are asked for, as people read them: ``4 GPUs``, ``2 × A100``. Pure.

The same words wherever a request is told: in lists, in a confirmation, in why it does not fit.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from bettercompute.units import Unit

#: Conditions on devices and their nodes: terms, or short for equalities (R2).
Selector: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
ModelOf: TypeAlias = Callable[[str], str]

_DEVICE_KEYS = {"model": "model", "driver": "driver"}
_MEMORY = "memoryGiB"


def line(asked: Mapping[str, Any], *, model_of: ModelOf = lambda _: "") -> str:
    """So many devices of one class, or its alternatives; ``model_of`` knows that of a class.

    What else is asked of them stands in brackets: ``2 × A100 (driver 550 or later)``.
    """
    if "anyOf" in asked:
        return " or ".join(line(each, model_of=model_of) for each in asked["anyOf"])
    count, kind = asked["count"], asked["class"]
    number = f"{count['min']} to {count['max']}" if isinstance(count, Mapping) else str(count)
    found = _terms(asked.get("selector"))
    named = [each for each in found if each[0] == "model" and each[1] in ("=", "in")]
    model = " or ".join(str(value) for value in named[0][2]) if named else model_of(kind)
    told = devices(kind, number, profile=asked.get("profile") or "", model=model)
    others = ", ".join(term(*each) for each in found if each not in named[:1])
    return f"{told} ({others})" if others else told


def devices(kind: str, number: str | int, *, profile: str = "", model: str = "") -> str:
    """``4 GPUs``, ``1 MIG 1g.10gb instance``, ``2 GPU slots``; of a model, ``4 × H100``."""
    if model:
        slot = "slot" if kind == "gpu.slot" else ""
        return " ".join(filter(None, [f"{number} × {model}", profile, slot]))
    counted = unit(kind, profile)
    return f"{number} {counted.one if str(number) == '1' else counted.several}"


def unit(kind: str, profile: str = "") -> Unit:
    """What devices of a class are counted in."""
    match kind:
        case "gpu.mig":
            one = " ".join(filter(None, ["MIG", profile, "instance"]))
        case "gpu.slot":
            one = "GPU slot"
        case _:
            one = "GPU"
    return Unit(one, f"{one}s")


def term(key: str, op: str, values: Iterable[object]) -> str:
    """``model H100 or H200``, ``80 GiB or more``, ``label zone=eu``."""
    told = " or ".join(map(str, values))
    if key == _MEMORY:
        told = f"{told} GiB"
    if key not in (*_DEVICE_KEYS, _MEMORY) and op in ("=", "in"):
        return f"label {key}={told}"
    subject = "" if key == _MEMORY else _DEVICE_KEYS.get(key, f"label {key}")
    if op == "!=":
        told = f"other than {told}"
    elif op == ">=":
        told = f"{told} or {'later' if key == 'driver' else 'more'}"
    elif op == "exists":
        told = "" if subject else "any memory"
    return " ".join(filter(None, [subject, told]))


def _terms(selector: Selector) -> list[tuple[str, str, tuple[Any, ...]]]:
    """Key, comparison and values of each term."""
    if not selector:
        return []
    if isinstance(selector, Mapping):
        return [(key, "=", (value,)) for key, value in selector.items()]
    return [
        (each["key"], each.get("op", "="), tuple(each.get("values") or _value(each)))
        for each in selector
    ]


def _value(asked: Mapping[str, Any]) -> tuple[Any, ...]:
    value = asked.get("value")
    return () if value is None else (value,)
