"""The watch over threads sees one that outlives its module, and nothing else."""

import threading

from tests.support import threads


def test_a_thread_that_goes_on_is_found_and_one_that_ends_is_not() -> None:
    before, over = set(threading.enumerate()), threading.Event()
    goes_on = threading.Thread(target=over.wait, name="goes on")
    ends = threading.Thread(target=threading.Event().wait, args=(0.1,), name="ends")
    kept = threading.Thread(target=over.wait, name="hints")
    for thread in (goes_on, ends, kept):
        thread.start()
    try:
        assert threads.remaining(since=before, seconds=1) == [goes_on]
    finally:
        over.set()
        kept.join()
    assert threads.remaining(since=before, seconds=threads.PATIENCE_SECONDS) == []
