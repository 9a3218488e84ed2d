"""What operators may do: the effect is shown first, one use case does it, the audit says why."""

import re
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse

from bettercompute import errors
from bettercompute.audit.models import Entry
from bettercompute.coordination import leases
from bettercompute.coordination.models import WorkItem
from bettercompute.iam import tokens
from bettercompute.iam.models import Account, ApiToken, Membership
from nodes import eligibility, enrollment
from nodes.models import Device, Enrollment, Node
from nodes.protocol import signing
from outbox import dispatch
from outbox.models import Cursor, Event, WebhookEndpoint
from pools import limits
from pools.models import Budget, QuotaUsage
from reservations.models import Reservation, Series
from tests.conftest import SimulatedClock
from tests.integration.admin.conftest import World
from tests.support import cast, make

pytestmark = [pytest.mark.django_db, pytest.mark.rule("U8")]

WHY = "a riser is replaced"


def address(register: str, verb: str) -> str:
    return reverse(f"admin:{register}_operate", args=[verb])


def ask(client: Client, register: str, verb: str, *keys: Any) -> str:
    answer = client.get(address(register, verb), {"id": keys})
    assert answer.status_code == 200
    return re.sub(r"\s+", " ", answer.content.decode())


def do(client: Client, register: str, verb: str, *keys: Any, **answers: str) -> Any:
    return client.post(address(register, verb), {"id": keys, "reason": WHY, **answers}, follow=True)


def entry_of(row: Any) -> LogEntry:
    return LogEntry.objects.filter(object_id=str(row.pk)).latest("id")


def assert_audited(row: Any, what: str, outcome: str) -> None:
    entry = entry_of(row)
    assert entry.user.username == "olga"
    assert entry.change_message.startswith(f"{what}. Reason: {WHY}. Outcome: ")
    assert outcome in entry.change_message
    told = Entry.objects.filter(username="olga", detail__reason=WHY).order_by("seq")
    assert told.exists(), f"{what} is not in the audit"
    if outcome == "refused":
        assert told.last().outcome != "allowed"
    else:
        assert "allowed" in {each.outcome for each in told}


class TestNodes:
    @pytest.mark.rule("N18")
    def test_a_cordon_names_what_stays_then_takes_no_more(self, world: World, olga: Client) -> None:
        page = ask(olga, "nodes_node", "cordon", world.node.pk)
        assert world.active.pk in page
        assert "allocations 1, devices 2" in page
        assert not Node.objects.get(pk=world.node.pk).cordoned, "asking changes nothing"
        assert not LogEntry.objects.filter(change_message__startswith="Cordon").exists()
        done = do(olga, "nodes_node", "cordon", world.node.pk)
        assert "it takes no new placements" in done.content.decode()
        assert Node.objects.get(pk=world.node.pk).cordoned
        assert_audited(world.node, "Cordon", "cordoned")

    def test_an_uncordon_lets_work_come_again(self, world: World, olga: Client) -> None:
        eligibility.cordon(world.node.pk)
        assert "takes new placements again" in ask(olga, "nodes_node", "uncordon", world.node.pk)
        do(olga, "nodes_node", "uncordon", world.node.pk)
        assert not Node.objects.get(pk=world.node.pk).cordoned
        assert_audited(world.node, "Uncordon", "uncordoned")

    def test_the_page_offers_what_can_be_done_now(self, world: World, olga: Client) -> None:
        page = reverse("admin:nodes_node_change", args=[world.node.pk])
        before = olga.get(page).content.decode()
        assert address("nodes_node", "cordon") in before
        assert address("nodes_node", "uncordon") not in before
        eligibility.cordon(world.node.pk)
        after = olga.get(page).content.decode()
        assert address("nodes_node", "uncordon") in after

    def test_taints_are_replaced_by_the_list(self, world: World, olga: Client) -> None:
        assert world.active.pk in ask(olga, "nodes_node", "taint", world.node.pk)
        do(olga, "nodes_node", "taint", world.node.pk, taints='[{"key": "psu"}]')
        assert Node.objects.get(pk=world.node.pk).taints[0]["key"] == "psu"
        assert_audited(world.node, "Change taints", "1 taints")

    @pytest.mark.parametrize("wrong", ["{", '{"key": "a"}', '["a"]'])
    def test_taints_that_are_none_are_said_in_the_form(
        self, world: World, olga: Client, wrong: str
    ) -> None:
        answer = do(olga, "nodes_node", "taint", world.node.pk, taints=wrong)
        assert 'class="error"' in answer.content.decode()
        assert Node.objects.get(pk=world.node.pk).taints == []

    def test_what_the_use_case_refuses_is_audited_as_refused(
        self, world: World, olga: Client
    ) -> None:
        answer = do(olga, "nodes_node", "taint", world.node.pk, taints='[{"key": "bc.dev/x"}]')
        assert "written by the system only" in answer.content.decode()
        assert Node.objects.get(pk=world.node.pk).taints == []
        assert_audited(world.node, "Change taints", "refused")

    @pytest.mark.rule("N4")
    def test_an_enrolment_token_is_shown_once_and_works_once(
        self, world: World, olga: Client
    ) -> None:
        assert "never again" in ask(olga, "nodes_node", "enrol", world.node.pk)
        before = Enrollment.objects.count()
        answer = do(olga, "nodes_node", "enrol", world.node.pk)
        assert Enrollment.objects.count() == before + 1
        assert "no-store" in answer["Cache-Control"]
        found = re.search(r"bce_[\w-]+", answer.content.decode())
        assert found is not None
        assert found[0] not in entry_of(world.node).change_message
        key = signing.NodeKey.generate().public_key
        assert enrollment.enroll(token=found[0], public_key=key).node_id == world.node.pk
        assert (
            found[0]
            not in olga.get(
                reverse("admin:nodes_node_change", args=[world.node.pk])
            ).content.decode()
        )


