"""What operators may fill in: checked, stored by a use case, and audited with the reason."""

import html
import json
from datetime import date
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse

from bettercompute.audit.models import Entry
from bettercompute.iam.models import Account, Membership, Policy, Tenant
from pools.models import Budget, Offer, Pool, QuotaUsage
from tests.integration.admin.conftest import FORBID, World
from tests.support import cast

pytestmark = [pytest.mark.django_db, pytest.mark.rule("U8")]

WHY = "agreed with the lab"
NO_ROWS = {
    f"{prefix}-{name}": "0"
    for prefix in ("memberships", "offers")
    for name in ("TOTAL_FORMS", "INITIAL_FORMS")
}


def add(client: Client, register: str, **values: Any) -> Any:
    path = reverse(f"admin:{register}_add")
    return client.post(path, {**NO_ROWS, "reason": WHY, **values}, follow=True)


def change(client: Client, register: str, row: Any, **values: Any) -> Any:
    path = reverse(f"admin:{register}_change", args=[row.pk])
    return client.post(path, {**NO_ROWS, "reason": WHY, **values}, follow=True)


def said_of(row: Any) -> str:
    entry = LogEntry.objects.filter(object_id=str(row.pk)).latest("id")
    assert entry.user.username == "olga"
    assert f"Reason: {WHY}." in entry.change_message
    outcome = "failed" if "Outcome: refused" in entry.change_message else "allowed"
    told = Entry.objects.filter(detail__reason=WHY, outcome=outcome, username="olga")
    assert told.exists(), "and in the audit"
    return entry.change_message


def test_a_tenant_is_made_and_renamed(olga: Client) -> None:
    assert add(olga, "iam_tenant", slug="hal", name="Hal").status_code == 200
    made = Tenant.objects.get(slug="hal")
    assert "Add: slug hal; name Hal" in said_of(made)
    change(olga, "iam_tenant", made, name="Hal 9000", slug="other")
    after = Tenant.objects.get(pk=made.pk)
    assert (after.name, after.slug, after.version) == ("Hal 9000", "hal", 2)
    assert "name from Hal to Hal 9000" in said_of(made)


def test_an_account_is_made_with_a_good_password(olga: Client) -> None:
    values = {"username": "dave", "email": "", "time_zone": "Europe/Berlin"}
    weak = add(olga, "iam_account", **values, password="dave")
    assert "too short" in weak.content.decode()
    assert not Account.objects.filter(username="dave").exists()
    add(olga, "iam_account", **values, password="hardly guessable 71")
    dave = Account.objects.get(username="dave")
    assert dave.check_password("hardly guessable 71")
    assert not dave.is_staff
    assert "guessable" not in said_of(dave)


def test_an_operator_is_made_and_unmade_but_not_by_oneself(olga: Client) -> None:
    bob, me = cast.account("bob"), cast.account("olga")
    values = {"email": "b@example.org", "time_zone": "UTC", "is_active": "on"}
    change(olga, "iam_account", bob, **values, is_staff="on")
    assert Account.objects.get(pk=bob.pk).is_staff
    Account.objects.filter(pk=bob.pk).update(is_superuser=True)
    change(olga, "iam_account", bob, **values)
    after = Account.objects.get(pk=bob.pk)
    assert (after.is_staff, after.is_superuser, after.is_active) == (False, False, True)
    refused = change(olga, "iam_account", me, **values)
    assert "Another operator must" in refused.content.decode()
    assert Account.objects.get(pk=me.pk).is_staff
    assert "refused" in said_of(me)


def test_a_time_zone_must_exist(olga: Client) -> None:
    bob = cast.account("bob")
    answer = change(olga, "iam_account", bob, email="", time_zone="Mars/Base", is_active="on")
    assert "There is no time zone Mars/Base" in answer.content.decode()
    assert Account.objects.get(pk=bob.pk).time_zone == "UTC"


def test_a_seat_is_given_and_its_role_changed(olga: Client) -> None:
    mallory, acme = cast.account("mallory"), cast.tenant("acme")
    add(olga, "iam_membership", account=mallory.pk, tenant=acme.pk, role="member")
    seat = Membership.objects.get(account=mallory, tenant=acme)
    assert seat.role == "member"
    change(olga, "iam_membership", seat, role="admin")
    assert Membership.objects.get(pk=seat.pk).role == "admin"
    assert "role from member to admin" in said_of(seat)


