"""REST of what reservations had, and of the budgets they take from (R39)."""

from collections.abc import Mapping
from zoneinfo import ZoneInfo

from django.http import HttpResponse
from rest_framework.request import Request

from bettercompute import clock, errors
from bettercompute.pages import zones
from bettercompute.web import pagination, schema
from bettercompute.web.views import ApiView
from bettercompute.wire import usage as wire
from bettercompute.wire.base import PageQuery
from bettercompute.wire.reservations import Window
from reservations import spending, usage
from reservations.pages import calendar
from reservations.spending import Balance


class UsageView(ApiView):
    """What reservations had."""

    @schema.describe(query=wire.UsageQuery, answers={200: wire.Usage})
    def get(self, request: Request) -> HttpResponse:
        """Meter a tenant's device-time by day, pool or owner; reserved and never used included."""
        wanted = self.query(wire.UsageQuery)
        caller = self.caller(wanted.tenant_id)
        rows = usage.metered(
            caller,
            start=clock.from_ms(wanted.start),
            end=clock.from_ms(wanted.end),
            by=_groupings(wanted.by),
            zone=_zone(wanted.time_zone or caller.time_zone),
            pool_id=wanted.pool_id,
        )
        owner_ids = {row.owner_id for row in rows if row.owner_id is not None}
        owners = calendar.named(owner_ids=owner_ids).owners if owner_ids else {}
        items = [_usage_row(row, owners) for row in rows]
        return self.answer(wire.Usage(start=wanted.start, end=wanted.end, items=items))


class BudgetsView(ApiView):
    """What a tenant may still reserve."""

    @schema.describe(query=PageQuery, answers={200: wire.BudgetList})
    def get(self, request: Request) -> HttpResponse:
        """List the tenant's budgets, with what is left in this month or in their window."""
        wanted = self.query(PageQuery)
        balances = spending.present(self.caller(wanted.tenant_id))
        page = pagination.page("budgets", balances, wanted, by=_order, kinds=(str, str))
        items = list(map(_budget, page.items))
        return self.answer(wire.BudgetList(items=items, next_cursor=page.next_cursor))


def _order(balance: Balance) -> tuple[str, str]:
    return balance.budget.name, balance.budget.id


def _groupings(asked: list[str]) -> set[wire.Grouping]:
    """``by=day,owner`` and ``by=day&by=owner`` say the same."""
    named = {name for each in asked for name in each.split(",") if name}
    known = {name for name in wire.GROUPINGS if name in named}
    if unknown := sorted(named - known):
        allowed = ", ".join(wire.GROUPINGS)
        raise errors.InvalidInput.at(
            "by", f"{unknown[0]} is unknown; give any of {allowed}, with commas between them"
        )
    return known


def _usage_row(row: usage.Row, owners: Mapping[str, str]) -> wire.UsageRow:
    return wire.UsageRow(
        day=None if row.day is None else row.day.isoformat(),
        pool_id=row.pool_id,
        owner_identity_id=row.owner_id,
        owner=owners.get(row.owner_id or ""),
        gpu_hours=row.gpu_milli_hours / 1_000,
        idle_gpu_hours=row.idle_gpu_milli_hours / 1_000,
    )


def _zone(name: str) -> ZoneInfo:
    found = zones.named(name)
    if found is None:
        raise errors.InvalidInput.at("timeZone", "is no zone of the tz database")
    return found


def _budget(balance: Balance) -> wire.Budget:
    budget, span = balance.budget, balance.span
    return wire.Budget(
        id=budget.id,
        name=budget.name,
        pool_id=budget.pool_id,
        period=budget.period.value,
        time_zone=budget.zone.key,
        during=Window(start=clock.to_ms(span.start), end=clock.to_ms(span.end)),
        gpu_hours=spending.gpu_hours(balance.amount),
        used=spending.gpu_hours(balance.used),
        reserved=spending.gpu_hours(balance.reserved),
        left=spending.gpu_hours(balance.left),
    )
