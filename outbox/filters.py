"""Which events somebody wants to see: of which tenant, which types, about what."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from bettercompute import errors
from outbox import catalog

WILDCARD = ".*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What a reader of events asks for; None does not restrict.

    ``tenant_id`` None is all tenants, which only operators are given (``outbox.rights``).
    """

    tenant_id: str | None
    types: frozenset[str] | None = None
    subject: str | None = None
    start: datetime | None = None  # from then on
    end: datetime | None = None  # before then

    def match(self, *, type: str, tenant_id: str, subject: str) -> bool:  # noqa: A002
        """Whether a new event is asked for; new ones are not judged by their time."""
        return (
            (self.tenant_id is None or self.tenant_id == tenant_id)
            and (self.types is None or type in self.types)
            and (self.subject is None or self.subject == subject)
        )


def types(asked: Iterable[str]) -> frozenset[str] | None:
    """The types that names and prefixes mean; None where nothing is named.

    Raises:
        InvalidInput: a name that no type has, or a prefix of none.
    """
    names = [name.strip() for each in asked for name in each.split(",")]
    if not names:
        return None
    return frozenset(kind for name in names for kind in _meant(name))


def _meant(name: str) -> list[str]:
    if name in catalog.BY_NAME:
        return [name]
    if name.endswith(WILDCARD):
        group = name.removesuffix(WILDCARD)
        found = [kind.name for kind in catalog.TYPES if kind.group == group]
        if found:
            return found
    groups = ", ".join(sorted(group + WILDCARD for group in catalog.GROUPS))
    raise errors.InvalidInput.at(
        "types", f"there is no type {name[:100]!r}; give types of the catalogue, or any of {groups}"
    )
