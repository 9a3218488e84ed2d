"""The whole product at a terminal: the command line in this process against a real server.

Acme has a pool ``main`` of one machine with four GPUs. It is Monday 2 March 2026, 10:00 in
Berlin, and time stands still but for a second with each command, and for what a session says.
"""

import email.utils
import logging
import threading
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from bettercompute import clock, durations
from bettercompute.cli import main, times
from bettercompute.client import blocking
from nodes import eligibility
from nodes.models import ReportedState
from reservations.models import Reservation
from tests.support import cast, delegates, make, supply
from tests.support.transcripts import Done, Names

DEFAULT = "bob"


def world(*, gpus: int) -> None:
    """The pool, its machine and acme's quota and members."""
    pool = supply.pool("main")
    node = supply.node(pool, "gpu-01", gpus=gpus)
    eligibility.set_system_labels(node.pk, {"bc.dev/cap.devices.limits": "true"})
    make.grant("acme", gpus=gpus)
    for name in ("alice", "bob", "carol"):
        cast.account(name)


@dataclass
class Terminal:
    """Somebody of the cast at a terminal, and the world meanwhile."""

    url: str
    home: Path
    capsys: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch
    gpus: int = 4
    tokens: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        world(gpus=self.gpus)
        self.names = Names(home=str(self.home))
        for name in ("CONTEXT", "DEBUG"):
            self.monkeypatch.delenv(f"BETTER_COMPUTE_{name}", raising=False)
        for name in ("CONFIG", "CACHE"):
            self.monkeypatch.setenv(f"XDG_{name}_HOME", str(self.home))
        self.monkeypatch.setenv("TZ", "Europe/Berlin")
        self.monkeypatch.setenv("BETTER_COMPUTE_URL", self.url)
        self.monkeypatch.setattr(times, "now", lambda: times.from_ms(clock.now_ms()))
        self.monkeypatch.setattr(blocking, "time", SimpleNamespace(sleep=self._pass))
        # The web server has the machine's clock, which is not the product's here.
        self.monkeypatch.setattr("wsgiref.handlers.format_date_time", lambda _: _date())

    def run(self, who: str | None, words: list[str]) -> Done:
        """One command of somebody."""
        self.become(who or DEFAULT)
        return self.invoke(words)

    def invoke(self, words: list[str]) -> Done:
        """One command of whoever is signed in, a second later."""
        clock.advance_sim_clock(timedelta(seconds=1))
        self.capsys.readouterr()
        logging.disable(logging.CRITICAL)  # the server's, which is in this process
        try:
            code = main.run(words)
        finally:
            logging.disable(logging.NOTSET)
        captured = self.capsys.readouterr()
        return Done(int(code), captured.out, captured.err)

    def meanwhile(self, what: str) -> None:
        """Something that happens in the world: ``bind <id>``, ``later 15m``, ``ask 2``."""
        verb, *arguments = what.split()
        match verb:
            case "bind":
                _bind(Reservation.objects.get(pk=arguments[0]))
            case "ask":  # an agent of bob's, for so many GPUs of the first pool
                delegates.ask("bob", gpus=int(arguments[0]))
            case "later":
                clock.advance_sim_clock(timedelta(milliseconds=durations.parse(arguments[0])))
            case _:
                raise AssertionError(f"the world does not know {what}")

    def become(self, who: str) -> None:
        """From here on, whoever acts is one of the cast."""
        if who not in self.tokens:
            self.tokens[who] = cast.token(who)[1]
        self.monkeypatch.setenv("BETTER_COMPUTE_TOKEN", self.tokens[who])
        self.monkeypatch.setenv("BETTER_COMPUTE_TENANT", cast.tenant(cast.HOMES[who][0]).pk)

    def _pass(self, seconds: float) -> None:
        """Whoever waits lets time pass, in which nodes do what they are told."""
        assert threading.current_thread() is threading.main_thread(), "of another test"
        clock.advance_sim_clock(timedelta(seconds=seconds))
        for due in Reservation.objects.filter(state__in=["placed", "binding"]):
            if due.starts_at is not None and due.starts_at <= clock.now():
                _bind(due)


def _bind(reservation: Reservation) -> None:
    """Its nodes have bound its devices."""
    found = make.look(reservation)
    make.report(found, ReportedState.BOUND)
    make.look(found)


def _date() -> str:
    return email.utils.format_datetime(times.from_ms(clock.now_ms()), usegmt=True)
