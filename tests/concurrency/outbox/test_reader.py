"""No event ever appears behind a cursor (C21)."""

import pytest

from outbox import events, reader
from tests.support import horizon, sessions

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("C21")]


def publish(name):
    events.publish("pool.created", tenant_id="ten_a", subject=f"pool/{name}", data={"poolId": name})


def read_all(position=reader.START):
    horizon.let_writers_elsewhere_end()
    rows = reader.read(position, limit=100)
    return [row.data["poolId"] for row in rows], rows[-1].position if rows else position


def test_transactions_that_commit_in_reverse_order_are_all_read(clock):
    seen = []
    with sessions.opened("first", "second", "third") as (first, second, third):
        for session, name in ((first, "one"), (second, "two"), (third, "three")):
            session.begin()
            session.run(lambda name=name: publish(name))
        position = reader.START
        for session in (third, second, first):
            session.commit()
            names, position = read_all(position)
            seen += names
    assert sorted(seen) == ["one", "three", "two"]


def test_negative_control_a_reader_by_sequence_skips_one(clock):
    """Without the horizon the late committer's event is behind the cursor for ever."""
    naive = "SELECT seq, data ->> 'poolId' FROM outbox WHERE seq > %s ORDER BY seq"
    seen, cursor = [], 0
    with sessions.opened("early", "late", "naive") as (early, late, by_sequence):
        late.begin()
        late.run(lambda: publish("lower sequence, commits last"))
        early.run(lambda: publish("higher sequence, commits first"))
        for commit in (lambda: None, late.commit):
            commit()
            for seq, name in by_sequence.sql(naive, cursor):
                seen.append(name)
                cursor = seq
    assert seen == ["higher sequence, commits first"]
    assert sorted(read_all()[0]) == sorted(
        ["higher sequence, commits first", "lower sequence, commits last"]
    )


def test_negative_control_ordering_by_sequence_behind_the_horizon_skips_one_too(clock):
    """A transaction may draw its sequence late: the order must be (txid, seq)."""
    with sessions.opened("older", "younger") as (older, younger):
        older.begin()
        older.sql("SELECT pg_current_xact_id()")  # the lower transaction id …
        younger.run(lambda: publish("younger"))
        older.run(lambda: publish("older"))  # … with the higher sequence
        older.commit()
    names, _ = read_all()
    assert names == ["older", "younger"]


def test_an_open_writer_holds_back_what_committed_after_it_began(clock):
    with sessions.opened("stuck", "quick") as (stuck, quick):
        stuck.begin()
        stuck.run(lambda: publish("stuck"))
        quick.run(lambda: publish("quick"))
        assert read_all()[0] == []
        stuck.commit()
    assert sorted(read_all()[0]) == ["quick", "stuck"]


def test_events_of_a_transaction_come_in_the_order_they_were_published(clock):
    with sessions.opened("writer") as (writer,):
        writer.begin()
        for name in "abcde":
            writer.run(lambda name=name: publish(name))
        writer.run(
            lambda: events.publish_many(
                events.NewEvent("pool.changed", "ten_a", "pool/x", {"poolId": name})
                for name in "fgh"
            )
        )
        writer.commit()
    assert read_all()[0] == list("abcdefgh")


def test_many_writers_and_a_reader_that_never_waits_lose_nothing(clock):
    writers, each = 6, 25
    seen, position = [], reader.START

    def write(writer):
        for number in range(each):
            publish(f"{writer}-{number}")

    def follow():
        nonlocal position
        for _ in range(60):
            names, position = read_all(position)
            seen.extend(names)

    sessions.race(*[lambda w=w: write(w) for w in range(writers)], follow)
    while (step := read_all(position))[0]:
        seen.extend(step[0])
        position = step[1]
    assert len(seen) == len(set(seen)) == writers * each


def test_filters_and_limits_keep_the_position_right(clock):
    with sessions.opened("writer") as (writer,):
        for name in "abc":
            writer.run(lambda name=name: publish(name))
        writer.run(
            lambda: events.publish(
                "pool.changed", tenant_id="ten_b", subject="pool/a", data={"poolId": "a"}
            )
        )
    horizon.let_writers_elsewhere_end()
    first, second = reader.read(reader.START, limit=2)
    assert first.position < second.position
    (third,) = reader.read(second.position, limit=5, types={"pool.created"})
    assert third.data == {"poolId": "c"}
    (foreign,) = reader.read(reader.START, limit=5, tenant_id="ten_b")
    assert (foreign.type, foreign.tenant_id) == ("pool.changed", "ten_b")
    assert reader.end() == foreign.position
