"""``decide``: may this caller do this, with all that is asked for as attributes (R10, R38).

The shipped policies of each role, the platform's and the tenant's policies are one compiled set,
kept in memory per fingerprint (every policy's id and version). The fingerprint is read with the
caller's authentication, so a decision usually costs no query at all, and is never older than the
request it belongs to.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import structlog

from bettercompute import acts
from bettercompute.acts import Thing
from bettercompute.errors import AccessDenied, Unavailable
from bettercompute.iam import cedar, explain, policies
from bettercompute.iam.callers import Caller
from bettercompute.telemetry import metrics, tracing

log = structlog.get_logger(__name__)

_SHORT_MODEL = re.compile(r"\b(?:MI|[A-Z]{1,2})\d{2,4}[A-Z]{0,2}\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """What is asked for, as a policy sees it (R38). Sums over the whole request.

    ``models`` are the models as reported; each counts by its short name too ("H100").
    ``tenant``, ``owner`` and ``shared_with`` are the resource's; absent, the first two are the
    caller's own. ``users`` is how many it is shared with.
    """

    gpus: int = 0
    gpu_milli: int = 0
    classes: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    region: str = ""
    duration_minutes: int = 0
    lead_minutes: int = 0
    ahead_minutes: int = 0
    vcpu: int = 0
    memory_gib: int = 0
    spot: bool = False
    binding: str = ""
    nodes: int = 0
    priority: int = 0
    held_gpus: int = 0
    held_reservations: int = 0
    pool: str = ""
    users: int = 0
    shared_with: tuple[str, ...] = ()
    tenant: str | None = None
    owner: str | None = None


class PolicyFailed(Unavailable):
    """A policy fails on this request, so nothing can be decided; ask an admin of your tenant."""


NOTHING_ASKED = Attributes()
MUST_CONFIRM = "The person has to confirm this first."
_HELD = ("held_gpus", "held_reservations")


@dataclass(frozen=True, slots=True)
class Decision:
    """What the policies say, which of them decided, and for a denial why in plain words.

    ``confirm``: an agent asks for what its person may do, and wants to be asked about first (R36).
    """

    effect: Literal["allow", "deny", "confirm"]
    policies: tuple[str, ...]
    message: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def allowed(self) -> bool:
        """Whether the caller may go on."""
        return self.effect == "allow"

    def confirmed(self) -> "Decision":
        """The same once a person has confirmed it."""
        return replace(self, effect="allow", message="")

    def require(self) -> None:
        """Raise AccessDenied unless allowed; one that is to be confirmed is not."""
        if not self.allowed:
            raise AccessDenied(self.message, **self.details)


def decide(
    caller: Caller,
    action: str,
    *,
    resource_id: str,
    attributes: Attributes = NOTHING_ASKED,
) -> Decision:
    """Judge one action on one resource.

    What a delegation holds for confirmation is judged as the person's own: where they may do it,
    they are asked, whatever the policies say of agents; where not, no confirmation can help.

    Raises:
        Unavailable: the engine failed. Nothing was decided; the same key may try again.
    """
    compiled = policies.compiled(caller.tenant_id, caller.fingerprint)
    with tracing.span("decide", attributes={"better_compute.action": action}) as span:
        held = caller.holds(action)
        acting = replace(caller, delegation=None) if held else caller
        decision = judge(compiled, acting, action, resource_id=resource_id, attributes=attributes)
        if held and decision.allowed:
            decision = replace(decision, effect="confirm", message=MUST_CONFIRM)
        span.set("better_compute.effect", decision.effect)
    metrics.DECISIONS.labels(decision.effect).inc()
    kind = cedar.resource_type(action).lower()
    acts.decided(action, Thing(kind, resource_id), policies=decision.policies)
    return decision


def judge(
    compiled: cedar.CompiledSet,
    caller: Caller,
    action: str,
    *,
    resource_id: str,
    attributes: Attributes,
) -> Decision:
    """The same against a given set of policies: a dry run gives one that is not saved."""
    assert action in cedar.actions(), f"{action} is not in the schema"
    principal = cedar.Entity(
        "Account",
        caller.account_id,
        {"role": caller.role, "tenant": caller.tenant_id, "operator": caller.is_operator},
    )
    resource = _resource(caller, action, resource_id, attributes)
    known = context(caller, attributes)
    try:
        verdict = cedar.evaluate(
            compiled, principal=principal, action=action, resource=resource, context=known
        )
    except cedar.EvaluationFailed as error:
        log.exception(
            "policy engine failed",
            action=action,
            resource=resource_id,
            tenant=caller.tenant_id,
            policies=error.policies,
        )
        if error.policies:
            raise _failure(caller, error) from error
        raise Unavailable("The policy engine cannot decide right now; try again.") from error
    if verdict.allowed:
        return Decision("allow", verdict.reasons)
    variables = {
        "context": known,
        "principal": principal.attributes,
        "resource": resource.attributes,
    }
    return _denial(compiled, action, verdict, variables)


def _failure(caller: Caller, error: cedar.EvaluationFailed) -> PolicyFailed:
    """What to do about it is told to whoever may change policies, by name and id."""
    if caller.role != "admin":
        return PolicyFailed()
    named = policies.named(caller, error.policies)
    listed = ", ".join(f"{policy.name} ({policy.pk})" for policy in named) or "of the platform"
    return PolicyFailed(
        f"The policy {listed} fails on this request, so nothing can be decided: {error}."
        " Change or disable it.",
        policies=list(error.policies),
        policyIds=[policy.pk for policy in named],
    )


def weigh_holdings(caller: Caller) -> bool:
    """Whether a policy that binds the caller's tenant speaks of what somebody holds.

    To find that out costs a query, so who decides asks only then.
    """
    return weighs_holdings(policies.compiled(caller.tenant_id, caller.fingerprint))


def weighs_holdings(compiled: cedar.CompiledSet) -> bool:
    """The same of a given set of policies."""
    return not compiled.attributes.isdisjoint({"heldGpus", "heldReservations"})


def lasting(attributes: Attributes) -> dict[str, Any]:
    """Those that are of the resource itself: what somebody holds beside it changes without it."""
    return {name: value for name, value in asdict(attributes).items() if name not in _HELD}


def short_models(models: tuple[str, ...]) -> list[str]:
    """Model names as reported and in short, sorted: ``NVIDIA H100 80GB HBM3`` and ``H100``."""
    names = set(models)
    for model in models:
        names.update(_SHORT_MODEL.findall(model.upper()))
    return sorted(names)


def _resource(
    caller: Caller, action: str, resource_id: str, attributes: Attributes
) -> cedar.Entity:
    subject = action.split(":")[1]
    tenant = attributes.tenant or caller.tenant_id
    known: dict[str, Any] = {"tenant": tenant}
    if subject in {"reservations", "webhooks"}:
        owner = attributes.owner or caller.account_id
        known["owner"] = cedar.reference("Account", owner)
    if subject == "reservations":
        known["users"] = [cedar.reference("Account", user) for user in attributes.shared_with]
    return cedar.Entity(cedar.resource_type(action), resource_id, known)


def context(caller: Caller, attributes: Attributes) -> dict[str, Any]:
    """What is asked for in the words of the policies: ``context`` of the schema."""
    return {
        "gpus": attributes.gpus,
        "gpuMilli": attributes.gpu_milli,
        "classes": sorted(set(attributes.classes)),
        "models": short_models(attributes.models),
        "region": attributes.region,
        "durationMinutes": attributes.duration_minutes,
        "leadMinutes": attributes.lead_minutes,
        "aheadMinutes": attributes.ahead_minutes,
        "vcpu": attributes.vcpu,
        "memoryGiB": attributes.memory_gib,
        "spot": attributes.spot,
        "binding": attributes.binding,
        "nodes": attributes.nodes,
        "priority": attributes.priority,
        "heldGpus": attributes.held_gpus,
        "heldReservations": attributes.held_reservations,
        "tenant": caller.tenant_id,
        "pool": attributes.pool,
        "users": attributes.users,
        "role": caller.role,
        "delegated": caller.delegation is not None,
    }


def _denial(
    compiled: cedar.CompiledSet,
    action: str,
    verdict: cedar.Verdict,
    variables: Mapping[str, Any],
) -> Decision:
    if not verdict.reasons:
        return _default_denial(compiled, action)
    messages: list[str] = []
    limits: list[dict[str, Any]] = []
    for name in verdict.reasons:
        policy = compiled.documents[name]
        bounds = explain.broken_bounds(policy, variables)
        limits += [bound.as_json() | {"policy": name} for bound in bounds]
        own = policy.get("annotations", {}).get("message")
        said = own or "; ".join(map(str, bounds)) or "it forbids this"
        messages.append(f"Policy {name} denies this: {said.rstrip('.')}.")
    details: dict[str, Any] = {"decision": {"policies": list(verdict.reasons)}}
    if limits:
        details["limits"] = limits
    return Decision("deny", verdict.reasons, " ".join(messages), details)


def _default_denial(compiled: cedar.CompiledSet, action: str) -> Decision:
    """No policy allows it: say what the policies for this action would have asked for."""
    wanted = [
        policy["annotations"]["otherwise"]
        for policy in compiled.documents.values()
        if "otherwise" in policy.get("annotations", {}) and _speaks_of(policy, action)
    ]
    message = " ".join(dict.fromkeys(wanted)) or f"No policy allows {action} here."
    return Decision("deny", (), message, {"decision": {"policies": []}})


def _speaks_of(policy: cedar.Json, action: str) -> bool:
    scope = policy["action"]
    named = scope.get("entities") or [scope.get("entity") or {"id": ""}]
    group = action.rpartition(":")[0] + ":*"
    return any(entity["id"] in {action, group} for entity in named)
