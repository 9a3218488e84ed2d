"""The projection for an outside policy engine: present state and feed, always together."""

import pytest
from pytest_django import DjangoAssertNumQueries

from bettercompute.iam import projection
from bettercompute.iam.models import AuthzChange, AuthzResource
from tests.support import cast

pytestmark = pytest.mark.django_db


@pytest.mark.rule("R10", "C23")
def test_recording_writes_the_state_and_the_feed_in_one_statement(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    acme = cast.tenant("acme").pk
    with django_assert_num_queries(1):
        projection.record("rsv_1", "reservation", acme, {"gpus": 8})
    projection.record("rsv_1", "reservation", acme, {"gpus": 8}, pending={"gpus": 16})
    projection.record("rsv_1", "reservation", acme, {"gpus": 16})
    present = AuthzResource.objects.get()
    assert (present.kind, present.attributes, present.pending) == (
        "reservation",
        {"gpus": 16},
        None,
    )
    feed = list(AuthzChange.objects.order_by("seq"))
    assert [change.state for change in feed] == [
        {"attributes": {"gpus": 8}, "pending": None},
        {"attributes": {"gpus": 8}, "pending": {"gpus": 16}},
        {"attributes": {"gpus": 16}, "pending": None},
    ]
    assert all(change.txid > 0 for change in feed)
