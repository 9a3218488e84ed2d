"""A reservation names who may use it: they find and read it, and no more than that (R38)."""

from typing import Any

import pytest

from bettercompute import errors
from bettercompute.iam import memberships, policies, projection
from bettercompute.wire.reservations import ExtendRequest
from outbox.models import Event
from pools import preview
from pools.models import Pool
from reservations import admission, ending, queries, sharing
from reservations.extending import extension
from reservations.models import Reservation, ReservationUser
from reservations.queries import Filters
from reservations.sharing import Change
from tests.support import cast, make

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("R38")]

OWN_OR_SHARED = """
forbid (principal, action == Action::"compute:reservations:read", resource)
unless { resource.owner == principal || resource.users.contains(principal) };
"""
USERS_RELEASE = """
permit (principal, action == Action::"compute:reservations:release", resource)
when { resource.users.contains(principal) };
"""
AT_MOST_ONE = """
forbid (principal, action, resource) when { context.users > 1 };
"""


def account(name: str) -> str:
    return cast.account(name).pk


def shared(pool: Pool, *names: str, by: str = "bob", **changes: Any) -> Reservation:
    return make.reservation(cast.caller(by), pool, users=[account(n) for n in names], **changes)


def found(by: str, scope: str) -> list[str]:
    return [item.id for item in queries.page(cast.caller(by), Filters(scope)).items]


def change(by: str, reservation: Reservation, **wanted: tuple[str, ...]) -> Reservation:
    return sharing.change(cast.caller(by), Change(**wanted), reservation_id=reservation.pk)


def test_whom_it_is_shared_with_finds_it_and_reads_how_to_use_it() -> None:
    pool = make.pool()
    mine = make.reservation(cast.caller("carol"), pool)
    made = make.active(cast.caller("bob"), pool, users=[account("carol")])
    assert found("carol", "shared") == [made.pk]
    assert found("carol", "mine") == [mine.pk]
    assert found("alice", "shared") == []
    read = queries.get(cast.caller("carol"), made.pk)
    assert read.users == [account("carol")]
    assert read.binding is not None
    with pytest.raises(errors.AccessDenied):
        ending.release(cast.caller("carol"), reservation_id=made.pk)
    with pytest.raises(errors.AccessDenied, match="share their own"):
        change("carol", made, add=(account("alice"),))


def test_the_same_people_in_another_order_are_the_same_request() -> None:
    pool, bob = make.pool(), cast.caller("bob")
    carol, alice = account("carol"), account("alice")
    first = make.reservation(bob, pool, idempotency_key="k", users=[carol, alice])
    again = make.reservation(bob, pool, idempotency_key="k", users=[alice, carol, alice])
    assert again.pk == first.pk
    assert queries.answer(first.pk).users == sorted([carol, alice])


def test_the_owner_needs_no_entry() -> None:
    made = shared(make.pool(), "bob", "carol")
    change("bob", made, add=(account("bob"),))
    assert queries.answer(made.pk).users == [account("carol")]
    assert found("bob", "shared") == []


@pytest.mark.parametrize("who", ["mallory", "nobody"])
def test_only_members_can_be_named_and_others_are_as_nobody(who: str) -> None:
    pool, bob = make.pool(), cast.caller("bob")
    stranger = account("mallory") if who == "mallory" else "usr_nobody"
    request = make.request(bob, pool, users=[account("carol"), stranger])
    made = shared(pool, "carol")
    for ask in (
        lambda: admission.admit(bob, request, idempotency_key=make.key()),
        lambda: preview.preview(bob, request),
        lambda: change("bob", made, add=(account("alice"), stranger)),
    ):
        with pytest.raises(errors.InvalidInput) as refused:
            ask()
        (error,) = refused.value.details["errors"]
        assert error["path"] in {"users[1]", "add[1]"}
        assert error["message"] == "is no member of this tenant"
    assert ReservationUser.objects.count() == 1
    assert Reservation.objects.count() == 1, "nothing was written, not even a draft"
    change("bob", made, remove=(stranger,))  # whom it is not shared with can be taken off


def test_a_key_goes_on_reaching_what_it_made_when_a_user_has_left() -> None:
    pool, bob = make.pool(), cast.caller("bob")
    made = shared(pool, "carol", idempotency_key="k")
    memberships.remove(cast.account("carol"), cast.tenant())
    assert shared(pool, "carol", idempotency_key="k").pk == made.pk
    assert queries.answer(made.pk).users == []
    with pytest.raises(errors.Conflict):
        make.reservation(bob, pool, idempotency_key="k", gpus=2)


