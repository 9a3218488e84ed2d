"""Agents that return: superseded sessions, replays at two gateways, disks of yesterday (C37)."""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from django.db import transaction

from bettercompute import clock as clock_module
from bettercompute.agent.bind import DiskHolds
from bettercompute.agent.daemon import Daemon
from bettercompute.agent.journal import FileJournal
from bettercompute.agent.link import Link
from bettercompute.agent.session import About, Identity, Session
from nodes import assignments, desired, reports
from nodes.assignments import PlannedAssignment
from nodes.models import Assignment, Node, NodeSession
from nodes.protocol.messages import ReportEntry
from nodes.protocol.signing import NodeKey
from nodes.sessions import SessionSuperseded
from tests.conftest import SimulatedClock
from tests.support import agents, sessions, supply
from tests.support.agents import Bench, entry, sync

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("C37")]


@transaction.atomic
def want(node: Node, *names: str) -> None:
    """Have the node hold its first device for the first of these, its second for the second…"""
    assignments.plan(
        PlannedAssignment(
            allocation_id=name,
            owner_key=f"rsv_{name}",
            node_id=node.pk,
            device_ids=[device],
            until=clock_module.now() + timedelta(hours=1),
        )
        for name, device in zip(names, supply.devices(node), strict=False)
    )
    assignments.want(names)


@transaction.atomic
def unwant(name: str) -> None:
    assignments.unwant([name])


def reported(name: str) -> str:
    return Assignment.objects.get(pk=name).reported


def bound(node: Node, seq: int, name: str) -> dict[str, Any]:
    return {
        **entry(
            node.pk,
            seq,
            "AllocationBound",
            allocationId=name,
            cdiDevices=["bcd.dev/gpu=0"],
            envFile=f"/run/bcd/{name}.env",
        )
    }


def released(node: Node, seq: int, name: str) -> dict[str, Any]:
    return {**entry(node.pk, seq, "AllocationReleased", allocationId=name, reason="ended")}


# --- replays at two gateways ----------------------------------------------------------------------


@pytest.mark.rule("C28")
def test_a_journal_whose_answer_was_lost_is_recognised_at_another_gateway(
    clock: SimulatedClock,
) -> None:
    node = supply.node()
    want(node, "alloc_1", "alloc_2")

    async def scenario(bench: Bench) -> list[Any]:
        token = await bench.session(node.pk)
        first = {"entries": [bound(node, 1, "alloc_1"), bound(node, 2, "alloc_2")]}
        longer = {"entries": [*first["entries"], released(node, 3, "alloc_1")]}
        async with agents.bench() as other:
            answers = [await bench.call("POST", "/reports", first, token=token)]
            await sync(clock.advance, "1m")
            # The answer was lost, and its gateway with it.
            answers.append(await other.call("POST", "/reports", longer, token=token))
            # What had been under way at the first gateway arrives in the end.
            answers.append(await bench.call("POST", "/reports", first, token=token))
        return [answer.json()["appliedSeq"] for answer in answers]

    assert agents.run(scenario) == [2, 3, 3]
    assert [reported("alloc_1"), reported("alloc_2")] == ["released", "bound"]
    assert Assignment.objects.get(pk="alloc_1").report_seq == 3
    # What was said again is not written again.
    said_once = Assignment.objects.get(pk="alloc_2").reported_at
    assert said_once == clock.now() - timedelta(minutes=1)


@pytest.mark.rule("C28")
def test_the_same_journal_at_two_gateways_at_once_counts_once() -> None:
    node = supply.node()
    want(node, "alloc_1", "alloc_2")
    NodeSession.objects.create(
        node=node,
        epoch=1,
        token_hash="",
        gateway_id="",
        connected_at=clock_module.now(),
        last_seen_at=clock_module.now(),
    )
    whole = [bound(node, 1, "alloc_1"), bound(node, 2, "alloc_2"), released(node, 3, "alloc_1")]
    entries = [ReportEntry.model_validate(each) for each in whole]

    def say(count: int) -> Callable[[], Any]:
        return lambda: reports.apply(node.pk, epoch=1, entries=entries[:count]).applied_seq

    answers = sessions.race(*[say(count) for count in (1, 2, 3, 1, 2, 3)])
    assert all(answer in {1, 2, 3} for answer in answers), answers
    assert max(answers) == NodeSession.objects.get().applied_seq == 3
    assert [reported("alloc_1"), reported("alloc_2")] == ["released", "bound"]


# --- superseded while it speaks -------------------------------------------------------------------


