"""Where one can go from every page: four places in the bar, all others in groups behind More."""

from dataclasses import dataclass

from django.urls import reverse

from bettercompute.pages.parts import Link

# Section, label, name of the URL, and the strokes of its icon on an 18 x 18 grid.
_BAR = (
    ("home", "Home", "home", "M3 8.2 9 3l6 5.2V15H3zM7.2 15v-4h3.6v4"),
    ("pools", "Pools", "pools", "M3 4h12v4H3zM3 10h12v4H3zM6 6h.1M6 12h.1"),
    ("reserve", "Reserve", "reserve", "M9 4v10M4 9h10"),
    ("reservations", "Reservations", "reservations", "M3 5h8M3 9h12M3 13h6"),
)
# Of each group its places: section, label, name of the URL, and who is shown it.
_EVERYBODY, _ADMINS, _OPERATORS = "", "admin", "operator"
_GROUPS = (
    (
        "Reservations",
        (
            ("series", "Recurring", "series", _EVERYBODY),
            ("calendar-feeds", "Calendar feeds", "calendar-feeds", _EVERYBODY),
            ("usage", "Usage and budgets", "usage", _EVERYBODY),
        ),
    ),
    (
        "Programs",
        (
            ("confirmations", "Confirmations", "confirmations", _EVERYBODY),
            ("tokens", "API tokens", "tokens", _EVERYBODY),
            ("webhooks", "Webhooks", "webhooks", _EVERYBODY),
            ("events", "Events", "events", _EVERYBODY),
        ),
    ),
    (
        "Rules",
        (
            ("policies", "Policies", "policies", _EVERYBODY),
            ("audit", "Audit", "audit", _ADMINS),
            ("admin", "Operator admin", "admin:index", _OPERATORS),
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Group:
    """Places that belong together."""

    label: str
    links: tuple[Link, ...]


@dataclass(frozen=True, slots=True)
class Navigation:
    """What the frame offers: the bar, and what is behind More."""

    bar: tuple[Link, ...]
    groups: tuple[Group, ...] = ()

    @property
    def is_behind_more(self) -> bool:
        """Whether the page that is shown stands there."""
        return any(link.current for group in self.groups for link in group.links)


def of(section: str, *, role: str = "", is_operator: bool = False) -> Navigation:
    """For a page of this section; without a role, as nobody in particular sees it."""
    bar = tuple(
        Link(reverse(url), label, key == section, icon, thumb_only=key == "reserve")
        for key, label, url, icon in _BAR
    )
    if not role:
        return Navigation(bar)
    shown = {_EVERYBODY, role, _OPERATORS if is_operator else _EVERYBODY}
    groups = (
        Group(
            label,
            tuple(
                Link(reverse(url), name, key == section)
                for key, name, url, who in places
                if who in shown
            ),
        )
        for label, places in _GROUPS
    )
    return Navigation(bar, tuple(groups))
