"""Tenants: who owns pools and reservations."""

from django.db import models

from bettercompute.iam.models import Tenant


def create(*, slug: str, name: str) -> Tenant:
    """A new tenant."""
    return Tenant.objects.create(slug=slug, name=name)


def rename(tenant_id: str, *, name: str) -> None:
    """Call a tenant something else; its slug, which others refer to, stays."""
    Tenant.objects.filter(pk=tenant_id).update(name=name, version=models.F("version") + 1)
