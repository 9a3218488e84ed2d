"""What must hold of iam on a live database (C39)."""

from bettercompute import findings, sql
from bettercompute.findings import Check, Finding
from bettercompute.iam import cedar
from bettercompute.iam.models import Policy

CHECKS = sql.load(__package__, "checks")


@findings.check("iam.policies")
def policies_compile() -> list[Finding]:
    """Every enabled policy fits the schema of this release (R38).

    One that does not denies nothing and permits nothing, or fails every decision of its tenant.
    """
    found = []
    for policy in Policy.objects.filter(enabled=True).order_by("id").iterator():
        try:
            cedar.check(policy.text)
        except cedar.InvalidPolicy as error:
            found.append(
                Finding(
                    "iam.policies",
                    f"Policy {policy.name} ({policy.pk}) is no longer valid: {error}.",
                    "Correct its text by PUT /api/v1/policies/{id}, or disable it.",
                )
            )
    return found


@findings.check("iam.projection", invariant=True)
def projection_follows_feed() -> list[Finding]:
    """The projection of each resource is the last entry of the feed about it (R10, C23)."""
    return [
        Finding(
            "iam.projection",
            f"What is projected of {resource} is not what the feed said last.",
            "An outside policy engine must read the whole projection again.",
        )
        for (resource,) in CHECKS.all("projected_beside_the_feed")
    ]


ALL: tuple[Check, ...] = (policies_compile, projection_follows_feed)
