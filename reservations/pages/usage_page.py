"""The page of usage: what was used by day, pool and owner, and what the budgets leave. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

from bettercompute import spreadsheets
from bettercompute.pages import moments, parts
from reservations import spending
from reservations.pages.presentation import Names
from reservations.spending import Balance
from reservations.usage import Row

GROUPS = (("day", "Day"), ("pool", "Pool"), ("owner", "Owner"))
SPANS: Mapping[str, tuple[str, timedelta]] = {
    "7d": ("7 days", timedelta(days=7)),
    "30d": ("30 days", timedelta(days=30)),
    "90d": ("90 days", timedelta(days=90)),
}
SPAN_DEFAULT = "30d"
GROUPS_DEFAULT = ("day", "pool")


@dataclass(frozen=True, slots=True)
class Choice:
    """What the address asks for."""

    span: str
    by: tuple[str, ...]

    @property
    def length(self) -> timedelta:
        """How far back from now."""
        return SPANS[self.span][1]

    @property
    def query(self) -> str:
        """The same choice as an address."""
        return "&".join([f"span={self.span}", *(f"by={group}" for group in self.by)])


@dataclass(frozen=True, slots=True)
class Line:
    """One row: the groups in the order of the columns, and GPU-hours."""

    groups: tuple[str, ...]
    used: str
    idle: str


@dataclass(frozen=True, slots=True)
class BudgetLine:
    """One budget in its present period."""

    name: str
    scope: str
    when: str
    used: str
    reserved: str
    left: str
    amount: str
    meter: parts.Meter


@dataclass(frozen=True, slots=True)
class Page:
    """All of the page."""

    spans: tuple[parts.Option, ...]
    groups: tuple[parts.Option, ...]
    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    total: Line
    budgets: tuple[BudgetLine, ...]
    download: str


def read(given: Mapping[str, Sequence[str]]) -> Choice:
    """A choice from an address; what is none of ours is left out."""
    span = next((each for each in given.get("span", ()) if each in SPANS), SPAN_DEFAULT)
    asked = given.get("by")
    by = GROUPS_DEFAULT if asked is None else [key for key, _ in GROUPS if key in asked]
    return Choice(span, tuple(by))


def page(
    choice: Choice,
    rows: Sequence[Row],
    balances: Sequence[Balance],
    names: Names,
    *,
    now: datetime,
    zone: tzinfo,
    download: str,
) -> Page:
    """The page as it is shown."""
    used = sum(row.gpu_milli_hours for row in rows)
    idle = sum(row.idle_gpu_milli_hours for row in rows)
    return Page(
        spans=parts.options(((key, label) for key, (label, _) in SPANS.items()), choice.span),
        groups=tuple(parts.Option(key, label, key in choice.by) for key, label in GROUPS),
        columns=_columns(choice),
        lines=tuple(
            Line(
                _groups(row, choice, names),
                _hours(row.gpu_milli_hours),
                _hours(row.idle_gpu_milli_hours),
            )
            for row in rows
        ),
        total=Line((), _hours(used), _hours(idle)),
        budgets=tuple(_budget(each, names, now=now, zone=zone) for each in balances),
        download=f"{download}?{choice.query}",
    )


def table(choice: Choice, rows: Iterable[Row], names: Names) -> str:
    """The same rows for a spreadsheet: comma-separated, GPU-hours with a point."""
    return spreadsheets.written(
        [*_columns(choice), "GPU-hours", "Idle GPU-hours"],
        (
            [
                *_groups(row, choice, names),
                row.gpu_milli_hours / 1_000,
                row.idle_gpu_milli_hours / 1_000,
            ]
            for row in rows
        ),
    )


def _columns(choice: Choice) -> tuple[str, ...]:
    return tuple(label for key, label in GROUPS if key in choice.by)


def _groups(row: Row, choice: Choice, names: Names) -> tuple[str, ...]:
    told = {
        "day": "" if row.day is None else row.day.isoformat(),
        "pool": names.pools.get(row.pool_id or "", row.pool_id or ""),
        "owner": names.owners.get(row.owner_id or "", row.owner_id or ""),
    }
    return tuple(told[key] for key, _ in GROUPS if key in choice.by)


def _hours(milli_hours: int) -> str:
    return _aligned(milli_hours / 1_000)


def _aligned(hours: float) -> str:
    """With two decimals each, so that points stand below each other; the file has them all."""
    return f"{round(hours, 2) + 0:,.2f}"  # + 0: no minus before a zero


def _budget(balance: Balance, names: Names, *, now: datetime, zone: tzinfo) -> BudgetLine:
    budget = balance.budget
    pool = "All pools" if budget.pool_id is None else names.pools.get(budget.pool_id, "")
    return BudgetLine(
        name=budget.name,
        scope=pool,
        when=moments.window(balance.span.start, balance.span.end, now=now, zone=zone),
        used=_aligned(spending.gpu_hours(balance.used)),
        reserved=_aligned(spending.gpu_hours(balance.reserved)),
        left=_aligned(spending.gpu_hours(balance.left)),
        amount=_aligned(spending.gpu_hours(balance.amount)),
        meter=_meter(balance),
    )


def _meter(balance: Balance) -> parts.Meter:
    line = parts.quota(
        balance.budget.name,
        used=round(balance.used + balance.reserved),
        maximum=round(balance.amount),
        unit=3_600_000,
        added=round(balance.reserved),
    )
    return line.meter
