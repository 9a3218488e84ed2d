"""The one guarded state change, on a real row (C2, C3)."""

import pytest

from bettercompute import errors, states, transitions
from bettercompute.states import NodeState
from nodes.models import Node
from tests.support import make

pytestmark = [pytest.mark.django_db, pytest.mark.rule("C2", "C3")]


@pytest.fixture
def node() -> Node:
    make.pool(nodes=1)
    return Node.objects.get()


def move(node: Node, *, version: int, before: NodeState, after: NodeState) -> int:
    return transitions.move(
        states.NODE, row_id=node.pk, version=version, before=before, after=after
    )


def test_a_move_counts_the_version(node):
    moved = move(node, version=node.version, before=NodeState.READY, after=NodeState.UNREACHABLE)
    stored = Node.objects.get()
    assert (stored.state, stored.version) == (NodeState.UNREACHABLE, node.version + 1)
    assert moved == stored.version


def test_a_move_from_a_stale_version_is_a_conflict_that_names_the_current_one(node):
    stale = node.version
    move(node, version=stale, before=NodeState.READY, after=NodeState.UNREACHABLE)
    with pytest.raises(errors.Conflict) as refused:
        # Legal by its table, and made by somebody who has not seen the first.
        move(node, version=stale, before=NodeState.READY, after=NodeState.UNREACHABLE)
    assert refused.value.details["version"] == stale + 1
    assert Node.objects.get().version == stale + 1


def test_a_move_that_the_table_does_not_have_is_refused_before_the_database_is_asked(
    node, django_assert_num_queries
):
    with django_assert_num_queries(0), pytest.raises(errors.InvalidState) as refused:
        move(node, version=node.version, before=NodeState.RETIRED, after=NodeState.READY)
    assert refused.value.details["state"] == NodeState.RETIRED


def test_moving_what_is_not_there_is_not_found(node):
    with pytest.raises(errors.NotFound):
        transitions.move(
            states.NODE,
            row_id="node_none",
            version=1,
            before=NodeState.READY,
            after=NodeState.UNREACHABLE,
        )
