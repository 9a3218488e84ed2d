"""Quota: never above the limit, and what was given back can be had again.

Both compare what is sure with the limit. *Surely charged* is a reservation between two instants at
which it was shown pending, placed, binding or active (by the rule of ``check_holders``: from the
earliest completion to the latest invocation). *Possibly charged* is it from the first time somebody
may have made it until somebody was told that it is over. Only a limit that never changed is judged.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from tests.support.history import model
from tests.support.history.anomalies import Anomaly, Kind
from tests.support.history.evidence import Evidence, Observation
from tests.support.history.recording import NEVER, Operation, operations_of

GPU_MILLI = "gpuMilli"

Limits = dict[tuple[str, str], int]
_Key = tuple[str, ...]


def check(evidence: Evidence) -> Iterator[Anomaly]:
    """Anomalies of all quotas."""
    limits = unchanged_limits(evidence)
    for (tenant, resource), limit in limits.items():
        if resource == GPU_MILLI:
            yield from _over(evidence, tenant, limit)
            yield from _leaked(evidence, tenant, limit)
    for operation in operations_of(evidence.history, "quotas"):
        for row in _rows(operation):
            limit = limits.get((operation.call.tenant, row["resource"]), row["used"])
            if row["used"] > limit:
                message = f"{row['used']} of {limit} {row['resource']} are in use"
                yield Anomaly(Kind.OVER_QUOTA, operation.call.tenant, message, (operation.id,))


def unchanged_limits(evidence: Evidence) -> Limits:
    """The limits that everybody was told the same of."""
    told: dict[tuple[str, str], set[int]] = defaultdict(set)
    for operation in operations_of(evidence.history, "quotas"):
        for row in _rows(operation):
            told[operation.call.tenant, row["resource"]].add(row["max"])
    for tenant, limits in (evidence.final.limits if evidence.final else {}).items():
        for resource, limit in limits.items():
            told[tenant, resource].add(limit)
    return {key: next(iter(limits)) for key, limits in told.items() if len(limits) == 1}


def _rows(operation: Operation) -> list[dict[str, Any]]:
    """The tenant's own quotas: those of one pool count only a part."""
    rows: list[dict[str, Any]] = operation.document.get("items", [])
    own = [row for row in rows if row.get("scope", "tenant") == "tenant"]
    return own if operation.acknowledged else []


def _over(evidence: Evidence, tenant: str, limit: int) -> Iterator[Anomaly]:
    """The most that was surely charged at one instant."""
    changes: list[tuple[float, int, str]] = []
    for key, seen in evidence.observations.items():
        charged = [each for each in seen if each.state in model.CHARGED]
        if not charged or charged[0].shown["tenantId"] != tenant:
            continue
        begin = min(each.completed for each in charged)
        end = max(each.invoked for each in charged)
        amount = model.milli_asked(charged[0].shown["request"])
        if begin < end:
            changes += [(begin, amount, key), (end, -amount, key)]
    held = 0
    holders: set[str] = set()
    for _, amount, key in sorted(changes):
        held += amount
        holders ^= {key}
        if held > limit:
            message = f"{held} of {limit} {GPU_MILLI} by {', '.join(sorted(holders))}"
            yield Anomaly(Kind.OVER_QUOTA, tenant, message)
            return


def _leaked(evidence: Evidence, tenant: str, limit: int) -> Iterator[Anomaly]:
    """A create was refused although it fits whatever else may have been charged."""
    if evidence.final is None or not evidence.final.closed:
        return
    spans = _possible(evidence, tenant)
    if spans is None:
        return
    for operation in operations_of(evidence.history, "create"):
        if operation.code != "QUOTA_EXCEEDED" or operation.call.tenant != tenant:
            continue
        details = operation.document.get("details") or {}
        asked = model.gpus_asked(operation.call.asked)
        if details.get("resource") != GPU_MILLI or asked is None:
            continue
        most = sum(
            amount
            for key, begin, end, amount in spans
            if key != _key(operation) and begin <= operation.completed and end >= operation.invoked
        )
        if most + asked * 1_000 <= limit:
            message = f"{asked * 1_000} was refused; at most {most} of {limit} were charged"
            yield Anomaly(Kind.QUOTA_LEAKED, tenant, message, (operation.id,))


def _possible(evidence: Evidence, tenant: str) -> list[tuple[_Key, float, float, int]] | None:
    """Key, begin, end and amount of all that may have been charged; None where that is open."""
    spans: list[tuple[_Key, float, float, int]] = []
    for key, creates in evidence.creates.items():
        tries = [each for each in creates if each.acknowledged or each.unknown]
        if key[0] != tenant or not tries:
            continue
        amounts = [model.gpus_asked(each.call.asked) for each in tries]
        if None in amounts:
            return None
        reached = {each.document["id"] for each in tries if each.acknowledged}
        over = [each for each in _seen(evidence, reached) if each.state in model.TERMINAL]
        end = min((each.completed for each in over), default=NEVER)
        begin = min(each.invoked for each in tries)
        spans.append((key, begin, end, max(a for a in amounts if a is not None) * 1_000))
    return spans if _explained(evidence, tenant) else None


def _explained(evidence: Evidence, tenant: str) -> bool:
    """Whether every reservation of the tenant comes from a create of this history."""
    keys = {key for of, _, key in evidence.creates if of == tenant}
    return all(
        seen[0].shown["idempotencyKey"] in keys
        for seen in evidence.observations.values()
        if seen[0].shown["tenantId"] == tenant
    )


def _key(operation: Operation) -> _Key:
    return operation.call.tenant, operation.call.caller, operation.call.key or ""


def _seen(evidence: Evidence, keys: set[str]) -> Iterator[Observation]:
    for key in keys:
        yield from evidence.observations.get(key, [])
