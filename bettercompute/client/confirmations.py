"""Confirmations: what agents ask their people for, and what these answer."""

from collections.abc import Iterable
from typing import Literal

from bettercompute.client import accounts, calls, failures, flows, paging
from bettercompute.client.flows import Api, Flow, Pages, Pause
from bettercompute.states import ConfirmationState
from bettercompute.wire.base import TenantBody
from bettercompute.wire.confirmations import Confirmation, ConfirmationList, Denial

POLL_FIRST_SECONDS = 1.0
POLL_SECONDS_MAX = 5.0


def pages(
    api: Api,
    *,
    scope: Literal["mine", "all"] = "mine",
    states: Iterable[ConfirmationState | str] = (),
    page_size: int = 50,
) -> Pages[Confirmation]:
    """What one's own agents asked, newest first; with ``all`` an admin sees the tenant's."""
    filters = [("scope", scope), ("limit", str(page_size))]
    filters += [("state", str(state)) for state in states]
    call = calls.get("/confirmations", ConfirmationList)
    return paging.pages(api, calls.with_query(call, filters))


def get(api: Api, confirmation_id: str) -> Flow[Confirmation]:
    """One of them; an agent sees here whether its person has decided."""
    tenant_id = yield from accounts.tenant_id_if_named(api)
    call = calls.get(_path(confirmation_id), Confirmation, tenantId=tenant_id)
    return (yield from flows.exchange(api, call))


def approve(api: Api, confirmation_id: str) -> Flow[Confirmation]:
    """Let one's agent do it: it is done when the agent sends its call again."""
    body = TenantBody(tenant_id=(yield from accounts.tenant_id(api)))
    path = f"{_path(confirmation_id)}/approve"
    return (yield from flows.exchange(api, calls.post(path, body, Confirmation, repeatable=True)))


def deny(api: Api, confirmation_id: str, *, reason: str = "") -> Flow[Confirmation]:
    """Refuse it, and tell the agent why."""
    return (yield from _refuse(api, f"{_path(confirmation_id)}/deny", reason))


def withdraw(api: Api, confirmation_id: str, *, reason: str = "") -> Flow[Confirmation]:
    """Take an approval back that the agent has not used, and tell it why."""
    return (yield from _refuse(api, f"{_path(confirmation_id)}/withdraw", reason))


def _refuse(api: Api, path: str, reason: str) -> Flow[Confirmation]:
    body = Denial(tenant_id=(yield from accounts.tenant_id(api)), reason=reason)
    return (yield from flows.exchange(api, calls.post(path, body, Confirmation, repeatable=True)))


def wait(api: Api, confirmation_id: str, *, seconds: float) -> Flow[Confirmation]:
    """Poll until the person has decided, its time is over, or so many seconds are.

    Then send what was refused again, with its key: that answers what came of it.
    """
    deadline = api.monotonic() + seconds
    pause = POLL_FIRST_SECONDS
    while True:
        try:
            found = yield from get(api, confirmation_id)
        except (failures.Unreachable, failures.Unavailable, failures.RateLimited):
            # A server that restarts meanwhile is no reason to stop waiting; the deadline is.
            if api.monotonic() >= deadline:
                raise
        else:
            if found.state is not ConfirmationState.OPEN or api.monotonic() >= deadline:
                return found
        yield Pause(min(pause, max(0.0, deadline - api.monotonic())))
        pause = min(pause * 2, POLL_SECONDS_MAX)


def _path(confirmation_id: str) -> str:
    return f"/confirmations/{calls.segment(confirmation_id)}"
