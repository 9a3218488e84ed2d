"""Idempotency keys: the same key always reaches the same reservation, and only for one body.

Bodies are compared as JSON: the load sends either the same body again or one that means something
else.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from tests.support.history.anomalies import Anomaly, Kind
from tests.support.history.evidence import Evidence
from tests.support.history.recording import Operation

#: A refused create leaves nothing behind but its draft, denied or expired.
LEFT_BY_REFUSED = frozenset({"denied", "expired"})
#: No standing of the caller, which may have changed meanwhile.
OF_STANDING = frozenset({401, 403})


def check(evidence: Evidence) -> Iterator[Anomaly]:
    """Anomalies of all keys."""
    for key, creates in evidence.creates.items():
        name = "/".join(key)
        yield from _one_reservation(name, creates)
        yield from _one_body(name, creates)
        yield from _conflicts(name, creates)
    yield from _keys_share(evidence)
    yield from _final(evidence)


def _one_reservation(name: str, creates: list[Operation]) -> Iterator[Anomaly]:
    done = [each for each in creates if each.acknowledged and "id" in each.document]
    reached = sorted({each.document["id"] for each in done})
    if len(reached) > 1:
        yield Anomaly(Kind.KEY_MADE_TWO, name, f"reached {', '.join(reached)}", _ids(done))
    first = [each for each in done if each.status == 201]
    if len(first) > 1:
        yield Anomaly(Kind.CREATED_TWICE, name, "201 was answered more than once", _ids(first))


def _one_body(name: str, creates: list[Operation]) -> Iterator[Anomaly]:
    done = [each for each in creates if each.acknowledged]
    bodies = {canonical(each.call.asked) for each in done}
    if len(bodies) > 1:
        yield Anomaly(
            Kind.OTHER_BODY_ACCEPTED, name, "two different bodies were accepted", _ids(done)
        )
        return
    for each in creates:
        before = [first for first in done if first.completed < each.invoked]
        if not before or not each.refused or each.status in OF_STANDING:
            continue
        if canonical(each.call.asked) in bodies:
            message = f"acknowledged before, then {each.status} {each.code}"
            yield Anomaly(Kind.REPLAY_REFUSED, name, message, (before[0].id, each.id))
        elif each.code != "CONFLICT":
            message = f"another body is {each.status} {each.code}, and no CONFLICT"
            yield Anomaly(Kind.OTHER_BODY_ACCEPTED, name, message, (before[0].id, each.id))


def _conflicts(name: str, creates: list[Operation]) -> Iterator[Anomaly]:
    """A conflict says that another body came first: there must be one, and no other id."""
    done = [each for each in creates if each.acknowledged]
    reached = {each.document.get("id") for each in done}
    sent = {canonical(each.call.asked) for each in creates}
    for each in creates:
        named = (each.document.get("details") or {}).get("reservationId")
        if each.code != "CONFLICT" or named is None:
            continue
        if reached and named not in reached:
            yield Anomaly(Kind.CONFLICT_NAMES_ANOTHER, name, f"names {named}", (each.id,))
        accepted = {canonical(other.call.asked) for other in done}
        if canonical(each.call.asked) in accepted or len(sent) == 1:
            yield Anomaly(Kind.REPLAY_REFUSED, name, "conflicts with itself", (each.id,))


def _keys_share(evidence: Evidence) -> Iterator[Anomaly]:
    keys: dict[str, set[str]] = defaultdict(set)
    for key, creates in evidence.creates.items():
        for each in creates:
            if each.acknowledged and "id" in each.document:
                keys[each.document["id"]].add("/".join(key))
    for reservation, names in keys.items():
        if len(names) > 1:
            yield Anomaly(Kind.KEYS_SHARE_ONE, reservation, f"is reached by {sorted(names)}")


def _final(evidence: Evidence) -> Iterator[Anomaly]:
    if evidence.final is None:
        return
    made: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for shown in evidence.final.reservations.values():
        by = (shown["tenantId"], shown["ownerIdentityId"], shown["idempotencyKey"])
        made[by].append(shown["id"])
    for by, ids in made.items():
        if len(ids) > 1:
            yield Anomaly(Kind.KEY_MADE_TWO, "/".join(by), f"in the end there are {sorted(ids)}")
    yield from _ghosts(evidence, made)


def _ghosts(
    evidence: Evidence, made: Mapping[tuple[str, str, str], list[str]]
) -> Iterator[Anomaly]:
    """Every try of a key was refused for good, and yet there is something."""
    assert evidence.final is not None
    for (tenant, caller, key), creates in evidence.creates.items():
        identity = evidence.identities.get(caller)
        if identity is None or not all(each.refused or each.status == 429 for each in creates):
            continue
        for reservation in made.get((tenant, identity, key), []):
            state = evidence.final.reservations[reservation]["state"]
            if state not in LEFT_BY_REFUSED:
                message = f"every create was refused, and {reservation} is {state}"
                yield Anomaly(Kind.GHOST, key, message, _ids(creates))


def canonical(body: Mapping[str, Any]) -> str:
    """A body as text, without what does not belong to the request."""
    kept = {name: value for name, value in body.items() if name not in {"wait", "idempotencyKey"}}
    return json.dumps(kept, sort_keys=True)


def _ids(operations: list[Operation]) -> tuple[int, ...]:
    return tuple(each.id for each in operations)
