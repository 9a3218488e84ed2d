"""No thread outlives the module of the test that began it: every test watches for it.

What goes on behind a test does so in another one: it reads what that has patched, lets time pass
there, or dies with a connection open, and the other test fails.
"""

import threading
import time
from collections.abc import Iterator

import pytest
from django.test.testcases import LiveServerThread

PATIENCE_SECONDS = 20.0

#: Threads that a process keeps for as long as it lives, by how their names begin.
KEPT = (
    "hints",  # tells other processes of work, over one connection
    "nursery",  # starts the processes of deployments, one after another
    "webhook-names",  # looks up the names of receivers
    *("web_", "look_", "stream_"),  # answer requests, in the ASGI application
    "asyncio-waitpid",  # the browser, which serves the whole session
)

_AT_FIRST = pytest.StashKey[set[threading.Thread]]()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Remember which threads there were before the first of the module's tests in a row."""
    _module(item).stash.setdefault(_AT_FIRST, set(threading.enumerate()))
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Fail the last of them where one has left a thread."""
    result = yield
    module = _module(item)
    if nextitem is None or _module(nextitem) is not module:
        left = remaining(since=module.stash[_AT_FIRST], seconds=PATIENCE_SECONDS)
        del module.stash[_AT_FIRST]  # others may come before the rest of its tests
        assert not left, f"tests of this module left threads running: {left}"
    return result


def remaining(*, since: set[threading.Thread], seconds: float) -> list[threading.Thread]:
    """The threads begun since then that do not end in time."""
    deadline = time.monotonic() + seconds
    begun = [each for each in threading.enumerate() if each not in since and not _is_kept(each)]
    for thread in begun:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [thread for thread in begun if thread.is_alive()]


def _is_kept(thread: threading.Thread) -> bool:
    return isinstance(thread, LiveServerThread) or thread.name.startswith(KEPT)


def _module(item: pytest.Item) -> pytest.Module:
    module = item.getparent(pytest.Module)
    assert module is not None
    return module