def test_whoever_leaves_the_tenant_is_off_the_list_with_that() -> None:
    made = shared(make.pool(), "carol")
    memberships.remove(cast.account("carol"), cast.tenant())
    assert queries.answer(made.pk).users == []
    memberships.add(cast.account("carol"), cast.tenant())
    assert queries.answer(made.pk).users == [account("carol")]


@pytest.mark.rule("R25", "C2")
def test_a_change_is_a_version_an_event_and_what_policies_know() -> None:
    made = shared(make.pool(), "carol")
    alice, carol = account("alice"), account("carol")
    after = change("bob", made, add=(alice,), remove=(carol,))
    assert after.version == made.version + 1
    assert queries.answer(made.pk).users == [alice]
    event = Event.objects.filter(subject=f"reservation/{made.pk}").latest("seq")
    assert event.type == "reservation.users-changed"
    assert (event.data["added"], event.data["removed"]) == ([alice], [carol])
    known = projection.attributes_of(made.pk)
    assert (known["users"], known["shared_with"], known["gpus"]) == (1, [alice], 1)

    events = Event.objects.count()
    same = change("bob", made, add=(alice,), remove=(carol,))
    assert same.version == after.version
    assert Event.objects.count() == events
    with pytest.raises(errors.PreconditionFailed):
        sharing.change(
            cast.caller("bob"), Change(), reservation_id=made.pk, if_match=frozenset({made.version})
        )


@pytest.mark.rule("R34")
def test_an_extension_does_not_undo_what_was_shared_meanwhile(monkeypatch: Any) -> None:
    made, bob = make.active(cast.caller("bob"), make.pool()), cast.caller("bob")
    decide = extension._decide

    def sharing_meanwhile(*given: Any) -> Any:
        decided = decide(*given)
        change("bob", made, add=(account("carol"),))
        return decided

    monkeypatch.setattr(extension, "_decide", sharing_meanwhile)
    wanted = ExtendRequest(tenant_id=bob.tenant_id, by="1h")
    made_longer = extension.extend(bob, wanted, reservation_id=made.pk, idempotency_key="k")
    assert made_longer.extended
    known = projection.attributes_of(made.pk)
    assert (known["users"], known["duration_minutes"]) == (1, 120)


def test_an_admin_changes_anyones_and_what_has_ended_stays_as_it_is() -> None:
    made = shared(make.pool(), "carol")
    change("alice", made, remove=(account("carol"),))
    ending.release(cast.caller("bob"), reservation_id=made.pk)
    with pytest.raises(errors.InvalidState):
        change("bob", made, add=(account("carol"),))


def test_policies_see_whom_it_is_shared_with() -> None:
    pool, alice = make.pool(), cast.caller("alice")
    for name, text in {"read": OWN_OR_SHARED, "free": USERS_RELEASE, "one": AT_MOST_ONE}.items():
        policies.create(alice, draft=policies.Draft(name, text))
    with pytest.raises(errors.AccessDenied):
        shared(pool, "alice", "carol")
    made = shared(pool, "carol")
    assert queries.get(cast.caller("carol"), made.pk).id == made.pk
    with pytest.raises(errors.AccessDenied):
        queries.get(alice, made.pk)
    with pytest.raises(errors.AccessDenied, match="one"):
        change("bob", made, add=(account("alice"),))
    assert ending.release(cast.caller("carol"), reservation_id=made.pk).state == "released"


def test_a_list_has_room_for_so_many_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "USERS_MAX", 1)
    made = shared(make.pool(), "carol")
    with pytest.raises(errors.InvalidInput, match="at most 1"):
        change("bob", made, add=(account("alice"),))
    swapped = change("bob", made, add=(account("alice"),), remove=(account("carol"),))
    assert queries.answer(swapped.pk).users == [account("alice")]


def test_members_are_listed_by_name_to_members_only() -> None:
    for name in ("bob", "alice", "carol", "mallory"):
        cast.account(name)
    api = cast.api("bob")
    first = api.get("/members?limit=2").json()
    rest = api.get(f"/members?limit=2&cursor={first['nextCursor']}").json()
    names = [member["username"] for member in first["items"] + rest["items"]]
    assert names == ["alice", "bob", "carol"]
    assert rest["nextCursor"] is None
    tenant = cast.tenant("globex").pk
    cast.problem(api.get(f"/members?tenantId={tenant}"), 404, "NOT_FOUND")
