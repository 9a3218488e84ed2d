"""One way to break each promise of the self-check, on a system that is otherwise well (C39).

A damage is done by SQL where no use case can do it, since none may; by a real foreign session, a
wrong clock or a dead broker where that is the matter.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import psycopg
import pytest
from django.conf import settings
from django.db import connection, transaction

from bettercompute import acts, clock, wiring
from bettercompute.audit import checks as audit
from bettercompute.audit import entries, keys
from bettercompute.coordination import checks as coordination
from bettercompute.coordination import holdings, leases, timeouts, workqueue
from bettercompute.coordination.models import Heartbeat, WorkItem
from bettercompute.iam import projection
from bettercompute.iam.models import AuthzResource, Policy
from nodes import assignments, bookings, resources
from nodes.assignments import PlannedAssignment
from nodes.models import Assignment, Node, NodeCondition, NodeResource
from outbox import checks as outbox
from outbox import dispatch
from pools import quota
from pools.models import QuotaUsage
from reservations import ending
from reservations.models import Allocation, Confirmation, Reservation, Series
from reservations.series import rollout
from tests.support import cast, delegates, make, supply, webhook_damage

ROLES = ("worker", "web", "beat", "gateway")


@dataclass(frozen=True, slots=True)
class World:
    """A system at work: one of each that matters."""

    node: Node
    active: Reservation
    pending: Reservation
    ended: Reservation
    free_device: str
    series: str
    asked: Confirmation  # some of its occurrences are written down, none but the first is booked

    @property
    def allocation(self) -> Allocation:
        """What the active one holds."""
        return self.active.allocations.get()


class Deaf:
    """A sink that takes everything."""

    def deliver(self, events: object) -> None:
        """Forget it."""


def healthy() -> World:
    """A world in which every promise is kept."""
    pool = make.pool(nodes=1, quota_gpus=64)
    alice = cast.caller("alice")
    active = make.active(alice, pool, gpus=2)
    pending = make.reservation(alice, pool, gpus=8)
    ended = make.reservation(alice, pool, gpus=1)
    ending.release(alice, reservation_id=ended.pk)
    make.look(ended)
    fortnight = {"rule": "FREQ=DAILY;COUNT=14", "timeZone": "UTC"}
    series = make.series(alice, pool, recurrence=fortnight)
    rollout.roll(series, make.fence)
    asked = delegates.ask("alice", gpus=1)
    Policy.objects.create(name="good", text="forbid(principal, action, resource);")
    projection.record("rsv_seen", "reservation", alice.tenant_id, {"gpus": 8})
    for role in ROLES:
        Heartbeat.objects.create(process=f"own_{role}", role=role, beaten_at=clock.now())
    leases.take_many(holdings.shard_name(shard) for shard in range(workqueue.SHARDS))
    leases.take_many(f"singleton:{job}" for job in wiring.ticks())
    dispatch.drain("deaf", Deaf(), fence=make.fence)
    node = Node.objects.get(pool=pool)
    held = set(active.allocations.get().device_ids)
    free = next(device for device in supply.devices(node) if device not in held)
    return World(node, active, pending, ended, free, series, asked)


_role_timeouts = timeouts.unset


def equip(patch: pytest.MonkeyPatch) -> None:
    """What no test's process has: a Celery worker that answers, and a role with timeouts."""
    patch.setattr(coordination, "answering_workers", lambda: ["celery@here"])
    patch.setattr(timeouts, "unset", list)


