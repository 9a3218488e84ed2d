"""Hints never cost the request anything, whatever the broker does."""

import threading

import pytest
from kombu.exceptions import OperationalError

from bettercompute import celery
from bettercompute.coordination import hints, tasks

DEAD = "redis://127.0.0.1:1/0"
WAIT_SECONDS_MAX = 60.0


@pytest.fixture
def sending(monkeypatch):
    """Makes senders, and ends them while what the test patched still is."""
    made = []

    def make(task=hints.LOOK):
        made.append(hints.Sender(task))
        return made[-1]

    yield make
    for each in made:
        each.stop()


@pytest.fixture
def sender(sending):
    return sending()


@pytest.fixture
def published(monkeypatch):
    """Counts messages, and says when one was sent."""
    sent = threading.Semaphore(0)
    monkeypatch.setattr(celery.app, "send_task", lambda name, **_: sent.release())
    return sent


def test_a_hint_names_the_task_that_looks():
    assert tasks.look.name == hints.LOOK
    assert hints.LOOK in celery.app.tasks


@pytest.mark.rule("C28")
def test_a_hint_is_sent_within_a_moment(published, sender):
    sender.wanted.set()
    assert published.acquire(timeout=WAIT_SECONDS_MAX)


def test_many_commits_in_a_moment_share_a_hint(published, sender):
    for _ in range(500):
        sender.wanted.set()
    assert published.acquire(timeout=WAIT_SECONDS_MAX)
    count = 1
    while published.acquire(timeout=0.1):
        count += 1
    assert count < 50  # it is three, unless this thread is held up on its way


@pytest.mark.rule("C1")
def test_a_broker_that_hangs_does_not_slow_the_sender_of_hints(monkeypatch):
    begun, over = threading.Event(), threading.Event()

    def hang(name, **_):
        begun.set()
        over.wait(WAIT_SECONDS_MAX)

    monkeypatch.setattr(celery.app, "send_task", hang)
    monkeypatch.setattr(hints, "_senders", {})
    for _ in range(1_000):
        hints.send()
    assert begun.wait(WAIT_SECONDS_MAX)
    hints.send()  # it comes back while the broker hangs, or never
    over.set()
    for each in hints._senders.values():
        each.stop()


@pytest.mark.rule("C1")
def test_a_dead_broker_is_said_once_and_tried_again(sender, monkeypatch, caplog):
    monkeypatch.setattr(hints, "RETRY_SECONDS", 0.01)
    tried = threading.Semaphore(0)

    def refuse(name, **_):
        tried.release()
        raise OperationalError("Connection refused")

    monkeypatch.setattr(celery.app, "send_task", refuse)
    for _ in range(3):
        sender.wanted.set()
        assert tried.acquire(timeout=WAIT_SECONDS_MAX)
    assert len([r for r in caplog.records if "unreachable" in r.message]) == 1


@pytest.mark.rule("C1")
def test_publishing_to_a_really_dead_broker_fails_quickly_and_quietly(sender, monkeypatch, caplog):
    monkeypatch.setattr(celery.app.conf, "broker_url", DEAD)
    monkeypatch.setattr(celery.app.conf, "broker_write_url", DEAD)
    failed = threading.Event()
    monkeypatch.setattr(hints.log, "warning", lambda *_: failed.set())
    celery.app.pool.force_close_all()
    try:
        sender.wanted.set()
        assert failed.wait(timeout=WAIT_SECONDS_MAX)
    finally:
        celery.app.pool.force_close_all()


def test_the_hint_that_there_are_events_names_the_task_that_tells_of_them(sending, published):
    assert tasks.tell.name == hints.TELL
    assert hints.TELL in celery.app.tasks
    teller = sending(hints.TELL)
    teller.wanted.set()
    assert published.acquire(timeout=WAIT_SECONDS_MAX)
