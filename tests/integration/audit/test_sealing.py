"""What was entered stays as it was: refused by triggers, and told by seals where those are gone."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.db.utils import IntegrityError

from bettercompute import acts
from bettercompute.acts import Actor, Thing
from bettercompute.audit import checks, entries, sealing
from bettercompute.audit.models import Entry, Seal
from tests.conftest import SimulatedClock
from tests.support import make

pytestmark = pytest.mark.django_db


def enter(count: int = 1) -> list[str]:
    """Some entries; answers their ids."""
    before = set(Entry.objects.values_list("pk", flat=True))
    for number in range(count):
        act = acts.Act(acts.Origin(request_id=f"req-{number}"), Actor("usr_a", "alice"))
        with acts.under_way(act), transaction.atomic():
            entries.record("iam:tokens:create", Thing("token", f"tok_{number}"), fraction=0.1)
    made = Entry.objects.exclude(pk__in=before).order_by("seq")
    return [each.id for each in made]


def seal() -> int:
    return sealing.seal(make.fence)


def found() -> list[str]:
    return [finding.message for finding in checks.intact()]


@contextmanager
def without_triggers() -> Iterator[Any]:
    """As whoever owns the database can write."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        yield cursor
        cursor.execute("SET LOCAL session_replication_role = origin")


class TestTriggers:
    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE audit_entries SET username = 'mallory'",
            "DELETE FROM audit_entries",
            "TRUNCATE audit_entries",
            "UPDATE audit_seals SET count = 0",
            "DELETE FROM audit_seals",
            "TRUNCATE audit_seals",
        ],
    )
    def test_rows_are_only_ever_added(self, statement: str) -> None:
        enter()
        seal()
        with (
            pytest.raises(IntegrityError, match="never changed or deleted"),
            transaction.atomic(),
            connection.cursor() as cursor,
        ):
            cursor.execute(statement)