Do = Callable[[World, pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class Damage:
    """What is done, which check must see it, and what else cannot but be wrong then."""

    check: str
    do: Do
    also: frozenset[str]

    @property
    def expected(self) -> set[str]:
        """The names of all findings."""
        return {self.check, *self.also}


DAMAGES: list[Damage] = []


def _breaks(check: str, *also: str) -> Callable[[Do], Do]:
    def kept(do: Do) -> Do:
        DAMAGES.append(Damage(check, do, frozenset(also)))
        return do

    return kept


def run(statement: str, *parameters: object) -> None:
    """One statement, where keys that are checked late are checked first."""
    with connection.cursor() as cursor:
        # A table with checks still to do cannot be altered.
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute(statement, parameters)


@contextmanager
def foreign_session() -> Iterator[psycopg.Connection]:
    """Somebody else's session in the same database, with a transaction open."""
    parameters = connection.get_connection_params()
    known = ("host", "port", "user", "password", "dbname")
    with psycopg.connect(**{key: parameters[key] for key in known if key in parameters}) as other:
        yield other
        other.rollback()


# --- clock and schema ----------------------------------------------------------------------------


@_breaks("clock.skew")
def wall_clock_an_hour_ahead(world: World, patch: pytest.MonkeyPatch) -> None:
    real = coordination.time.time
    patch.setattr(coordination.time, "time", lambda: real() + 3_600)


@_breaks("clock.skew")
def process_stood_still(world: World, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(coordination.clock, "drift", lambda: timedelta(seconds=-7))


@_breaks("clock.source")
def clock_runs_ahead(world: World, patch: pytest.MonkeyPatch) -> None:
    body = "SELECT ts + interval '0' FROM public.compute_sim_clock"
    run(f"CREATE OR REPLACE FUNCTION compute_now() RETURNS timestamptz LANGUAGE sql AS $${body}$$")


@_breaks("clock.source")
def clock_in_another_schema(world: World, patch: pytest.MonkeyPatch) -> None:
    run("CREATE SCHEMA shadow")
    body = "SELECT public.compute_now() "
    run(f"CREATE FUNCTION shadow.compute_now() RETURNS timestamptz LANGUAGE sql AS $${body}$$")
    run("SET LOCAL search_path = shadow, public")


@_breaks("clock.source")
def simulated_clock_in_production(world: World, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(clock, "expected_body", lambda: clock._REAL_BODY)


def _drop(statement: str) -> None:
    _breaks("schema.guards")(lambda world, patch: run(statement))


_drop("ALTER TABLE device_bookings DROP CONSTRAINT booking_no_overlap")
_drop("ALTER TABLE device_bookings DROP CONSTRAINT booking_half_open")
_drop("ALTER TABLE device_bookings ALTER COLUMN during DROP NOT NULL")
_drop("ALTER TABLE devices DROP CONSTRAINT device_bookable_in_gpus_mode")
_drop("ALTER TABLE node_resources DROP CONSTRAINT node_resource_within_ceiling")
_drop("ALTER TABLE quota_usage DROP CONSTRAINT quota_not_negative")
_drop("ALTER TABLE quota_charges DROP CONSTRAINT quota_charged_once")
_drop("ALTER TABLE nodes DISABLE TRIGGER nodes_state_guard")
_drop("DROP TRIGGER reservations_state_guard ON reservations")
_drop("UPDATE pg_index SET indisready = false WHERE indexrelid = 'booking_no_overlap'::regclass")
_drop("SET LOCAL session_replication_role = replica")
_drop(
    "CREATE OR REPLACE FUNCTION refuse_illegal_transition() RETURNS trigger LANGUAGE plpgsql"
    " AS 'BEGIN RETURN NEW; END'"
)
_drop(
    "ALTER TABLE device_bookings DROP CONSTRAINT booking_not_empty,"
    " ADD CONSTRAINT booking_not_empty CHECK (true)"
)


@_breaks("schema.migrations")
def a_migration_is_not_applied(world: World, patch: pytest.MonkeyPatch) -> None:
    run(
        "DELETE FROM django_migrations WHERE id ="
        " (SELECT max(id) FROM django_migrations WHERE app = 'reservations')"
    )


@_breaks("database.timeouts")
def the_role_has_no_timeouts(world: World, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(timeouts, "unset", _role_timeouts)  # the test's own role has none


@_breaks("settings.debug")
def debug_is_on(world: World, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(settings, "DEBUG", True)


# --- processes and work --------------------------------------------------------------------------


def _die(role: str, check: str) -> None:
    _breaks(check)(lambda world, patch: Heartbeat.objects.filter(role=role).delete() and None)


_die("worker", "workers.alive")
_die("web", "web.alive")
_die("beat", "beat.ticking")
_die("gateway", "gateways.alive")


@_breaks("leases.stale")
def a_shard_has_no_holder(world: World, patch: pytest.MonkeyPatch) -> None:
    held = leases.current(holdings.shard_name(3))
    assert held is not None
    leases.give_up(held)


@_breaks("leases.stale")
def a_periodic_job_has_no_holder(world: World, patch: pytest.MonkeyPatch) -> None:
    held = leases.current("singleton:liveness")
    assert held is not None
    leases.give_up(held)


@_breaks("queue.lag")
def work_is_overdue(world: World, patch: pytest.MonkeyPatch) -> None:
    WorkItem.objects.update(not_before=clock.now() - timedelta(minutes=2))


@_breaks("queue.failing")
def work_fails_again_and_again(world: World, patch: pytest.MonkeyPatch) -> None:
    WorkItem.objects.update(attempts=coordination.ATTEMPTS_MANY, last_error="ValueError: no")


@_breaks("broker.reachable")
def the_broker_is_gone(world: World, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(settings, "REDIS_URL", "redis://127.0.0.1:1/0")


@_breaks("celery.answers")
def no_worker_hears_the_broker(world: World, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(coordination, "answering_workers", list)


# --- events and policies -------------------------------------------------------------------------


@_breaks("outbox.lag")
def a_sink_falls_behind(world: World, patch: pytest.MonkeyPatch) -> None:
    run("UPDATE outbox_cursors SET txid = '0', seq = 0")
    run("UPDATE outbox SET time = time - interval '1 hour'")


@_breaks("outbox.cluster")
def restored_from_elsewhere(world: World, patch: pytest.MonkeyPatch) -> None:
    run("UPDATE outbox_cluster SET system_identifier = '1'")


_breaks("webhooks.overdue")(webhook_damage.nobody_sends)
_breaks("webhooks.failing")(webhook_damage.nothing_is_taken)
_breaks("webhooks.secrets")(webhook_damage.the_key_is_lost)


@_breaks("iam.policies")
def a_policy_does_not_compile(world: World, patch: pytest.MonkeyPatch) -> None:
    Policy.objects.create(name="bad", text="nonsense")


@_breaks("iam.projection")
def the_projection_left_its_feed(world: World, patch: pytest.MonkeyPatch) -> None:
    AuthzResource.objects.filter(pk="rsv_seen").update(attributes={"gpus": 9})


# --- devices, bookings, quota --------------------------------------------------------------------


@_breaks("bookings.overlap", "schema.guards")
def a_device_is_booked_twice(world: World, patch: pytest.MonkeyPatch) -> None:
    run("ALTER TABLE device_bookings DROP CONSTRAINT booking_no_overlap")
    window = supply.window(timedelta(minutes=30), hours=0.25)
    bookings.book(allocation_id="cmd_x", device_ids=world.allocation.device_ids[:1], **window)


@_breaks("devices.atom-rule", "schema.guards")
def an_atom_is_bookable_beside_its_gpu(world: World, patch: pytest.MonkeyPatch) -> None:
    run("ALTER TABLE devices DROP CONSTRAINT device_bookable_in_gpus_mode")
    run("UPDATE devices SET mode = 'mig' WHERE id = %s", world.free_device)


@_breaks("bookings.mode")
def a_booked_device_is_not_bookable(world: World, patch: pytest.MonkeyPatch) -> None:
    run("UPDATE devices SET bookable_mode = NULL WHERE id = %s", world.allocation.device_ids[0])


@_breaks("resources.allocated")
def less_is_allocated_than_booked(world: World, patch: pytest.MonkeyPatch) -> None:
    NodeResource.objects.filter(node=world.node, resource="vcpu").update(allocated=1)


@_breaks("resources.overcommitted")
def a_host_shrank(world: World, patch: pytest.MonkeyPatch) -> None:
    resources.set_allocatable(world.node.pk, {"vcpu": 1})


@_breaks("bookings.of-nobody")
def a_booking_without_an_assignment(world: World, patch: pytest.MonkeyPatch) -> None:
    bookings.book(allocation_id="alloc_x", device_ids=[world.free_device], **supply.window())


@_breaks("assignments.twice")
def a_device_is_wanted_for_two(world: World, patch: pytest.MonkeyPatch) -> None:
    device, until = world.allocation.device_ids[0], clock.now() + timedelta(hours=1)
    assignments.plan([PlannedAssignment("alloc_x", "rsv_x", world.node.pk, [device], until)])
    Assignment.objects.update(wanted=True, entered_at=clock.now())


@_breaks("inventory.refused")
def two_machines_report_one_card(world: World, patch: pytest.MonkeyPatch) -> None:
    NodeCondition.objects.create(
        node=world.node, type="InventoryRefused", message="GPU-1 is another's", since=clock.now()
    )


@_breaks("quota.charges")
def use_is_not_the_sum(world: World, patch: pytest.MonkeyPatch) -> None:
    QuotaUsage.objects.filter(tenant=world.active.tenant, resource="vcpu").update(used=1)


# --- reservations --------------------------------------------------------------------------------


@_breaks("confirmations.reservations")
def an_answer_is_over_before_its_reservation(world: World, patch: pytest.MonkeyPatch) -> None:
    asked = Reservation.objects.filter(pk=world.asked.resource_id)
    asked.update(confirmation_id="cnf_gone")


@_breaks("confirmations.charges")
def what_is_not_approved_is_charged(world: World, patch: pytest.MonkeyPatch) -> None:
    owner = cast.account("alice").pk
    quota.charge(
        world.asked.tenant_id,
        world.asked.resource_id,
        {"gpuMilli": 1_000},
        pool_id=world.pending.pool_id,
        account_id=owner,
    )


@_breaks("confirmations.queued")
def nobody_will_look_at_the_question(world: World, patch: pytest.MonkeyPatch) -> None:
    WorkItem.objects.filter(key=world.asked.pk).delete()


@_breaks("confirmations.deadlines")
def a_question_is_long_over(world: World, patch: pytest.MonkeyPatch) -> None:
    then = world.asked.asked_at - timedelta(minutes=30)
    Reservation.objects.filter(pk=world.asked.resource_id).update(confirm_until=then)
    rows = Confirmation.objects.filter(pk=world.asked.pk)
    rows.update(asked_at=then - timedelta(minutes=30), expires_at=then)


@_breaks("reservations.bookings")
def a_failed_allocation_is_booked(world: World, patch: pytest.MonkeyPatch) -> None:
    window = supply.window()
    Allocation.objects.create(
        id="alloc_x",
        reservation=world.active,
        node_id=world.node.pk,
        device_ids=[world.free_device],
        state="failed",
    )
    bookings.book(allocation_id="alloc_x", device_ids=[world.free_device], **window)
    planned = PlannedAssignment(
        "alloc_x", world.active.pk, world.node.pk, [world.free_device], window["end"]
    )
    assignments.plan([planned])


@_breaks("reservations.held", "reservations.partial")
def an_ended_one_holds_on(world: World, patch: pytest.MonkeyPatch) -> None:
    run(
        "UPDATE reservations SET state = 'released', version = version + 1 WHERE id = %s",
        world.active.pk,
    )
    quota.refund(world.active.pk)


@_breaks("reservations.charges")
def an_ended_one_is_charged(world: World, patch: pytest.MonkeyPatch) -> None:
    quota.charge(world.ended.tenant_id, world.ended.pk, {"gpuMilli": 1_000})


@_breaks("reservations.uncharged")
def a_live_one_is_not_charged(world: World, patch: pytest.MonkeyPatch) -> None:
    quota.refund(world.active.pk)


@_breaks("reservations.misbooked")
def a_booking_is_shorter_than_its_reservation(world: World, patch: pytest.MonkeyPatch) -> None:
    run(
        "UPDATE device_bookings SET during = tstzrange(lower(during),"
        " upper(during) - interval '1 millisecond') WHERE allocation_id = %s",
        world.allocation.pk,
    )


@_breaks("reservations.partial")
def a_gang_has_one_node_of_two(world: World, patch: pytest.MonkeyPatch) -> None:
    world.active.request["gang"] = {"nodes": 2}
    Reservation.objects.filter(pk=world.active.pk).update(request=world.active.request)


@_breaks("reservations.forgotten")
def nobody_will_look(world: World, patch: pytest.MonkeyPatch) -> None:
    WorkItem.objects.filter(key=world.pending.pk).delete()


@_breaks("reservations.forgotten-lines")
def nobody_will_look_at_the_line(world: World, patch: pytest.MonkeyPatch) -> None:
    run("UPDATE pools SET placer = 'queued' WHERE id = %s", world.pending.pool_id)
    WorkItem.objects.filter(kind="pool", key=world.pending.pool_id).delete()


@_breaks("reservations.overdue")
def an_end_has_passed(world: World, patch: pytest.MonkeyPatch) -> None:
    past = "tstzrange(compute_now() - interval '1 hour', compute_now() - interval '2 minutes')"
    run(
        f"UPDATE reservations SET starts_at = lower({past}), ends_at = upper({past}),"
        " duration_ms = 58 * 60 * 1000 WHERE id = %s",
        world.active.pk,
    )
    for table in ("device_bookings", "resource_bookings"):
        run(f"UPDATE {table} SET during = {past} WHERE allocation_id = %s", world.allocation.pk)


@_breaks("reservations.preempting")
def one_is_cut_short_and_not_told(world: World, patch: pytest.MonkeyPatch) -> None:
    run("UPDATE reservations SET duration_ms = duration_ms + 1 WHERE id = %s", world.active.pk)


@_breaks("maintenance.booked-over")
def a_booking_did_not_see_what_was_announced(world: World, patch: pytest.MonkeyPatch) -> None:
    run(
        "INSERT INTO maintenance_windows (id, pool_id, node_id, during, reason, announced_by_id,"
        " announced_at, last_booking_id, version) SELECT 'mnt_unseen', pool_id, NULL,"
        " tstzrange(starts_at, ends_at, '[)'), 'new power supplies', owner_id, compute_now(), 0, 1"
        " FROM reservations WHERE id = %s",
        world.active.pk,
    )


@_breaks("series.queued")
def nobody_will_look_at_a_series(world: World, patch: pytest.MonkeyPatch) -> None:
    WorkItem.objects.filter(kind="series", key=world.series).delete()


@_breaks("series.occurrences")
def occurrences_near_enough_have_no_rows(world: World, patch: pytest.MonkeyPatch) -> None:
    Series.objects.filter(pk=world.series).update(created_at=clock.now() - timedelta(hours=2))


@_breaks("series.occurrences")
def an_occurrence_is_not_tried(world: World, patch: pytest.MonkeyPatch) -> None:
    run(
        "UPDATE reservations SET retry_at = compute_now() - interval '2 hours'"
        " WHERE series_id IS NOT NULL AND state = 'draft'"
    )


@_breaks("series.owner")
def nobody_answers_for_a_series(world: World, patch: pytest.MonkeyPatch) -> None:
    Series.objects.filter(pk=world.series).update(
        conditions=[{"type": "OwnerUnresolved", "reason": "NoMember"}]
    )


@_breaks("audit.intact")
def somebody_made_up_a_seal(world: World, patch: pytest.MonkeyPatch) -> None:
    run(
        "INSERT INTO audit_seals (number, sealed_at, members, count, upto, root, key_id, digest)"
        " VALUES (1, compute_now(), '{[1,2)}', 1, 2, '', %s, '')",
        keys.newest()[0],
    )


@_breaks("audit.sealed")
def nobody_seals_the_audit(world: World, patch: pytest.MonkeyPatch) -> None:
    with acts.under_way(acts.Act(acts.Origin())), transaction.atomic():
        entries.record("iam:tokens:create", acts.NOTHING)
    patch.setattr(audit, "UNSEALED_MAX", timedelta(0))


# --- other sessions: done by the test, which keeps them open -------------------------------------

SESSIONS: dict[str, tuple[object, str]] = {
    "outbox.horizon": (outbox, "HORIZON_MAX"),
    "database.transactions": (coordination, "TRANSACTION_MAX"),
}
