"""The final state: every reservation of the seats' tenants, read when all is calm."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import httpx2

from tests.support.history import clients
from tests.support.history.recording import Call, FinalState, Operation, Recorder
from tests.support.history.wishes import Seat

PAGE = 200
PAGES_MAX = 1_000

#: The database's own claims, for ``read(bookings=…)``; those of commands are no reservation's.
BOOKINGS_SQL = """
SELECT
    device_id AS device,
    allocation_id AS allocation,
    (extract(epoch FROM lower(during)) * 1000000)::bigint AS start_us,
    (extract(epoch FROM upper(during)) * 1000000)::bigint AS end_us
FROM device_bookings
WHERE NOT starts_with(allocation_id, 'cmd_')
"""


class Unreadable(AssertionError):
    """The final state could not be read in time."""


def read(
    recorder: Recorder,
    urls: Sequence[str],
    seats: Iterable[Seat],
    *,
    closed: bool = True,
    bookings: Iterable[Mapping[str, Any]] | None = None,
    within: float = 60.0,
) -> FinalState:
    """Read everything through the API, record the reading itself, and conclude the recording.

    ``bookings`` are rows of ``BOOKINGS_SQL``, read before or after while nothing changes. The
    limits are the quotas as they are now: pass histories in which nobody changed them.

    Raises:
        Unreadable: no answer after so many seconds.
    """
    since = recorder.now()
    one_a_tenant = {seat.tenant: seat for seat in seats}
    reservations: dict[str, Mapping[str, Any]] = {}
    limits: dict[str, dict[str, int]] = {}
    with httpx2.Client(timeout=10.0, trust_env=False) as http:
        reader = _Reader(http, recorder, urls, deadline=time.monotonic() + within)
        for tenant, seat in one_a_tenant.items():
            for shown in reader.all_of(seat):
                reservations[shown["id"]] = shown
            quotas = reader.ask(_call("quotas", seat, {"tenantId": tenant}), seat)
            limits[tenant] = {
                row["resource"]: row["max"]
                for row in quotas.document["items"]
                if row.get("scope", "tenant") == "tenant"
            }
    final = FinalState(
        reservations=reservations,
        tenants=tuple(one_a_tenant),
        since=since,
        limits=limits,
        closed=closed,
        bookings=None if bookings is None else tuple(bookings),
    )
    recorder.conclude(final)
    return final


class _Reader:
    """Asks until it is answered."""

    def __init__(
        self, http: httpx2.Client, recorder: Recorder, urls: Sequence[str], *, deadline: float
    ) -> None:
        self.http, self.recorder, self.urls, self.deadline = http, recorder, urls, deadline
        self.at = 0

    def all_of(self, seat: Seat) -> Iterable[Mapping[str, Any]]:
        """Every reservation of the seat's tenant."""
        asked: dict[str, Any] = {"tenantId": seat.tenant, "scope": "all", "limit": PAGE}
        for _ in range(PAGES_MAX):
            page = self.ask(_call("list", seat, asked), seat).document
            yield from page["items"]
            if page["nextCursor"] is None:
                return
            asked = {**asked, "cursor": page["nextCursor"]}
        raise Unreadable(f"the list of {seat.tenant} does not end")

    def ask(self, call: Call, seat: Seat) -> Operation:
        """The first answer that is one."""
        while True:
            call_ = Call(**{**_fields(call), "url": self.urls[self.at % len(self.urls)]})
            done = clients.perform(self.http, self.recorder, call_, token=seat.token)
            if done.acknowledged:
                return done
            if done.refused or time.monotonic() > self.deadline:
                raise Unreadable(f"{call.op}: {done.status} {done.error} {dict(done.document)}")
            self.at += 1
            time.sleep(clients.retry_after(done))


def _call(op: str, seat: Seat, asked: Mapping[str, Any]) -> Call:
    return Call(op, caller=seat.name, tenant=seat.tenant, process="final", asked=asked)


def _fields(call: Call) -> dict[str, Any]:
    return {name: getattr(call, name) for name in Call.__dataclass_fields__}
