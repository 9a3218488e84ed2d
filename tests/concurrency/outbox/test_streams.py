"""Readers that keep their own position: a stream of events, and the authorization feed (C23, C28).

Both are read by the same code: what rests on their statements is shown of both, the rest of one.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.db import connection

from bettercompute.errors import InvalidInput
from bettercompute.iam import projection
from bettercompute.iam.models import AuthzChange
from outbox import authz, events, positions, reader
from outbox.feeds import Feed
from outbox.models import Event
from tests.support import cast, horizon, sessions

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("C23")]


@dataclass(frozen=True)
class Kind:
    """A feed, how to write an entry of a name, and how to read the name back."""

    feed: Feed[Any]
    write: Callable[[str], None]
    name: Callable[[Any], str]
    model: Any
    table: str


def _publish(name: str) -> None:
    events.publish("pool.created", tenant_id="ten_a", subject=f"pool/{name}", data={"poolId": name})


def _record(name: str) -> None:
    projection.record(name, "reservation", cast.tenant("acme").pk, {"gpus": 1})


KINDS = (
    Kind(reader.EVENTS, _publish, lambda row: row.data["poolId"], Event, "outbox"),
    Kind(authz.CHANGES, _record, lambda row: row.resource_id, AuthzChange, "authz_changes"),
)


both = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.table, indirect=True)


@pytest.fixture
def kind(request, clock) -> Kind:
    cast.tenant("acme")
    return getattr(request, "param", KINDS[0])


def follow(kind, after, limit=100, **filters):
    horizon.let_writers_elsewhere_end(_newest(kind))
    page = kind.feed.follow(after, limit=limit, **filters)
    return [kind.name(row) for row in page.rows], page.position


def _newest(kind):
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT coalesce(max(txid), '0'::xid8)::text FROM {kind.table}")
        return cursor.fetchone()[0]


@both
@pytest.mark.rule("C28")
def test_a_reader_resumes_exactly_behind_the_row_it_read_last(kind):
    for name in "abcde":
        kind.write(name)
    horizon.let_writers_elsewhere_end(_newest(kind))
    for row in kind.feed.follow(positions.START, limit=9).rows:
        resumed = kind.feed.resume(str(row.position))
        assert not resumed.reset
        rest = "abcde".partition(kind.name(row))[2]
        assert follow(kind, resumed.position)[0] == list(rest)


def test_a_new_reader_begins_with_what_comes_next(kind):
    on_empty = kind.feed.resume(None)
    kind.write("before")
    horizon.let_writers_elsewhere_end(_newest(kind))
    resumed = kind.feed.resume(None)
    assert not resumed.reset
    assert follow(kind, resumed.position)[0] == []
    kind.write("after")
    assert follow(kind, resumed.position)[0] == ["after"]
    assert follow(kind, on_empty.position)[0] == ["before", "after"]


@both
def test_a_position_whose_row_is_gone_is_a_reset_and_goes_on_from_the_end(kind):
    for name in "abc":
        kind.write(name)
    horizon.let_writers_elsewhere_end(_newest(kind))
    first, *_ = kind.feed.follow(positions.START, limit=9).rows
    kind.model.objects.filter(seq=first.position.seq).delete()
    resumed = kind.feed.resume(str(first.position))
    assert resumed.reset
    kind.write("d")
    assert follow(kind, resumed.position)[0] == ["d"]


def test_a_position_that_nobody_was_given_is_a_reset_and_junk_a_mistake(kind):
    kind.write("a")
    for made_up in ("3-1", f"{2**62}-1", f"1-{2**62}"):
        assert kind.feed.resume(made_up).reset
    with pytest.raises(InvalidInput):
        kind.feed.resume("evt_123")


@both
def test_whoever_has_read_nothing_yet_begins_with_the_first_row_that_is_kept(kind):
    resumed = kind.feed.resume(str(positions.START))
    kind.write("a")
    assert not resumed.reset
    assert follow(kind, resumed.position)[0] == ["a"]


@both
@pytest.mark.rule("C21")
def test_commits_in_reverse_order_are_all_followed(kind):
    seen, position = [], positions.START
    with sessions.opened("first", "second", "third") as open_sessions:
        for session, name in zip(open_sessions, ("one", "two", "three"), strict=True):
            session.begin()
            session.run(lambda name=name: kind.write(name))
        for session in reversed(open_sessions):
            session.commit()
            names, position = follow(kind, position)
            seen += names
    assert sorted(seen) == ["one", "three", "two"]


@both
@pytest.mark.rule("C21")
def test_writers_that_never_rest_and_readers_that_reconnect_lose_and_repeat_nothing(kind):
    """Each reader keeps only the text of its last row's position, as a browser does."""
    writers, each = 4, 25
    chance = random.Random(20260302)
    seen: dict[str, list[str]] = {"eager": [], "slow": []}
    last: dict[str, str | None] = dict.fromkeys(seen)

    def write(number: int) -> None:
        for count in range(each):
            kind.write(f"{number}-{count}")

    def step(name: str, limit: int) -> bool:
        position = positions.START
        if (text := last[name]) is not None:
            resumed = kind.feed.resume(text)
            assert not resumed.reset
            position = resumed.position
        page = kind.feed.follow(position, limit=limit)
        seen[name] += [kind.name(row) for row in page.rows]
        if page.rows:
            last[name] = str(page.rows[-1].position)
        return bool(page.rows)

    def follow_on(name: str) -> None:
        for _ in range(40):
            step(name, chance.randint(1, 7))

    sessions.race(
        *[lambda n=n: write(n) for n in range(writers)],
        *[lambda name=name: follow_on(name) for name in seen],
    )
    horizon.let_writers_elsewhere_end(_newest(kind))
    for name, names in seen.items():
        while step(name, 7):
            pass
        assert len(names) == len(set(names)) == writers * each
    assert seen["eager"] == seen["slow"]


