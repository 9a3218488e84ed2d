"""Entries: written with the change that they tell of, or alone where nothing was changed.

There are three ways in, and each reads the present act (``bettercompute.acts``):

- ``outbox.events`` writes one with the events of a transaction, in the same statement: whatever
  publishes an event is audited without a word of its own, at no statement more.
- ``record`` is called by use cases that publish none.
- ``conclude`` writes how an act ended that was refused; the door calls it when all is rolled back.

The first two are in the transaction of the change: one is not there without the other.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from django.db import connection, transaction

from bettercompute import acts, clock, sql
from bettercompute.acts import Act, Actor, Thing
from bettercompute.audit import bounds, keys, repeats
from bettercompute.audit.outcomes import Outcome

ENTRIES = sql.load(__package__, "entries")
NONE = "[]"

ACTION_MAX = 120
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Refusals that say who may not do what; of those who are not known, see ``conclude``.
_DENIALS = {"ACCESS_DENIED", "CONFIRMATION_REQUIRED", "UNAUTHENTICATED"}
#: What kept a change from happening. What could not be read as a request was none.
_FAILURES = {
    "NOT_FOUND",
    "CONFLICT",
    "INVALID_STATE",
    "QUOTA_EXCEEDED",
    "BUDGET_EXCEEDED",
    "PRECONDITION_FAILED",
    "UNSUPPORTED",
    "UNAVAILABLE",
    "INTERNAL",
}


@dataclass(frozen=True, slots=True)
class Told:
    """What an event says of a change, as far as the audit wants it."""

    type: str
    tenant_id: str
    about: Thing


@dataclass(frozen=True, slots=True)
class Said:
    """One entry about to be written."""

    action: str
    about: Thing
    tenant_id: str
    outcome: Outcome = Outcome.ALLOWED
    code: str = ""
    policies: tuple[str, ...] = ()
    detail: Mapping[str, Any] = field(default_factory=dict)


def record(action: str, about: Thing, *, tenant_id: str | None = None, **detail: Any) -> None:
    """Write who did this, in the transaction that does it; work of our own is nobody's act.

    ``tenant_id`` is whose matter it is; without one, of whoever acts. ``detail`` is kept short and
    without secrets, whatever it has.
    """
    act = acts.current()
    if act is None:
        return
    assert connection.in_atomic_block, "an entry without the change's transaction proves nothing"
    _write([_row(act, _done(act, action, about, tenant_id, detail))])


def of_events(told: Iterable[Told]) -> str:
    """The entry of a transaction that publishes these, as ``outbox.events`` writes it.

    It is about what was decided on, where that is among them: what others lost by it is in their
    events. Else there is one for each thing that they are about.
    """
    act = acts.current()
    if act is None:
        return NONE
    things: dict[Thing, list[Told]] = {}
    for each in told:
        things.setdefault(each.about, []).append(each)
    decided_on = [about for about in things if about.id == act.subject.id]
    rows = [_row(act, _changed(act, things[about])) for about in decided_on or things]
    return json.dumps(rows)


def conclude(act: Act) -> None:
    """Write what was refused, once nothing else is under way.

    Of those whom nobody knows, only sign-ins and tokens that were refused are kept, and of the same
    again and again one a minute: whoever may call without an account must not fill the disk.
    """
    for each in [*act.parts, act]:
        said = _refusal(each, deliberate=each is not act)
        if said is None:
            continue
        if not each.actor.account_id:
            repeated = repeats.REFUSALS.count(each.origin.address, said.action, said.about.id)
            if repeated is None:
                continue
            said = _repeated(said, repeated)
        with transaction.atomic():
            _write([_row(each, said)])


def canonical(values: Mapping[str, Any]) -> bytes:
    """What an entry's seal is made of: every value, in one spelling."""
    told = {name: value for name, value in values.items() if name not in {"mac", "seq"}}
    told["at"] = _microseconds(told["at"])
    return json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def _done(
    act: Act, action: str, about: Thing, tenant_id: str | None, detail: Mapping[str, Any]
) -> Said:
    return Said(
        action=action,
        about=about,
        tenant_id=act.actor.tenant_id if tenant_id is None else tenant_id,
        policies=() if act.decided is None else act.decided.policies,
        detail={**act.detail, **detail},
    )


def _changed(act: Act, told: list[Told]) -> Said:
    types = list(dict.fromkeys(each.type for each in told))
    first = told[0]
    return _done(act, act.name, first.about, first.tenant_id, {"events": types})


def _refusal(act: Act, *, deliberate: bool) -> Said | None:
    """What is told of it; of what an operator gave a reason for, whatever it was refused for."""
    error = act.refusal
    if error is None:
        return None
    known = bool(act.actor.account_id) or act.about.kind in {"token", "account"}
    denied = error.code in _DENIALS
    failed = deliberate or (act.origin.changes and error.code in _FAILURES)
    if not known or not (denied or failed):
        return None
    decision = error.details.get("decision") or {}
    return Said(
        action=act.name,
        about=act.subject,
        tenant_id=act.actor.tenant_id,
        outcome=Outcome.DENIED if denied else Outcome.FAILED,
        code=error.code,
        policies=tuple(decision.get("policies", ())),
        detail={**act.detail, "message": error.message},
    )


def _repeated(said: Said, times: int) -> Said:
    return replace(said, detail={**said.detail, "repeatedBefore": times}) if times else said


def _row(act: Act, said: Said) -> dict[str, Any]:
    key_id, key = keys.newest()
    at = clock.now()
    who, where = act.actor, act.origin
    name = (said.action, said.about.kind, said.about.id, said.outcome)
    values: dict[str, Any] = {
        "id": act.entry_id(*name),
        "at": at,
        "tenant_id": said.tenant_id,
        "account_id": who.account_id,
        "username": bounds.text(who.username),
        "operator": who.operator,
        "role": who.role,
        "via": who.via,
        "token_id": who.token_id,
        "token_name": bounds.text(who.token_name),
        "address": where.address,
        "user_agent": bounds.text(where.user_agent),
        "request_id": where.request_id,
        "action": bounds.text(said.action, ACTION_MAX),
        "object_kind": bounds.text(said.about.kind),
        "object_id": bounds.text(said.about.id),
        "outcome": said.outcome.value,
        "code": said.code,
        "policies": [bounds.text(each) for each in said.policies[: bounds.ITEMS_MAX]],
        "detail": bounds.document(_detail(who, said)),
        "key_id": key_id,
    }
    sealed = keys.mac(key, canonical(values))
    return {**values, "at": at.isoformat(), "mac": f"\\x{sealed.hex()}"}


def _detail(who: Actor, said: Said) -> dict[str, Any]:
    """What is said, and which agent acted where one did: the account is its person's."""
    return {**said.detail, "agent": who.agent} if who.agent else dict(said.detail)


def _write(rows: list[dict[str, Any]]) -> None:
    ENTRIES.run("record", entries=json.dumps(rows))


def _microseconds(instant: datetime) -> int:
    since = instant - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
