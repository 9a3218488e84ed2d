"""The whole product at a terminal: the command line in this process against a real server.

Acme has a pool ``main`` of one machine with four GPUs. It is Monday 2 March 2026, 10:00 in
Berlin, and time stands still but for a second with each command, and for what a session says.
"""

import email.utils
import logging
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from bettercompute import clock, durations
from bettercompute.cli import main, times
from nodes import eligibility
from nodes.models import ReportedState
from reservations.models import Reservation
from tests.support import cast, make, supply
from tests.support.transcripts import Done, Names

DEFAULT = "bob"


def world() -> None:
    """The pool, its machine and acme's quota and members."""
    pool = supply.pool("main")
    node = supply.node(pool, "gpu-01", gpus=4)
    eligibility.set_system_labels(node.pk, {"bc.dev/cap.devices.limits": "true"})
    make.grant("acme", gpus=4)
    for name in ("alice", "bob", "carol"):
        cast.account(name)


@dataclass
class Terminal:
    """Somebody of the cast at a terminal, and the world meanwhile."""

    url: str
    home: Path
    capsys: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch
    tokens: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        world()
        self.names = Names(home=str(self.home))
        for name in ("CONTEXT", "DEBUG"):
            self.monkeypatch.delenv(f"BETTER_COMPUTE_{name}", raising=False)
        for name in ("CONFIG", "CACHE"):
            self.monkeypatch.setenv(f"XDG_{name}_HOME", str(self.home))
        self.monkeypatch.setenv("TZ", "Europe/Berlin")
        self.monkeypatch.setenv("BETTER_COMPUTE_URL", self.url)
        self.monkeypatch.setattr(times, "now", lambda: times.from_ms(clock.now_ms()))
        # The web server has the machine's clock, which is not the product's here.
        self.monkeypatch.setattr("wsgiref.handlers.format_date_time", lambda _: _date())

    def run(self, who: str | None, words: list[str]) -> Done:
        """One command of somebody, a second later."""
        clock.advance_sim_clock(timedelta(seconds=1))
        self._become(who or DEFAULT)
        self.capsys.readouterr()
        logging.disable(logging.CRITICAL)  # the server's, which is in this process
        try:
            code = main.run(words)
        finally:
            logging.disable(logging.NOTSET)
        captured = self.capsys.readouterr()
        return Done(int(code), captured.out, captured.err)

    def meanwhile(self, what: str) -> None:
        """Something that happens in the world: ``bind <id>``, ``later 15m``."""
        verb, *arguments = what.split()
        match verb:
            case "bind":
                found = make.look(Reservation.objects.get(pk=arguments[0]))
                make.report(found, ReportedState.BOUND)
                make.look(found)
            case "later":
                clock.advance_sim_clock(timedelta(milliseconds=durations.parse(arguments[0])))
            case _:
                raise AssertionError(f"the world does not know {what}")

    def _become(self, who: str) -> None:
        if who not in self.tokens:
            self.tokens[who] = cast.token(who)[1]
        self.monkeypatch.setenv("BETTER_COMPUTE_TOKEN", self.tokens[who])
        self.monkeypatch.setenv("BETTER_COMPUTE_TENANT", cast.tenant(cast.HOMES[who][0]).pk)


def _date() -> str:
    return email.utils.format_datetime(times.from_ms(clock.now_ms()), usegmt=True)
