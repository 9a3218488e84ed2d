"""Simulated agents through a real gateway: what the control plane sees of them."""

import asyncio
import contextlib
import json
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import transaction

from bettercompute import clock as clock_module
from bettercompute.agent import session
from bettercompute.simulator.faults import Board, Faults
from bettercompute.simulator.fleet import Fleet, Member
from nodes import assignments, enrollment
from nodes.assignments import PlannedAssignment
from nodes.models import Assignment, NodeInventory, NodeSession
from nodes.models import NodeKey as NodeKeyRow
from nodes.protocol import signing
from nodes.protocol.signing import NodeKey, Purpose
from tests.support import agents, supply

pytestmark = pytest.mark.django_db(transaction=True)


def members(*nodes):
    return [
        Member(
            node_id=node.pk,
            key=NodeKey.generate(),
            inventory=supply.host(node.name),
            enrolment_token=enrollment.create(node_id=node.pk).token,
        )
        for node in nodes
    ]


def want(node, *, name="alloc_1", devices=slice(0, 2), limits=None):
    """Plan an assignment and put it into the node's desired state."""
    with transaction.atomic():
        planned = PlannedAssignment(
            allocation_id=name,
            owner_key="rsv_1",
            node_id=node.pk,
            device_ids=supply.devices(node)[devices],
            until=clock_module.now() + timedelta(hours=1),
            limits=limits or {},
        )
        assignments.plan([planned])
        assignments.want([name])


def unwant(name="alloc_1"):
    with transaction.atomic():
        assignments.unwant([name])


def reported(name="alloc_1"):
    return Assignment.objects.get(pk=name).reported


@contextlib.asynccontextmanager
async def fleet(bench, fleet_members, *, tells_use=False, **faults):
    """A running fleet, in sessions already."""
    board = Board({node_id: Faults(**each) for node_id, each in faults.items()})
    made = Fleet(
        fleet_members,
        [agents.URL],
        board=board,
        transport=bench.transport,
        tells_use=tells_use,
    )
    task = asyncio.create_task(made.run())
    try:
        count = len(fleet_members)
        await agents.until(lambda: NodeSession.objects.count() == count)
        yield made
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def play(nodes, scenario, **faults):
    """Run a scenario beside a fleet of these nodes."""
    made = members(*nodes)

    async def beside(bench):
        async with fleet(bench, made, **faults) as running:
            return await scenario(running)

    return agents.run(beside)


@pytest.mark.rule("N3")
@pytest.mark.rule("R26")
def test_a_wanted_assignment_is_bound_at_once():
    node = supply.node()

    async def scenario(running):
        await agents.sync(want, node)
        await agents.until(lambda: reported() == "bound", seconds=session.LONG_POLL_SECONDS - 5)

    play([node], scenario)
    row = Assignment.objects.get()
    assert row.report["cdiDevices"] == [f"bcd.dev/gpu={each}" for each in supply.devices(node)[:2]]
    assert row.report["envFile"] == "/run/bcd/allocations/alloc_1.env"
    assert row.report["cgroupParent"] == ""


@pytest.mark.rule("R31")
def test_limits_name_the_slice_that_the_workload_runs_in():
    node = supply.node()

    async def scenario(running):
        await agents.sync(want, node, limits={"cpuMillis": 8_000, "memoryBytes": 2**30})
        await agents.until(lambda: reported() == "bound")

    play([node], scenario)
    assert Assignment.objects.get().report["cgroupParent"] == "bcd-alloc-alloc_1.slice"


@pytest.mark.rule("R35")
def test_what_is_no_longer_wanted_is_released():
    node = supply.node()

    async def scenario(running):
        await agents.sync(want, node)
        await agents.until(lambda: reported() == "bound")
        await agents.sync(unwant)
        await agents.until(lambda: reported() == "released")
        return running.daemons[node.pk].holds.read()

    assert play([node], scenario) == {}


