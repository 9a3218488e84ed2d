"""Self-checks of the outbox (C24, C39)."""

from datetime import timedelta

from bettercompute import findings
from bettercompute.findings import Check, Finding
from outbox import cluster, dispatch

HORIZON_MAX = timedelta(seconds=30)
LAG_MAX = timedelta(minutes=1)
STATEMENT_SHOWN = 120


@findings.check("outbox.horizon")
def horizon() -> list[Finding]:
    """No transaction left open stalls the readers of events (C24)."""
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


@findings.check("outbox.lag")
def lag() -> list[Finding]:
    """No sink of events falls behind by more than a minute (C22)."""
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


@findings.check("outbox.cluster")
def same_cluster() -> list[Finding]:
    """The transaction ids of events are this database cluster's (C21)."""
    if cluster.is_ours():
        return []
    return [
        Finding(
            "outbox.cluster",
            "The outbox was restored from another database cluster; events are not delivered.",
            "Run manage.py outbox_rebase; it may be done while the control plane runs.",
        )
    ]


ALL: tuple[Check, ...] = (horizon, lag, same_cluster)