class TestSeals:
    def test_each_covers_what_is_new_and_all_is_well(self) -> None:
        enter(3)
        assert seal() == 3
        assert seal() == 0, "nothing is sealed twice"
        enter(2)
        assert seal() == 2
        assert [each.count for each in Seal.objects.order_by("number")] == [3, 2]
        assert found() == []
        call_command("audit_verify")

    def test_a_transaction_that_commits_late_comes_into_a_later_one(self) -> None:
        """Its sequence number is lower than those sealed already."""
        enter(3)
        first, second, third = Entry.objects.order_by("seq")
        with without_triggers() as cursor:
            cursor.execute("CREATE TEMP TABLE late ON COMMIT DROP AS SELECT * FROM audit_entries")
            cursor.execute("DELETE FROM audit_entries WHERE seq = %s", [second.seq])
        assert seal() == 2
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO audit_entries SELECT * FROM late WHERE seq = %s", [second.seq]
            )
        assert seal() == 1
        newest = Seal.objects.latest("number")
        assert newest.members == f"{{[{second.seq}, {second.seq + 1})}}"
        assert newest.upto == third.seq + 1 > first.seq
        assert seal() == 0
        assert found() == []

    def test_after_an_hour_they_are_not_looked_for_among_old_ones(
        self, clock: SimulatedClock
    ) -> None:
        enter(2)
        seal()
        clock.advance("2h")
        enter(2)
        assert seal() == 2
        assert seal() == 0

    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE audit_entries SET username = 'mallory' WHERE id = %(id)s",
            "UPDATE audit_entries SET detail = '{}' WHERE id = %(id)s",
            "UPDATE audit_entries SET at = at - interval '1 microsecond' WHERE id = %(id)s",
            "UPDATE audit_entries SET seq = seq + 1000000 WHERE id = %(id)s",
            "DELETE FROM audit_entries WHERE id = %(id)s",
            "UPDATE audit_entries SET mac = sha256(mac) WHERE id = %(id)s",
            "DELETE FROM audit_seals WHERE number = 1",
            "UPDATE audit_seals SET count = 1, members = '{[1,2)}' WHERE number = 2",
            "UPDATE audit_seals SET upto = upto + 1000000 WHERE number = 1",
            "UPDATE audit_seals SET upto = upto + 1000000",
            "UPDATE audit_seals SET members = members + '{[5000000,6000000)}' WHERE number = 2",
            "UPDATE audit_seals SET members = members + '{[5000000,)}' WHERE number = 2",
            "UPDATE audit_seals SET members = members - members WHERE number = 2",
            "UPDATE audit_seals SET removed_at = compute_now() WHERE number = 1",
            "UPDATE audit_seals SET removed_at = compute_now() + interval '1 year'",
        ],
    )
    def test_whatever_is_done_behind_our_back_shows(self, statement: str) -> None:
        ids = enter(3)
        seal()
        enter(3)
        seal()
        assert found() == []
        with without_triggers() as cursor:
            cursor.execute(statement, {"id": ids[1]})
        assert any("tampered" in message for message in found())
        with pytest.raises(CommandError):
            call_command("audit_verify")

    def test_a_seal_that_is_made_to_fit_shows_without_the_key(self) -> None:
        """Root and count need no secret: whoever takes an entry out can make those right again."""
        ids = enter(3)
        seal()
        left = Entry.objects.exclude(id=ids[1]).order_by("seq")
        root = sealing.root((each.seq, bytes(each.mac)) for each in left)
        with without_triggers() as cursor:
            cursor.execute("DELETE FROM audit_entries WHERE id = %s", [ids[1]])
            members = sealing.ranges([each.seq for each in left])
            cursor.execute(
                "UPDATE audit_seals SET count = 2, root = %s, members = %s", [root, members]
            )
        assert found() == ["The audit was tampered with: seal 1 is not as it was made."]
        with pytest.raises(CommandError, match="seal 1 is not as it was made"):
            call_command("audit_verify")

    def test_what_is_not_sealed_yet_is_not_called_intact(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        enter(2)
        seal()
        call_command("audit_verify")
        assert "Not looked at" not in capsys.readouterr().out
        enter(1)
        call_command("audit_verify")
        said = capsys.readouterr().out
        assert "2 entries in 1 seals are intact" in said
        assert "Not looked at: what was entered since" in said

    def test_one_that_nobody_sealed_for_long_is_reported(self, clock: SimulatedClock) -> None:
        enter()
        assert checks.sealed() == []
        clock.advance("16m")
        (finding,) = checks.sealed()
        assert "audit-seal" in finding.do


class TestKeys:
    def test_a_secret_that_was_replaced_still_verifies_while_it_is_known(
        self, settings: Any
    ) -> None:
        enter()
        seal()
        old = settings.SECRET_KEY
        settings.SECRET_KEY = "another-" + "y" * 50
        assert all("key that is not known here" in message for message in found())
        assert found()
        settings.SECRET_KEY_FALLBACKS = [old]
        assert found() == []
        enter()
        seal()
        assert found() == []

    def test_without_the_secret_nothing_can_be_made_up(self, settings: Any) -> None:
        enter()
        known = settings.SECRET_KEY
        settings.SECRET_KEY = "guessed-" + "z" * 50
        enter()
        seal()
        settings.SECRET_KEY = known
        assert found()


class TestRetention:
    def test_old_entries_go_and_their_seals_stay(
        self, clock: SimulatedClock, settings: Any
    ) -> None:
        settings.AUDIT_RETENTION_DAYS = 30
        enter(2)
        seal()
        clock.advance(timedelta(days=29))
        kept = enter(1)
        seal()
        assert sealing.forget(make.fence) == 0
        clock.advance(timedelta(days=2))
        assert sealing.forget(make.fence) == 2
        assert list(Entry.objects.values_list("id", flat=True)) == kept
        assert Seal.objects.count() == 2
        assert found() == []
        call_command("audit_verify")

    def test_what_is_not_sealed_yet_stays(self, clock: SimulatedClock) -> None:
        enter(1)
        clock.advance(timedelta(days=1_000))
        assert sealing.forget(make.fence) == 0
        assert Entry.objects.count() == 1

    def test_what_may_forget_may_do_nothing_else_after(self, clock: SimulatedClock) -> None:
        enter(1)
        seal()
        clock.advance(timedelta(days=1_000))
        sealing.forget(make.fence)
        enter(1)
        with (
            pytest.raises(IntegrityError, match="never changed"),
            transaction.atomic(),
            connection.cursor() as cursor,
        ):
            cursor.execute("DELETE FROM audit_entries")
