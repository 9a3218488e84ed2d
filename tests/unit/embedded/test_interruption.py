"""Signals are remembered, and end waits."""

import os
import signal
import time
from collections.abc import Iterator

import pytest

from bettercompute.embedded.failures import StopRequested
from bettercompute.embedded.interruption import STOP_SIGNALS, Interruption

WAIT_SECONDS_MAX = 60.0


@pytest.fixture(autouse=True)
def _handlers_of_the_test_runner() -> Iterator[None]:
    numbers = [*STOP_SIGNALS, signal.SIGCHLD]
    before = {number: signal.getsignal(number) for number in numbers}
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
    yield
    signal.set_wakeup_fd(-1)
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def interruption() -> Interruption:
    listening = Interruption()
    listening.listen()
    return listening


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_stop_signal_ends_the_wait_it_comes_in(
    interruption: Interruption, number: signal.Signals
) -> None:
    os.kill(os.getpid(), number)

    started = time.monotonic()
    with pytest.raises(StopRequested):
        interruption.pause(WAIT_SECONDS_MAX)
    assert time.monotonic() - started < WAIT_SECONDS_MAX


def test_a_stop_signal_ends_every_later_wait(interruption: Interruption) -> None:
    os.kill(os.getpid(), signal.SIGTERM)

    for _ in range(2):
        with pytest.raises(StopRequested):
            interruption.pause(WAIT_SECONDS_MAX)


def test_the_end_of_a_child_ends_a_wait_without_a_stop(interruption: Interruption) -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)

    started = time.monotonic()
    interruption.pause(WAIT_SECONDS_MAX)
    assert time.monotonic() - started < WAIT_SECONDS_MAX
    os.waitpid(child, 0)


def test_every_signal_is_remembered_in_its_order(interruption: Interruption) -> None:
    os.kill(os.getpid(), signal.SIGINT)
    interruption.rest(0)
    os.kill(os.getpid(), signal.SIGTERM)
    interruption.rest(0)

    assert interruption.received == [signal.SIGINT, signal.SIGTERM]


def test_a_hang_up_that_the_caller_ignores_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)

    Interruption().listen()

    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