@pytest.mark.rule("R35")
def test_an_assignment_that_came_and_went_unseen_is_confirmed_as_released():
    node = supply.node()
    want(node)
    unwant()

    async def scenario(running):
        await agents.until(lambda: reported() == "released")

    play([node], scenario)


@pytest.mark.rule("N14")
def test_an_assignment_of_a_device_that_the_host_lacks_fails():
    node = supply.node()

    async def scenario(running):
        await agents.sync(want_unknown, node)
        await agents.until(lambda: reported() == "failed")

    play([node], scenario)
    assert Assignment.objects.get().report["reason"] == "unknown-device"


def want_unknown(node):
    with transaction.atomic():
        assignments.plan(
            [
                PlannedAssignment(
                    allocation_id="alloc_1",
                    owner_key="rsv_1",
                    node_id=node.pk,
                    device_ids=["GPU-elsewhere"],
                    until=clock_module.now() + timedelta(hours=1),
                )
            ]
        )
        assignments.want(["alloc_1"])


@pytest.mark.rule("N3")
class TestFaults:
    """Each fault shows to the control plane as what it would be on a real node."""

    def test_a_silent_node_binds_once_it_is_heard_of_again(self):
        node = supply.node()

        async def scenario(running):
            running.board.set(node.pk, Faults(silent=True))
            await agents.sync(want, node)
            await asyncio.sleep(1.0)
            before = await agents.sync(reported)
            running.board.set(node.pk, Faults())
            await agents.until(lambda: reported() == "bound")
            return before

        assert play([node], scenario) == ""

    def test_a_failed_bind_is_reported_with_its_reason(self):
        node = supply.node()

        async def scenario(running):
            running.board.set(node.pk, Faults(fail_bind="the driver is stuck"))
            await agents.sync(want, node)
            await agents.until(lambda: reported() == "failed")

        play([node], scenario)
        assert Assignment.objects.get().report["reason"] == "bind-failed"
        assert Assignment.objects.get().report["message"] == "the driver is stuck"

    def test_a_slow_bind_keeps_the_session_alive(self):
        node = supply.node()

        async def scenario(running):
            running.board.set(node.pk, Faults(bind_delay_seconds=1.0))
            await agents.sync(want, node)
            await asyncio.sleep(0.5)
            before = await agents.sync(reported)
            await agents.until(lambda: reported() == "bound")
            return before

        assert play([node], scenario) == ""
        assert NodeSession.objects.get().epoch == 1

    @pytest.mark.rule("R26")
    def test_a_lost_binding_is_reported_and_made_again(self):
        node = supply.node()

        async def scenario(running):
            await agents.sync(want, node)
            await agents.until(lambda: reported() == "bound")
            first = await agents.sync(lambda: Assignment.objects.get().report_seq)
            running.board.set(node.pk, Faults(lose_binding=True))
            await agents.until(lambda: Assignment.objects.get().report_seq >= first + 2)
            return first

        first = play([node], scenario)
        row = Assignment.objects.get()
        assert (row.reported, row.report_seq) == ("bound", first + 2)  # released, then bound

    @pytest.mark.rule("C28")
    def test_reports_sent_twice_count_once(self):
        node = supply.node()

        async def scenario(running):
            running.board.set(node.pk, Faults(duplicate_reports=True))
            await agents.sync(want, node)
            await agents.until(lambda: reported() == "bound")
            await agents.sync(unwant)
            await agents.until(lambda: reported() == "released")

        play([node], scenario)
        # Inventory, bound, released.
        assert Assignment.objects.get().report_seq == NodeSession.objects.get().applied_seq == 3

    @pytest.mark.rule("C37")
    def test_reports_under_an_old_epoch_are_refused_until_the_node_comes_to_its_senses(self):
        node = supply.node()

        async def scenario(running):
            await agents.until(lambda: NodeSession.objects.get().applied_seq == 1)
            running.board.set(node.pk, Faults(old_epoch=True))
            await agents.until(lambda: NodeSession.objects.get().epoch > 1)
            await agents.sync(want, node)
            await asyncio.sleep(1.0)
            before = await agents.sync(reported)
            running.board.set(node.pk, Faults())
            await agents.until(lambda: reported() == "bound", seconds=20)
            return before

        assert play([node], scenario) == ""

    @pytest.mark.rule("N11")
    def test_a_forged_report_is_stored_as_received_and_does_not_verify(self):
        node = supply.node()

        async def scenario(running):
            running.board.set(node.pk, Faults(forge_reports=True))
            await agents.sync(want, node)
            await agents.until(lambda: reported() == "bound")

        play([node], scenario)
        assert not verifies(Assignment.objects.get())

    @pytest.mark.rule("N11")
    def test_an_honest_report_verifies_against_the_bytes_received(self):
        node = supply.node()

        async def scenario(running):
            await agents.sync(want, node)
            await agents.until(lambda: reported() == "bound")

        play([node], scenario)
        row = Assignment.objects.get()
        assert verifies(row)
        body = json.loads(bytes(row.bound_report))
        assert (body["nodeId"], body["seq"], body["kind"]) == (
            node.pk,
            row.report_seq,
            "AllocationBound",
        )

    @pytest.mark.rule("C8")
    def test_a_clock_an_hour_off_changes_nothing(self, caplog):
        node = supply.node()

        async def scenario(running):
            await agents.sync(want, node)
            await agents.until(lambda: reported() == "bound")

        play([node], scenario, **{node.pk: {"clock_offset_seconds": 3_600}})
        assert NodeSession.objects.get().last_seen_at <= clock_module.now()
        assert "ClockSkew" in caplog.text


