"""Operators' registers of iam: tenants, people, what they carry, what binds them."""

from collections.abc import Mapping
from typing import Any, cast
from zoneinfo import available_timezones

from django import forms
from django.contrib import admin
from django.contrib.auth import password_validation
from django.db.models import QuerySet
from django.http import HttpRequest

from bettercompute import errors
from bettercompute.iam import accounts, callers, memberships, policies, tenants, tokens
from bettercompute.iam.callers import Caller
from bettercompute.iam.models import (
    Account,
    ApiToken,
    AuthzChange,
    AuthzResource,
    Membership,
    Policy,
    Role,
    Tenant,
)
from bettercompute.operators import fields
from bettercompute.operators.editing import EditedAdmin, ReasonedForm
from bettercompute.operators.operations import Effect, Operation, Outcome, ReasonForm
from bettercompute.operators.registers import ReadOnlyAdmin, ReadOnlyTable


class MembersOfTenant(ReadOnlyTable):
    """Who belongs to a tenant."""

    model = Membership
    columns = ("account", "role", "created_at")
    show_change_link = True

    def get_queryset(self, request: HttpRequest) -> QuerySet[Membership]:
        """With both ends."""
        return super().get_queryset(request).select_related("account", "tenant")


class SeatsOfAccount(MembersOfTenant):
    """Where an account belongs."""

    columns = ("tenant", "role", "created_at")


@admin.register(Tenant)
class TenantAdmin(EditedAdmin):
    """Who owns pools and reservations."""

    list_display = ("slug", "name", "id", "created_at")
    search_fields = ("id__exact", "slug__exact", "name__icontains")
    search_help_text = "Exact id or slug, or a part of the name"
    ordering = ("slug",)
    inlines = (MembersOfTenant,)
    on_add = ("slug", "name")
    on_change = ("name",)

    def add_row(self, account: Any, values: dict[str, Any]) -> Tenant:
        """A new tenant."""
        return tenants.create(slug=values["slug"], name=values["name"])

    def change_row(self, account: Any, row: Any, values: dict[str, Any]) -> None:
        """Another name."""
        tenants.rename(row.pk, name=values["name"], if_match=values["if_match"])


class AccountForm(ReasonedForm):
    """A person's form; the first password is chosen here."""

    password = forms.CharField(
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password", "class": "vTextField"}),
        help_text="Left empty, the account has none: it can use no sign-in form, only tokens.",
    )

    def clean_password(self) -> str:
        """As strong as anybody's."""
        password = str(self.cleaned_data["password"])
        if password:
            password_validation.validate_password(password)
        return password

    def clean_time_zone(self) -> str:
        """One that exists."""
        name = str(self.cleaned_data["time_zone"])
        if name not in available_timezones():
            raise forms.ValidationError(f"There is no time zone {name}; Europe/Berlin is one.")
        return name


class PasswordForm(ReasonForm):
    """A new password for somebody."""

    password = forms.CharField(
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password", "class": "vTextField"}),
        validators=[password_validation.validate_password],
    )


def _password_effect(account: Any, row: Account) -> Effect:
    return Effect(
        (
            f"{row.username} signs in with the new password from now on.",
            "Sessions that are open now end; API tokens go on.",
        )
    )


def _set_password(account: Any, row: Account, answers: Mapping[str, Any]) -> Outcome:
    accounts.set_password(row, answers["password"])
    return Outcome("the password is set")


SET_PASSWORD = Operation(
    "set-password", "Set password", _password_effect, _set_password, PasswordForm, several=False
)


@admin.register(Account)
class AccountAdmin(EditedAdmin):
    """People and services. Whoever is staff is an operator."""

    form = AccountForm
    list_display = ("username", "email", "is_active", "is_staff", "last_login", "id")
    list_filter = ("is_active", "is_staff")
    search_fields = ("id__exact", "username__istartswith", "email__istartswith")
    search_help_text = "Exact id, or the start of the name or address"
    ordering = ("username",)
    inlines = (SeatsOfAccount,)
    hidden = ("password", "is_superuser")
    on_add = ("username", "password", "email", "time_zone", "is_staff")
    on_change = ("email", "first_name", "last_name", "time_zone", "is_active", "is_staff")
    optional = frozenset({"email", "first_name", "last_name"})
    operations = (SET_PASSWORD,)

    def add_row(self, account: Any, values: dict[str, Any]) -> Account:
        """A new account."""
        return accounts.create(
            username=values["username"],
            password=values["password"] or None,
            email=values["email"],
            time_zone=values["time_zone"],
            operator=values["is_staff"],
        )

    def change_row(self, account: Any, row: Any, values: dict[str, Any]) -> None:
        """What the form says of it."""
        accounts.change(_operator(account), row, {name: values[name] for name in self.on_change})


def _removal_effect(account: Any, row: Membership) -> Effect:
    return Effect(
        (
            f"{row.account.username} no longer belongs to {row.tenant.slug}.",
            "API tokens of this account at this tenant stop working at once.",
            "What it has reserved stays until it ends; an admin of the tenant can release it.",
        )
    )


def _remove(account: Any, row: Membership, answers: Mapping[str, Any]) -> Outcome:
    memberships.remove(row.account, row.tenant)
    return Outcome("no longer a member")


REMOVE = Operation(
    "remove", "Remove from tenant", _removal_effect, _remove, harsh=True, several=False
)


