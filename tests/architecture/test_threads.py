"""The watch over threads sees one that outlives its module, and nothing else."""

import threading

from tests.support import threads


def test_a_thread_that_goes_on_is_found_and_one_that_ends_is_not() -> None:
    before, over = set(threading.enumerate()), threading.Event()
    goes_on, kept = (threading.Thread(target=over.wait, name=name) for name in ("mine", "hints"))
    for thread in (goes_on, kept):
        thread.start()
    try:
        assert threads.remaining(since=before, seconds=0) == [goes_on]
    finally:
        over.set()
    assert threads.remaining(since=before, seconds=threads.PATIENCE_SECONDS) == []
    kept.join()