def verifies(row):
    key = NodeKeyRow.objects.get(pk=row.bound_sig_kid)
    return signing.verify(
        bytes(key.public_key), Purpose.REPORT, bytes(row.bound_report), bytes(row.bound_sig)
    )


@pytest.mark.rule("N15")
def test_a_restarted_fleet_keeps_its_holds_and_goes_on_in_its_journal(tmp_path):
    node = supply.node()
    (member,) = [replace(each, directory=tmp_path / node.pk) for each in members(node)]
    want(node)

    async def first_run(bench):
        async with fleet(bench, [member]):
            await agents.until(lambda: reported() == "bound")

    async def second_run(bench):
        again = replace(member, enrolment_token=None)
        async with fleet(bench, [again]) as running:
            await agents.until(lambda: NodeSession.objects.get().epoch == 2)
            await agents.until(lambda: NodeSession.objects.get().applied_seq >= 4)
            held = running.daemons[node.pk].holds.read()
            await agents.sync(unwant)
            await agents.until(lambda: reported() == "released")
            return held

    agents.run(first_run)
    assert (tmp_path / node.pk / "root/etc/cdi/bcd-alloc_1.json").exists()
    assert list(agents.run(second_run)) == ["alloc_1"]
    assert not (tmp_path / node.pk / "root/etc/cdi/bcd-alloc_1.json").exists()


def test_many_nodes_share_one_process():
    nodes = [supply.node(gpus=1) for _ in range(20)]

    async def scenario(running):
        await agents.until(lambda: NodeInventory.objects.filter(seq__gt=0).count() == 20)

    play(nodes, scenario)
    assert set(NodeSession.objects.values_list("epoch", flat=True)) == {1}


@pytest.mark.rule("N3")
def test_an_agent_that_can_tell_says_once_that_devices_are_used():
    used, unused = supply.node(), supply.node()

    async def scenario(running):
        await agents.sync(want, used, name="alloc_1")
        await agents.sync(want, unused, name="alloc_2")
        await agents.until(lambda: Assignment.objects.get(pk="alloc_1").used_at is not None)
        await agents.until(lambda: reported("alloc_2") == "bound")

    play([used, unused], scenario, tells_use=True, **{unused.pk: {"unused": True}})
    used.refresh_from_db()
    assert used.system_labels["bc.dev/cap.allocations.use"] == "true"
    assert Assignment.objects.get(pk="alloc_2").used_at is None