class TestDevices:
    @pytest.mark.rule("N18")
    def test_a_quarantine_names_who_holds_it_and_is_lifted_again(
        self, world: World, olga: Client
    ) -> None:
        held = world.active.allocations.get().device_ids[0]
        device = Device.objects.get(pk=held)
        assert world.active.pk in ask(olga, "nodes_device", "quarantine", held)
        do(olga, "nodes_device", "quarantine", held)
        assert Device.objects.get(pk=held).quarantined
        assert_audited(device, "Quarantine", "quarantined")
        assert "booked again" in ask(olga, "nodes_device", "lift-quarantine", held)
        do(olga, "nodes_device", "lift-quarantine", held)
        assert not Device.objects.get(pk=held).quarantined
        assert_audited(device, "Lift quarantine", "lifted")

    def test_several_are_asked_about_on_one_page_and_audited_each(
        self, world: World, olga: Client
    ) -> None:
        devices = list(Device.objects.filter(node=world.node).order_by("index")[:3])
        listing = reverse("admin:nodes_device_changelist")
        chosen = {"action": "quarantine", "_selected_action": [each.pk for each in devices]}
        page = olga.post(listing, chosen, follow=True)
        assert page.redirect_chain
        assert not Device.objects.filter(quarantined=True).exists(), "it asks first"
        do(olga, "nodes_device", "quarantine", *[each.pk for each in devices])
        assert Device.objects.filter(quarantined=True).count() == 3
        for device in devices:
            assert_audited(device, "Quarantine", "quarantined")


class TestReservations:
    @pytest.mark.rule("R35")
    def test_a_release_says_what_is_taken_and_takes_it(self, world: World, olga: Client) -> None:
        page = ask(olga, "reservations_reservation", "release", world.active.pk)
        assert "loses its devices now" in page
        assert world.node.pk in page
        do(olga, "reservations_reservation", "release", world.active.pk)
        assert Reservation.objects.get(pk=world.active.pk).state == "released"
        assert_audited(world.active, "Release", "released")

    def test_one_that_waits_is_cancelled(self, world: World, olga: Client) -> None:
        assert "leaves the line" in ask(
            olga, "reservations_reservation", "release", world.pending.pk
        )
        do(olga, "reservations_reservation", "release", world.pending.pk)
        assert Reservation.objects.get(pk=world.pending.pk).state == "cancelled"

    def test_one_that_is_over_stays_as_it_is(self, world: World, olga: Client) -> None:
        do(olga, "reservations_reservation", "release", world.pending.pk)
        version = Reservation.objects.get(pk=world.pending.pk).version
        assert "cancelled already" in ask(
            olga, "reservations_reservation", "release", world.pending.pk
        )
        do(olga, "reservations_reservation", "release", world.pending.pk)
        assert Reservation.objects.get(pk=world.pending.pk).version == version


class TestSeries:
    def test_it_is_cancelled_with_what_has_not_begun(self, world: World, olga: Client) -> None:
        series = Series.objects.get()
        page = ask(olga, "reservations_series", "cancel", series.pk)
        assert "no more are booked" in page
        first = Reservation.objects.get(series=series)
        assert first.pk in page
        do(olga, "reservations_series", "cancel", series.pk)
        assert Series.objects.get().state == "cancelled"
        assert Reservation.objects.get(pk=first.pk).state == "cancelled"
        assert_audited(series, "Cancel", "no more of its occurrences")
        assert "cancelled already" in ask(olga, "reservations_series", "cancel", series.pk)