def test_a_report_under_way_is_applied_before_the_hello_that_supersedes_it_or_never() -> None:
    node = supply.node()
    want(node, "alloc_1", "alloc_2")

    async def scenario(bench: Bench) -> Any:
        key = await bench.enroll(node.pk)
        old = await bench.session(node.pk, key)
        hello, *said = await asyncio.gather(
            bench.hello(node.pk, key),
            *[
                bench.call("POST", "/reports", {"entries": [bound(node, seq, name)]}, token=old)
                for seq, name in ((1, "alloc_1"), (2, "alloc_2"))
            ],
        )
        return hello.json(), [answer.status_code for answer in said]

    hello, statuses = agents.run(scenario)
    assert hello["epoch"] == 2
    assert set(statuses) <= {200, 409}
    # What was acknowledged is what is stored, whichever came first.
    assert NodeSession.objects.get().applied_seq == max(
        [0, *(seq for seq, status in ((1, statuses[0]), (2, statuses[1])) if status == 200)]
    )


def test_the_older_session_waits_for_the_hello_and_is_refused() -> None:
    node = supply.node()
    want(node, "alloc_1")
    NodeSession.objects.create(
        node=node,
        epoch=1,
        token_hash="",
        gateway_id="",
        connected_at=clock_module.now(),
        last_seen_at=clock_module.now(),
    )
    said = [ReportEntry.model_validate(bound(node, 1, "alloc_1"))]
    with sessions.opened("hello", "older") as (hello, older):
        hello.begin()
        hello.sql("UPDATE node_sessions SET epoch = 2 WHERE node_id = %s", node.pk)
        step = older.start(lambda: reports.apply(node.pk, epoch=1, entries=said))
        step.must_block()
        hello.commit()
        with pytest.raises(SessionSuperseded):
            step.result()
    assert reported("alloc_1") == ""


# --- a disk of yesterday --------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def daemon(bench: Bench, node: Node, key: NodeKey, disk: Path) -> AsyncIterator[Daemon]:
    """The real agent of a node, its journal and holds on this disk."""
    async with httpx2.AsyncClient(transport=bench.transport(), trust_env=False) as client:
        made = Daemon(
            Session(Link([agents.URL], client), Identity(node.pk, key), About()),
            inventory=supply.host(node.name),
            holds=DiskHolds(disk / "root", durable=False),
            journal=FileJournal(disk / "journal", durable=False),
        )
        task = asyncio.create_task(made.run())
        try:
            yield made
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def test_an_agent_restored_from_an_old_disk_comes_back_to_what_is_wanted_now(
    tmp_path: Path,
) -> None:
    node = supply.node()
    want(node, "alloc_old")
    disk, snapshot = tmp_path / "disk", tmp_path / "snapshot"

    async def scenario(bench: Bench) -> tuple[int, int, list[str]]:
        key = await bench.enroll(node.pk)
        async with daemon(bench, node, key, disk):
            await agents.until(lambda: reported("alloc_old") == "bound")
        shutil.copytree(disk, snapshot)
        async with daemon(bench, node, key, disk):
            await sync(unwant, "alloc_old")
            await agents.until(lambda: reported("alloc_old") == "released")
            await sync(assignments.forget, ["alloc_old"])
            await sync(want, node, "alloc_new")  # of the same device
            await agents.until(lambda: reported("alloc_new") == "bound")
        before = await sync(lambda: NodeSession.objects.get().applied_seq)

        # The disk is restored: the journal's next number has been used, the old hold is back.
        shutil.rmtree(disk)
        shutil.copytree(snapshot, disk)
        async with daemon(bench, node, key, disk) as restored:
            assert list(restored.holds.read()) == ["alloc_old"]
            await agents.until(lambda: list(restored.holds.read()) == ["alloc_new"])
            await agents.until(
                lambda: (
                    Assignment.objects.get(pk="alloc_new").report_seq > before
                    and NodeSession.objects.get().applied_seq > before + 1
                )
            )
            held = list(restored.holds.read())
        return before, await sync(lambda: NodeSession.objects.get().applied_seq), held

    before, after, held = agents.run(scenario)
    assert held == ["alloc_new"]
    assert after > before, "no number is used twice"
    assert reported("alloc_new") == "bound"
    assert NodeSession.objects.get().epoch == 3
    assert [each.allocation_id for each in desired.read(node.pk).assignments] == ["alloc_new"]


def test_two_agents_of_one_node_supersede_each_other_and_neither_wins_by_force(
    tmp_path: Path,
) -> None:
    node = supply.node()

    async def scenario(bench: Bench) -> None:
        key = await bench.enroll(node.pk)
        async with (
            daemon(bench, node, key, tmp_path / "one"),
            daemon(bench, node, key, tmp_path / "two"),
        ):
            await agents.until(lambda: NodeSession.objects.filter(epoch__gte=3).exists())
            await sync(want, node, "alloc_1")
            await agents.until(lambda: reported("alloc_1") == "bound", seconds=20)

    agents.run(scenario)
    assert Assignment.objects.get().node_id == node.pk
