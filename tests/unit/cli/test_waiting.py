"""What `get` and `reserve --wait` say of a reservation that waits."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from bettercompute.cli.exits import Exit
from bettercompute.client.calls import Answer
from tests.support import answers
from tests.support.wire_server import Received
from tests.unit.cli.conftest import Run, Serve

ONE = ("GET", "/reservations/rsv_first")
POOLS = ("GET", "/pools")
MAIN = answers.answer({"items": [answers.pool()], "nextCursor": None})

pytestmark = [pytest.mark.rule("A8", "R24"), pytest.mark.case(35)]


def pending(status: int = 200, **waiting: Any) -> Answer:
    document = answers.reservation("pending", waiting=answers.waiting(**waiting))
    return answers.answer(document, status)


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


def test_get_says_its_place_what_blocks_it_and_when_it_could_start(run: Run, serve: Serve) -> None:
    serve({POOLS: MAIN, ONE: pending()})
    assert plain(run("get", "rsv_first").out).endswith(
        "  In line         2 of 3, behind 8 GPUs\n"
        "  Waits for       2 GPUs free (busy on 2 nodes, until today 11:00)\n"
        "  Earliest start  today 13:00, if nobody before it takes that\n"
        "  Last tried      today 09:00\n"
    )


@pytest.mark.parametrize(
    ("tested", "said"), [(None, None), (answers.NOW_MS, "none found beside what is booked now")]
)
def test_that_no_start_was_found_is_said_once_it_was_looked_for(
    run: Run, serve: Serve, tested: int | None, said: str | None
) -> None:
    serve({POOLS: MAIN, ONE: pending(earliestStart=None, earliestTestedAt=tested, position=1)})
    shown = plain(run("get", "rsv_first").out)
    assert ("Earliest start" in shown) is (said is not None)
    assert said is None or said in shown
    assert "In line" in shown
    assert "1 of 3\n" in shown


def test_whoever_waits_is_told_each_place_once(run: Run, serve: Serve) -> None:
    script = iter([pending(), pending(), pending(position=1, earliestStart=None)])
    last = pending(position=1, earliestStart=None)
    serve(
        {
            POOLS: MAIN,
            ("POST", "/reservations"): pending(201),
            ONE: lambda _: next(script, last),
        }
    )
    result = run("reserve", "--pool", "main", "--gpus", "2", "--for", "8h", "--wait", "10")
    assert result.code == Exit.TIMED_OUT
    assert plain(result.err).startswith(
        "Waiting up to 10 s …\n"
        "  2 of 3, behind 8 GPUs in line; at the earliest today 13:00\n"
        "  1 of 3 in line\n"
    )
    assert result.err.count("in line") == 2


def test_what_can_never_be_served_is_said_before_it_is_waited_for(run: Run, serve: Serve) -> None:
    lacking = {"filter": "class", "needs": "9 GPUs", "nodes": 2, "samples": ["gpu-01"]}
    never = {"reasons": [{**lacking, "most": "8 GPUs on a node"}], "earliestStart": None}
    serve({POOLS: MAIN, ("POST", "/reservations"): pending(201, **never), ONE: pending(**never)})
    reserve = ("reserve", "--pool", "main", "--gpus", "9", "--for", "8h", "--wait", "2.97643")
    result = run(*reserve)
    assert result.code == Exit.TIMED_OUT, "nodes may be added"
    said, _, late = plain(result.err).partition("Error: ")
    assert "in line" not in said
    _, why, next_, standing = said.splitlines()
    assert why.endswith("with nothing booked: it needs 9 GPUs; the most is 8 GPUs on a node.")
    assert next_.startswith("It is waited for all the same")
    assert next_.endswith("better-compute cancel rsv_first")
    assert standing == "  can never be served as the pool is"
    timed_out, again, _ = late.splitlines()
    assert timed_out == "rsv_first is not placed after 3 s; it is pending."
    assert again.startswith("  This pool can never serve it")
    assert '"This pool can never serve it' in run(*reserve, "--json").err


@pytest.mark.rule("A8")
def test_a_real_interrupt_leaves_it_says_how_to_go_on_and_exits_with_130(serve: Serve) -> None:
    waiting = answers.reservation("pending", operation="waiting", waiting=answers.waiting())
    polled = threading.Event()

    def poll(_: Received) -> Answer:
        polled.set()
        return answers.answer(waiting)

    serve(
        {
            ("GET", "/pools"): answers.answer({"items": [answers.pool()], "nextCursor": None}),
            ("POST", "/reservations"): answers.answer(waiting, 201),
            ("GET", "/reservations/rsv_first"): poll,
        }
    )
    words = ["reserve", "--pool", "main", "--gpus", "2", "--for", "8h", "--wait", "600"]
    running = subprocess.Popen(
        [sys.executable, "-m", "bettercompute.cli.main", *words],
        cwd=Path(__file__).parents[3],
        env=dict(os.environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert polled.wait(60)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    finally:
        running.kill()
    assert (running.returncode, out) == (Exit.INTERRUPTED, "")
    assert "It goes on without this command: better-compute get rsv_first" in err
    assert "Traceback" not in err
