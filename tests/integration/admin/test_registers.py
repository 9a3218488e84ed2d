"""Every register of the operators' admin: who sees it, what it shows, what it refuses."""

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.utils import quote
from django.db import connection, models
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from bettercompute.coordination.models import Lease
from bettercompute.operators.editing import EditedAdmin
from bettercompute.operators.site import GROUPS
from bettercompute.web import csp
from nodes import eligibility
from tests.integration.admin.conftest import World
from tests.support import cast, make

pytestmark = [pytest.mark.django_db, pytest.mark.rule("U8")]

LISTED = [label for labels in GROUPS.values() for label in labels]
EDITED = {
    "iam.Tenant",
    "iam.Account",
    "iam.Membership",
    "iam.Policy",
    "pools.Pool",
    "pools.Offer",
    "pools.QuotaUsage",
    "pools.Budget",
}
QUERIES_MAX = 30


def model_of(label: str) -> type[models.Model]:
    return next(model for model in admin.site._registry if model._meta.label == label)


def address(label: str, page: str, *args: Any) -> str:
    return reverse(f"admin:{label.lower().replace('.', '_')}_{page}", args=args)


def rows_of(label: str) -> list[dict[str, Any]]:
    return list(model_of(label)._default_manager.order_by("pk").values())


def row_address(label: str, page: str = "change") -> str:
    row = model_of(label)._default_manager.order_by("pk").first()
    assert row is not None, f"the world has no {label}"
    return address(label, page, quote(row.pk))


def test_every_register_is_in_a_group_and_every_group_has_only_registers() -> None:
    assert sorted(LISTED) == sorted(model._meta.label for model in admin.site._registry)


def test_only_what_no_service_owns_can_be_filled_in() -> None:
    edited = {
        model._meta.label
        for model, register in admin.site._registry.items()
        if isinstance(register, EditedAdmin)
    }
    assert edited == EDITED


@pytest.mark.parametrize("group", GROUPS)
class TestPages:
    def test_an_operator_sees_list_and_row(self, world: World, olga: Client, group: str) -> None:
        for label in GROUPS[group]:
            listed = olga.get(address(label, "changelist"))
            assert listed.status_code == 200, label
            assert 'id="result_list"' in listed.content.decode(), f"{label} shows rows"
            page = olga.get(row_address(label))
            assert page.status_code == 200, label
            assert page["Content-Security-Policy"] == csp.POLICY
            for answer in (listed, page):
                html = answer.content.decode()
                assert " style=" not in html, label
                assert "<style" not in html, label
                assert "onclick=" not in html, label

    def test_a_search_answers_whatever_is_sought(
        self, world: World, olga: Client, group: str
    ) -> None:
        for label in GROUPS[group]:
            row = model_of(label)._default_manager.order_by("pk").first()
            assert row is not None
            for sought, status in ((str(row.pk), 200), ("nothing", 200), ("a\0b", 400)):
                page = olga.get(address(label, "changelist"), {"q": sought})
                assert page.status_code == status, (label, sought)
            for number in ("x", "0", "-1", "9" * 30):
                page = olga.get(address(label, "changelist"), {"p": number})
                assert page.status_code in {200, 302, 400}, (label, number)

    def test_an_address_of_no_row_leads_back(self, world: World, olga: Client, group: str) -> None:
        for label in GROUPS[group]:
            for key in ("nothing", "_00", "do"):
                assert olga.get(address(label, "change", key)).status_code == 302, (label, key)

    def test_a_tenants_admin_is_refused(self, world: World, group: str) -> None:
        alice = cast.session("alice", check_csrf=False)
        for label in GROUPS[group]:
            for path in (address(label, "changelist"), row_address(label)):
                assert alice.get(path, follow=True).status_code == 403, label
                assert alice.post(path).status_code == 302, label

    def test_a_stranger_is_sent_to_the_one_sign_in(self, world: World, group: str) -> None:
        for label in GROUPS[group]:
            path = address(label, "changelist")
            answer = Client().get(path, follow=True)
            assert answer.redirect_chain[-1][0] == f"/login?next={path}"

    def test_what_a_service_owns_is_only_looked_at(
        self, world: World, olga: Client, group: str
    ) -> None:
        for label in set(GROUPS[group]) - EDITED:
            before = rows_of(label)
            for path in (row_address(label), address(label, "add"), row_address(label, "delete")):
                answer = olga.post(path, {"reason": "because", "post": "yes"})
                assert answer.status_code == 403, path
            assert olga.get(address(label, "add")).status_code == 403
            # What was refused is in the audit: more entries, and the others are as before.
            assert [row for row in rows_of(label) if row in before] == before
            assert label == "audit.Entry" or rows_of(label) == before

    def test_nothing_is_deleted_here(self, world: World, olga: Client, group: str) -> None:
        for label in set(GROUPS[group]) & EDITED:
            before = rows_of(label)
            assert olga.post(row_address(label, "delete"), {"post": "yes"}).status_code == 403
            chosen = {"action": "delete_selected", "_selected_action": [before[0]["id"]]}
            olga.post(address(label, "changelist"), {**chosen, "post": "yes"})
            assert rows_of(label) == before


