"""What is done to webhooks now and then: who has left, what is old, which key seals secrets."""

from collections.abc import Callable
from datetime import timedelta

from django.conf import settings

from bettercompute.coordination.fencing import Fence
from outbox.webhooks import endpoints, vault
from outbox.webhooks.deliveries import DELIVERIES
from outbox.webhooks.endpoints import ENDPOINTS

BATCH = 1_000
BATCHES_MAX = 50  # of one turn; the rest goes next time


def run(fence: Fence) -> int:
    """Every part, in small transactions of the lease's holder; answers how many rows."""
    with fence():
        deserted = endpoints.disable_deserted()
    with fence():  # by itself: it begins again with the first
        ENDPOINTS.run("forget_former")
    age = timedelta(days=settings.WEBHOOK_RETENTION_DAYS).total_seconds()
    expired = _in_batches(
        fence, lambda: DELIVERIES.run("expire", seconds=age, limit=BATCH)
    ) + _in_batches(fence, lambda: DELIVERIES.run("expire_deleted", limit=BATCH))
    with fence():
        ENDPOINTS.run("drop")
    return deserted + expired + reseal(fence)


def reseal(fence: Fence) -> int:
    """Seal by the key in use what another one sealed, so that the other can go."""
    done = 0
    for (endpoint_id,) in ENDPOINTS.all("sealed_otherwise", current=vault.current()):
        with fence():
            row = ENDPOINTS.one("sealed", id=endpoint_id)
            if row is None:
                continue
            secret, formers = _anew(row[0]), [_anew(each) for each in row[1]]
            if (secret, formers) != row:
                ENDPOINTS.run("reseal", id=endpoint_id, secret=secret, former_secrets=formers)
                done += 1
    return done


def _anew(sealed: str) -> str:
    """Sealed by the key in use; as it was where it is, or where none of ours opens it."""
    if not sealed or sealed.startswith(f"{vault.current()}:"):
        return sealed
    try:
        return vault.seal(vault.unseal(sealed))
    except vault.Unreadable:
        return sealed  # the self-check says so


def _in_batches(fence: Fence, remove: Callable[[], int]) -> int:
    total = 0
    for _ in range(BATCHES_MAX):
        with fence():
            removed = remove()
        total += removed
        if removed < BATCH:
            break
    return total
