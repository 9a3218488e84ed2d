"""What this process holds: shards of the work queue and singleton jobs, by lease (C29-C34).

Each held name has a lock of this process, so that at most one fenced transaction runs under its
lease, with renewals between them, however long its user takes (C30). Shards are shared out fairly:
a process holds at most its part of them, by the number of workers whose heart beats, and gives up
what is more than that. What a process of this host held that is known to be dead is free at once.
"""

import logging
import math
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from django.db import Error

from bettercompute import clock
from bettercompute.coordination import (
    fencing,
    heartbeats,
    leases,
    owner,
    presence,
    reconnecting,
    workqueue,
)
from bettercompute.coordination.fencing import LeaseLost
from bettercompute.coordination.heartbeats import Role
from bettercompute.coordination.leases import Lease

log = logging.getLogger(__name__)

SHARD_PREFIX = "shard:"
RENEW_AFTER = timedelta(seconds=leases.RENEW_AFTER_SECONDS)
BEAT_AFTER = timedelta(seconds=heartbeats.BEAT_SECONDS)
LOOK_AFTER = timedelta(seconds=1)  # how often to look for leases that lapsed
TIDYING_SECONDS_MAX = 0.2
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


def shard_name(shard: int) -> str:
    """The lease's name of a shard."""
    return f"{SHARD_PREFIX}{shard}"


@dataclass(slots=True)
class Held:
    """One lease of ours, and the lock under which it is used."""

    lease: Lease
    renewed_at: datetime
    busy: threading.Lock = field(default_factory=threading.Lock)
    in_use: bool = False  # busy with work, not just being tidied
    # A renewal now would wait for the transaction's lock on the row, and those behind it too.
    writing: bool = False
    # Claims in a new shard are the old holder's; after an error of the database we do not know
    # which of our own stand. Both are voided before the next look.
    claims_doubtful: bool = True

    def stale(self) -> bool:
        """Whether it is time to renew."""
        return clock.now() - self.renewed_at >= RENEW_AFTER


