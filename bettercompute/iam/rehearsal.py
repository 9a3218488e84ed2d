"""Policies are tried on ordinary requests before they are stored.

The schema keeps out what has the wrong type, but not what fails while it is evaluated: a number
that overflows, an attribute of an account that is not part of the request. Such a policy would not
deny: nothing could be decided, and its tenant could do nothing. What fails on one of these requests
is refused; what fails only on stranger ones is named when it does (``decisions.PolicyFailed``).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bettercompute.iam import cedar

_TENANT = "ten_example"
_CALLER = "usr_caller"
_OTHER = "usr_other"

_NOTHING: Mapping[str, Any] = {
    "gpus": 0,
    "gpuMilli": 0,
    "classes": [],
    "models": [],
    "region": "",
    "durationMinutes": 0,
    "leadMinutes": 0,
    "aheadMinutes": 0,
    "vcpu": 0,
    "memoryGiB": 0,
    "spot": False,
    "binding": "",
    "nodes": 0,
    "priority": 0,
    "heldGpus": 0,
    "heldReservations": 0,
    "tenant": _TENANT,
    "pool": "",
    "users": 0,
    "role": "member",
    "delegated": False,
}
_EIGHT_FOR_A_DAY = {
    **_NOTHING,
    "gpus": 8,
    "gpuMilli": 8_000,
    "classes": ["gpu"],
    "models": ["H100", "NVIDIA H100 80GB HBM3"],
    "region": "eu-west",
    "durationMinutes": 1_440,
    "leadMinutes": 60,
    "aheadMinutes": 1_500,
    "vcpu": 96,
    "memoryGiB": 1_024,
    "binding": "hold",
    "nodes": 1,
    "heldGpus": 16,
    "heldReservations": 2,
    "pool": "pool_example",
    "users": 1,
}


@dataclass(frozen=True, slots=True)
class _Request:
    """One ordinary request, and what it is in words."""

    said: str
    role: str
    owner: str
    context: Mapping[str, Any]


_REQUESTS = (
    _Request("that asks for nothing", "admin", _CALLER, {**_NOTHING, "role": "admin"}),
    _Request("for 8 GPUs and a day", "member", _CALLER, _EIGHT_FOR_A_DAY),
    _Request("of an agent for 8 GPUs", "member", _CALLER, {**_EIGHT_FOR_A_DAY, "delegated": True}),
    _Request("about what is another member's", "member", _OTHER, _EIGHT_FOR_A_DAY),
)


def fault(text: str) -> str | None:
    """Why a text that has been checked cannot decide on an ordinary request; None where it can."""
    compiled = cedar.compile_set([("text", text)])
    for action in sorted(cedar.actions()):
        for request in _REQUESTS:
            try:
                _evaluate(compiled, action, request)
            except cedar.EvaluationFailed as error:
                return f"fails on a request {request.said} ({action}): {error}"
    return None


def _evaluate(compiled: cedar.CompiledSet, action: str, request: _Request) -> None:
    caller = {"role": request.role, "tenant": _TENANT, "operator": False}
    cedar.evaluate(
        compiled,
        principal=cedar.Entity("Account", _CALLER, caller),
        action=action,
        resource=cedar.Entity(
            cedar.resource_type(action), "example", dict(_resource(action, request))
        ),
        context=request.context,
    )


def _resource(action: str, request: _Request) -> Iterator[tuple[str, Any]]:
    """As ``decisions`` makes it."""
    yield "tenant", _TENANT
    if cedar.resource_type(action) in {"Reservation", "Webhook"}:
        yield "owner", cedar.reference("Account", request.owner)
    if cedar.resource_type(action) == "Reservation":
        yield "users", [cedar.reference("Account", _OTHER)]