class TestTheRest:
    @pytest.mark.rule("C26")
    def test_a_failing_item_is_due_at_once_when_requeued(
        self, world: World, olga: Client, clock: SimulatedClock
    ) -> None:
        item = WorkItem.objects.get(kind="reservation", key=world.pending.pk)
        WorkItem.objects.filter(pk=item.pk).update(
            not_before=clock.now().replace(year=2027), attempts=9, last_error="boom"
        )
        assert "boom" in ask(olga, "coordination_workitem", "requeue", item.pk)
        do(olga, "coordination_workitem", "requeue", item.pk)
        after = WorkItem.objects.get(pk=item.pk)
        assert (after.not_before, after.gen) == (clock.now(), item.gen + 1)
        assert_audited(item, "Look now", "due now")

    @pytest.mark.rule("C24")
    def test_the_cursor_of_a_sink_that_is_no_more_is_forgotten(
        self, world: World, olga: Client
    ) -> None:
        cursor = Cursor.objects.create(sink="removed")
        assert "need not be kept" in ask(olga, "outbox_cursor", "forget", cursor.pk)
        lease = leases.take(f"singleton:{dispatch.lease_name('removed')}")
        assert "still in use" in do(olga, "outbox_cursor", "forget", cursor.pk).content.decode()
        assert Cursor.objects.filter(pk=cursor.pk).exists()
        assert lease is not None
        leases.give_up(lease)
        do(olga, "outbox_cursor", "forget", cursor.pk)
        assert not Cursor.objects.filter(pk=cursor.pk).exists()
        assert_audited(cursor, "Forget", "forgotten")

    @pytest.mark.rule("A6")
    def test_a_disabled_webhook_is_sent_nothing_and_says_so(
        self, world: World, olga: Client
    ) -> None:
        row = WebhookEndpoint.objects.get()
        assert "until somebody" in ask(olga, "outbox_webhookendpoint", "disable", row.pk)
        do(olga, "outbox_webhookendpoint", "disable", row.pk)
        assert Event.objects.filter(type="webhook.disabled", subject=f"webhook/{row.pk}").exists()
        assert_audited(row, "Disable", "nothing any more")
        assert "It is disabled" in ask(olga, "outbox_webhookendpoint", "disable", row.pk)

    def test_a_revoked_token_is_refused(self, world: World, olga: Client) -> None:
        assert "from their next request on" in ask(olga, "iam_apitoken", "revoke", world.token.pk)
        do(olga, "iam_apitoken", "revoke", world.token.pk)
        assert ApiToken.objects.get(pk=world.token.pk).revoked_at is not None
        with pytest.raises(errors.Unauthenticated):
            tokens.find(world.secret)
        assert_audited(world.token, "Revoke", "revoked")

    @pytest.mark.rule("A11")
    def test_a_token_is_given_a_limit_of_its_own(self, world: World, olga: Client) -> None:
        assert "as for everybody" in ask(olga, "iam_apitoken", "limit", world.token.pk)
        do(olga, "iam_apitoken", "limit", world.token.pk, requests_per_second="7")
        assert tokens.find(world.secret).identity.requests_per_second == 7
        assert_audited(world.token, "Limit requests", "the limit is set")
        (told,) = Entry.objects.filter(action="iam:tokens:limit", object_id=world.token.pk)
        assert told.tenant_id == world.token.tenant_id
        assert (told.detail["before"], told.detail["after"]) == (None, 7)

    def test_a_removed_member_is_out(self, world: World, olga: Client) -> None:
        seat = Membership.objects.get(account=cast.account("alice"))
        assert "no longer belongs to acme" in ask(olga, "iam_membership", "remove", seat.pk)
        answer = do(olga, "iam_membership", "remove", seat.pk)
        assert answer.status_code == 200
        assert not Membership.objects.filter(pk=seat.pk).exists()
        assert_audited(seat, "Remove from tenant", "no longer a member")

    def test_a_password_is_set_and_never_written_down(self, world: World, olga: Client) -> None:
        bob = cast.account("bob")
        weak = do(olga, "iam_account", "set-password", bob.pk, password="bob")
        assert "too short" in weak.content.decode()
        do(olga, "iam_account", "set-password", bob.pk, password="hardly guessable 71")
        assert Account.objects.get(pk=bob.pk).check_password("hardly guessable 71")
        assert_audited(bob, "Set password", "is set")
        assert "guessable" not in entry_of(bob).change_message


