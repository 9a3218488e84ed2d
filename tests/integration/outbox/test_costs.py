"""Reading costs what is read, however many events there are."""

import pytest
from django.db import connection

from outbox import authz, reader, retention
from tests.support import plans

pytestmark = pytest.mark.django_db

COUNT, LIMIT = 5_000, 10

FILL = {
    "outbox": (
        "INSERT INTO outbox (id, txid, type, tenant_id, subject, data)"
        " SELECT 'evt_' || g, (3 + g / 40)::text::xid8, 'pool.created', 'ten_a', 'pool/a', '{}'"
        " FROM generate_series(1, %s) AS g"
    ),
    "authz_changes": (
        "INSERT INTO authz_changes (resource_id, txid, kind, tenant_id, state)"
        " SELECT 'rsv_' || g, (3 + g / 40)::text::xid8, 'reservation', 'ten_a', '{}'"
        " FROM generate_series(1, %s) AS g"
    ),
}
FEEDS = {"outbox": reader.EVENTS, "authz_changes": authz.CHANGES}


def fill(table):
    with connection.cursor() as cursor:
        cursor.execute(FILL[table], [COUNT])
        cursor.execute(
            f"SELECT txid::text, seq FROM {table} ORDER BY txid, seq OFFSET %s LIMIT 1",
            [COUNT // 2],
        )
        return cursor.fetchone()


@pytest.mark.rule("C21", "C23")
@pytest.mark.parametrize("table", FEEDS)
def test_a_look_at_a_feed_reads_what_it_answers(table):
    txid, seq = fill(table)
    texts = FEEDS[table].statements.texts
    everything = dict.fromkeys(("until_txid", "until_seq", "types", "tenant_id", "subject"))
    until = {**everything, "until_txid": str(2**40), "until_seq": 1}
    for bounds in (everything, until):
        read = plans.rows_read(texts["read"], table, txid=txid, seq=seq, limit=LIMIT, **bounds)
        assert read == LIMIT
    assert plans.rows_read(texts["end"], table) == 1
    assert plans.rows_read(texts["knows"], table, txid=txid, seq=seq) <= 1


@pytest.mark.rule("C24")
def test_a_sweep_that_finds_nothing_old_reads_a_batch(clock):
    fill("outbox")
    text = retention.RETENTION.texts["events"]
    assert plans.rows_read(text, "outbox", seconds=1.0, limit=LIMIT) <= LIMIT + 1
