"""Nodes enter a pool here, by import or before their agent enrols; and leave it."""

from collections.abc import Mapping, Sequence

from django.db import transaction

from bettercompute import errors, ids, sql
from nodes import labelling, notices
from nodes.models import Node

REGISTRATION = sql.load(__package__, "registration")

NAME_CHARACTERS_MAX = 253


class NameTaken(errors.Conflict):
    """The pool has a node of this name already."""


@transaction.atomic
def register(
    pool_id: str,
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    system_labels: Mapping[str, str] | None = None,
    platform_trusted: bool = False,
) -> Node:
    """Add a node to a pool. It has no devices until its inventory is applied.

    Raises:
        errors.InvalidInput: the name or a label is malformed.
        NameTaken: ``details.nodeId`` is the node that has the name.
    """
    node = _new(pool_id, name, labels, system_labels, platform_trusted)
    if not add([node]):
        taken = Node.objects.get(pool_id=pool_id, name=name)
        raise NameTaken(f"The pool has a node {name} already.", nodeId=taken.pk)
    notices.publish_of_nodes("node.registered", [node.pk])
    return node


def add(nodes: Sequence[Node]) -> list[Node]:
    """Insert new nodes, sorted by id; answers those whose name was still free in their pool.

    Their event is the caller's to publish, after all else that it locks (C19).
    """
    ordered = sorted(nodes, key=lambda node: node.pk)
    REGISTRATION.all("share_pools", pool_ids=[node.pool_id for node in ordered])
    Node.objects.bulk_create(ordered, ignore_conflicts=True)
    there = set(
        Node.objects.filter(pk__in=[node.pk for node in ordered]).values_list("pk", flat=True)
    )
    return [node for node in ordered if node.pk in there]


def _new(
    pool_id: str,
    name: str,
    labels: Mapping[str, str] | None,
    system_labels: Mapping[str, str] | None,
    platform_trusted: bool,
) -> Node:
    if not name or len(name) > NAME_CHARACTERS_MAX or not name.isprintable():
        raise errors.InvalidInput.at("name", f"1 to {NAME_CHARACTERS_MAX} printable characters")
    return Node(
        id=ids.new("node"),
        pool_id=pool_id,
        name=name,
        labels=labelling.check_labels(labels or {}),
        system_labels=dict(system_labels or {}),
        platform_trusted=platform_trusted,
    )
