"""The same seven operations over REST, the Python client, the command line and the console (R37).

Each surface goes through one life of a reservation; whichever it was, the rows, the charges and the
events are the same. A surface that is added has a line in ``SURFACES``.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pytest_django.live_server_helper import LiveServer

from bettercompute import clock as clocks
from bettercompute.cli import main, settings
from bettercompute.client.blocking import Client
from outbox.models import Event
from pools.models import Pool, QuotaCharge
from reservations.models import Reservation
from tests.conftest import SimulatedClock
from tests.integration.console.test_pages import fill
from tests.support import cast, make

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("R37")]

HOUR_MS = 3_600_000
LEASE_SECONDS = 7_200
OPERATIONS = {"create", "get", "list", "renew", "extend", "release", "cancel"}


class Surface(ABC):
    """One way to do each of the seven; alice does them, for two GPUs and a lease of two hours."""

    def __init__(self, server: LiveServer, pool: Pool) -> None:
        self.server, self.pool = server, pool

    def close(self) -> None:  # noqa: B027  # most hold nothing
        """Let go of connections."""

    @abstractmethod
    def create(self, key: str, *, start_ms: int | None) -> None:
        """Two GPUs for two hours."""

    @abstractmethod
    def get(self, reservation_id: str) -> str:
        """What is shown of it, as text."""

    @abstractmethod
    def list(self) -> str:
        """What is shown of mine, as text."""

    @abstractmethod
    def renew(self, reservation_id: str) -> None:
        """Its lease."""

    @abstractmethod
    def extend(self, reservation_id: str) -> None:
        """By an hour."""

    @abstractmethod
    def release(self, reservation_id: str) -> None:
        """It ends now."""

    @abstractmethod
    def cancel(self, reservation_id: str) -> None:
        """It has not begun."""


class Rest(Surface):
    def __init__(self, server: LiveServer, pool: Pool) -> None:
        super().__init__(server, pool)
        self.api, self.tenant = cast.api("alice"), {"tenantId": cast.tenant().pk}

    def create(self, key: str, *, start_ms: int | None) -> None:
        when = {} if start_ms is None else {"start": start_ms}
        body = {
            **self.tenant,
            "poolId": self.pool.pk,
            "devices": [{"class": "gpu", "count": 2}],
            "duration": "2h",
            "leaseSeconds": LEASE_SECONDS,
            **when,
        }
        assert self.api.post("/reservations", body, Idempotency_Key=key).status_code == 201

    def get(self, reservation_id: str) -> str:
        where = f"/reservations/{reservation_id}?tenantId={self.tenant['tenantId']}"
        return self.api.get(where).content.decode()

    def list(self) -> str:
        return self.api.get(f"/reservations?tenantId={self.tenant['tenantId']}").content.decode()

    def renew(self, reservation_id: str) -> None:
        self._post(reservation_id, "renew")

    def extend(self, reservation_id: str) -> None:
        self._post(reservation_id, "extend", by="1h", idempotencyKey="longer")

    def release(self, reservation_id: str) -> None:
        self._post(reservation_id, "release")

    def cancel(self, reservation_id: str) -> None:
        self._post(reservation_id, "cancel")

    def _post(self, reservation_id: str, verb: str, **body: Any) -> None:
        answer = self.api.post(f"/reservations/{reservation_id}/{verb}", {**self.tenant, **body})
        assert answer.status_code == 200, answer.content


class Python(Surface):
    def __init__(self, server: LiveServer, pool: Pool) -> None:
        super().__init__(server, pool)
        self.client = Client(server.url, cast.token("alice")[1])
        self.reservations = self.client.reservations

    def close(self) -> None:
        self.client.close()

    def create(self, key: str, *, start_ms: int | None) -> None:
        when = {} if start_ms is None else {"start": start_ms}
        self.reservations.create(
            pool_id=self.pool.pk,
            devices=[{"class": "gpu", "count": 2}],
            duration="2h",
            lease_seconds=LEASE_SECONDS,
            idempotency_key=key,
            **when,
        )

    def get(self, reservation_id: str) -> str:
        return self.reservations.get(reservation_id).model_dump_json()

    def list(self) -> str:
        return json.dumps([each.id for each in self.reservations.list()])

    def renew(self, reservation_id: str) -> None:
        self.reservations.renew(reservation_id)

    def extend(self, reservation_id: str) -> None:
        assert self.reservations.extend(reservation_id, by="1h").extended

    def release(self, reservation_id: str) -> None:
        self.reservations.release(reservation_id)

    def cancel(self, reservation_id: str) -> None:
        self.reservations.cancel(reservation_id)


class CommandLine(Surface):
    def create(self, key: str, *, start_ms: int | None) -> None:
        when = [] if start_ms is None else ["--start", clocks.from_ms(start_ms).isoformat()]
        what = ["--pool", self.pool.name, "--gpus", "2", "--for", "2h", "--lease", "2h"]
        self._run("reserve", *what, "--key", key, *when)

    def get(self, reservation_id: str) -> str:
        return self._run("get", reservation_id)

    def list(self) -> str:
        return self._run("list")

    def renew(self, reservation_id: str) -> None:
        self._run("renew", reservation_id)

    def extend(self, reservation_id: str) -> None:
        self._run("extend", reservation_id, "--by", "1h")

    def release(self, reservation_id: str) -> None:
        self._run("release", reservation_id)

    def cancel(self, reservation_id: str) -> None:
        self._run("cancel", reservation_id)

    def _run(self, *arguments: str) -> str:
        with redirect_stdout(StringIO()) as out:
            assert main.run([*arguments, "--json"]) == 0
        return out.getvalue()


class Console(Surface):
    def __init__(self, server: LiveServer, pool: Pool) -> None:
        super().__init__(server, pool)
        self.browser = cast.session("alice", check_csrf=False)

    def create(self, key: str, *, start_ms: int | None) -> None:
        start = "" if start_ms is None else f"{clocks.from_ms(start_ms):%Y-%m-%d %H:%M} UTC"
        form = fill(self.pool, key=key, duration="2h", start=start, lease="2h")
        assert self.browser.post("/reserve", form).status_code == 302

    def get(self, reservation_id: str) -> str:
        return self.browser.get(f"/reservations/{reservation_id}").content.decode()

    def list(self) -> str:
        return self.browser.get("/reservations").content.decode()

    def renew(self, reservation_id: str) -> None:
        self._post(reservation_id, "renew")

    def extend(self, reservation_id: str) -> None:
        page = self.browser.get(f"/reservations/{reservation_id}/extend").content.decode()
        key = re.search(r'name="key" value="([^"]+)"', page)
        assert key is not None
        self._post(reservation_id, "extend", key=key[1], more="1h")

    def release(self, reservation_id: str) -> None:
        self._post(reservation_id, "release")

    def cancel(self, reservation_id: str) -> None:
        self._post(reservation_id, "cancel")

    def _post(self, reservation_id: str, verb: str, **form: str) -> None:
        answer = self.browser.post(f"/reservations/{reservation_id}/{verb}", form)
        assert answer.status_code == 302, answer.content


# The tools of the MCP server join this table with it.
SURFACES: dict[str, type[Surface]] = {
    "rest": Rest,
    "python": Python,
    "command line": CommandLine,
    "console": Console,
}


class Life:
    """What is left behind of a reservation, but for its name."""

    #: of a row: everything that an operation decides
    KEPT: ClassVar = (
        "state", "reason", "request", "host_share", "duration_ms", "requested_start", "starts_at",
        "ends_at", "lease_seconds", "lease_until", "gpu_milli", "version", "owner_id", "tenant_id",
    )  # fmt: skip

    def __init__(self, surface: Surface, clock: SimulatedClock) -> None:
        self.surface, self.clock = surface, clock
        self.rows: list[dict[str, Any]] = []

    def go_through(self) -> list[dict[str, Any]]:
        """One that is renewed, extended and withdrawn, and one that is released."""
        start = clocks.now_ms() + HOUR_MS
        first = self._made("first", start_ms=start)
        assert first in self.surface.get(first)
        assert first in self.surface.list()
        self.clock.advance("10m")
        for operation in (self.surface.renew, self.surface.extend, self.surface.cancel):
            operation(first)
            self._note(first)
        second = self._made("second", start_ms=None)
        self.clock.advance("10m")
        self.surface.release(second)
        self._note(second)
        return self.rows

    def _made(self, key: str, *, start_ms: int | None) -> str:
        self.surface.create(key, start_ms=start_ms)
        made = Reservation.objects.get(idempotency_key=key).pk
        self._note(made)
        return made

    def _note(self, reservation_id: str) -> None:
        row = Reservation.objects.get(pk=reservation_id)
        charges = QuotaCharge.objects.filter(owner_key=reservation_id)
        events = Event.objects.filter(subject=f"reservation/{reservation_id}").order_by("seq")
        self.rows.append(
            {
                **{name: getattr(row, name) for name in self.KEPT},
                "charges": dict(charges.values_list("resource", "amount")),
                "events": [each.type for each in events],
            }
        )


@pytest.fixture
def surface(
    request: pytest.FixtureRequest,
    live_server: LiveServer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Iterator[Surface]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv(settings.URL_VARIABLE, live_server.url)
    monkeypatch.setenv(settings.TOKEN_VARIABLE, cast.token("alice")[1])
    made = SURFACES[request.param](live_server, make.pool(name="main", nodes=1, gpus=4))
    yield made
    made.close()


def expected(life: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["state"], row["reason"], row["charges"], row["events"][-1]) for row in life]


@pytest.mark.parametrize("surface", SURFACES, indirect=True)
def test_each_surface_has_the_seven_and_leaves_the_same_behind(
    surface: Surface, clock: SimulatedClock
) -> None:
    assert set(dir(surface)) >= OPERATIONS
    start = clock.now()
    life = Life(surface, clock).go_through()
    charged = {"gpuMilli": 2_000}
    assert expected(life) == [
        ("placed", "", charged, "reservation.placed"),
        ("placed", "", charged, "reservation.placed"),  # a renewal is no change of state
        ("placed", "", charged, "reservation.extended"),
        ("cancelled", "", {}, "reservation.cancelled"),
        ("placed", "", charged, "reservation.placed"),
        ("released", "release", {}, "reservation.released"),
    ]
    made, renewed, extended, cancelled, second, released = life
    seconds = [(row["lease_until"] - start).total_seconds() for row in (made, renewed, extended)]
    assert seconds == [LEASE_SECONDS, LEASE_SECONDS + 600, LEASE_SECONDS + 600]
    hours = [(row["ends_at"] - start).total_seconds() / 3_600 for row in (renewed, extended)]
    assert hours == [3, 4]
    assert cancelled["duration_ms"] == extended["duration_ms"] == 3 * HOUR_MS
    assert (released["ends_at"] - second["starts_at"]).total_seconds() == 600
    assert made["request"] == {
        "poolId": surface.pool.pk,
        "devices": [{"class": "gpu", "count": 2}],
        "duration": f"{2 * HOUR_MS}ms",
        "binding": "hold",
        "leaseSeconds": LEASE_SECONDS,
        "start": made["request"]["start"],
    }
    assert second["request"].keys() == made["request"].keys() - {"start"}
    assert [row["version"] for row in life] == [2, 3, 4, 5, 2, 3]
