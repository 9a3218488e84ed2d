from contextlib import suppress
from datetime import UTC

import pydantic
import pytest
from django.db import transaction

from outbox import catalog, events, queries
from outbox.models import Event
from tests.support.sessions import Rollback

pytestmark = pytest.mark.django_db

DATA = {"state": "pending", "poolId": "pool_a"}


def publish(type_="reservation.pending", data=DATA):
    events.publish(type_, tenant_id="ten_a", subject="reservation/rsv_a", data=data)


@pytest.mark.rule("C20")
def test_an_event_is_a_row_of_the_transaction_that_publishes_it(clock):
    publish()
    event = Event.objects.get()
    assert event.id.startswith("evt_")
    assert (event.type, event.tenant_id, event.subject, event.data) == (
        "reservation.pending",
        "ten_a",
        "reservation/rsv_a",
        DATA,
    )
    assert event.time.astimezone(UTC) == clock.now()
    assert event.txid > 0


@pytest.mark.rule("C20")
def test_if_the_transaction_rolls_back_the_event_never_existed():
    with suppress(Rollback), transaction.atomic():
        publish()
        raise Rollback
    assert not Event.objects.exists()


def test_an_event_is_a_line_in_the_log_once_it_is_committed(
    django_capture_on_commit_callbacks, caplog
):
    with caplog.at_level("INFO", logger="outbox.events"):
        with django_capture_on_commit_callbacks() as committed:
            publish()
        assert caplog.records == []
        for act in committed:
            act()
    (line,) = caplog.records
    said = {name: line.msg[name] for name in ("event", "level", "type", "subject", "state")}
    assert said == {
        "event": "published",
        "level": "info",
        "type": "reservation.pending",
        "subject": "reservation/rsv_a",
        "state": "pending",
    }
    assert (line.msg["tenant_id"], line.msg["event_id"]) == ("ten_a", Event.objects.get().id)


def test_a_type_that_the_catalog_does_not_have_is_refused():
    with pytest.raises(KeyError):
        publish("reservation.imagined")


@pytest.mark.parametrize("data", [{}, {"state": "placed"}, {**DATA, "surprise": 1}])
def test_data_that_do_not_fit_the_catalog_are_refused(data):
    with pytest.raises(pydantic.ValidationError):
        publish(data=data)
    assert not Event.objects.exists()


def test_several_events_are_one_statement_in_the_order_given(django_assert_num_queries):
    new = [
        events.NewEvent("pool.changed", "ten_a", f"pool/{n}", {"poolId": str(n)}) for n in range(5)
    ]
    with django_assert_num_queries(1):
        events.publish_many(new)
    stored = Event.objects.order_by("seq").values_list("subject", flat=True)
    assert list(stored) == [event.subject for event in new]


def test_nothing_to_publish_is_no_statement(django_assert_num_queries):
    with django_assert_num_queries(0):
        events.publish_many([])


@pytest.mark.rule("R25")
@pytest.mark.parametrize("kind", catalog.TYPES, ids=lambda kind: kind.name)
def test_every_example_of_the_catalog_can_be_published_and_comes_back_whole(kind):
    publish(kind.name, kind.example)
    assert Event.objects.get().data == dict(kind.example)


@pytest.mark.rule("R25")
def test_the_catalog_has_every_event_of_a_reservation():
    names = (
        "placed pending queued binding active extended released cancelled failed"
        " awaiting-confirmation expired repaired preempting preempted reassigned binding-rejected"
        " ending"
    )
    missing = {f"reservation.{name}" for name in names.split()} - set(catalog.BY_NAME)
    assert missing == set()


def test_the_events_of_a_subject_come_newest_first():
    for state in ("pending", "placed"):
        publish(data={"state": state, "poolId": "pool_a"})
    events.publish(
        "pool.changed", tenant_id="ten_a", subject="pool/pool_a", data={"poolId": "pool_a"}
    )
    rows = queries.for_subject("reservation/rsv_a", limit=10)
    assert [row.data["state"] for row in rows] == ["placed", "pending"]
    assert len(queries.for_subject("reservation/rsv_a", limit=1)) == 1
