"""Whatever an operator may do leaves an entry in the audit, in every register there will be."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.db import models
from django.test import Client

from bettercompute.audit.models import Entry
from bettercompute.operators.operations import Operation
from bettercompute.operators.registers import OperatorsAdmin
from outbox.models import Cursor
from pools import limits
from tests.integration.admin.conftest import World
from tests.integration.admin.test_operations import WHY, do
from tests.support import cast

pytestmark = [pytest.mark.django_db, pytest.mark.rule("U8")]

#: What some forms ask for beside the reason.
ANSWERS: dict[str, dict[str, str]] = {
    "limit": {"requests_per_second": "7"},
    "maintain": {"start": "2027-03-03 09:00", "duration": "4h"},
    "set-password": {"password": "hardly guessable 71"},
    "taint": {"taints": '[{"key": "psu"}]'},
}
#: They end what others need, so they come last.
LAST = ("quarantine", "lift-quarantine", "release", "cancel", "remove")


@pytest.fixture
def everything(world: World) -> None:
    """Something for each operation to be done to."""
    limits.limit_pool(cast.tenant().pk, world.pool.pk, "gpuMilli", 64_000)
    Cursor.objects.update(sink="removed")  # of a sink that is no more


def operations() -> Iterator[tuple[OperatorsAdmin, Operation]]:
    found = [
        (register, each)
        for register in admin.site._registry.values()
        if isinstance(register, OperatorsAdmin)
        for each in register.operations
    ]
    # Sorting is stable: of one register, what undoes something comes behind it.
    yield from sorted(
        found, key=lambda pair: LAST.index(pair[1].verb) if pair[1].verb in LAST else -1
    )


def row_for(register: OperatorsAdmin, operation: Operation) -> models.Model | None:
    rows: Any = register.model._default_manager.order_by("pk")
    return next((row for row in rows if operation.offered(row)), None)


@pytest.mark.usefixtures("everything")
def test_every_operation_that_is_done_is_in_the_audit(olga: Client) -> None:
    silent, count = [], 0
    for register, operation in operations():
        count += 1
        options = register.model._meta
        row = row_for(register, operation)
        name = f"{options.app_label}_{options.model_name}"
        assert row is not None, f"nothing to {operation.verb} in {name}: add it to the world"
        before = Entry.objects.count()
        do(olga, name, operation.verb, row.pk, **ANSWERS.get(operation.verb, {}))
        told = Entry.objects.order_by("seq")[before:]
        if {(each.outcome, each.detail.get("reason")) for each in told} != {("allowed", WHY)}:
            silent.append((name, operation.verb, [(each.outcome, each.detail) for each in told]))
    assert silent == []
    assert count > 15
