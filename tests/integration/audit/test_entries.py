"""Who did what, from where, and what decided: written with the change, or with the refusal."""

import hashlib
import json
from io import StringIO
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.management import call_command
from django.db import transaction
from django.http import HttpResponse
from django.test import Client

from bettercompute import acts
from bettercompute.audit import entries, repeats
from bettercompute.audit.models import Entry
from bettercompute.iam import policies, tokens
from bettercompute.iam.models import ApiToken
from bettercompute.settings import env
from nodes import eligibility
from nodes.models import Node
from outbox.models import Event
from pools.models import Pool
from reservations.models import Reservation
from tests.support import cast, make

pytestmark = pytest.mark.django_db

FORBID = """@id("no-more")
forbid (principal, action == Action::"compute:reservations:create", resource)
when { context.gpus > 2 };"""


@pytest.fixture(autouse=True)
def strangers_are_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "REFUSALS", repeats.Repeats())


@pytest.fixture
def pool() -> Pool:
    return make.pool()


def body(pool: Pool, *, gpus: int = 1, key: str = "k") -> dict[str, Any]:
    return {
        "tenantId": cast.tenant().pk,
        "poolId": pool.pk,
        "devices": [{"class": "gpu", "count": gpus}],
        "duration": "1h",
        "idempotencyKey": key,
    }


def only_entry(answer: HttpResponse) -> Entry:
    return Entry.objects.get(request_id=answer["X-Request-Id"])


class TestDone:
    def test_a_create_says_who_from_where_and_what_decided(self, pool: Pool, settings: Any) -> None:
        settings.TRUSTED_PROXIES = env.networks("127.0.0.1")
        alice = cast.api("alice")
        answer = alice.post(
            "/reservations",
            body(pool),
            User_Agent="curl/8",
            X_Forwarded_For="203.0.113.9",
            X_Request_Id="r" * 8,
        )
        assert answer.status_code == 201
        entry = only_entry(answer)
        token = ApiToken.objects.get(account=cast.account("alice"))
        assert (entry.account_id, entry.username) == (cast.account("alice").pk, "alice")
        assert (entry.via, entry.token_id, entry.token_name) == ("token", token.pk, "alice's")
        assert (entry.tenant_id, entry.role, entry.operator) == (cast.tenant().pk, "admin", False)
        assert (entry.address, entry.user_agent) == ("203.0.113.9", "curl/8")
        assert entry.request_id == "r" * 8
        assert entry.action == "compute:reservations:create"
        assert entry.object_kind == "reservation"
        assert entry.object_id == json.loads(answer.content)["id"]
        assert (entry.outcome, entry.code) == ("allowed", "")
        assert entry.policies == ["default/members-create-read-and-extend"]
        assert "reservation.placed" in entry.detail["events"]
        sent = json.dumps(body(pool)).encode()
        assert entry.detail["bodySha256"] == hashlib.sha256(sent).hexdigest()

    def test_the_same_again_changes_nothing_and_leaves_nothing(self, pool: Pool) -> None:
        alice = cast.api("alice")
        alice.post("/reservations", body(pool))
        again = alice.post("/reservations", body(pool))
        assert again.status_code == 200
        assert not Entry.objects.filter(request_id=again["X-Request-Id"]).exists()

    def test_what_we_do_ourselves_is_nobodys_act(self, pool: Pool) -> None:
        before = Entry.objects.count()
        make.active(cast.caller("alice"), pool)
        assert Event.objects.exists()
        assert Entry.objects.count() == before

    def test_a_page_and_a_command_are_doors_too(self, pool: Pool) -> None:
        made = make.reservation(cast.caller("alice"), pool)
        cast.session("alice", check_csrf=False).post(f"/reservations/{made.pk}/release")
        entry = Entry.objects.get(object_id=made.pk)
        assert (entry.action, entry.via) == ("compute:reservations:release", "session")
        call_command("enroll_node", Node.objects.get(pool=pool).pk, stdout=StringIO())
        told = Entry.objects.filter(action="compute:nodes:allow-enrolment")
        assert {(each.via, each.operator, each.outcome) for each in told} == {
            ("command", True, "allowed")
        }
        assert {each.object_kind for each in told} == {"node"}

    def test_what_others_lose_by_it_is_theirs_to_know(self, pool: Pool) -> None:
        """An entry names no reservation of another tenant: its events tell that tenant."""
        make.pool()
        told = [
            entries.Told("reservation.preempted", "ten_other", acts.Thing("reservation", "rsv_o")),
            entries.Told("reservation.placed", "ten_mine", acts.Thing("reservation", "rsv_m")),
        ]
        act = acts.Act(acts.Origin())
        with acts.under_way(act):
            mine = acts.Thing("reservation", "rsv_m")
            acts.decided("compute:reservations:create", mine, policies=())
            rows = json.loads(entries.of_events(told))
        assert [(row["object_id"], row["tenant_id"]) for row in rows] == [("rsv_m", "ten_mine")]


