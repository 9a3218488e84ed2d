"""The drill: a dump, restored into another cluster, where transaction ids start over (C21).

Real servers. Nothing is skipped, delivered twice or out of order; readers outside learn that their
positions are void.
"""

from collections.abc import Iterator

import psycopg
import pytest
from django.core.management import call_command
from django.db import transaction

from bettercompute.coordination import checks as guards
from bettercompute.iam import projection
from outbox import authz, checks, cluster, dispatch, events, reader, retention
from tests.support import cast, clusters, horizon, sessions
from tests.support.clusters import Cluster

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("C21")]

_USE_UP_IDS = (
    "DO $$ BEGIN FOR each IN 1..{} LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$"
)


class Collector:
    """A sink that keeps what it is told."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def deliver(self, batch):
        self.names += [event.data["poolId"] for event in batch]


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Cluster]:
    with clusters.fresh(max_prepared_transactions="2") as made:
        yield made


@pytest.fixture(autouse=True)
def _remembered(transactional_db: None) -> None:
    """The migration's row, which the test before this one truncated."""
    cluster.verify()


def publish(*names: str) -> None:
    for name in names:
        events.publish(
            "pool.created", tenant_id="ten_a", subject=f"pool/{name}", data={"poolId": name}
        )


def drain(sink_id: str) -> list[str]:
    sink = Collector()
    dispatch.drain(sink_id, sink, fence=transaction.atomic)
    return sink.names


def names(rows) -> list[str]:
    return [row.data["poolId"] for row in rows]


def use_up_ids(url: str, count: int) -> None:
    with psycopg.connect(url, autocommit=True) as session:
        session.execute(_USE_UP_IDS.format(count))