class TestPolicies:
    def test_one_of_the_platform_is_stored_in_versions(self, olga: Client) -> None:
        add(olga, "iam_policy", tenant="", name="stop", text=FORBID, enabled="on")
        made = Policy.objects.get(name="stop")
        assert (made.tenant_id, made.enabled, made.version) == (None, True, 1)
        change(olga, "iam_policy", made, name="stop", text=FORBID)
        after = Policy.objects.get(pk=made.pk)
        assert (after.enabled, after.version) == (False, 2)
        assert "enabled from True to False" in said_of(made)

    def test_one_of_a_tenant_may_not_hand_out_nodes(self, olga: Client) -> None:
        permit = 'permit (principal, action == Action::"compute:nodes:manage", resource);'
        acme = cast.tenant("acme")
        answer = add(olga, "iam_policy", tenant=acme.pk, name="own", text=permit, enabled="on")
        assert "must name actions of compute:reservations" in answer.content.decode()
        add(olga, "iam_policy", tenant=acme.pk, name="own", text=FORBID, enabled="on")
        assert Policy.objects.get(name="own").tenant_id == acme.pk

    def test_a_text_that_does_not_compile_names_its_line(self, olga: Client) -> None:
        answer = add(olga, "iam_policy", tenant="", name="bad", text="permit\n(", enabled="on")
        assert "text: line" in answer.content.decode()
        assert not Policy.objects.filter(name="bad").exists()


class TestPools:
    def test_a_policy_is_checked_and_its_change_audited(self, world: World, olga: Client) -> None:
        wrong = change(
            olga,
            "pools_pool",
            world.pool,
            region="eu",
            placer="inline",
            policy='{"maxAhead": "soon"}',
        )
        assert "policy.maxAhead" in wrong.content.decode()
        change(
            olga,
            "pools_pool",
            world.pool,
            region="eu",
            placer="inline",
            policy='{"maxAhead": "30d"}',
        )
        after = Pool.objects.get(pk=world.pool.pk)
        assert (after.region, after.policy) == ("eu", {"maxAhead": "30d"})
        assert after.version == world.pool.version + 1
        assert "region from" in said_of(world.pool)

    def test_one_is_made_for_a_tenant(self, olga: Client) -> None:
        acme = cast.tenant("acme")
        add(olga, "pools_pool", tenant=acme.pk, name="lab", region="", placer="queued", policy="{}")
        assert Pool.objects.get(name="lab").tenant_id == acme.pk

    def test_an_offer_names_only_what_can_be_offered(self, world: World, olga: Client) -> None:
        offer = Offer.objects.get(pool=world.pool)
        refused = change(olga, "pools_offer", offer, resources='{"gold": 1}')
        assert "must be one of gpuMilli, memoryGiB, vcpu" in refused.content.decode()
        change(olga, "pools_offer", offer, resources='{"vcpu": 64}')
        assert Offer.objects.get(pk=offer.pk).resources == {"vcpu": 64}

    def test_a_quota_keeps_what_is_used(self, world: World, olga: Client) -> None:
        row = QuotaUsage.objects.get(tenant__slug="acme", resource="gpuMilli")
        assert row.used > 0
        change(olga, "pools_quotausage", row, max="1000", used="0")
        after = QuotaUsage.objects.get(pk=row.pk)
        assert (after.max, after.used) == (1000, row.used)
        assert f"max from {row.max} to 1000" in said_of(row)

    def test_a_first_limit_is_set_for_a_tenant(self, world: World, olga: Client) -> None:
        globex = cast.tenant("globex")
        add(olga, "pools_quotausage", tenant=globex.pk, resource="vcpu", max="8")
        assert QuotaUsage.objects.get(tenant=globex, resource="vcpu").max == 8
        wrong = add(olga, "pools_quotausage", tenant=globex.pk, resource="gold", max="8")
        assert "Select a valid choice" in wrong.content.decode()

    def test_a_quota_may_be_of_one_pool(self, world: World, olga: Client) -> None:
        acme = cast.tenant("acme")
        where = {"tenant": acme.pk, "pool": world.pool.pk, "resource": "vcpu"}
        add(olga, "pools_quotausage", **where, max="8")
        row = QuotaUsage.objects.get(pool=world.pool, tenant=acme, resource="vcpu")
        change(olga, "pools_quotausage", row, max="9")
        assert QuotaUsage.objects.get(pk=row.pk).max == 9
        assert "max from 8 to 9" in said_of(row)

    def test_a_budget_is_made_and_its_amount_changed(self, world: World, olga: Client) -> None:
        what = {"tenant": cast.tenant().pk, "name": "fair", "gpu_milli_hours": "5000"}
        ends = {"ends_at_0": "2026-05-01", "ends_at_1": "00:00"}
        when = {"period": "window", "time_zone": "UTC", **ends}
        wrong = add(olga, "pools_budget", **what, **when)
        assert "a window needs both" in wrong.content.decode()
        add(olga, "pools_budget", **what, **when, starts_at_0="2026-04-01", starts_at_1="00:00")
        made = Budget.objects.get(name="fair")
        assert (made.period, made.ends_at.date()) == ("window", date(2026, 5, 1))
        change(olga, "pools_budget", made, gpu_milli_hours="6000")
        after = Budget.objects.get(pk=made.pk)
        assert (after.gpu_milli_hours, after.version) == (6_000, 2)
        assert "gpu_milli_hours from 5000 to 6000" in said_of(made)

    @pytest.mark.parametrize("amount", ["-1", str(2**53)])
    def test_an_amount_that_is_none_is_said_at_its_field(
        self, world: World, olga: Client, amount: str
    ) -> None:
        what = {"tenant": cast.tenant().pk, "name": "odd", "period": "month", "time_zone": "UTC"}
        bound = "greater than or equal to 0" if amount == "-1" else f"equal to {2**53 - 1}"
        for register, values in (
            ("pools_budget", {**what, "gpu_milli_hours": amount}),
            ("pools_quotausage", {"tenant": what["tenant"], "resource": "vcpu", "max": amount}),
        ):
            said = add(olga, register, **values).content.decode()
            assert bound in said, register
            assert "Constraint" not in said

    @pytest.mark.parametrize(
        ("typed", "said"),
        [
            ("[" * 5_000, "Nested deeper than 16"),
            ('{"a":' * 20 + "1" + "}" * 20, "Nested deeper than 16"),
            ("{", "Not valid JSON"),
            (r'{"region": "\u0000"}', "must not have NUL"),
            (r'{"region": "\ud800"}', "lone surrogate"),
            ('{"a": 1e999}', "too large"),
            ('{"a": ' + "9" * 5_000 + "}", "too large"),
            ('{"a": NaN}', "NaN is not JSON"),
            ('{"a": 1, "a": 2}', "Given twice"),
        ],
    )
    @pytest.mark.rule("A3", "A11")
    def test_a_document_is_bounded_as_a_body_of_the_api_is(
        self, world: World, olga: Client, typed: str, said: str
    ) -> None:
        """Typed into any form of the operators that takes JSON."""
        offer = Offer.objects.get(pool=world.pool)
        taints = reverse("admin:nodes_node_operate", args=["taint"])
        answers = [
            change(olga, "pools_pool", world.pool, region="x", placer="inline", policy=typed),
            change(olga, "pools_offer", offer, resources=typed),
            olga.post(taints, {"id": [world.node.pk], "reason": WHY, "taints": typed}),
        ]
        for answer in answers:
            assert answer.status_code == 200
            assert said.lower() in html.unescape(answer.content.decode()).lower()
        assert Pool.objects.get(pk=world.pool.pk).version == world.pool.version

    def test_an_offers_limit_is_changed_with_the_offer(self, world: World, olga: Client) -> None:
        offer = Offer.objects.get(pool=world.pool)
        change(olga, "pools_offer", offer, resources='{"gpuMilli": 2000}')
        row = QuotaUsage.objects.get(offer=offer, resource="gpuMilli")
        refused = change(olga, "pools_quotausage", row, max="9")
        assert "changed with the offer" in refused.content.decode()
        assert QuotaUsage.objects.get(pk=row.pk).max == 2_000


