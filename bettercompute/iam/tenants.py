"""Tenants: who owns pools and reservations."""

from bettercompute.iam.models import Tenant


def create(*, slug: str, name: str) -> Tenant:
    """A new tenant."""
    return Tenant.objects.create(slug=slug, name=name)
