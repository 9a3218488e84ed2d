"""What metrics say of work, leases and processes."""

import importlib
from collections import Counter
from collections.abc import Iterable
from typing import Any

from django.conf import settings

from bettercompute import sql
from bettercompute.coordination import heartbeats, roles
from bettercompute.coordination.checks import ATTEMPTS_MANY
from bettercompute.coordination.heartbeats import Role
from bettercompute.telemetry.gauges import Gauge, Look

GAUGES = sql.load(__package__, "gauges")


def work() -> Iterable[Gauge]:
    """What is in the work queue, by kind."""
    items = Gauge(
        "work_queue_items", "Items of the work queue: due, or waiting.", ("kind", "state")
    )
    failing = Gauge(
        "work_queue_failing_items", f"Items that failed {ATTEMPTS_MANY} times or more.", ("kind",)
    )
    oldest = Gauge(
        "work_queue_oldest_due_seconds", "How long the most overdue item is due.", ("kind",)
    )
    wiring: Any = importlib.import_module(settings.WIRING)
    for kind in wiring.reconcilers():
        items.add(0, kind, "due")
        items.add(0, kind, "waiting")
        failing.add(0, kind)
        oldest.add(0, kind)
    for kind, due, waiting, failed, late in GAUGES.all("work", attempts_many=ATTEMPTS_MANY):
        items.add(due, kind, "due")
        items.add(waiting, kind, "waiting")
        failing.add(failed, kind)
        oldest.add(late.total_seconds(), kind)
    return items, failing, oldest


def leases() -> Iterable[Gauge]:
    """Who is in charge; pools' and gateways' leases come and go, and are only counted."""
    held = Gauge("lease_held", "Whether somebody holds a lease that somebody should.", ("lease",))
    holder = Gauge("lease_holder_info", "Who holds it: host and process.", ("lease", "holder"))
    age = Gauge("lease_age_seconds", "How long its holder has held it.", ("lease",))
    epoch = Gauge("lease_epoch", "How many terms it has had: each takeover is one.", ("lease",))
    others = Gauge("leases", "Leases in force, by what they are for.", ("kind",))
    ages = {name: lasted.total_seconds() for name, lasted in GAUGES.all("lease_ages")}
    wanted = set(roles.wanted())
    counts = Counter(name.partition(":")[0] for name in ages)
    for kind in ("shard", "singleton", "gateway", "pool"):
        others.add(counts[kind], kind)
    for role in roles.listed():
        if role.name not in wanted:
            continue
        held.add(role.held, role.name)
        epoch.add(role.epoch, role.name)
        if role.held:
            holder.add(1, role.name, role.note)
            age.add(ages.get(role.name, 0.0), role.name)
    return held, holder, age, epoch, others


def processes() -> Iterable[Gauge]:
    """Which processes of the control plane could write a moment ago."""
    alive = Gauge("processes", "Processes that beat within the last 15 seconds.", ("role",))
    for role in Role:
        alive.add(0, role)
    for role, count in GAUGES.all("processes", seconds=heartbeats.ALIVE_SECONDS):
        alive.add(count, role)
    return (alive,)


ALL: tuple[Look, ...] = (work, leases, processes)
