"""Self-checks of the outbox (C24, C39)."""

from datetime import timedelta

from bettercompute.findings import Finding
from outbox import cluster, dispatch

HORIZON_MAX = timedelta(seconds=30)
LAG_MAX = timedelta(minutes=1)


def horizon() -> list[Finding]:
    """A transaction left open stalls every reader of events."""
    holder = dispatch.horizon()
    if holder is None or holder[1] < HORIZON_MAX:
        return []
    who, age = holder
    return [
        Finding(
            "outbox.horizon",
            f"{who} has had a transaction open for {age}; no event behind it can be read.",
            "End that transaction: SELECT pg_terminate_backend(pid), or ROLLBACK PREPARED.",
        )
    ]


def lag() -> list[Finding]:
    """A sink that falls behind."""
    return [
        Finding(
            "outbox.lag",
            f"{sink} has {count} events before it, the oldest {age} old.",
            "See that a worker runs, and what its log says about this sink.",
        )
        for sink, count, age in dispatch.lag()
        if age > LAG_MAX
    ]


def same_cluster() -> list[Finding]:
    """Transaction ids of another cluster after a restore."""
    if cluster.is_ours():
        return []
    return [
        Finding(
            "outbox.cluster",
            "The outbox was restored from another database cluster; events are not delivered.",
            "Stop the control plane, run manage.py outbox_rebase, start it again.",
        )
    ]


ALL = (horizon, lag, same_cluster)
