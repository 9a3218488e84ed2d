"""Who acts, and for which tenant.

An ``Identity`` is what authentication found: an account, and the seats it has at tenants. A
``Caller`` is an identity acting for one tenant; every use case takes one first. There is no way to
a caller of a tenant the account does not belong to: such a tenant answers NOT_FOUND (R38).
"""

from dataclasses import dataclass, field, replace
from typing import Literal

from bettercompute import acts, sql
from bettercompute.acts import Actor
from bettercompute.errors import AccessDenied, InvalidInput, NotFound
from bettercompute.iam import delegation
from bettercompute.iam.delegation import Delegation
from bettercompute.iam.models import Account, ApiToken

CALLERS = sql.load(__package__, "callers")

RoleName = Literal["admin", "member"]


@dataclass(frozen=True, slots=True)
class Seat:
    """A tenant the account belongs to, its role there, and which policies bind it."""

    tenant_id: str
    slug: str
    name: str
    role: RoleName
    #: Changes whenever a policy that binds the tenant changes; see ``policies.compiled``.
    fingerprint: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Identity:
    """An authenticated account with its seats. A token has exactly the seat it is scoped to."""

    account_id: str
    username: str
    is_operator: bool
    time_zone: str
    seats: tuple[Seat, ...]
    token_id: str | None = None
    token_name: str | None = None
    #: What an operator set for this token; None: as for everybody, 0: no limit.
    requests_per_second: int | None = None
    #: where the token is an agent's
    delegation: Delegation | None = None


@dataclass(frozen=True, slots=True)
class Caller:
    """An account acting for a tenant. ``account_id`` is the *identity* of R6."""

    tenant_id: str
    account_id: str
    role: RoleName
    is_operator: bool = False
    token_id: str | None = None
    username: str = ""
    time_zone: str = "UTC"
    #: where an agent acts for the account
    delegation: Delegation | None = None
    #: What authentication read of the policies; None makes ``decide`` read it.
    fingerprint: str | None = field(default=None, compare=False, repr=False)

    @property
    def agent(self) -> str:
        """The name of the agent that acts; empty where a person does."""
        return "" if self.delegation is None else self.delegation.agent

    def holds(self, action: str) -> bool:
        """Whether the person is asked before this is done for them."""
        return self.delegation is not None and action in self.delegation.confirm

    def asking_before(self, action: str) -> "Caller":
        """The same agent, whose person is asked before this, too; a person as they are."""
        if self.delegation is None:
            return self
        return replace(self, delegation=self.delegation.asking_before(action))


def for_tenant(who: Identity | Account | ApiToken, tenant_id: str) -> Caller:
    """The caller that ``who`` is for a tenant.

    Operators act for any tenant when signed in; a token never leaves the tenant it was minted for.

    Raises:
        NotFound: there is no such tenant, or ``who`` does not belong to it.
    """
    identity = _identify(who)
    seat = next((seat for seat in identity.seats if seat.tenant_id == tenant_id), None)
    if seat is None and identity.is_operator and identity.token_id is None:
        seat = _operator_seat(tenant_id)
    if seat is None:
        raise NotFound(f"There is no tenant {tenant_id}, or you do not belong to it.")
    acts.acting_for(identity.account_id, tenant_id=seat.tenant_id, role=seat.role)
    known = isinstance(who, Identity)
    return Caller(
        tenant_id=seat.tenant_id,
        account_id=identity.account_id,
        role=seat.role,
        is_operator=identity.is_operator,
        token_id=identity.token_id,
        username=identity.username,
        time_zone=identity.time_zone,
        delegation=identity.delegation,
        fingerprint=seat.fingerprint if known else None,
    )


def of_member(account_id: str, tenant_id: str) -> Caller:
    """The caller that an account is for a tenant, where nobody has signed in for it.

    Raises:
        NotFound: there is no such account that is active, or it does not belong to the tenant.
    """
    account = Account.objects.filter(pk=account_id, is_active=True).first()
    if account is None:
        raise NotFound(f"There is no account {account_id}, or it is disabled.")
    return for_tenant(account, tenant_id)


def for_platform(account: Account) -> Caller:
    """An operator acting for the platform, for what belongs to no tenant.

    Raises:
        AccessDenied: the account is no operator.
    """
    if not is_operator(account):
        raise AccessDenied("Only an operator of the platform may do this.", needs="operator")
    return Caller(
        tenant_id="",
        account_id=account.pk,
        role="admin",
        is_operator=True,
        username=account.username,
        time_zone=account.time_zone,
    )


def for_only_tenant(identity: Identity) -> Caller:
    """The caller where no tenant is named: fine for whoever belongs to exactly one."""
    if len(identity.seats) == 1:
        return for_tenant(identity, identity.seats[0].tenant_id)
    if not identity.seats:
        raise InvalidInput.at("tenantId", "required, since you belong to no tenant")
    slugs = ", ".join(seat.slug for seat in identity.seats[:5])
    raise InvalidInput.at("tenantId", f"required, since you belong to several tenants ({slugs})")


def of_account(account: Account) -> Identity:
    """The identity of a signed-in account, with all its seats."""
    rows = CALLERS.all("seats", account_id=account.pk)
    return Identity(
        account_id=account.pk,
        username=account.username,
        is_operator=is_operator(account),
        time_zone=account.time_zone,
        seats=tuple(Seat(*row) for row in rows),
    )


def actor(identity: Identity) -> Actor:
    """Who it is, as the audit tells it; for which tenant, ``for_tenant`` says."""
    return Actor(
        account_id=identity.account_id,
        username=identity.username,
        operator=identity.is_operator,
        via="session" if identity.token_id is None else "token",
        token_id=identity.token_id or "",
        token_name=identity.token_name or "",
        agent="" if identity.delegation is None else identity.delegation.agent,
    )


def is_operator(account: Account) -> bool:
    """Whether the account runs the platform: whoever may enter the admin site."""
    return account.is_active and (account.is_staff or account.is_superuser)


def _identify(who: Identity | Account | ApiToken) -> Identity:
    if isinstance(who, Identity):
        return who
    if isinstance(who, Account):
        return of_account(who)
    whole = of_account(who.account)
    return Identity(
        account_id=whole.account_id,
        username=whole.username,
        is_operator=whole.is_operator,
        time_zone=whole.time_zone,
        seats=tuple(seat for seat in whole.seats if seat.tenant_id == who.tenant_id),
        token_id=who.pk,
        token_name=who.name,
        requests_per_second=who.requests_per_second,
        delegation=delegation.stored(who.agent, who.confirm),
    )


def _operator_seat(tenant_id: str) -> Seat | None:
    """An operator acts for a tenant as its admin would."""
    row = CALLERS.one("tenant", tenant_id=tenant_id)
    return None if row is None else Seat(*row)
