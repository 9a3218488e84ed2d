"""What a tenant's reservations take of its budgets (R39).

A budget is judged where something is about to be reserved: under its lock, what was reserved in
each of its periods is summed up from the reservations themselves, and what is asked for must fit
into the rest. Two requests at once so see each other, and a release gives its rest back by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from bettercompute import clock, errors, sql
from bettercompute.iam import decisions
from bettercompute.iam.callers import Caller
from bettercompute.iam.decisions import Attributes
from bettercompute.wire.reasons import Filter, Reason
from pools import budgets
from pools.budgets import Span, Terms
from pools.catalogue import PoolAccess
from pools.requests import NormalisedRequest
from reservations import rights
from reservations.models import Reservation

SPENDING = sql.load(__package__, "spending")

_MICROSECOND = timedelta(microseconds=1)
_PER_HOUR = Decimal(3_600)


@dataclass(frozen=True, slots=True)
class Claim:
    """Device-time that somebody is about to reserve."""

    tenant_id: str
    pool_id: str
    gpu_milli: int
    start: datetime
    end: datetime

    def within(self, span: Span) -> Decimal:
        """Its part in a span."""
        overlap = min(self.end, span.end) - max(self.start, span.start)
        microseconds = max(overlap // _MICROSECOND, 0)
        return Decimal(self.gpu_milli) * microseconds / 1_000_000


@dataclass(frozen=True, slots=True)
class Balance:
    """One period of a budget: how much of it is used and reserved, in GPU-milli-seconds."""

    budget: Terms
    span: Span
    used: Decimal  #: up to now
    reserved: Decimal  #: from now on

    @property
    def amount(self) -> Decimal:
        """What there is in all."""
        return self.budget.gpu_milli_hours * _PER_HOUR

    @property
    def left(self) -> Decimal:
        """What may still be reserved; below zero where the budget was cut."""
        return self.amount - self.used - self.reserved


def claim(
    access: PoolAccess, request: NormalisedRequest, tenant_id: str, *, now: datetime
) -> Claim:
    """What a request would take at the most, if it were placed now."""
    start = now if request.start_ms is None else max(now, clock.from_ms(request.start_ms))
    return Claim(
        tenant_id=tenant_id,
        pool_id=access.pool_id,
        gpu_milli=request.gpu_milli(access.policy.sharing.replicas),
        start=start,
        end=start + timedelta(milliseconds=request.duration_ms),
    )


def longer(reservation: Reservation, *, start: datetime, end: datetime) -> Claim:
    """What more time of a reservation would take."""
    return Claim(
        reservation.tenant_id, reservation.pool_id, reservation.gpu_milli, start=start, end=end
    )


def require(claim: Claim) -> None:
    """Hold the budgets that count this, and refuse what does not fit into one of them.

    In the caller's transaction, which then writes what is claimed: until it ends nobody else is
    judged by these budgets.

    Raises:
        errors.BudgetExceeded: with the budget, its period, and what is left of it.
    """
    for balance in _balances(claim, budgets.lock(claim.tenant_id, claim.pool_id)):
        asked = claim.within(balance.span)
        if asked > balance.left:
            raise _exceeded(balance, asked)


def reasons(claim: Claim, *, beside: Sequence[Claim] = ()) -> list[Reason]:
    """Why a preview does not fit: the budgets without room for it. Takes no lock.

    ``beside`` is what would be reserved before it: of each budget it leaves less.
    """
    terms = budgets.of_tenant(claim.tenant_id, pool_id=claim.pool_id)
    found = []
    for balance in _balances(claim, terms):
        asked = claim.within(balance.span)
        before = sum((each.within(balance.span) for each in beside), Decimal(0))
        left = replace(balance, reserved=balance.reserved + before)
        if asked > left.left:
            found.append(Reason(filter=Filter.BUDGET, needs=_needs(left, asked)))
    return found


def present(caller: Caller) -> list[Balance]:
    """The tenant's budgets, each in this month or in its window.

    Raises:
        errors.AccessDenied: a policy denies reading the tenant's reservations.
    """
    decisions.decide(
        caller, rights.READ, resource_id="budgets", attributes=Attributes(tenant=caller.tenant_id)
    ).require()
    now = clock.now()
    terms = budgets.of_tenant(caller.tenant_id)
    return _summed(caller.tenant_id, [(each, each.present(now)) for each in terms])


def gpu_hours(amount: Decimal) -> float:
    """For people and programs, to the thousandth."""
    return float(round(amount / _PER_HOUR / 1_000, 3))


def _balances(claim: Claim, terms: Sequence[Terms]) -> list[Balance]:
    """Every period that the claim reaches into."""
    spans = [(each, span) for each in terms for span in each.periods(claim.start, claim.end)]
    return _summed(claim.tenant_id, spans)


def _summed(tenant_id: str, spans: Sequence[tuple[Terms, Span]]) -> list[Balance]:
    if not spans:
        return []
    rows = SPENDING.all(
        "in_spans",
        tenant_id=tenant_id,
        places=list(range(len(spans))),
        pool_ids=[terms.pool_id for terms, _ in spans],
        starts=[span.start for _, span in spans],
        ends=[span.end for _, span in spans],
        since=min(span.start for _, span in spans),
    )
    return [Balance(*spans[place], used, reserved) for place, used, reserved in rows]


def _exceeded(balance: Balance, asked: Decimal) -> errors.BudgetExceeded:
    budget, span = balance.budget, balance.span
    return errors.BudgetExceeded(
        f"The budget {budget.name} has no room for it: {_needs(balance, asked)}.",
        budget=budget.id,
        name=budget.name,
        poolId=budget.pool_id,
        period={"start": clock.to_ms(span.start), "end": clock.to_ms(span.end)},
        gpuHours=gpu_hours(balance.amount),
        used=gpu_hours(balance.used),
        reserved=gpu_hours(balance.reserved),
        left=gpu_hours(balance.left),
        asked=gpu_hours(asked),
    )


def _needs(balance: Balance, asked: Decimal) -> str:
    zone = balance.budget.zone
    first = balance.span.start.astimezone(zone).date()
    last = (balance.span.end - _MICROSECOND).astimezone(zone).date()
    left = max(gpu_hours(balance.left), 0)
    return (
        f"{gpu_hours(asked):g} GPU-hours, of which {left:g} are left"
        f" of {gpu_hours(balance.amount):g} from {first} to {last}"
    )
