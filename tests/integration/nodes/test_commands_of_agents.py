"""The commands around agents: enrol one, wait for a fleet, prepare a simulated one."""

import io

import pytest
from django.core.management import CommandError, call_command

from bettercompute import clock as clock_module
from nodes import enrollment, simulated
from nodes.management.commands.simulate_nodes import Keys
from nodes.models import Node, NodeInventory, NodeKey, NodeSession
from tests.support import supply

pytestmark = pytest.mark.django_db


def with_inventory(node, **columns):
    NodeInventory.objects.create(
        node=node,
        body=supply.host(node.name).to_wire(),
        received_at=clock_module.now(),
        **{"seq": 1, "applied_at": clock_module.now(), **columns},
    )
    return node


def with_session(node):
    now = clock_module.now()
    NodeSession.objects.create(
        node=node, epoch=1, token_hash="", gateway_id="", connected_at=now, last_seen_at=now
    )
    return node


class TestEnrollNode:
    @pytest.mark.rule("N4")
    def test_prints_a_token_that_enrols(self):
        node = supply.node(gpus=1)
        out = io.StringIO()
        call_command("enroll_node", node.pk, stdout=out, stderr=io.StringIO())
        enrolled = enrollment.enroll(token=out.getvalue().strip(), public_key=b"k" * 32)
        assert enrolled.node_id == node.pk

    @pytest.mark.parametrize("arguments", [["node_nowhere"], ["node_nowhere", "--hours=0"]])
    def test_says_what_is_wrong(self, arguments):
        with pytest.raises(CommandError):
            call_command("enroll_node", *arguments)


class TestFleetReady:
    def test_counts_live_nodes_whose_reported_inventory_is_applied(self, clock):
        with_session(with_inventory(supply.node(gpus=1)))
        with_session(with_inventory(supply.node(gpus=1), applied_at=None))
        with_session(with_inventory(supply.node(gpus=1), seq=0))
        with_inventory(supply.node(gpus=1))
        call_command("fleet_ready", nodes=1, timeout=0, stdout=io.StringIO())
        with pytest.raises(CommandError, match="1 of 2 nodes are ready"):
            call_command("fleet_ready", nodes=2, timeout=0)

    def test_a_node_that_fell_silent_is_not_ready(self, clock):
        with_session(with_inventory(supply.node(gpus=1)))
        clock.advance("15s")
        with pytest.raises(CommandError, match="0 of 1 nodes are ready"):
            call_command("fleet_ready", nodes=1, timeout=0)


@pytest.mark.rule("N3")
class TestPrepare:
    def test_a_node_without_its_key_gets_a_token_and_one_with_it_does_not(self, tmp_path):
        known = with_inventory(supply.node(gpus=1))
        fresh = with_inventory(supply.node(gpus=1))
        keys = Keys(tmp_path)
        NodeKey.objects.create(
            kid=keys.of(known.pk).kid, node=known, public_key=keys.of(known.pk).public_key
        )
        nodes = simulated.prepare(count=10, kid_of=lambda node_id: keys.of(node_id).kid)
        tokens = {each.node_id: each.enrolment_token for each in nodes}
        assert tokens[known.pk] is None
        assert tokens[fresh.pk] is not None
        assert nodes[0].inventory == supply.host(known.name)

    def test_only_nodes_with_an_inventory_that_are_not_retired_in_order(self, tmp_path):
        first, second, retired = (with_inventory(supply.node(gpus=1)) for _ in range(3))
        supply.node(gpus=1)
        Node.objects.filter(pk=retired.pk).update(state="retired", version=2)
        keys = Keys(tmp_path)
        found = simulated.prepare(count=10, kid_of=lambda node_id: keys.of(node_id).kid)
        assert [each.node_id for each in found] == sorted([first.pk, second.pk])
        assert len(simulated.prepare(count=1, kid_of=lambda node_id: keys.of(node_id).kid)) == 1

    def test_keys_are_made_once_and_are_their_owners_only(self, tmp_path):
        first = Keys(tmp_path).of("node_1")
        assert Keys(tmp_path).of("node_1").kid == first.kid
        assert (tmp_path / "node_1/key.pem").stat().st_mode & 0o077 == 0