class TestAsking:
    def test_without_a_reason_nothing_is_done(self, world: World, olga: Client) -> None:
        for reason in ("", "   ", "x" * 301):
            answer = do(olga, "nodes_node", "cordon", world.node.pk, reason=reason)
            assert 'class="error"' in answer.content.decode()
        assert not Node.objects.get(pk=world.node.pk).cordoned

    def test_what_is_not_there_is_not_found(self, world: World, olga: Client) -> None:
        for verb, keys in (
            ("melt", [world.node.pk]),
            ("cordon", []),
            ("cordon", ["node_none"]),
            ("cordon", ["a\0b"]),
            ("enrol", [world.node.pk, make.node(world.pool)]),
            ("cordon", [f"node_{number}" for number in range(51)]),
        ):
            answer = olga.get(address("nodes_node", verb), {"id": keys})
            assert answer.status_code in {400, 404}, (verb, keys)

    def test_nobody_else_is_asked_or_obeyed(self, world: World) -> None:
        alice = cast.session("alice", check_csrf=False)
        for client, status in ((alice, 403), (Client(), 200)):
            path = address("nodes_node", "cordon")
            assert client.get(path, {"id": world.node.pk}, follow=True).status_code == status
            client.post(path, {"id": world.node.pk, "reason": WHY})
        assert not Node.objects.get(pk=world.node.pk).cordoned

    def test_a_form_without_its_token_is_refused(self, world: World) -> None:
        strict = cast.session("olga")
        answer = strict.post(address("nodes_node", "cordon"), {"id": world.node.pk, "reason": WHY})
        assert answer.status_code == 403
        assert not Node.objects.get(pk=world.node.pk).cordoned

    def test_an_act_cut_short_stays_in_the_audit_as_begun(
        self, world: World, olga: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(*_: object, **__: object) -> None:
            raise RuntimeError("pulled the plug")

        monkeypatch.setattr(eligibility, "cordon", broken)
        answer = do(olga, "nodes_node", "cordon", world.node.pk)
        assert answer.status_code == 500
        assert entry_of(world.node).change_message.endswith("Outcome: begun")


@pytest.mark.rule("C2", "N18")
class TestVersions:
    """What is done is what was shown."""

    def test_the_page_posts_the_version_whose_effect_it_showed(
        self, world: World, olga: Client
    ) -> None:
        page = ask(olga, "nodes_node", "cordon", world.node.pk)
        version = Node.objects.get(pk=world.node.pk).version
        assert f'<input type="hidden" name="version" value="{version}">' in page

    def test_a_row_that_changed_meanwhile_is_not_touched(self, world: World, olga: Client) -> None:
        version = Node.objects.get(pk=world.node.pk).version
        eligibility.set_labels(world.node.pk, {"rack": "9"})
        answer = do(olga, "nodes_node", "cordon", world.node.pk, version=str(version))
        assert "changed since you looked" in answer.content.decode()
        assert not Node.objects.get(pk=world.node.pk).cordoned
        assert_audited(world.node, "Cordon", "refused")
        do(olga, "nodes_node", "cordon", world.node.pk, version=str(version + 1))
        assert Node.objects.get(pk=world.node.pk).cordoned

    def test_a_release_of_what_is_another_by_now_is_refused(
        self, world: World, olga: Client
    ) -> None:
        version = world.active.version
        Reservation.objects.filter(pk=world.active.pk).update(version=version + 1)
        do(olga, "reservations_reservation", "release", world.active.pk, version=str(version))
        assert Reservation.objects.get(pk=world.active.pk).state == "active"


class TestBudgets:
    def test_one_is_removed(self, world: World, olga: Client) -> None:
        budget = Budget.objects.get(name="lab")
        assert "Nothing limits how much" in ask(olga, "pools_budget", "remove", budget.pk)
        do(olga, "pools_budget", "remove", budget.pk)
        assert not Budget.objects.exists()
        assert_audited(budget, "Remove this budget", "gone")


class TestQuotas:
    def test_a_pools_limit_is_lifted_and_the_tenants_own_is_not(
        self, world: World, olga: Client
    ) -> None:
        acme = cast.tenant("acme")
        limits.limit_pool(acme.pk, world.pool.pk, "gpuMilli", 9_000)
        own, limited = QuotaUsage.objects.filter(tenant=acme, resource="gpuMilli").order_by("pk")
        page = ask(olga, "pools_quotausage", "lift", limited.pk)
        assert f"of 9000 gpuMilli in {world.pool.name}" in page
        assert "stays" in ask(olga, "pools_quotausage", "lift", own.pk)
        do(olga, "pools_quotausage", "lift", own.pk)
        do(olga, "pools_quotausage", "lift", limited.pk)
        assert list(QuotaUsage.objects.filter(tenant=acme, resource="gpuMilli")) == [own]
        assert_audited(limited, "Take this limit away", "not limited there any more")