@both
def test_a_reader_of_rare_rows_passes_the_others_for_good(kind):
    kind.write("a")
    kind.write("b")
    names, position = follow(kind, positions.START, types={"none such"})
    assert names == []
    assert position == kind.feed.end()
    assert not kind.feed.resume(str(position)).reset  # it may be given out as an id
    kind.write("c")
    assert follow(kind, position)[0] == ["c"]


def test_a_page_that_is_full_goes_on_behind_its_last_row(kind):
    for name in "abcde":
        kind.write(name)
    names, position = follow(kind, positions.START, limit=2)
    assert names == ["a", "b"]
    assert follow(kind, position, limit=3)[0] == ["c", "d", "e"]


def test_a_reader_sees_the_rows_of_one_tenant_only(clock):
    for tenant in ("ten_a", "ten_b", "ten_a"):
        events.publish("pool.created", tenant_id=tenant, subject="pool/x", data={"poolId": tenant})
    horizon.let_writers_elsewhere_end()
    page = reader.follow(reader.START, limit=9, tenant_id="ten_a", types={"pool.created"})
    assert [row.tenant_id for row in page.rows] == ["ten_a", "ten_a"]
    assert page.position == reader.end()


class Engine:
    """A policy engine that knows what it was told, whole states by resource."""

    def __init__(self) -> None:
        self.states: dict[str, Any] = {}
        self._at: dict[str, positions.Position] = {}

    def apply(self, change: authz.Change) -> None:
        """Of two entries about a resource, the one at the higher position is right."""
        if change.position >= self._at.get(change.resource_id, positions.START):
            self._at[change.resource_id] = change.position
            self.states[change.resource_id] = change.state


@pytest.mark.rule("C28")
def test_entries_delivered_twice_and_in_any_order_leave_the_state_that_is_true(clock):
    tenant, chance = cast.tenant("acme").pk, random.Random(20260302)
    for gpus in range(1, 31):
        projection.record(f"rsv_{gpus % 4}", "reservation", tenant, {"gpus": gpus})
    horizon.let_writers_elsewhere_end()
    page = authz.follow(positions.START, limit=100)
    delivered = page.rows * 2
    chance.shuffle(delivered)
    engine = Engine()
    for change in delivered:
        engine.apply(change)
    assert engine.states == {row.resource_id: row.state for row in projection.present()}


def test_an_engine_that_starts_while_things_change_ends_with_what_is_true(clock):
    tenant = cast.tenant("acme").pk
    for number in range(5):
        projection.record(f"rsv_{number}", "reservation", tenant, {"gpus": 1})
    horizon.let_writers_elsewhere_end()
    resumed = authz.resume(None)
    projection.record("rsv_1", "reservation", tenant, {"gpus": 2})  # before it reads the states
    states = {row.resource_id: row.state for row in projection.present(limit=2)}
    projection.record("rsv_0", "reservation", tenant, {"gpus": 3})  # behind what it has read
    last = max(states)
    while rows := projection.present(after_id=last, limit=2):
        states.update((row.resource_id, row.state) for row in rows)
        last = rows[-1].resource_id
    horizon.let_writers_elsewhere_end(_newest(KINDS[1]))
    for change in authz.follow(resumed.position, limit=100).rows:
        states[change.resource_id] = change.state
    assert states == {row.resource_id: row.state for row in projection.present()}
    assert states["rsv_0"]["attributes"] == {"gpus": 3}
