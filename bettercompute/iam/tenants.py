"""Tenants: who owns pools and reservations."""

from django.db import transaction

from bettercompute.acts import Thing
from bettercompute.audit import entries
from bettercompute.errors import NotFound, PreconditionFailed
from bettercompute.iam.models import Tenant


def create(*, slug: str, name: str) -> Tenant:
    """A new tenant."""
    with transaction.atomic():
        tenant = Tenant.objects.create(slug=slug, name=name)
        about = Thing("tenant", tenant.pk)
        entries.record("iam:tenants:create", about, tenant_id=tenant.pk, slug=slug, name=name)
    return tenant


def rename(tenant_id: str, *, name: str, if_match: frozenset[int] | None = None) -> None:
    """Call a tenant something else; its slug, which others refer to, stays.

    Raises:
        NotFound: there is no such tenant.
        PreconditionFailed: its version is not one of ``if_match``.
    """
    with transaction.atomic():
        tenant = Tenant.objects.select_for_update(no_key=True).filter(pk=tenant_id).first()
        if tenant is None:
            raise NotFound(f"There is no tenant {tenant_id}.")
        if if_match is not None and tenant.version not in if_match:
            raise PreconditionFailed(version=tenant.version)
        before = tenant.name
        tenant.name, tenant.version = name, tenant.version + 1
        tenant.save(update_fields=["name", "version"])
        about = Thing("tenant", tenant_id)
        entries.record("iam:tenants:rename", about, tenant_id=tenant_id, before=before, after=name)