@admin.register(Membership)
class MembershipAdmin(EditedAdmin):
    """Who belongs where, in which role."""

    list_display = ("id", "account", "tenant", "role", "created_at")
    list_select_related = ("account", "tenant")
    list_filter = ("role",)
    search_fields = ("account__username__exact", "tenant__slug__exact")
    search_help_text = "Exact name of an account, or slug of a tenant"
    ordering = ("tenant", "account")
    on_add = ("account", "tenant", "role")
    on_change = ("role",)
    operations = (REMOVE,)

    def add_row(self, account: Any, values: dict[str, Any]) -> Membership:
        """A new seat."""
        return memberships.add(values["account"], values["tenant"], role=Role(values["role"]))

    def change_row(self, account: Any, row: Any, values: dict[str, Any]) -> None:
        """Another role."""
        memberships.add(row.account, row.tenant, role=Role(values["role"]))


def _revocation_effect(account: Any, row: ApiToken) -> Effect:
    sentences = (
        "Programs that use this token are refused from their next request on.",
        "It cannot be undone; its owner can create another one.",
    )
    used = fields.instant(row.last_used_at)
    return Effect(
        sentences, ("Token", "Of", "Last used"), ((row.name, row.account.username, used),)
    )


def _revoke(account: Any, row: ApiToken, answers: Mapping[str, Any]) -> Outcome:
    tokens.revoke(callers.for_tenant(cast("Account", account), row.tenant_id), row.pk)
    return Outcome("revoked")


REVOKE = Operation(
    "revoke",
    "Revoke",
    _revocation_effect,
    _revoke,
    offered=lambda row: row.revoked_at is None,
    harsh=True,
)


class LimitForm(ReasonForm):
    """A limit of one token's own."""

    requests_per_second = forms.IntegerField(
        required=False,
        min_value=0,
        max_value=1_000_000,
        help_text="Empty: as for everybody. 0: no limit.",
    )


def _limit_effect(account: Any, row: ApiToken) -> Effect:
    known = row.requests_per_second
    now = "as for everybody" if known is None else f"{known} a second" if known else "none"
    return Effect((f"Its limit of requests is now: {now}.", "The new one holds at once."))


def _limit(account: Any, row: ApiToken, answers: Mapping[str, Any]) -> Outcome:
    tokens.limit(row.pk, requests_per_second=answers["requests_per_second"])
    return Outcome("the limit is set")


LIMIT = Operation(
    "limit",
    "Limit requests",
    _limit_effect,
    _limit,
    LimitForm,
    initial=lambda row: {"requests_per_second": row.requests_per_second},
    offered=lambda row: row.revoked_at is None,
)


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin):
    """API tokens, without anything that could be used as one."""

    list_display = (
        "id",
        "name",
        "account",
        "agent",
        "tenant",
        "last_used_at",
        "expires_at",
        "revoked_at",
    )
    list_select_related = ("account", "tenant")
    search_fields = ("id__exact", "account__username__exact")
    search_help_text = "Exact id, or exact name of an account"
    ordering = ("-id",)
    hidden = ("secret_hash",)
    operations = (LIMIT, REVOKE)


class PolicyForm(ReasonedForm):
    """A policy's text must compile; the line that does not is said."""

    class Meta:
        widgets = {"text": forms.Textarea(attrs={"class": "vLargeTextField", "rows": 16})}
        help_texts = {"tenant": "Empty: a policy of the platform, which binds everybody"}

    def clean(self) -> dict[str, Any]:
        """Checks the text as the API does."""
        values = super().clean() or self.cleaned_data
        tenant = values.get("tenant") if "tenant" in self.fields else self.instance.tenant_id
        try:
            policies.validate(values.get("text", ""), platform=tenant is None)
        except errors.InvalidInput as error:
            self.add_error("text", error.message)
        return values


@admin.register(Policy)
class PolicyAdmin(EditedAdmin):
    """Cedar policies of the platform (no tenant) and of tenants; shipped ones are code."""

    form = PolicyForm
    list_display = ("name", "tenant", "enabled", "version", "id", "created_at")
    list_select_related = ("tenant",)
    list_filter = ("enabled",)
    search_fields = ("id__exact", "name__exact", "tenant__slug__exact")
    search_help_text = "Exact id or name, or slug of a tenant"
    ordering = ("name",)
    on_add = ("tenant", "name", "text", "enabled")
    on_change = ("name", "text", "enabled")
    optional = frozenset({"tenant"})

    def add_row(self, account: Any, values: dict[str, Any]) -> Policy:
        """A new policy."""
        tenant = values["tenant"]
        caller = _operator(account, None if tenant is None else tenant.pk)
        return policies.create(caller, draft=_draft(values), platform=tenant is None)

    def change_row(self, account: Any, row: Any, values: dict[str, Any]) -> None:
        """A new version."""
        operator = _operator(account, row.tenant_id)
        policies.replace(operator, row.pk, draft=_draft(values), if_match=values["if_match"])


def _draft(values: Mapping[str, Any]) -> policies.Draft:
    return policies.Draft(values["name"], values["text"], values["enabled"])


def _operator(account: Any, tenant_id: str | None = None) -> Caller:
    if tenant_id is None:
        return callers.for_platform(account)
    return callers.for_tenant(cast("Account", account), tenant_id)


@admin.register(AuthzResource)
class AuthzResourceAdmin(ReadOnlyAdmin):
    """What a policy engine knows of each resource."""

    list_display = ("id", "kind", "tenant")
    list_select_related = ("tenant",)
    links = {"id": "reservations.reservation"}
    list_display_links = ("kind",)
    search_fields = ("id__exact",)
    search_help_text = "Exact id of the resource"
    ordering = ("-id",)
    long = True


@admin.register(AuthzChange)
class AuthzChangeAdmin(ReadOnlyAdmin):
    """The feed of an outside policy engine."""

    list_display = ("seq", "resource_id", "kind", "tenant_id", "changed_at")
    links = {"tenant_id": "iam.tenant", "resource_id": "reservations.reservation"}
    ordering = ("-seq",)
    long = True
