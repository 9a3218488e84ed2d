"""One promise broken in a history that kept them all: a function for each anomaly.

Each gets a history to change in place and picks by ``rng`` where to spoil it; it gives up where the
history has nothing that it could spoil.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

from tests.support.history.anomalies import Kind
from tests.unit.history import cloud
from tests.unit.history.drafts import LIVE, TERMINAL, Draft

Spoiler = Callable[[Draft], None]
SPOILERS: dict[Kind, Spoiler] = {}


def spoils(kind: Kind) -> Callable[[Spoiler], Spoiler]:
    """The function breaks the promise behind this anomaly."""

    def named(spoiler: Spoiler) -> Spoiler:
        SPOILERS[kind] = spoiler
        return spoiler

    return named


# --- answers ------------------------------------------------------------------------------------


@spoils(Kind.SERVER_ERROR)
def _fails(draft: Draft) -> None:
    draft.refuse(draft.pick(draft.done()), 500, "INTERNAL")


@spoils(Kind.UNEXPECTED_STATUS)
def _forgets_the_token(draft: Draft) -> None:
    draft.refuse(draft.pick(draft.done()), 401, "UNAUTHENTICATED")


@spoils(Kind.NO_RETRY_AFTER)
def _does_not_say_when(draft: Draft) -> None:
    draft.refuse(draft.pick(draft.done()), 503, "UNAVAILABLE")


@spoils(Kind.NO_REQUEST_ID)
def _has_no_request_id(draft: Draft) -> None:
    operation = draft.pick(draft.done())
    assert operation.answer is not None
    kept = {n: v for n, v in operation.answer.headers.items() if n != "x-request-id"}
    draft.answer(operation, operation.answer.status, operation.answer.body, **kept)


@spoils(Kind.BAD_PROBLEM)
def _answers_another_request(draft: Draft) -> None:
    operation = draft.pick(each for each in draft.done() if each.refused)
    assert operation.answer is not None
    body = {**operation.answer.body, "requestId": "req-y"}
    draft.answer(operation, operation.answer.status, body)


@spoils(Kind.BAD_ETAG)
def _has_an_old_etag(draft: Draft) -> None:
    operation = draft.pick(draft.done("get", "create", status=200))
    assert operation.answer is not None
    headers = {**operation.answer.headers, "etag": '"0"'}
    draft.answer(operation, 200, operation.answer.body, **headers)


@spoils(Kind.WRONG_RESERVATION)
def _answers_with_another(draft: Draft) -> None:
    operation = draft.pick(draft.done("get", status=200))
    tenant = operation.call.tenant
    others = [
        row
        for key, row in draft.final.reservations.items()
        if key != operation.call.target and row["tenantId"] == tenant
    ]
    draft.answer(operation, 200, deepcopy(draft.pick(others)))


@spoils(Kind.FOREIGN)
def _shows_what_is_not_theirs(draft: Draft) -> None:
    operation = draft.pick(draft.done("get", "list", status=404) + draft.done("list", status=200))
    foreign = draft.pick(
        row
        for row in draft.final.reservations.values()
        if row["tenantId"] != operation.call.tenant and operation.call.target in {None, row["id"]}
    )
    shown = deepcopy(foreign)
    is_list = operation.call.op == "list"
    draft.answer(operation, 200, {"items": [shown], "nextCursor": None} if is_list else shown)


# --- keys ---------------------------------------------------------------------------------------


@spoils(Kind.KEY_MADE_TWO)
def _makes_another(draft: Draft) -> None:
    first, again = draft.pick(pair for pair in draft.replays() if pair[1].acknowledged)
    draft.answer(again, 201, {**first.document, "id": "rsv-another"})


@spoils(Kind.KEYS_SHARE_ONE)
def _takes_the_key_for_another(draft: Draft) -> None:
    one = draft.pick(draft.done("create", status=201))
    other = draft.pick(
        each
        for each in draft.done("create", status=201)
        if each.call.tenant == one.call.tenant and each.call.key != one.call.key
    )
    draft.answer(one, 200, other.document)


@spoils(Kind.CREATED_TWICE)
def _creates_again(draft: Draft) -> None:
    _, again = draft.pick(
        pair for pair in draft.replays() if (pair[0].status, pair[1].status) == (201, 200)
    )
    draft.answer(again, 201, again.document)


@spoils(Kind.OTHER_BODY_ACCEPTED)
def _overlooks_the_body(draft: Draft) -> None:
    first, twist = draft.pick(pair for pair in draft.replays() if pair[1].code == "CONFLICT")
    draft.answer(twist, 200, first.document)


@spoils(Kind.REPLAY_REFUSED)
def _forgets_the_key(draft: Draft) -> None:
    _, again = draft.pick(pair for pair in draft.replays() if pair[1].status == 200)
    draft.refuse(again, 409, draft.rng.choice(["QUOTA_EXCEEDED", "CONFLICT"]))


@spoils(Kind.CONFLICT_NAMES_ANOTHER)
def _names_another(draft: Draft) -> None:
    _, twist = draft.pick(pair for pair in draft.replays() if pair[1].code == "CONFLICT")
    draft.refuse(twist, 409, "CONFLICT", reservationId="rsv-another")


@spoils(Kind.GHOST)
def _does_what_it_refused(draft: Draft) -> None:
    refused = draft.pick(
        each
        for each in draft.done("create", status=409)
        if each.code == "QUOTA_EXCEEDED"
        and all(
            other.code == "QUOTA_EXCEEDED"
            for other in draft.operations.values()
            if (other.call.caller, other.call.key) == (each.call.caller, each.call.key)
        )
        and any(
            other.acknowledged and other.call.caller == each.call.caller
            for other in draft.done("create")
        )
    )
    ghost = cloud.drafted(refused.call, "rsv-ghost", cloud.T0) | {"state": "pending", "version": 2}
    draft.final.reservations["rsv-ghost"] = ghost  # type: ignore[index]


# --- the register of one reservation -------------------------------------------------------------


@spoils(Kind.STALE_READ)
def _reads_the_past(draft: Draft) -> None:
    old, _, read = draft.pick(
        (old, new, read)
        for old, new in draft.pairs()
        for read in draft.done("get", status=200)
        if old.document["version"] < new.document["version"]
        and new.completed < read.invoked
        and read.document["id"] == old.document["id"]
    )
    draft.answer(read, 200, old.document)


@spoils(Kind.ONE_VERSION_TWO_CONTENTS)
def _tears_a_version(draft: Draft) -> None:
    _, other = draft.pick(
        pair for pair in draft.pairs() if pair[0].document["version"] == pair[1].document["version"]
    )
    draft.answer(other, other.status or 0, {**other.document, "conditions": [{"type": "Torn"}]})


@spoils(Kind.ILLEGAL_TRANSITION)
def _goes_back(draft: Draft) -> None:
    seen = draft.pick(draft.acknowledged("active", in_the_end=(*LIVE, *TERMINAL)))
    row = draft.row(seen.document["id"])
    row.update(state="pending", version=row["version"] + 3)


@spoils(Kind.IDENTITY_CHANGED)
def _changes_the_owner(draft: Draft) -> None:
    draft.row(draft.pick(_seen(draft)))["ownerIdentityId"] = "id-another"


@spoils(Kind.ALLOCATION_CHANGED)
def _changes_an_allocation(draft: Draft) -> None:
    seen = draft.pick(draft.unchanged())
    for part in draft.row(seen.document["id"])["allocations"]:
        part["deviceIds"] = [f"{device}-other" for device in part["deviceIds"]]


@spoils(Kind.MOVED)
def _moves_at_once(draft: Draft) -> None:
    row = draft.row(draft.pick(draft.unchanged()).document["id"])
    row["version"] += 1
    for part in row["allocations"]:
        part["id"] += "-b"
        part["deviceIds"] = [f"{device}-other" for device in part["deviceIds"]]


@spoils(Kind.WINDOW_CHANGED)
def _shortens_what_is_held(draft: Draft) -> None:
    row = draft.row(draft.pick(draft.unchanged()).document["id"])
    during = {**row["during"], "end": row["during"]["end"] - 1}
    row.update(version=row["version"] + 1, during=during)


@spoils(Kind.VANISHED)
def _loses_sight(draft: Draft) -> None:
    _, later = draft.pick(pair for pair in draft.pairs() if pair[1].call.op == "get")
    draft.refuse(later, 404, "NOT_FOUND")


@spoils(Kind.LOST)
def _loses(draft: Draft) -> None:
    del draft.final.reservations[draft.pick(_seen(draft))]  # type: ignore[attr-defined]


def _seen(draft: Draft) -> list[str]:
    return sorted({each.document["id"] for each in draft.done("create") if each.acknowledged})


# --- ends ---------------------------------------------------------------------------------------


@spoils(Kind.NOT_ENDED)
def _does_not_end(draft: Draft) -> None:
    ended = draft.pick(draft.done("release", "cancel", status=200))
    draft.answer(ended, 200, {**ended.document, "state": "active"})


@spoils(Kind.RESURRECTED)
def _comes_back(draft: Draft) -> None:
    before, ended, read = draft.pick(
        (before, ended, read)
        for before, ended in draft.pairs()
        for read in draft.done("get", status=200)
        if before.document["state"] not in TERMINAL
        and ended.document["state"] in TERMINAL
        and ended.completed < read.invoked
        and read.document["id"] == ended.document["id"]
    )
    version = ended.document["version"] + 1
    draft.answer(read, 200, {**before.document, "version": version})


@spoils(Kind.CANCELLED_TWICE)
def _cancels_again(draft: Draft) -> None:
    first, again = draft.pick(
        (first, again)
        for first in draft.done("cancel", status=200)
        for again in draft.done("cancel", status=409)
        if first.call.target == again.call.target
    )
    draft.answer(again, 200, first.document)


@spoils(Kind.END_REFUSED)
def _keeps_what_should_end(draft: Draft) -> None:
    draft.refuse(draft.pick(draft.done("release", status=200)), 409, "INVALID_STATE")


# --- holders ------------------------------------------------------------------------------------


@spoils(Kind.DOUBLE_HOLDING)
def _gives_one_device_to_two(draft: Draft) -> None:
    one, other = draft.pick(
        (one.document, other.document)
        for one in draft.acknowledged(*LIVE, in_the_end=LIVE)
        for other in draft.acknowledged(*LIVE, in_the_end=LIVE)
        if one.document["id"] != other.document["id"]
        and _same_part(draft, one.document)
        and _same_part(draft, other.document)
        and _overlap(one.document["during"], other.document["during"])
    )
    taken = one["allocations"][0]["deviceIds"][0]
    _replace_device(draft, other["allocations"][0]["id"], taken)


def _same_part(draft: Draft, shown: Any) -> bool:
    row = draft.final.reservations[shown["id"]]
    return bool(row["allocations"][0]["id"] == shown["allocations"][0]["id"])


def _overlap(one: Any, other: Any) -> bool:
    return bool(max(one["start"], other["start"]) < min(one["end"], other["end"]))


def _replace_device(draft: Draft, allocation: str, device: str) -> None:
    """Whoever is shown this allocation is shown another device in it."""
    shown = [row for each in draft.done() for row in (each.document.get("items") or [])]
    shown += [each.document for each in draft.done() if "allocations" in each.document]
    for row in [*shown, *draft.final.reservations.values()]:
        for part in row.get("allocations", []):
            if part["id"] == allocation:
                part["deviceIds"][0] = device


@spoils(Kind.NOT_AS_ASKED)
def _gives_too_little(draft: Draft) -> None:
    placed = draft.pick(
        each
        for each in draft.done("create", "get")
        if each.acknowledged and each.document["state"] in LIVE
    )
    shown = deepcopy(dict(placed.document))
    shown["allocations"][0]["deviceIds"].pop()
    draft.answer(placed, placed.status or 0, shown)


@spoils(Kind.UNBOOKED)
def _forgets_a_booking(draft: Draft) -> None:
    held = {
        part["id"]
        for row in draft.final.reservations.values()
        if row["state"] in LIVE
        for part in row["allocations"]
    }
    assert draft.final.bookings is not None
    gone = draft.pick(row for row in draft.final.bookings if row["allocation"] in held)
    kept = tuple(row for row in draft.final.bookings if row is not gone)
    draft.final = replace(draft.final, bookings=kept)


@spoils(Kind.DOUBLE_BOOKING)
def _books_twice(draft: Draft) -> None:
    assert draft.final.bookings is not None
    rival = {**draft.pick(draft.final.bookings), "allocation": "alloc-rival"}
    draft.final = replace(draft.final, bookings=(*draft.final.bookings, rival))


# --- quota and lists ------------------------------------------------------------------------------


@spoils(Kind.OVER_QUOTA)
def _charges_too_much(draft: Draft) -> None:
    seen = draft.pick(draft.acknowledged("pending", *LIVE, in_the_end=("pending", *LIVE)))
    line = seen.document["request"]["devices"][0]
    _set_limits(draft, line["count"] * 1_000 - 1)


@spoils(Kind.QUOTA_LEAKED)
def _does_not_refund(draft: Draft) -> None:
    draft.pick(each for each in draft.done("create") if each.code == "QUOTA_EXCEEDED")
    _set_limits(draft, 10**9)


def _set_limits(draft: Draft, limit: int) -> None:
    for each in draft.done("quotas"):
        each.document["items"][0]["max"] = limit
    limits = {tenant: {"gpuMilli": limit} for tenant in draft.final.tenants}
    draft.final = replace(draft.final, limits=limits)


@spoils(Kind.LIST_LACKS)
def _skips_one(draft: Draft) -> None:
    page, gone = draft.pick(
        (page, item)
        for page in draft.done("list", status=200)
        for item in page.document["items"]
        for made in draft.done("create", status=201)
        if "state" not in page.call.asked
        and item["id"] == made.document["id"]
        and made.completed < page.invoked
        and page.document["nextCursor"] != item["id"]
        and any(e.call.caller == page.call.caller and e.acknowledged for e in draft.done("create"))
    )
    page.document["items"].remove(gone)


@spoils(Kind.LIST_WRONG)
def _turns_a_page_round(draft: Draft) -> None:
    page = draft.pick(each for each in draft.done("list", status=200) if each.document["items"])
    items = page.document["items"]
    if draft.rng.random() < 0.5:
        items.append(items[0])
    else:
        items.append({**items[0], "id": "rsv-newer", "createdAt": items[0]["createdAt"] + 1})
