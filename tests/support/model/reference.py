"""The reference: what must be answered, refused, kept and given back, from the documents alone.

It is exact where the documents are: what is refused and why, states, windows, leases, quotas, what
is charged, who still holds a device. Which node and which devices are taken is free; there it takes
over what was answered and says whether that was legal. Whether there was room is exact again: what
fits is placed, and what waits does not fit.

``expect_…`` says what a call must answer, before it is made; ``…ed`` notes that it was;
``observe`` compares everything with what is shown once all that was due has been done.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from tests.support.model import entries, following, wish
from tests.support.model.cloud import Cloud, Key
from tests.support.model.disagreement import require
from tests.support.model.entries import (
    CONFLICT,
    DENIED,
    INVALID_STATE,
    NOT_FOUND,
    OVER_QUOTA,
    Entry,
    Refusal,
    Said,
    Who,
)
from tests.support.model.ground import Pool

Body = Mapping[str, Any]
Shown = Mapping[str, Any]


class Reference(Cloud):
    """What each call must answer, and what is shown when nothing is due any more."""

    # --- what is asked --------------------------------------------------------------------------

    def expect_create(self, who: Who, key: str, body: Body, now: int) -> Refusal | int:
        """The refusal, or the status of the answer."""
        asked = wish.read(body)
        pool = self.pools[asked.pool]
        if who.tenant not in pool.tenants:
            return NOT_FOUND
        known = self.entries.get((who.tenant, who.id, key))
        if known is not None and known.body != body:
            return CONFLICT
        if known is not None and known.state != "draft":
            return DENIED if known.state == "denied" else 200
        if _beyond(asked, pool, now):
            return DENIED
        return 201 if self._is_in_quota(who.tenant, asked.charges(pool)) else OVER_QUOTA

    def asked(self, who: Who, key: str, body: Body, now: int) -> Entry:
        """A create reached the pool: its key is used from now on."""
        made = Entry(who.tenant, who.id, key, dict(body), wish.read(body), created=now)
        made.duration = made.wish.duration
        return self.entries.setdefault((who.tenant, who.id, key), made)

    def denied(self, entry: Entry) -> None:
        """It was refused for good."""
        entry.state, entry.reason = "denied", "denied"

    def created(self, entry: Entry, shown: Shown, now: int) -> None:
        """It was acknowledged: it is charged, and waits at the most."""
        pool = self.pool_of(entry)
        share = entry.wish.share(pool)
        require(shown["hostShare"] == ({"vcpu": share} if share else {}), f"share {share}: {shown}")
        entry.id, entry.state = shown["id"], "pending"
        entry.charges = entry.wish.charges(pool)
        if entry.wish.start is not None and entry.wish.start > now:
            entry.start, entry.end = entry.wish.start, entry.wish.start + entry.duration

    def fits_now(self, entry: Entry, now: int) -> bool:
        """Whether there is room for it from now on, or from its start."""
        start = entry.wish.begins(now)
        pool = self.pool_of(entry)
        return wish.fits(entry.wish, pool, self.ground, start=start, duration=entry.duration)

    def would_fit(self, who: Who, body: Body, now: int, *, start: int | None = None) -> bool:
        """Whether a create of this body would be placed at once."""
        asked = wish.read(body)
        pool = self.pools[asked.pool]
        if _beyond(asked, pool, now) or not self._is_in_quota(who.tenant, asked.charges(pool)):
            return False
        begins = asked.begins(now) if start is None else start
        return wish.fits(asked, pool, self.ground, start=begins, duration=asked.duration)

    def expect_extend(
        self, who: Who, entry: Entry, key: str, body: Body
    ) -> Refusal | tuple[bool, int | None]:
        """The refusal; or whether the end moves, and if not, what bounds it."""
        if who.tenant != entry.tenant:
            return NOT_FOUND
        made = entry.extensions.get((who.id, key))
        if made is not None:
            return (True, None) if made == body else CONFLICT
        if entry.state not in entries.HOLDING:
            return INVALID_STATE
        assert entry.start is not None
        assert entry.end is not None
        end = _end_after(entry, body)
        if end <= entry.end:
            return False, None
        if end - entry.start > self.pool_of(entry).max_duration:
            return DENIED
        bound = self.bound(entry)
        return (True, None) if bound is None or bound >= end else (False, bound)

    def extended(self, who: Who, entry: Entry, key: str, body: Body) -> None:
        """Its end moved."""
        if (who.id, key) in entry.extensions:
            return
        end = _end_after(entry, body)
        assert entry.start is not None
        entry.end, entry.duration = end, end - entry.start
        entry.extensions[who.id, key] = dict(body)
        for allocation in entry.live:
            self.ground.prolong(allocation, end)

    def bound(self, entry: Entry) -> int | None:
        """Until when it could go on."""
        assert entry.end is not None
        return self.ground.bound([self.ground.claims[each] for each in entry.live], entry.end)

    def expect_renew(self, who: Who, entry: Entry) -> Refusal | None:
        """The refusal, if it is one."""
        if who.tenant != entry.tenant:
            return NOT_FOUND
        if entry.wish.lease is None or entry.state not in entries.HOLDING:
            return INVALID_STATE
        return None

    def renewed(self, entry: Entry, now: int) -> None:
        """Its lease begins anew."""
        assert entry.wish.lease is not None
        entry.lease_until = now + entry.wish.lease

    def expect_end(self, who: Who, entry: Entry, now: int, *, cancel: bool) -> Refusal | None:
        """The refusal of a release or a cancel, if it is one."""
        if who.tenant != entry.tenant:
            return NOT_FOUND
        if who.role != "admin" and who.id != entry.owner:
            return DENIED
        ahead = entry.state == "placed" and entry.start is not None and entry.start > now
        if cancel and not (entry.state == "pending" or ahead):
            return INVALID_STATE
        return None

    def ended(self, entry: Entry, now: int, *, cancel: bool) -> None:
        """It was released or cancelled, which an ended one does not mind."""
        if entry.state in entries.OVER:
            return
        if cancel or entry.state == "pending":
            self.close(entry, "cancelled", None, now)
        else:
            self.close(entry, "released", "release", now)

    # --- what nodes say -------------------------------------------------------------------------

    def heard(self, allocation: str, said: Said, now: int) -> None:
        """An agent said what became of an allocation."""
        held = self.held.get(allocation)
        require(held, f"{allocation} is {said}, and no node was to be asked for it")
        assert held is not None
        held.said = said
        if said is Said.BOUND:
            return
        del self.held[allocation]
        for entry in self.entries.values():
            if said is Said.FAILED and allocation in entry.live:
                entry.failed.add(allocation)
            if allocation in entry.releasing:
                entry.releasing.discard(allocation)
                self.ground.give_back(allocation, now)

    # --- what is shown --------------------------------------------------------------------------

    def observe(self, shown: Mapping[Key, Shown], now: int, *, all_looked: bool) -> None:
        """Everything as it is answered when nothing is due any more.

        ``all_looked`` says that so much time has passed that whatever waits was tried since.
        """
        self._expire_drafts(now)
        known = {key: entry for key, entry in self.entries.items() if entry.state != "draft"}
        require(known.keys() == shown.keys(), f"there are {sorted(shown)}, not {sorted(known)}")
        for key, entry in known.items():
            entry.id = entry.id or shown[key]["id"]
        following.follow(self, known, shown, now)
        require(not self.ground.doubles(), f"held twice: {self.ground.doubles()}")
        for entry in known.values():
            if entry.state == "pending":
                require(not self.fits_now(entry, now), f"{entry.id} waits, and it fits: {entry}")
            if all_looked and entry.state == "placed" and entry.is_checked(now):
                require(not self._could_move(entry), f"{entry.id} could be repaired: {entry}")

    def used(self, tenant: str) -> dict[str, int]:
        """What a tenant is charged."""
        total: Counter[str] = Counter()
        for entry in self.entries.values():
            if entry.tenant == tenant:
                total.update(entry.charges)
        return dict(total)

    def _could_move(self, entry: Entry) -> bool:
        """Whether something cannot serve and there is better. Of a gang that is not asked."""
        if entry.wish.nodes > 1 or all(self.serves(entry, each) for each in entry.live):
            return False
        assert entry.start is not None
        pool = self.pool_of(entry)
        return wish.fits(entry.wish, pool, self.ground, start=entry.start, duration=entry.duration)

    def _is_in_quota(self, tenant: str, charges: Mapping[str, int]) -> bool:
        used, limits = self.used(tenant), self.limits[tenant]
        return all(
            used.get(resource, 0) + amount <= limits.get(resource, 0)
            for resource, amount in charges.items()
        )

    def has_abandoned(self, now: int) -> bool:
        """Whether there is a draft that nobody came back to."""
        return any(_is_abandoned(entry, now) for entry in self.entries.values())

    def _expire_drafts(self, now: int) -> None:
        for entry in self.entries.values():
            if _is_abandoned(entry, now):
                entry.state = "expired"


def _is_abandoned(entry: Entry, now: int) -> bool:
    return entry.state == "draft" and entry.created + entries.DRAFT_LIFETIME <= now


def _beyond(asked: wish.Wish, pool: Pool, now: int) -> bool:
    """Whether the pool's limits refuse it."""
    ahead = 0 if asked.start is None else asked.start - now
    return asked.duration > pool.max_duration or ahead > pool.max_ahead


def _end_after(entry: Entry, body: Body) -> int:
    assert entry.end is not None
    return int(body["until"]) if "until" in body else entry.end + int(body["by"])
