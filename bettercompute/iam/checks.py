"""What must hold of iam on a live database (C39)."""

from collections.abc import Callable

from bettercompute import sql
from bettercompute.findings import Finding
from bettercompute.iam import cedar
from bettercompute.iam.models import Policy

CHECKS = sql.load(__package__, "checks")


def policies_compile() -> list[Finding]:
    """Every enabled policy still fits the schema of this release; one that does not denies nothing
    and permits nothing, or fails every decision of its tenant."""
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


ALL: tuple[Callable[[], list[Finding]], ...] = (policies_compile, projection_follows_feed)