class Holdings:
    """The leases of one process. Thread-safe; one object a process."""

    def __init__(self, singletons: Iterable[str] = ()) -> None:
        self.singletons = [f"singleton:{name}" for name in singletons]
        self._held: dict[str, Held] = {}
        self._changing = threading.Lock()
        self._refreshing = threading.Lock()
        self._closed = False
        self._looked_at = LONG_AGO
        self._beaten_at = LONG_AGO

    def shards(self) -> list[int]:
        """The shards we hold that no thread of ours is using now."""
        return sorted(
            _shard(name)
            for name, held in list(self._held.items())
            if name.startswith(SHARD_PREFIX) and not held.in_use
        )

    def lease(self, name: str) -> Lease | None:
        """Our lease of this name, if we hold it."""
        held = self._held.get(name)
        return None if held is None else held.lease

    @contextmanager
    def using(self, name: str) -> Iterator[Held | None]:
        """Have a held lease to ourselves; None where it is not ours or another thread uses it."""
        held = self._held.get(name)
        # Tidying takes a moment: waited for, since whoever woke us will not do so again.
        if held is None or held.in_use or not held.busy.acquire(timeout=TIDYING_SECONDS_MAX):
            yield None
            return
        held.in_use = True
        try:
            yield held
        except Error:
            held.claims_doubtful = True
            raise
        finally:
            held.in_use = False
            held.busy.release()

    @contextmanager
    def fenced(self, held: Held) -> Iterator[None]:
        """One transaction of a lease's user, which commits only while the lease is in force.

        Raises:
            LeaseLost: the term has ended; the transaction did nothing.
        """
        if not self.renew_if_stale(held):
            raise LeaseLost(f"{held.lease.name} at epoch {held.lease.epoch} is not ours any more")
        held.writing = True
        try:
            with fencing.fenced(held.lease):
                yield
        except LeaseLost:
            self.lose(held.lease)
            raise
        finally:
            held.writing = False

    def renew_if_stale(self, held: Held) -> bool:
        """Between two transactions of a user: keep the lease alive. False where it is lost."""
        return not held.stale() or bool(self._prolong([held]))

    def lose(self, lease: Lease) -> None:
        """Forget a lease that turned out to be somebody else's."""
        with self._changing:
            held = self._held.get(lease.name)
            if held is None or held.lease != lease:
                return
            del self._held[lease.name]
        log.info("lost %s at epoch %s", lease.name, lease.epoch)

    def refresh(self) -> None:
        """Beat, renew what is due, free what the dead held, take what is free up to our share.

        An unreachable database changes nothing (C33): what we hold stays held in memory, and the
        fence decides at the next write.
        """
        if self._closed or not self._refreshing.acquire(blocking=False):
            return
        try:
            self._beat()
            self._renew()
            if clock.now() - self._looked_at >= LOOK_AFTER:
                self._looked_at = clock.now()
                presence.free_what_the_dead_held()
                self._share()
            self._void_claims()
        except Error as error:
            log.warning("The database is unreachable (%s); leases are kept in memory.", error)
            self._doubt()
            reconnecting.drop_if_broken()
        finally:
            self._refreshing.release()

    def give_up_all(self) -> None:
        """End every term of ours at once, and take none again: a clean stop (C29)."""
        self._closed = True
        with self._refreshing:  # a refresh under way takes what it takes; then it is given up
            pass
        for held in list(self._held.values()):
            with held.busy:  # after the transaction under way
                leases.give_up(held.lease)
                self._held.pop(held.lease.name, None)
        heartbeats.stop()
        presence.leave()

    def _beat(self) -> None:
        if clock.now() - self._beaten_at >= BEAT_AFTER:
            heartbeats.beat(Role.WORKER)
            self._beaten_at = clock.now()

    def _renew(self) -> None:
        """Renew all that is due in one statement, in use or not, but for what is being written."""
        due = [held for held in list(self._held.values()) if held.stale() and not held.writing]
        if due:
            self._prolong(due)
            clock.synchronise()  # C7: sampled at every renewal

    def _prolong(self, due: list[Held]) -> list[Held]:
        """Take these leases again; answers those whose terms go on."""
        now = clock.now()
        taken = {lease.name: lease for lease in leases.take_many(h.lease.name for h in due)}
        kept = [held for held in due if taken.get(held.lease.name) == held.lease]
        for held in due:
            if held not in kept:
                self.lose(held.lease)
        for lease in taken.values():  # one that had ended and was free is ours in a new term
            self._adopt(lease, now)
        return kept

    def _share(self) -> None:
        fair = math.ceil(workqueue.SHARDS / max(1, len(heartbeats.alive(Role.WORKER))))
        names = [shard_name(shard) for shard in range(workqueue.SHARDS)]
        ours = [name for name in names if name in self._held]
        for name in ours[fair:]:
            self._give_up_idle(name)
        missing = [name for name in self.singletons + names if name not in self._held]
        if not missing:
            return
        # Ours too, where a take committed and its answer was lost: we hold it and do not know.
        free = leases.free(missing, but=owner.OWNER)
        free_shards = [name for name in free if name in names][: max(0, fair - len(ours))]
        self._take([name for name in free if name in self.singletons] + free_shards)

    def _take(self, names: list[str]) -> None:
        now = clock.now()
        for lease in leases.take_many(names) if names else []:
            self._adopt(lease, now)

    def _adopt(self, lease: Lease, now: datetime) -> None:
        """Hold what was taken a moment after ``now``, in the term that we had or in a new one."""
        with self._changing:
            held = self._held.get(lease.name)
            if held is not None and held.lease == lease:
                held.renewed_at = now
            else:
                self._held[lease.name] = Held(lease, now)

    def _void_claims(self) -> None:
        doubtful = [
            held
            for name, held in list(self._held.items())
            if held.claims_doubtful
            and name.startswith(SHARD_PREFIX)
            and held.busy.acquire(blocking=False)
        ]
        if not doubtful:
            return
        try:
            workqueue.unclaim(_shard(held.lease.name) for held in doubtful)
            for held in doubtful:
                held.claims_doubtful = False
        finally:
            for held in doubtful:
                held.busy.release()

    def _give_up_idle(self, name: str) -> None:
        held = self._held.get(name)
        if held is not None and held.busy.acquire(blocking=False):
            try:
                leases.give_up(held.lease)
                self._held.pop(name, None)
            finally:
                held.busy.release()

    def _doubt(self) -> None:
        self._looked_at = LONG_AGO
        for held in list(self._held.values()):
            held.claims_doubtful = True


def _shard(name: str) -> int:
    return int(name.removeprefix(SHARD_PREFIX))
