"""Operators' registers of pools: what is supplied, to whom, up to which limits."""

import json
from typing import Any

from django import forms
from django.contrib import admin

from bettercompute import errors
from bettercompute.operators.editing import EditedAdmin, ReasonedForm
from bettercompute.operators.registers import ReadOnlyAdmin, ReadOnlyTable, one_of
from pools import catalogue, quota
from pools.models import Offer, Pool, QuotaCharge, QuotaUsage


class OffersOfPool(ReadOnlyTable):
    """To whom a pool is offered."""

    model = Offer
    columns = ("id", "tenant", "resources", "created_at")
    show_change_link = True

    def get_queryset(self, request: Any) -> Any:
        """With their tenants."""
        return super().get_queryset(request).select_related("tenant")


class PoolForm(ReasonedForm):
    """A pool's policy must be one."""

    def clean_policy(self) -> dict[str, Any]:
        """Says each thing that is wrong with it."""
        policy = self.cleaned_data["policy"] or {}
        try:
            catalogue.parse_policy(json.dumps(policy))
        except errors.InvalidInput as error:
            raise forms.ValidationError(error.message) from error
        return dict(policy)


@admin.register(Pool)
class PoolAdmin(EditedAdmin):
    """Their policy can be changed, and binds from the next request on."""

    form = PoolForm
    list_display = ("name", "tenant", "region", "placer", "id", "created_at")
    list_select_related = ("tenant",)
    search_fields = ("id__exact", "name__exact")
    search_help_text = "Exact id or name"
    ordering = ("name", "id")
    inlines = (OffersOfPool,)
    on_add = ("tenant", "name", "region", "policy")
    on_change = ("region", "policy")
    optional = frozenset({"region", "policy"})

    def add_row(self, account: Any, values: dict[str, Any]) -> Pool:
        """A new pool."""
        return catalogue.create_pool(
            values["tenant"], name=values["name"], region=values["region"], policy=values["policy"]
        )

    def change_row(self, account: Any, row: Any, values: dict[str, Any]) -> None:
        """Other terms."""
        catalogue.change_pool(
            row.pk,
            region=values["region"],
            policy=values["policy"],
            if_match=values["if_match"],
        )


@admin.register(Offer)
class OfferAdmin(EditedAdmin):
    """Offers of pools to other tenants."""

    list_display = ("id", "pool", "tenant", "resources", "created_at")
    list_select_related = ("pool", "tenant")
    search_fields = ("id__exact", "pool__id__exact", "tenant__slug__exact")
    search_help_text = "Exact id, id of the pool, or slug of the tenant"
    ordering = ("pool", "tenant")
    on_add = ("pool", "tenant", "resources")
    on_change = ("resources",)
    optional = frozenset({"resources"})

    def add_row(self, account: Any, values: dict[str, Any]) -> Offer:
        """A new offer."""
        return catalogue.offer(values["pool"], values["tenant"], resources=values["resources"])

    def change_row(self, account: Any, row: Any, values: dict[str, Any]) -> None:
        """Other terms."""
        catalogue.offer(
            row.pool, row.tenant, resources=values["resources"], if_match=values["if_match"]
        )


class QuotaForm(ReasonedForm):
    """A quota is of a resource that there is."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "resource" in self.fields:
            self.fields["resource"] = forms.ChoiceField(
                choices=[(name, name) for name in quota.RESOURCES],
                help_text="gpuMilli: thousandths of a GPU",
            )


@admin.register(QuotaUsage)
class QuotaAdmin(EditedAdmin):
    """What each tenant holds of a resource and may hold."""

    form = QuotaForm
    list_display = ("tenant", "resource", "used", "max")
    list_display_links = ("resource",)
    list_select_related = ("tenant",)
    list_filter = (one_of("resource", quota.RESOURCES),)
    search_fields = ("tenant__slug__exact", "tenant__id__exact")
    search_help_text = "Exact id or slug of a tenant"
    ordering = ("tenant", "resource")
    on_add = ("tenant", "resource", "max")
    on_change = ("max",)
    guarded = False  # its version moves with every charge, which changes no limit

    def add_row(self, account: Any, values: dict[str, Any]) -> QuotaUsage:
        """A first limit."""
        quota.set_max(values["tenant"].pk, values["resource"], values["max"])
        return QuotaUsage.objects.get(tenant=values["tenant"], resource=values["resource"])

    def change_row(self, account: Any, row: Any, values: dict[str, Any]) -> None:
        """Another limit; below what is held it admits nothing new."""
        quota.set_max(row.tenant_id, row.resource, values["max"])


@admin.register(QuotaCharge)
class QuotaChargeAdmin(ReadOnlyAdmin):
    """What each reservation is charged; a tenant's use is their sum."""

    list_display = ("id", "owner_key", "tenant", "resource", "amount")
    list_select_related = ("tenant",)
    list_filter = (one_of("resource", quota.RESOURCES),)
    links = {"owner_key": "reservations.reservation"}
    search_fields = ("owner_key__exact",)
    search_help_text = "Exact id of the reservation"
    ordering = ("-id",)
    long = True
