"""Two terms that wrote across each other would be seen: what tests of two planes rely on (C35)."""

import pytest
from django.db import connection, transaction

from bettercompute.coordination import fencing, leases
from tests.support.deployment import terms

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def _recorded(monkeypatch):
    """Fenced transactions of this process leave their rows; the table goes again."""
    monkeypatch.setattr(fencing, "fenced", fencing.fenced)  # put back in the end
    terms.record()
    yield
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE fenced_writes")


def across():
    with connection.cursor() as cursor:
        cursor.execute(terms.ACROSS)
        return [what for (what,) in cursor.fetchall()]


@pytest.mark.usefixtures("_recorded")
@pytest.mark.rule("C35")
def test_terms_that_follow_one_another_are_well_and_a_zombie_is_seen(clock):
    old = leases.take("shard:1", owner="own_old")
    with fencing.fenced(old):
        pass
    clock.advance("15s")
    new = leases.take("shard:1", owner="own_new")
    for _ in range(2):
        with fencing.fenced(new):
            pass
    assert across() == []

    with transaction.atomic(), connection.cursor() as cursor:  # as one without a fence
        cursor.execute(terms._WRITE, [old.name, old.owner, old.epoch])
    (seen,) = across()
    assert seen.startswith("shard:1: epoch 1 wrote")
    assert seen.endswith("after epoch 2 had begun")


@pytest.mark.usefixtures("_recorded")
@pytest.mark.rule("C35")
def test_a_term_of_two_owners_is_seen(clock):
    lease = leases.take("shard:1", owner="own_a")
    with fencing.fenced(lease):
        pass
    with connection.cursor() as cursor:
        cursor.execute(terms._WRITE, [lease.name, "own_b", lease.epoch])
    assert across() == ["shard:1: epoch 1 was of own_a and own_b"]
