"""Self-checks of the outbox (C24, C39)."""

from datetime import timedelta

from bettercompute.findings import Finding
from outbox import cluster, dispatch

HORIZON_MAX = timedelta(seconds=30)
LAG_MAX = timedelta(minutes=1)
STATEMENT_SHOWN = 120


def horizon() -> list[Finding]:
    """A transaction left open stalls every reader of events."""
    stall = dispatch.stall()
    if stall is None or stall.age < HORIZON_MAX:
        return []
    runs = " ".join(stall.statement.split())[:STATEMENT_SHOWN]
    what = f"{stall.state or 'in a state we may not see'}, last statement: {runs or 'unknown'}"
    return [
        Finding(
            "outbox.horizon",
            f"{stall.who} (user {stall.user}, application {stall.application or 'unnamed'},"
            f" database {stall.database}; {what}) has had a transaction open for {stall.age};"
            " no event written since can be read.",
            "End that transaction: SELECT pg_terminate_backend(<pid>), or ROLLBACK PREPARED.",
        )
    ]


def lag() -> list[Finding]:
    """A sink that falls behind."""
    return [
        Finding(
            "outbox.lag",
            f"{sink} has {count} events before it, the oldest {age} old.",
            "See that a worker runs, and what its log says about this sink; if the sink is no more,"
            " forget its cursor in the admin.",
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
            "Run manage.py outbox_rebase; it may be done while the control plane runs.",
        )
    ]


ALL = (horizon, lag, same_cluster)