def next_id(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as session:
        row = session.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text").fetchone()
        assert row is not None
        return int(row[0])


def write_out_of_order(monkeypatch) -> None:
    """Seven events, sequences against transactions, and a sink that has read three."""
    with sessions.opened("older", "younger") as (older, younger):
        older.begin()
        older.sql("SELECT pg_current_xact_id()")
        younger.run(lambda: publish("c"))
        older.run(lambda: publish("a", "b"))
        older.commit()
    publish(*"defg")
    horizon.let_writers_elsewhere_end()
    monkeypatch.setattr(dispatch, "BATCH_MAX", 3)
    monkeypatch.setattr(dispatch, "BATCHES_MAX", 1)
    assert drain("half") == ["a", "b", "c"]
    monkeypatch.undo()
    assert drain("all") == list("abcdefg")


@pytest.mark.parametrize("ids_elsewhere", ["lower", "higher"])
def test_a_restore_into_another_cluster_loses_and_reorders_nothing(
    clock, monkeypatch, elsewhere, ids_elsewhere
):
    write_out_of_order(monkeypatch)
    stream = str(reader.follow(reader.START, limit=5).position)
    behind, ahead = (
        (elsewhere.url, clusters.this_one())
        if ids_elsewhere == "lower"
        else (clusters.this_one(), elsewhere.url)
    )
    use_up_ids(ahead, max(0, next_id(behind) - next_id(ahead)) + 200)
    restored = elsewhere.restore(elsewhere.dump(clusters.this_one()), f"restored_{ids_elsewhere}")

    with clusters.connected_to(restored):
        # Somebody starts the control plane before they have read what the self-check says.
        publish("written before the rebase")
        for stopped in (
            lambda: drain("half"),
            lambda: reader.resume(stream),
            lambda: retention.sweep(transaction.atomic),
        ):
            with pytest.raises(cluster.ForeignCluster):
                stopped()
        (finding,) = checks.same_cluster()
        assert "outbox_rebase" in finding.do

        call_command("outbox_rebase")
        publish("new")

        assert checks.same_cluster() == []
        assert list(guards.schema_guards()) == []  # as migrated, word for word
        late = ["written before the rebase", "new"]
        assert drain("half") == [*"defg", *late]
        assert drain("all") == late
        assert drain("unheard of") == [*"abcdefg", *late]
        resumed = reader.resume(stream)
        assert resumed.reset
        assert reader.follow(resumed.position, limit=9).rows == []
        publish("newest")
        assert names(reader.follow(resumed.position, limit=9).rows) == ["newest"]


def test_a_restore_of_what_was_rebased_gives_no_position_out_twice(clock, elsewhere):
    publish("a", "b")
    once = elsewhere.restore(elsewhere.dump(clusters.this_one()), "once")
    with clusters.connected_to(once):
        assert cluster.rebase()
        publish("c")
        first = reader.read(reader.START, limit=9)
        stream = str(first[0].position)  # a's, of the first rebase
        assert not reader.resume(stream).reset
    home = Cluster(clusters.this_one(), elsewhere.programs)
    twice = home.restore(elsewhere.dump(once), "restored_twice")
    try:
        with clusters.connected_to(twice):
            assert cluster.rebase()
            second = reader.read(reader.START, limit=9)
            assert names(second) == ["a", "b", "c"]
            assert reader.resume(stream).reset
            assert {row.position for row in first}.isdisjoint(row.position for row in second)
    finally:
        with psycopg.connect(clusters.this_one(), autocommit=True) as session:
            session.execute("DROP DATABASE restored_twice")


@pytest.mark.rule("C23")
def test_the_authorization_feed_is_rebased_and_its_readers_start_again(clock, elsewhere):
    acme = cast.tenant("acme").pk
    for gpus in (1, 2):
        projection.record(f"rsv_{gpus}", "reservation", acme, {"gpus": gpus})
    kept = str(authz.follow(reader.START, limit=1).position)
    url = elsewhere.restore(elsewhere.dump(clusters.this_one()), "feed")
    with clusters.connected_to(url):
        projection.record("rsv_1", "reservation", acme, {"gpus": 8})
        with pytest.raises(cluster.ForeignCluster):
            authz.follow(reader.START, limit=1)
        call_command("outbox_rebase")
        resumed = authz.resume(kept)
        assert resumed.reset
        engine = {row.resource_id: row.state for row in projection.present()}
        projection.record("rsv_2", "reservation", acme, {"gpus": 16})
        for change in authz.follow(resumed.position, limit=9).rows:
            engine[change.resource_id] = change.state
        whole = authz.follow(reader.START, limit=9).rows
        assert [row.state["attributes"]["gpus"] for row in whole] == [1, 2, 8, 16]
        assert engine == {row.resource_id: row.state for row in whole}


@pytest.mark.rule("C24")
def test_a_prepared_transaction_that_nobody_ends_is_named(clock, elsewhere, monkeypatch):
    monkeypatch.setattr(checks, "HORIZON_MAX", checks.HORIZON_MAX * 0)
    url = elsewhere.restore(elsewhere.dump(clusters.this_one()), "prepared")
    with clusters.connected_to(url), psycopg.connect(url, autocommit=True) as session:
        assert cluster.rebase()
        session.execute("BEGIN")
        session.execute("SELECT pg_current_xact_id()")
        session.execute("PREPARE TRANSACTION 'forgotten'")
        try:
            publish("behind it")
            assert reader.read(reader.START, limit=9) == []
            (finding,) = checks.horizon()
            assert "prepared transaction 'forgotten' (user better" in finding.message
        finally:
            session.execute("ROLLBACK PREPARED 'forgotten'")
        assert names(reader.read(reader.START, limit=9)) == ["behind it"]
        assert checks.horizon() == []


@pytest.mark.rule("C24")
def test_an_ordinary_role_sees_who_stalls_it_though_not_what_they_run(clock, elsewhere):
    """pg_stat_activity hides the statement and its times from a role without pg_read_all_stats."""
    url = elsewhere.restore(elsewhere.dump(clusters.this_one()), "ordinary")
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute("CREATE ROLE app LOGIN PASSWORD 'app'")
        owner.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO app")
        owner.execute("GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO app")
    own = clusters.as_role(url, "app", "app")
    with clusters.connected_to(url):
        assert cluster.rebase()
    with psycopg.connect(url) as stuck, clusters.connected_to(own):
        stuck.execute("SET application_name = 'nightly'")
        stuck.execute("SELECT pg_current_xact_id()")
        publish("held back")
        clock.advance("5m")
        stall = dispatch.stall()
        assert (stall.who, stall.user) == (f"pid {stuck.info.backend_pid}", "better")
        assert stall.application == "nightly"
        assert stall.age.total_seconds() == 300  # of the oldest event that waits
        (finding,) = checks.horizon()
        assert "nightly" in finding.message
        stuck.rollback()
        assert dispatch.stall() is None
