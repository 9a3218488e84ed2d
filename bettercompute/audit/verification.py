"""Whether the audit is as it was written: what was changed, added or taken out shows (``sealing``).

What cannot be verified because nobody has its key any more is told apart from what is wrong.
"""

import hmac
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from bettercompute import clock, sql
from bettercompute.audit import entries, keys, sealing

LINKS_PER_QUERY = 1_000
#: No setting lets entries go sooner, so whoever took them out sooner was no sweep of ours.
KEPT_AT_LEAST = timedelta(days=30)
_COLUMNS = (
    "seq",
    "id",
    "at",
    "tenant_id",
    "account_id",
    "username",
    "operator",
    "role",
    "via",
    "token_id",
    "token_name",
    "address",
    "user_agent",
    "request_id",
    "action",
    "object_kind",
    "object_id",
    "outcome",
    "code",
    "policies",
    "detail",
    "key_id",
    "mac",
)


@dataclass(frozen=True, slots=True)
class Link:
    """A seal, as it is stored."""

    number: int
    sealed_at: datetime
    members: str
    count: int
    upto: int
    root: bytes
    key_id: str
    digest: bytes
    removed_at: datetime | None


@dataclass(slots=True)
class Found:
    """What a look at the audit found."""

    wrong: list[str] = field(default_factory=list)
    #: keys that nobody has any more
    keys_lost: set[str] = field(default_factory=set)
    entries: int = 0
    links: int = 0


def links(first: int = 1) -> Iterator[Link]:
    """The chain from a number on."""
    while page := _links(first):
        yield from page
        first = page[-1].number + 1


def newest(found: Found, limit: int) -> list[Link]:
    """Look at the end of the chain; answers its links."""
    last = sealing.SEALS.one("last")
    if last is None:
        return []
    first = max(1, last[0] - limit)
    known = _links(first)[: limit + 1]
    if known[0].number != first:
        found.wrong.append(f"seal {first} is missing")
    elif first == 1:
        chain(found, None, known[0])
    for before, link in pairwise(known):
        chain(found, before, link)
    return known


def chain(found: Found, before: Link | None, link: Link) -> None:
    """Look at one link behind the one before; None is the beginning."""
    found.links += 1
    if link.number != (1 if before is None else before.number + 1):
        found.wrong.append(f"a seal before {link.number} is missing")
        return
    if link.removed_at is not None and not _grew_old(link.sealed_at, link.removed_at):
        found.wrong.append(f"the entries of seal {link.number} were taken out too soon")
    if not _says_what_it_covers(before, link):
        found.wrong.append(f"seal {link.number} is said to cover what it does not")
    key = keys.known().get(link.key_id)
    if key is None:
        found.keys_lost.add(link.key_id)
        return
    expected = sealing.digest(
        key,
        number=link.number,
        before=b"" if before is None else before.digest,
        sealed_at=link.sealed_at,
        count=link.count,
        root=link.root,
    )
    if not hmac.compare_digest(expected, link.digest):
        found.wrong.append(f"seal {link.number} is not as it was made")


def members(found: Found, link: Link) -> None:
    """Look at the entries of a link that are still kept."""
    if link.removed_at is not None:
        return
    rows = sealing.SEALS.all("sealed", number=link.number)
    known = [dict(zip(_COLUMNS, row, strict=True)) for row in rows]
    for values in known:
        entry(found, values)
    top = sealing.root((values["seq"], bytes(values["mac"])) for values in known)
    if len(known) != link.count or not hmac.compare_digest(top, link.root):
        found.wrong.append(
            f"of the {link.count} entries of seal {link.number} some were taken out or exchanged"
        )


def entry(found: Found, values: dict[str, Any]) -> None:
    """Look at one entry."""
    found.entries += 1
    key = keys.known().get(values["key_id"])
    if key is None:
        found.keys_lost.add(values["key_id"])
        return
    if isinstance(values["detail"], str):
        values = {**values, "detail": json.loads(values["detail"])}
    expected = keys.mac(key, entries.canonical(values))
    if not hmac.compare_digest(expected, bytes(values["mac"])):
        found.wrong.append(f"entry {values['id']} is not as it was written")


def _says_what_it_covers(before: Link | None, link: Link) -> bool:
    """Or whatever is entered there would be passed by for sealed, and could go without a trace."""
    count, end = sealing.covered(link.members)
    return count == link.count and link.upto == max(end, 0 if before is None else before.upto)


def _grew_old(sealed_at: datetime, removed_at: datetime) -> bool:
    return sealed_at + KEPT_AT_LEAST <= removed_at <= clock.now()


def _links(first: int) -> list[Link]:
    rows = sealing.SEALS.all("chain", first=first, limit=LINKS_PER_QUERY)
    return [_link(row) for row in rows]


def _link(row: sql.Row) -> Link:
    number, sealed_at, stored, count, upto, root, key_id, digest, removed_at = row
    return Link(
        number, sealed_at, stored, count, upto, bytes(root), key_id, bytes(digest), removed_at
    )
