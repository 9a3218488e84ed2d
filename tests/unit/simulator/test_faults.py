"""Faults that are switched in a file while the fleet runs."""

import asyncio
import contextlib

import pytest

from bettercompute.simulator import faults as faults_module
from bettercompute.simulator.faults import EVERYBODY, Board, Faults


def test_a_node_has_its_own_faults_or_everybodys_or_none():
    board = Board({EVERYBODY: Faults(silent=True), "node_1": Faults(fail_bind="why")})
    assert board.of("node_1") == Faults(fail_bind="why")
    assert board.of("node_2") == Faults(silent=True)
    assert Board().of("node_1") == Faults()


def test_who_listens_hears_of_every_switch():
    heard = []
    board = Board()
    board.listen(lambda: heard.append(board.of("node_1").silent))
    board.set("node_1", Faults(silent=True))
    board.replace({})
    assert heard == [True, False]


@pytest.mark.rule("N3")
def test_a_file_switches_faults_and_a_broken_one_changes_nothing(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(faults_module, "RELOAD_SECONDS", 0.001)
    path = tmp_path / "faults.json"
    board = Board()

    async def seen(condition):
        async with asyncio.timeout(5):
            while not condition():
                await asyncio.sleep(0.001)

    async def scenario():
        following = asyncio.create_task(board.follow(path))
        path.write_text('{"node_1": {"bindDelaySeconds": 2}}')
        await seen(lambda: board.of("node_1").bind_delay_seconds == 2)
        path.write_text('{"node_1": {"bindDelay": 3}}')
        await seen(lambda: "is ignored" in caplog.text)
        kept = board.of("node_1")
        path.unlink()
        await seen(lambda: board.of("node_1") == Faults())
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following
        return kept

    assert asyncio.run(scenario()).bind_delay_seconds == 2
