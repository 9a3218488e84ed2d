"""Operators' registers of pools: what is supplied, to whom, up to which limits."""

import json
from collections.abc import Mapping
from typing import Any

from django import forms
from django.contrib import admin

from bettercompute import errors
from bettercompute.operators.editing import EditedAdmin, ReasonedForm
from bettercompute.operators.operations import Effect, Operation, Outcome
from bettercompute.operators.registers import ReadOnlyAdmin, ReadOnlyTable, one_of
from nodes import maintenance_admin
from pools import budgets, catalogue, limits, quota
from pools.budgets import NewBudget
from pools.models import (
    Budget,
    BudgetPeriod,
    CapacityOffer,
    Offer,
    Placer,
    Pool,
    QuotaCharge,
    QuotaUsage,
)


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
    """Their policy and placer can be changed, and bind from the next request on."""

    form = PoolForm
    list_display = ("name", "tenant", "region", "placer", "id", "created_at")
    list_select_related = ("tenant",)
    search_fields = ("id__exact", "name__exact")
    search_help_text = "Exact id or name"
    ordering = ("name", "id")
    inlines = (OffersOfPool,)
    operations = (maintenance_admin.announcing(maintenance_admin.pool_place),)
    on_add = ("tenant", "name", "region", "placer", "policy")
    on_change = ("region", "placer", "policy")
    optional = frozenset({"region", "policy"})

    def add_row(self, account: Any, values: dict[str, Any]) -> Pool:
        """A new pool."""
        return catalogue.create_pool(
            values["tenant"],
            name=values["name"],
            region=values["region"],
            placer=Placer(values["placer"]),
            policy=values["policy"],
        )

    def change_row(self, account: Any, row: Any, values: dict[str, Any]) -> None:
        """Other terms."""
        catalogue.change_pool(
            row.pk,
            region=values["region"],
            policy=values["policy"],
            placer=Placer(values["placer"]),
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


def _removal(account: Any, row: Budget) -> Effect:
    """What removing a budget means."""
    return Effect((f"Nothing limits how much {row.tenant} reserves where only {row} did.",))


def _remove(account: Any, row: Budget, answers: Mapping[str, Any]) -> Outcome:
    budgets.remove(row.pk)
    return Outcome("The budget is gone.")


@admin.register(Budget)
class BudgetAdmin(EditedAdmin):
    """How much device-time each tenant may reserve, each month or between two instants.

    Amounts are thousandths of a GPU-hour. What is used is metered, so it is not shown here: the
    tenant's page of usage and `GET /api/v1/budgets` have it.
    """

    list_display = ("name", "tenant", "pool", "gpu_milli_hours", "period", "starts_at", "ends_at")
    list_select_related = ("tenant", "pool")
    list_filter = ("period",)
    search_fields = ("tenant__slug__exact", "tenant__id__exact", "id__exact")
    search_help_text = "Exact id, or exact id or slug of a tenant"
    ordering = ("tenant", "name")
    on_add = (
        "tenant",
        "pool",
        "name",
        "gpu_milli_hours",
        "period",
        "time_zone",
        "starts_at",
        "ends_at",
    )
    on_change = ("gpu_milli_hours",)
    optional = frozenset({"pool", "starts_at", "ends_at"})
    operations = (Operation("remove", "Remove this budget", _removal, _remove, several=False),)

    def add_row(self, account: Any, values: dict[str, Any]) -> Budget:
        """A new budget."""
        return budgets.create(
            values["tenant"].pk,
            NewBudget(
                name=values["name"],
                gpu_milli_hours=values["gpu_milli_hours"],
                period=BudgetPeriod(values["period"]),
                pool=values["pool"],
                time_zone=values["time_zone"],
                starts_at=values["starts_at"],
                ends_at=values["ends_at"],
            ),
        )

    def change_row(self, account: Any, row: Any, values: dict[str, Any]) -> None:
        """Another amount."""
        budgets.change(
            row.pk, gpu_milli_hours=values["gpu_milli_hours"], if_match=values["if_match"]
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


def _lifting(account: Any, row: QuotaUsage) -> Effect:
    """What taking the limit of a pool away means."""
    _require_of_pool(row)
    said = (
        f"{row.tenant} holds {row.used} of {row.max} {row.resource} in {row.pool}.",
        "Only the tenant's own quota limits it there from the next request on.",
    )
    return Effect(said)


def _lift(account: Any, row: QuotaUsage, answers: Mapping[str, Any]) -> Outcome:
    _require_of_pool(row)
    assert row.pool_id is not None
    limits.lift_pool(row.tenant_id, row.pool_id, row.resource)
    return Outcome("It is not limited there any more.")


def _require_of_pool(row: QuotaUsage) -> None:
    if row.pool_id is None:
        raise errors.InvalidState("A tenant's own quota stays; without one it may hold nothing.")
    if row.offer_id is not None:
        raise errors.InvalidState("An offer's limit is changed with the offer.")


@admin.register(QuotaUsage)
class QuotaAdmin(EditedAdmin):
    """What each tenant holds of a resource and may hold: over all pools, in one, or by an offer."""

    form = QuotaForm
    list_display = ("tenant", "pool", "offer", "resource", "used", "max")
    list_display_links = ("resource",)
    list_select_related = ("tenant", "pool", "offer")
    list_filter = (one_of("resource", quota.RESOURCES),)
    search_fields = ("tenant__slug__exact", "tenant__id__exact", "pool__id__exact")
    search_help_text = "Exact id or slug of a tenant, or id of a pool"
    ordering = ("tenant", "pool", "offer", "resource")
    on_add = ("tenant", "pool", "resource", "max")
    on_change = ("max",)
    optional = frozenset({"pool"})
    guarded = False  # its version moves with every charge, which changes no limit
    operations = (
        Operation(
            "lift",
            "Take this limit away",
            _lifting,
            _lift,
            offered=lambda row: row.pool_id is not None and row.offer_id is None,
            several=False,
        ),
    )

    def add_row(self, account: Any, values: dict[str, Any]) -> QuotaUsage:
        """A first limit."""
        _limit(values["tenant"].pk, values["pool"], values["resource"], values["max"])
        return QuotaUsage.objects.get(
            tenant=values["tenant"],
            pool=values["pool"],
            offer=None,
            resource=values["resource"],
        )

    def change_row(self, account: Any, row: Any, values: dict[str, Any]) -> None:
        """Another limit; below what is held it admits nothing new."""
        if row.offer_id is not None:
            raise errors.InvalidState("An offer's limit is changed with the offer.")
        _limit(row.tenant_id, row.pool, row.resource, values["max"])


def _limit(tenant_id: str, pool: Pool | None, resource: str, maximum: int) -> None:
    if pool is None:
        quota.set_max(tenant_id, resource, maximum)
    else:
        limits.limit_pool(tenant_id, pool.pk, resource, maximum)


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


@admin.register(CapacityOffer)
class CapacityOfferAdmin(ReadOnlyAdmin):
    """Plans that a create may take within a minute; they hold nothing, and go after an hour."""

    list_display = ("id", "tenant", "pool", "kinds", "made_at", "expires_at")
    list_select_related = ("tenant", "pool")
    search_fields = ("id__exact", "pool__id__exact", "tenant__slug__exact")
    search_help_text = "Exact id, id of the pool, or slug of the tenant"
    ordering = ("-id",)
    long = True