def test_nothing_secret_is_shown(world: World, olga: Client) -> None:
    token = olga.get(row_address("iam.ApiToken")).content.decode()
    assert world.token.secret_hash not in token
    assert "secret" not in token.lower()
    enrolment = olga.get(row_address("nodes.Enrollment")).content.decode()
    assert "token hash" not in enrolment.lower()
    assert (
        cast.account("alice").password
        not in olga.get(address("iam.Account", "change", cast.account("alice").pk)).content.decode()
    )


def test_ids_of_other_tables_lead_to_their_pages(world: World, olga: Client) -> None:
    node = olga.get(address("nodes.Node", "change", world.node.pk)).content.decode()
    assert address("reservations.Reservation", "change", quote(world.active.pk)) in node
    item = olga.get(address("coordination.WorkItem", "changelist")).content.decode()
    assert address("reservations.Reservation", "change", quote(world.pending.pk)) in item
    event = olga.get(
        address("outbox.Event", "changelist"), {"q": f"reservation/{world.active.pk}"}
    ).content.decode()
    assert address("reservations.Reservation", "change", quote(world.active.pk)) in event


@pytest.mark.rule("C29")
def test_a_lease_says_who_is_in_charge_since_when(world: World, olga: Client) -> None:
    lease = Lease.objects.get(name="shard:3")
    page = olga.get(address("coordination.Lease", "changelist")).content.decode()
    assert f"{lease.acquired_at:%Y-%m-%d %H:%M:%S}" in page
    assert lease.owner in page
    assert "Note" in page


class TestQueries:
    def test_more_rows_cost_no_more_queries(self, world: World, olga: Client) -> None:
        few = {label: self.count(olga, address(label, "changelist")) for label in LISTED}
        for name in ("bob", "mallory"):
            cast.token(name)
        for _ in range(2):
            make.node(world.pool, gpus=2)
            make.reservation(cast.caller("bob"), world.pool, gpus=1)
        more = {label: self.count(olga, address(label, "changelist")) for label in LISTED}
        assert {label: more[label] for label in LISTED if more[label] > few[label]} == {}
        assert max(few.values()) <= QUERIES_MAX

    def test_a_node_with_more_devices_costs_no_more_queries(
        self, world: World, olga: Client
    ) -> None:
        small, large = make.node(world.pool, gpus=1), make.node(world.pool, gpus=8)
        olga.get(address("nodes.Node", "change", small))
        few = self.count(olga, address("nodes.Node", "change", small))
        assert self.count(olga, address("nodes.Node", "change", large)) == few <= QUERIES_MAX

    @pytest.mark.parametrize(
        "label", ["outbox.Event", "nodes.DeviceBooking", "reservations.Reservation"]
    )
    def test_a_long_table_is_never_counted(self, world: World, olga: Client, label: str) -> None:
        with CaptureQueriesContext(connection) as queries:
            assert olga.get(address(label, "changelist")).status_code == 200
        table = model_of(label)._meta.db_table
        about = [q["sql"] for q in queries if f'FROM "{table}"' in q["sql"]]
        assert about
        assert not [sql for sql in about if "COUNT(" in sql.upper()]
        assert "LIMIT 51" in about[0]

    @staticmethod
    def count(client: Client, path: str) -> int:
        with CaptureQueriesContext(connection) as queries:
            assert client.get(path).status_code == 200
        return len(queries)


def test_a_long_list_is_turned_page_by_page(world: World, olga: Client) -> None:
    for _ in range(30):
        eligibility.cordon(world.node.pk)
        eligibility.uncordon(world.node.pk)
    path = address("outbox.Event", "changelist")
    first = olga.get(path).content.decode()
    assert "Older" in first
    assert "Newer" not in first
    second = olga.get(path, {"p": "2"}).content.decode()
    assert "Newer" in second
    assert "Older" not in second
    assert olga.get(path, {"p": "9"}).status_code == 302
