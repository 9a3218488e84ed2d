"""The filters of the reservations list: from the address and back to it. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from bettercompute import states
from bettercompute.pages import chips, parts
from bettercompute.pages.parts import Option
from bettercompute.states import ReservationState
from reservations.pages.presentation import Row
from reservations.queries import Filters

_GROUPS: Mapping[str, tuple[ReservationState, ...]] = {
    "": (),
    "live": chips.LIVE,
    "over": chips.OVER,
}
_SCOPES = ("mine", "shared", "all")


@dataclass(frozen=True, slots=True)
class Choice:
    """The filters as the address holds them."""

    scope: str
    state: str
    pool: str
    cursor: str

    @property
    def filters(self) -> Filters:
        """As the query takes them."""
        wanted = _GROUPS.get(self.state)
        if wanted is None:
            wanted = (ReservationState(self.state),)
        return Filters(self.scope, wanted, self.pool or None)

    def address(self, cursor: str) -> str:
        """The query of the address of another page of the same list."""
        chosen = {"scope": self.scope, "state": self.state, "pool": self.pool, "cursor": cursor}
        return "?" + urlencode({name: value for name, value in chosen.items() if value})


@dataclass(frozen=True, slots=True)
class Page:
    """The list's page."""

    scopes: tuple[Option, ...]
    states: tuple[Option, ...]
    pools: tuple[Option, ...]
    rows: tuple[Row, ...]
    filtered: bool
    next_href: str


def read(query: Mapping[str, str]) -> Choice:
    """The filters asked for; a value that is none of ours counts as absent."""
    scope, state = query.get("scope", ""), query.get("state", "")
    known = state in _GROUPS or state in states.VISIBLE
    return Choice(
        scope=scope if scope in _SCOPES else "mine",
        state=state if known else "",
        pool=query.get("pool", ""),
        cursor=query.get("cursor", ""),
    )


def page(
    choice: Choice,
    rows: Iterable[Row],
    *,
    tenant_name: str,
    pools: Iterable[tuple[str, str]],
    next_cursor: str | None,
) -> Page:
    """The list with its filters as they stand."""
    choices = [("", "any"), ("live", "not over"), ("over", "over")]
    choices += [(state, chips.RESERVATION[state].label) for state in states.VISIBLE]
    return Page(
        scopes=parts.options(
            [("mine", "Mine"), ("shared", "Shared with me"), ("all", f"All of {tenant_name}")],
            choice.scope,
        ),
        states=parts.options(choices, choice.state),
        pools=parts.filter_options([("", "any"), *pools], choice.pool),
        rows=tuple(rows),
        filtered=bool(choice.state or choice.pool or choice.cursor or choice.scope != "mine"),
        next_href=choice.address(next_cursor) if next_cursor else "",
    )