def test_without_a_reason_nothing_is_stored(world: World, olga: Client) -> None:
    change(
        olga,
        "pools_pool",
        world.pool,
        region="eu",
        placer="inline",
        policy=json.dumps({}),
        reason=" ",
    )
    assert Pool.objects.get(pk=world.pool.pk).region != "eu"
    assert not LogEntry.objects.filter(object_id=world.pool.pk).exists()


@pytest.mark.rule("C2")
class TestVersions:
    """A form that somebody has had open for long overwrites nobody's change."""

    def forms(self, world: World) -> dict[str, tuple[Any, dict[str, str]]]:
        """Each register with versions: a row, and what to fill in."""
        policy = Policy.objects.create(name="stop", text=FORBID)
        return {
            "iam_tenant": (cast.tenant("acme"), {"name": "Acme 2"}),
            "iam_policy": (policy, {"name": "stop", "text": FORBID, "enabled": "on"}),
            "pools_pool": (world.pool, {"region": "eu", "placer": "inline", "policy": "{}"}),
            "pools_offer": (Offer.objects.get(pool=world.pool), {"resources": '{"vcpu": 8}'}),
        }

    def test_a_form_posts_the_version_it_showed(self, world: World, olga: Client) -> None:
        for register, (row, _) in self.forms(world).items():
            path = reverse(f"admin:{register}_change", args=[row.pk])
            shown = type(row).objects.get(pk=row.pk).version
            field = f'<input type="hidden" name="seen_version" value="{shown}"'
            assert field in olga.get(path).content.decode(), register

    def test_an_old_form_is_refused_and_changes_nothing(self, world: World, olga: Client) -> None:
        for register, (row, values) in self.forms(world).items():
            rows = type(row).objects.filter(pk=row.pk)
            seen = rows.get().version
            rows.update(version=seen + 1)
            before = rows.values().get()
            answer = change(olga, register, row, **values, seen_version=str(seen))
            assert "changed since you looked" in answer.content.decode(), register
            assert rows.values().get() == before, register
            assert "refused" in said_of(row)

    def test_a_fresh_form_is_stored_as_a_new_version(self, world: World, olga: Client) -> None:
        for register, (row, values) in self.forms(world).items():
            rows = type(row).objects.filter(pk=row.pk)
            seen = rows.get().version
            change(olga, register, row, **values, seen_version=str(seen))
            assert rows.get().version == seen + 1, register
            assert "seen_version" not in said_of(row)
