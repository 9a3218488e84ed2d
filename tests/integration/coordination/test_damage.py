"""Each check of the self-check sees its damage, and nothing else is wrong (C39)."""

from datetime import timedelta

import pytest
from django.db import transaction

from bettercompute import selfcheck, wiring
from tests.support import damage
from tests.support.damage import DAMAGES, SESSIONS, World

pytestmark = [pytest.mark.django_db, pytest.mark.rule("C39")]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """All is well; a worker of Celery's that answers is another test's (tests/faults)."""
    damage.equip(monkeypatch)
    return damage.healthy()


def found() -> dict[str, list[str]]:
    by_name: dict[str, list[str]] = {}
    for finding in selfcheck.run().findings:
        assert finding.do
        by_name.setdefault(finding.check, []).append(finding.message)
    return by_name


def test_there_is_a_damage_for_every_check() -> None:
    known = {check.name for check in wiring.checks()}
    assert {each.check for each in DAMAGES} | set(SESSIONS) == known


def test_names_are_area_and_check_and_each_is_used_once() -> None:
    names = [check.name for check in wiring.checks()]
    assert len(set(names)) == len(names)
    assert all(name.count(".") == 1 for name in names)
    assert all(check.promise.endswith(".") for check in wiring.checks())


def test_each_damage_is_found_and_nothing_else(world: World) -> None:
    assert found() == {}
    wrong = {}
    for number, each in enumerate(DAMAGES):
        with pytest.MonkeyPatch.context() as patch, transaction.atomic():
            each.do(world, patch)
            seen = found()
            transaction.set_rollback(True)
        if set(seen) != each.expected:
            wrong[f"{number} {each.check}"] = (each.expected, seen)
    assert wrong == {}
    assert found() == {}


@pytest.mark.django_db(transaction=True)  # a test within a transaction would be the older one
@pytest.mark.parametrize("check", SESSIONS)
def test_a_foreign_session_is_found_with_who_it_is(
    world: World, check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*SESSIONS[check], timedelta(0))
    with damage.foreign_session() as other:
        other.execute("SELECT pg_current_xact_id()")
        seen = found()
        assert set(seen) == {check}
        assert str(other.info.backend_pid) in " ".join(seen[check])
    assert set(found()) <= {check}