class TestTogetherWithTheChange:
    def test_a_change_that_publishes_is_undone_where_its_entry_cannot_be_written(
        self, pool: Pool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made = make.reservation(cast.caller("alice"), pool)
        break_entries(monkeypatch)
        answer = cast.api("alice").post(
            f"/reservations/{made.pk}/release", {"tenantId": cast.tenant().pk}
        )
        assert answer.status_code == 500
        assert Reservation.objects.get(pk=made.pk).state == made.state
        assert not Event.objects.filter(type="reservation.released").exists()

    def test_one_that_publishes_nothing_likewise(self, monkeypatch: pytest.MonkeyPatch) -> None:
        alice = cast.api("alice")
        break_entries(monkeypatch)
        answer = alice.post("/tokens", {"tenantId": cast.tenant().pk, "name": "ci"})
        assert answer.status_code == 500
        assert not ApiToken.objects.filter(name="ci").exists()

    def test_an_entry_is_undone_with_its_change(self, pool: Pool) -> None:
        node = Node.objects.get(pool=pool)
        with acts.under_way(acts.Act(acts.Origin())), pytest.raises(ZeroDivisionError):
            cordon_then_fail(node.pk)
        assert not Node.objects.get(pk=node.pk).cordoned
        assert not Entry.objects.filter(object_id=node.pk).exists()

    def test_one_act_says_one_thing_once_however_many_transactions_it_takes(self) -> None:
        token = acts.Thing("token", "tok_1")
        with acts.under_way(acts.Act(acts.Origin())):
            for action in ("iam:tokens:create", "iam:tokens:create", "iam:tokens:revoke"):
                with transaction.atomic():
                    entries.record(action, token, tenant_id="")
        told = Entry.objects.filter(object_id="tok_1").order_by("seq")
        assert [each.action for each in told] == ["iam:tokens:create", "iam:tokens:revoke"]

    def test_an_entry_outside_of_any_transaction_is_a_mistake(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(entries, "connection", SimpleNamespace(in_atomic_block=False))
        with (
            acts.under_way(acts.Act(acts.Origin())),
            pytest.raises(AssertionError, match="without the change's transaction"),
        ):
            entries.record("iam:tokens:create", acts.NOTHING)


class TestRefused:
    def test_a_denial_names_the_policies_that_decided(self, pool: Pool) -> None:
        policies.create(cast.caller("alice"), draft=policies.Draft("no-more", FORBID))
        answer = cast.api("bob").post("/reservations", body(pool, gpus=4))
        cast.problem(answer, 403, "ACCESS_DENIED")
        entry = only_entry(answer)
        assert (entry.outcome, entry.code) == ("denied", "ACCESS_DENIED")
        assert entry.action == "compute:reservations:create"
        assert entry.policies == ["no-more/no-more"]
        assert (entry.username, entry.role) == ("bob", "member")
        assert "no-more" in entry.detail["message"]

    def test_reading_what_one_may_not_is_a_denial(self) -> None:
        answer = cast.api("bob").get("/leases")
        cast.problem(answer, 403, "ACCESS_DENIED")
        assert only_entry(answer).outcome == "denied"

    def test_what_did_not_happen_says_why(self) -> None:
        pool = make.pool(quota_gpus=1)
        answer = cast.api("alice").post("/reservations", body(pool, gpus=4))
        cast.problem(answer, 409, "QUOTA_EXCEEDED")
        entry = only_entry(answer)
        assert (entry.outcome, entry.code) == ("failed", "QUOTA_EXCEEDED")

    def test_what_is_no_request_is_no_act(self, pool: Pool) -> None:
        alice = cast.api("alice")
        for answer in (
            alice.post("/reservations", {**body(pool), "duration": "soon"}),
            alice.raw("POST", "/reservations", "{"),
            alice.get("/reservations/rsv_nobody"),
            cast.api(None).get("/pools"),
            Client(raise_request_exception=False).post("/api/v1/reservations"),
        ):
            assert answer.status_code >= 400
            assert not Entry.objects.filter(request_id=answer["X-Request-Id"]).exists()

    def test_a_page_that_shows_a_refusal_tells_of_it(self, pool: Pool) -> None:
        made = make.reservation(cast.caller("alice"), pool)
        page = cast.session("bob", check_csrf=False).post(f"/reservations/{made.pk}/release")
        entry = only_entry(page)
        assert (entry.username, entry.outcome) == ("bob", "denied")
        assert entry.object_id == made.pk

    def test_an_operators_page_refuses_who_is_none(self) -> None:
        page = cast.session("alice").get("/admin/", follow=True)
        assert page.status_code == 403
        entry = only_entry(page)
        assert (entry.username, entry.outcome) == ("alice", "denied")

    def test_an_operator_who_is_refused_a_page_is_told_as_one(self, pool: Pool) -> None:
        page = cast.session("olga", check_csrf=False).post(f"/admin/pools/pool/{pool.pk}/delete/")
        assert page.status_code == 403
        entry = only_entry(page)
        assert (entry.username, entry.operator, entry.outcome) == ("olga", True, "denied")

    def test_a_token_that_is_refused_is_named_by_its_id(self) -> None:
        token, plaintext = cast.token("alice")
        tokens.revoke(cast.caller("alice"), token.pk)
        for _ in range(3):
            answer = bearer(plaintext)
            cast.problem(answer, 401, "UNAUTHENTICATED")
        entry = Entry.objects.get(action="iam:tokens:use")
        assert (entry.object_kind, entry.object_id) == ("token", token.pk)
        assert (entry.account_id, entry.via, entry.outcome) == ("", "none", "denied")
        assert plaintext not in str(Entry.objects.filter(pk=entry.pk).values())


class TestSignIn:
    def test_it_and_the_end_of_it_are_told(self) -> None:
        alice = cast.account("alice")
        client = Client()
        client.post("/login", {"username": "alice", "password": "alice"})
        client.post("/logout")
        told = Entry.objects.filter(account_id=alice.pk).order_by("seq")
        assert [each.action for each in told] == ["iam:accounts:sign-in", "iam:accounts:sign-out"]
        assert {(each.via, each.outcome) for each in told} == {("session", "allowed")}

    def test_a_wrong_password_names_the_account_and_nothing_that_was_typed(self) -> None:
        alice = cast.account("alice")
        Client().post("/login", {"username": "alice", "password": "hunter2"})
        Client().post("/login", {"username": "my-password-42", "password": "alice"})
        told = Entry.objects.filter(action="iam:accounts:sign-in").order_by("seq")
        assert [(each.object_id, each.outcome) for each in told] == [
            (alice.pk, "denied"),
            ("", "denied"),
        ]
        said = str(list(told.values()))
        assert "hunter2" not in said
        assert "my-password-42" not in said


def break_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """No entry can be made any more: as if the disk were full at that very statement."""

    def fail(*_: object) -> None:
        raise RuntimeError("no entry")

    monkeypatch.setattr(entries, "_row", fail)
    monkeypatch.setattr(entries, "conclude", lambda _: None)


def cordon_then_fail(node_id: str) -> None:
    with transaction.atomic():
        eligibility.cordon(node_id)
        assert Entry.objects.filter(object_id=node_id).exists()
        raise ZeroDivisionError


def bearer(plaintext: str) -> Any:
    client = Client(headers={"Authorization": f"Bearer {plaintext}"})
    return client.get("/api/v1/whoami")
