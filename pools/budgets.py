"""Budgets: how much device-time a tenant may reserve in each month, or between two instants (R39).

Here is what they are and which periods they have. What is reserved in a period is metered from the
reservations (``reservations.spending``): no counter is kept that could drift, so what is released
comes back by itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from django.db import IntegrityError, transaction

from bettercompute import errors, sql
from bettercompute.acts import Thing
from bettercompute.audit import entries
from bettercompute.pages import zones
from bettercompute.web import etags
from pools.models import Budget, BudgetPeriod, Pool

BUDGETS = sql.load(__package__, "budgets")

AMOUNT_MAX = 2**53 - 1  # what JSON's readers can hold; nine million GPUs for a century
NAME_MAX = 100


@dataclass(frozen=True, slots=True)
class Span:
    """One period of a budget, ``[start, end)``."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Terms:
    """A budget as it is reckoned with."""

    id: str
    name: str
    pool_id: str | None  #: None: over all pools
    gpu_milli_hours: int
    period: BudgetPeriod
    zone: ZoneInfo
    starts_at: datetime | None
    ends_at: datetime | None

    def periods(self, start: datetime, end: datetime) -> Iterator[Span]:
        """The periods that ``[start, end)`` is in; a month ends with its zone's last midnight."""
        if self.period is BudgetPeriod.WINDOW:
            assert self.starts_at is not None
            assert self.ends_at is not None
            if self.starts_at < end and start < self.ends_at:
                yield Span(self.starts_at, self.ends_at)
            return
        begins = self._month_of(start)
        while begins < end:
            ends = self._month_of(begins + timedelta(days=32))
            yield Span(begins, ends)
            begins = ends

    def present(self, now: datetime) -> Span:
        """This month; or the window, whether it has come or has passed."""
        if self.period is BudgetPeriod.WINDOW:
            assert self.starts_at is not None
            assert self.ends_at is not None
            return Span(self.starts_at, self.ends_at)
        begins = self._month_of(now)
        return Span(begins, self._month_of(begins + timedelta(days=32)))

    def _month_of(self, instant: datetime) -> datetime:
        first = instant.astimezone(self.zone).date().replace(day=1)
        return datetime.combine(first, time(), tzinfo=self.zone).astimezone(instant.tzinfo)


@dataclass(frozen=True, slots=True)
class NewBudget:
    """What an operator says of a budget."""

    name: str
    gpu_milli_hours: int
    period: BudgetPeriod = BudgetPeriod.MONTH
    pool: Pool | None = None
    time_zone: str = "UTC"
    starts_at: datetime | None = None
    ends_at: datetime | None = None


def of_tenant(tenant_id: str, *, pool_id: str | None = None) -> list[Terms]:
    """The tenant's budgets, or those that count what it reserves in one pool."""
    return [_terms(row) for row in BUDGETS.all("of_tenant", tenant_id=tenant_id, pool_id=pool_id)]


def lock(tenant_id: str, pool_id: str) -> list[Terms]:
    """Those of one pool, held until the transaction ends."""
    return [_terms(row) for row in BUDGETS.all("lock", tenant_id=tenant_id, pool_id=pool_id)]


def create(tenant_id: str, new: NewBudget) -> Budget:
    """A new budget; what is reserved already counts in it.

    Raises:
        errors.InvalidInput: a name, an amount, a zone or a window that is none.
        errors.Conflict: the tenant has a budget of this name.
    """
    _check_name(new.name)
    _check_amount(new.gpu_milli_hours)
    _check_period(new)
    try:
        with transaction.atomic():
            budget = Budget.objects.create(
                tenant_id=tenant_id,
                pool=new.pool,
                name=new.name,
                gpu_milli_hours=new.gpu_milli_hours,
                period=new.period,
                time_zone=new.time_zone,
                starts_at=new.starts_at,
                ends_at=new.ends_at,
            )
            _record("create", budget, after=new.gpu_milli_hours)
            return budget
    except IntegrityError as error:
        if "budget_name_once_per_tenant" not in str(error):
            raise
        raise errors.Conflict(f"There is a budget {new.name} already.") from error


def change(budget_id: str, *, gpu_milli_hours: int, if_match: frozenset[int] | None = None) -> None:
    """Another amount; below what is reserved it admits nothing new.

    Raises:
        errors.InvalidInput: an amount that is none.
        errors.NotFound: there is no such budget.
        errors.PreconditionFailed: its version is not one of ``if_match`` (C2).
    """
    _check_amount(gpu_milli_hours)
    with transaction.atomic():
        budget = Budget.objects.select_for_update(no_key=True).filter(pk=budget_id).first()
        if budget is None:
            raise errors.NotFound(f"There is no budget {budget_id}.")
        etags.require(budget.version, if_match)
        before = budget.gpu_milli_hours
        budget.gpu_milli_hours, budget.version = gpu_milli_hours, budget.version + 1
        budget.save(update_fields=["gpu_milli_hours", "version"])
        _record("change", budget, before=before, after=gpu_milli_hours)


def remove(budget_id: str) -> None:
    """No budget any more.

    Raises:
        errors.NotFound: there is none.
    """
    with transaction.atomic():
        budget = Budget.objects.select_for_update().filter(pk=budget_id).first()
        if budget is None:
            raise errors.NotFound(f"There is no budget {budget_id}.")
        _record("remove", budget, before=budget.gpu_milli_hours)
        budget.delete()


def _record(verb: str, budget: Budget, **gpu_milli_hours: int) -> None:
    entries.record(
        f"compute:budgets:{verb}",
        Thing("budget", budget.pk),
        tenant_id=budget.tenant_id,
        name=budget.name,
        gpuMilliHours=gpu_milli_hours,
    )


def _check_name(name: str) -> None:
    """Whoever is refused by it reads the name."""
    if not 1 <= len(name) <= NAME_MAX or not name.isprintable():
        raise errors.InvalidInput.at("name", f"must be one line of 1 to {NAME_MAX} characters")


def _check_amount(gpu_milli_hours: int) -> None:
    if not 0 <= gpu_milli_hours <= AMOUNT_MAX:
        raise errors.InvalidInput.at("gpu_milli_hours", "must be between 0 and 2^53 - 1")


def _check_period(new: NewBudget) -> None:
    if zones.named(new.time_zone) is None:
        raise errors.InvalidInput.at("time_zone", "is no zone of the tz database")
    instants = (new.starts_at, new.ends_at)
    if new.period is BudgetPeriod.MONTH:
        if instants != (None, None):
            raise errors.InvalidInput.at("starts_at", "a monthly budget has no start and no end")
    elif new.starts_at is None or new.ends_at is None or new.ends_at <= new.starts_at:
        raise errors.InvalidInput.at("ends_at", "a window needs a start, and an end behind it")


def _terms(row: sql.Row) -> Terms:
    budget_id, name, pool_id, amount, period, zone, starts_at, ends_at = row
    return Terms(
        id=budget_id,
        name=name,
        pool_id=pool_id,
        gpu_milli_hours=amount,
        period=BudgetPeriod(period),
        # A zone that the tz database dropped meanwhile: months of UTC, rather than no budget.
        zone=zones.named(zone) or ZoneInfo("UTC"),
        starts_at=starts_at,
        ends_at=ends_at,
    )
