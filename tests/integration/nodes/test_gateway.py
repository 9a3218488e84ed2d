"""The gateway's calls, on the real application and database."""

import asyncio
import json
import time
from datetime import timedelta

import pytest
from django.db import OperationalError, connection, connections, transaction

from bettercompute import clock as clock_module
from bettercompute import errors
from bettercompute.coordination import heartbeats, leases
from bettercompute.coordination.models import WorkItem
from nodes import assignments, eligibility, enrollment, liveness, sessions
from nodes.assignments import PlannedAssignment
from nodes.models import (
    Assignment,
    Enrollment,
    GatewayWatch,
    Node,
    NodeCondition,
    NodeInventory,
    NodeKey,
    NodeSession,
)
from nodes.protocol import signing
from nodes.sessions import Heard
from tests.support import agents, supply
from tests.support.agents import entry, sync

pytestmark = pytest.mark.django_db(transaction=True)


def code(answer):
    return answer.status_code, answer.json()["code"]


def planned(node, name="alloc_1", *, owner="rsv_1", want=False):
    with transaction.atomic():
        assignments.plan(
            [
                PlannedAssignment(
                    allocation_id=name,
                    owner_key=owner,
                    node_id=node.pk,
                    device_ids=supply.devices(node)[:1],
                    until=clock_module.now() + timedelta(hours=1),
                )
            ]
        )
        if want:
            assignments.want([name])


def bound(node, seq, name="alloc_1", **more):
    return entry(
        node.pk,
        seq,
        "AllocationBound",
        allocationId=name,
        cdiDevices=["bcd.dev/gpu=GPU-1"],
        envFile=f"/run/bcd/allocations/{name}.env",
        **more,
    )


def work():
    return set(WorkItem.objects.values_list("kind", "key"))


# --- joining --------------------------------------------------------------------------------------


@pytest.mark.rule("N4")
class TestEnroll:
    def test_a_token_works_once(self):
        node = supply.node()
        token = enrollment.create(node_id=node.pk).token

        async def scenario(bench):
            first, second = (agents.NodeKey.generate() for _ in range(2))
            answers = []
            for key in (first, second):
                body = {"token": token, "publicKey": signing.encode(key.public_key)}
                answers.append(await bench.call("POST", "/enroll", body))
            return first.kid, *answers

        kid, first, second = agents.run(scenario)
        assert first.json() == {"nodeId": node.pk, "kid": kid}
        assert code(second) == (401, "UNAUTHENTICATED")

    @pytest.mark.rule("C28")
    def test_the_same_key_gets_the_lost_answer_again(self):
        node = supply.node()
        token = enrollment.create(node_id=node.pk).token

        async def scenario(bench):
            body = {
                "token": token,
                "publicKey": signing.encode(agents.NodeKey.generate().public_key),
            }
            return [(await bench.call("POST", "/enroll", body)).json() for _ in range(2)]

        first, second = agents.run(scenario)
        assert first == second
        assert NodeKey.objects.count() == 1

    def test_an_expired_token_is_refused_and_stays_unused(self, clock):
        node = supply.node()
        token = enrollment.create(node_id=node.pk, valid_seconds=60).token
        clock.advance("60s")

        async def scenario(bench):
            body = {
                "token": token,
                "publicKey": signing.encode(agents.NodeKey.generate().public_key),
            }
            return await bench.call("POST", "/enroll", body)

        assert code(agents.run(scenario)) == (401, "UNAUTHENTICATED")
        assert Enrollment.objects.get().used_at is None

    def test_another_nodes_key_is_refused_and_the_token_stays_good(self):
        node, other = supply.node(), supply.node()
        token = enrollment.create(node_id=other.pk).token

        async def scenario(bench):
            key = await bench.enroll(node.pk)
            body = {"token": token, "publicKey": signing.encode(key.public_key)}
            return await bench.call("POST", "/enroll", body)

        assert code(agents.run(scenario)) == (409, "CONFLICT")
        assert Enrollment.objects.get(node=other).used_at is None

    def test_only_the_hash_of_a_token_is_kept(self):
        node = supply.node()
        token = enrollment.create(node_id=node.pk).token
        assert token not in str(Enrollment.objects.values())


@pytest.mark.rule("N5")
class TestHello:
    def test_each_hello_opens_the_next_epoch(self):
        node = supply.node()

        async def scenario(bench):
            key = await bench.enroll(node.pk)
            return [(await bench.hello(node.pk, key)).json()["epoch"] for _ in range(2)]

        assert agents.run(scenario) == [1, 2]
        assert NodeSession.objects.get().epoch == 2

    def test_a_challenge_opens_one_session(self):
        node = supply.node()

        async def scenario(bench):
            key = await bench.enroll(node.pk)
            challenge = await bench.challenge(node.pk)
            return [await bench.hello(node.pk, key, challenge=challenge) for _ in range(2)]

        first, second = agents.run(scenario)
        assert first.status_code == 200
        assert code(second) == (401, "UNAUTHENTICATED")

    def test_of_two_hellos_to_one_challenge_at_once_one_wins(self):
        node = supply.node()

        async def scenario(bench):
            key = await bench.enroll(node.pk)
            challenge = await bench.challenge(node.pk)
            both = [bench.hello(node.pk, key, challenge=challenge) for _ in range(2)]
            return [answer.status_code for answer in await asyncio.gather(*both)]

        assert sorted(agents.run(scenario)) == [200, 401]

    def test_a_challenge_expires(self, clock):
        node = supply.node()

        async def scenario(bench):
            key = await bench.enroll(node.pk)
            challenge = await bench.challenge(node.pk)
            await sync(clock.advance, timedelta(seconds=sessions.CHALLENGE_SECONDS))
            return await bench.hello(node.pk, key, challenge=challenge)

        assert code(agents.run(scenario)) == (401, "UNAUTHENTICATED")

    @pytest.mark.parametrize("text", ["", "x", "1.2.3.4", "0.99999999999999.a.b", "é"])
    def test_a_challenge_that_we_never_gave_is_refused(self, text):
        node = supply.node()

        async def scenario(bench):
            key = await bench.enroll(node.pk)
            hello = {"nodeId": node.pk, "kid": key.kid, "challenge": text}
            return await bench.say(key, json.dumps(hello))

        assert agents.run(scenario).status_code in {400, 401}

    def test_a_challenge_of_another_node_is_refused(self):
        node, other = supply.node(), supply.node()

        async def scenario(bench):
            key = await bench.enroll(node.pk)
            return await bench.hello(node.pk, key, challenge=await bench.challenge(other.pk))

        assert code(agents.run(scenario)) == (401, "UNAUTHENTICATED")

    def test_a_strangers_signature_is_refused(self):
        node = supply.node()

        async def scenario(bench):
            key = await bench.enroll(node.pk)
            forged = agents.NodeKey.generate()
            forged.kid = key.kid
            return await bench.hello(node.pk, forged)

        assert code(agents.run(scenario)) == (401, "UNAUTHENTICATED")

    def test_another_nodes_key_is_refused(self):
        node, other = supply.node(), supply.node()

        async def scenario(bench):
            return await bench.hello(node.pk, await bench.enroll(other.pk))

        assert code(agents.run(scenario)) == (401, "UNAUTHENTICATED")

    def test_a_revoked_key_is_refused(self):
        node = supply.node()

        async def scenario(bench):
            key = await bench.enroll(node.pk)
            await sync(NodeKey.objects.update, revoked_at=clock_module.from_ms(0))
            return await bench.hello(node.pk, key)

        assert code(agents.run(scenario)) == (401, "UNAUTHENTICATED")

    def test_capabilities_become_system_labels(self):
        node = supply.node()
        eligibility.set_system_labels(node.pk, {"bc.dev/zone": "a", "bc.dev/cap.old": "true"})
        version = Node.objects.get().version

        async def scenario(bench):
            key = await bench.enroll(node.pk)
            for _ in range(2):
                await bench.hello(node.pk, key, capabilities=["devices.limits"])

        agents.run(scenario)
        row = Node.objects.get()
        assert row.system_labels == {"bc.dev/zone": "a", "bc.dev/cap.devices.limits": "true"}
        # C13: the second hello changed nothing, so the node's row did not change either.
        assert row.version == version + 1


# --- in a session ---------------------------------------------------------------------------------


@pytest.mark.rule("C37")
class TestSupersede:
    def test_an_older_session_is_told_on_every_call(self):
        node = supply.node()

        async def scenario(bench):
            key = await bench.enroll(node.pk)
            old = await bench.session(node.pk, key)
            await bench.session(node.pk, key)
            return [
                await bench.call("POST", "/heartbeat", {}, token=old),
                await bench.call("GET", "/desired?generation=0&wait=1", token=old),
                await bench.call("POST", "/reports", {"entries": [bound(node, 1)]}, token=old),
            ]

        assert {code(answer) for answer in agents.run(scenario)} == {(409, "SESSION_SUPERSEDED")}
        assert NodeSession.objects.get().applied_seq == 0

    def test_a_gateway_that_has_not_heard_refuses_its_reports_all_the_same(self):
        node = supply.node()

        async def scenario(bench):
            key = await bench.enroll(node.pk)
            old = await bench.session(node.pk, key)
            async with agents.bench() as other:
                await other.session(node.pk, key)
            body = {"entries": [bound(node, 1)]}
            return [await bench.call("POST", "/reports", body, token=old) for _ in range(2)]

        assert {code(answer) for answer in agents.run(scenario)} == {(409, "SESSION_SUPERSEDED")}

    def test_a_long_poll_of_the_older_session_ends_at_once(self):
        node = supply.node()

        async def scenario(bench):
            key = await bench.enroll(node.pk)
            old = await bench.session(node.pk, key)
            waiting = asyncio.create_task(
                bench.call("GET", "/desired?generation=0&wait=30", token=old)
            )
            await asyncio.sleep(0.1)
            async with agents.bench() as other:
                await other.session(node.pk, key)
                async with asyncio.timeout(20):
                    return await waiting

        assert code(agents.run(scenario)) == (409, "SESSION_SUPERSEDED")

    def test_the_flush_finds_out_about_sessions_that_only_wait(self):
        node = supply.node()

        async def scenario(bench):
            key = await bench.enroll(node.pk)
            old = await bench.session(node.pk, key)
            async with agents.bench() as other:
                await other.session(node.pk, key)
            await bench.gateway.flush.flush()
            return len(bench.gateway.live), await bench.call("POST", "/heartbeat", {}, token=old)

        known, answer = agents.run(scenario)
        assert known == 0
        assert code(answer) == (409, "SESSION_SUPERSEDED")


@pytest.mark.rule("N8")
class TestMoving:
    def test_a_session_goes_on_at_another_gateway(self):
        node = supply.node()

        async def scenario(bench):
            token = await bench.session(node.pk)
            async with agents.bench() as other:
                answer = await other.call("POST", "/heartbeat", {}, token=token)
                return answer.json(), other.gateway.id

        answer, _ = agents.run(scenario)
        assert answer == {"epoch": 1}

    @pytest.mark.parametrize(
        "token", ["", "x", "a.b.c", "node.1.guess", "node.99999999999999999999.x"]
    )
    def test_a_token_that_we_never_gave_is_refused(self, token):
        supply.node()

        async def scenario(bench):
            return await bench.call("POST", "/heartbeat", {}, token=token)

        assert code(agents.run(scenario)) == (401, "UNAUTHENTICATED")

    def test_a_guessed_secret_of_a_live_session_is_refused(self):
        node = supply.node()

        async def scenario(bench):
            await bench.session(node.pk)
            return await bench.call("POST", "/heartbeat", {}, token=f"{node.pk}.1.guess")

        assert code(agents.run(scenario)) == (401, "UNAUTHENTICATED")


@pytest.mark.rule("N6")
class TestDesired:
    def test_the_whole_state_comes_at_once_where_the_agent_knows_another_generation(self):
        node = supply.node()
        planned(node, want=True)

        async def scenario(bench):
            token = await bench.session(node.pk)
            return await bench.call("GET", "/desired?generation=-1&wait=30", token=token)

        answer = agents.run(scenario).json()
        assert answer["generation"] == 1
        (assignment,) = answer["assignments"]
        assert assignment["allocationId"] == "alloc_1"
        assert assignment["deviceIds"] == supply.devices(node)[:1]

    def test_who_waits_is_woken_by_a_change_and_not_before(self):
        node = supply.node()

        async def scenario(bench):
            token = await bench.session(node.pk)
            waiting = asyncio.create_task(
                bench.call("GET", "/desired?generation=0&wait=30", token=token)
            )
            await asyncio.sleep(0.5)
            early = waiting.done()
            await sync(planned, node, want=True)
            begun = asyncio.get_running_loop().time()
            answer = (await waiting).json()
            return early, answer["generation"], asyncio.get_running_loop().time() - begun

        early, generation, seconds = agents.run(scenario)
        assert (early, generation) == (False, 1)
        assert seconds < 20.0  # of the 30 that it would have waited; it takes a fifth of one

    def test_time_that_runs_out_answers_the_same_state(self):
        node = supply.node()

        async def scenario(bench):
            token = await bench.session(node.pk)
            return await bench.call("GET", "/desired?generation=0&wait=1", token=token)

        assert agents.run(scenario).json() == {"generation": 0, "assignments": [], "ending": []}

    def test_who_waits_holds_no_thread(self):
        nodes = [supply.node(gpus=1) for _ in range(6)]  # more than there are threads

        async def scenario(bench):
            tokens = [await bench.session(node.pk) for node in nodes]
            waiting = [
                asyncio.create_task(bench.call("GET", "/desired?generation=0&wait=30", token=token))
                for token in tokens
            ]
            await asyncio.sleep(0.3)
            async with asyncio.timeout(20):
                answer = await bench.call("GET", "/desired?generation=-1", token=tokens[0])
            bench.gateway.watch.stop()
            await asyncio.gather(*waiting)
            return answer.status_code

        assert agents.run(scenario) == 200

    def test_a_gateway_that_stops_lets_everybody_go(self):
        node = supply.node()

        async def scenario(bench):
            token = await bench.session(node.pk)
            waiting = asyncio.create_task(
                bench.call("GET", "/desired?generation=0&wait=30", token=token)
            )
            await asyncio.sleep(0.1)
            bench.gateway.watch.stop()
            async with asyncio.timeout(20):
                return (await waiting).status_code

        assert agents.run(scenario) == 200

    @pytest.mark.parametrize("query", ["generation=x", "wait=61", "wait=-1", "generation=1e3"])
    def test_a_number_that_is_none_is_refused(self, query):
        node = supply.node()

        async def scenario(bench):
            return await bench.call("GET", f"/desired?{query}", token=await bench.session(node.pk))

        assert code(agents.run(scenario)) == (400, "INVALID_INPUT")


@pytest.mark.rule("N7")
class TestReports:
    def report(self, node, *batches):
        """Send batches one after the other; answers what each got."""

        async def scenario(bench):
            token = await bench.session(node.pk)
            return [
                await bench.call("POST", "/reports", {"entries": batch}, token=token)
                for batch in batches
            ]

        return agents.run(scenario)

    def test_a_bound_report_is_stored_as_received_and_wakes_its_owner(self):
        node = supply.node()
        planned(node)

        async def scenario(bench):
            key = await bench.enroll(node.pk)
            token = await bench.session(node.pk, key)
            said = bound(node, 1, key=key)
            await bench.call("POST", "/reports", {"entries": [said]}, token=token)
            return said

        said = agents.run(scenario)
        row = Assignment.objects.get()
        assert (row.reported, row.report_seq) == ("bound", 1)
        assert row.report["envFile"] == "/run/bcd/allocations/alloc_1.env"
        assert bytes(row.bound_report) == said["body"].encode()
        assert bytes(row.bound_sig) == signing.decode(said["signature"])
        assert row.bound_sig_kid == said["kid"]
        assert ("reservation", "rsv_1") in work()

    @pytest.mark.rule("R26")
    def test_a_report_on_another_nodes_allocation_is_ignored_like_an_unknown_one(self):
        node, other = supply.node(), supply.node()
        planned(other)
        (answer,) = self.report(node, [bound(node, 1), bound(node, 2, "alloc_unknown")])
        assert answer.json() == {"appliedSeq": 2, "rejected": []}
        assert Assignment.objects.get().reported == ""
        assert ("reservation", "rsv_1") not in work()

    @pytest.mark.rule("C28")
    def test_a_replay_changes_nothing_and_gets_the_same_answer(self):
        node = supply.node()
        planned(node)
        released = entry(
            node.pk, 2, "AllocationReleased", allocationId="alloc_1", reason="binding-lost"
        )
        first = [bound(node, 1)]
        answers = self.report(node, first, [released], [*first, released], first)
        assert [answer.json()["appliedSeq"] for answer in answers] == [1, 2, 2, 2]
        assert (Assignment.objects.get().reported, Assignment.objects.get().report_seq) == (
            "released",
            2,
        )

    @pytest.mark.rule("R35")
    def test_letting_go_also_wakes_who_waits_for_the_device(self):
        node = supply.node()
        planned(node, want=True)
        with transaction.atomic():
            assignments.unwant(["alloc_1"])
        planned(node, "alloc_2", owner="rsv_2", want=True)
        WorkItem.objects.all().delete()
        self.report(node, [bound(node, 1)])
        assert set(WorkItem.objects.values_list("key", flat=True)) == {"rsv_1"}
        released = entry(node.pk, 2, "AllocationReleased", allocationId="alloc_1", reason="ended")
        self.report(node, [released])
        assert set(WorkItem.objects.values_list("key", flat=True)) == {"rsv_1", "rsv_2"}

    def test_the_last_word_of_a_batch_counts(self):
        node = supply.node()
        planned(node)
        lost = entry(
            node.pk, 2, "AllocationReleased", allocationId="alloc_1", reason="binding-lost"
        )
        self.report(node, [bound(node, 1), lost, bound(node, 3)])
        assert (Assignment.objects.get().reported, Assignment.objects.get().report_seq) == (
            "bound",
            3,
        )

    @pytest.mark.rule("C37")
    def test_the_journal_goes_on_in_the_next_session(self):
        node = supply.node()

        async def scenario(bench):
            key = await bench.enroll(node.pk)
            token = await bench.session(node.pk, key)
            await bench.call("POST", "/reports", {"entries": [bound(node, 7)]}, token=token)
            return (await bench.hello(node.pk, key)).json()["appliedSeq"]

        assert agents.run(scenario) == 7

    def test_entries_out_of_order_are_refused_whole(self):
        node = supply.node()
        planned(node)
        (answer,) = self.report(node, [bound(node, 2), bound(node, 1)])
        assert code(answer) == (400, "INVALID_INPUT")
        assert answer.json()["details"]["errors"][0]["path"] == "entries[1].seq"
        assert Assignment.objects.get().reported == ""

    @pytest.mark.parametrize(
        "broken",
        [
            {"body": "{"},
            {"body": "[]"},
            {"kind": "Weather"},
            {
                "body": '{"nodeId": "node_elsewhere", "seq": 1, "kind": "AllocationBound",'
                ' "allocationId": "alloc_1", "cdiDevices": ["x"], "envFile": "y"}'
            },
            {"body": '{"nodeId": "\\u0000"}'},
            {"kind": "AllocationFailed"},
        ],
    )
    def test_an_entry_that_cannot_be_read_blocks_none_behind_it(self, broken):
        node = supply.node()
        planned(node)
        poison = {**bound(node, 1), **broken}
        first, again = self.report(node, *[[poison, bound(node, 2)]] * 2)
        assert first.json()["appliedSeq"] == 2
        assert [each["seq"] for each in first.json()["rejected"]] == [1]
        assert again.json() == first.json()
        assert Assignment.objects.get().report_seq == 2

    def test_an_inventory_is_stored_and_applied_later(self):
        node = supply.node()
        host = supply.host(node.name).to_wire()
        self.report(node, [entry(node.pk, 1, "Inventory", inventory=host)])
        row = NodeInventory.objects.get()
        assert (row.body, row.seq, row.applied_at) == (host, 1, None)
        assert ("inventory", node.pk) in work()

    def test_the_same_inventory_again_stays_applied(self):
        node = supply.node()
        host = supply.host(node.name).to_wire()
        self.report(node, [entry(node.pk, 1, "Inventory", inventory=host)])
        NodeInventory.objects.update(applied_at=clock_module.now())
        WorkItem.objects.all().delete()
        self.report(node, [entry(node.pk, 2, "Inventory", inventory=host)])
        row = NodeInventory.objects.get()
        assert (row.seq, row.applied_at) == (2, clock_module.now())
        assert work() == set()
        assert row.applied_at >= row.received_at

    def test_an_inventory_that_is_none_is_rejected(self):
        node = supply.node()
        (answer,) = self.report(
            node, [entry(node.pk, 1, "Inventory", inventory={"gpus": [{"uuid": "../x"}]})]
        )
        assert [each["seq"] for each in answer.json()["rejected"]] == [1]
        assert not NodeInventory.objects.exists()

    def test_the_health_of_a_card_changes_the_stored_inventory(self):
        node = supply.node()
        host = supply.host(node.name).to_wire()
        sick = {"deviceId": host["gpus"][3]["uuid"], "healthy": False, "reason": "XID 79"}
        self.report(
            node,
            [
                entry(node.pk, 1, "Inventory", inventory=host),
                entry(node.pk, 2, "DeviceHealth", devices=[sick]),
            ],
        )
        gpus = NodeInventory.objects.get().body["gpus"]
        assert [gpu["health"] for gpu in gpus].count("unhealthy") == 1
        assert gpus[3]["healthReason"] == "XID 79"
        assert {("inventory", node.pk), ("node", node.pk)} <= work()


# --- ages, leases, beats --------------------------------------------------------------------------


def only_when_told(bench):
    """Stop the gateway's own turns: it flushes and beats when the test says so."""
    for loop in bench.gateway._loops:
        loop.cancel()


@pytest.mark.rule("C8")
@pytest.mark.rule("N2")
class TestAges:
    def test_an_age_becomes_an_instant_by_the_clock_of_the_database(self, clock):
        node = supply.node()

        async def scenario(bench):
            await bench.session(node.pk)
            begun = await sync(clock.now)
            bench.monotonic.seconds += 10
            await sync(clock.advance, "10s")
            token = await bench.session(node.pk)
            bench.monotonic.seconds += 3.2
            await sync(clock.advance, "10s")  # a gateway that lost touch for a while, or runs slow
            await bench.gateway.flush.flush()
            return begun, token

        begun, _ = agents.run(scenario)
        assert NodeSession.objects.get().last_seen_at - begun == timedelta(seconds=16.8)

    def test_a_late_flush_never_moves_the_last_contact_back(self, clock):
        node = supply.node()

        async def scenario(bench):
            await bench.session(node.pk)
            bench.monotonic.seconds += 60  # heard of a minute ago, it believes
            before = await sync(lambda: NodeSession.objects.get().last_seen_at)
            await bench.gateway.flush.flush()
            return before

        before = agents.run(scenario)
        assert NodeSession.objects.get().last_seen_at == before

    def test_every_call_counts_as_contact(self, clock):
        node = supply.node()

        async def scenario(bench):
            token = await bench.session(node.pk)
            seen = []
            for method, path, body in [
                ("POST", "/heartbeat", {}),
                ("GET", "/desired", None),
                ("POST", "/reports", {"entries": []}),
            ]:
                await sync(clock.advance, "7s")
                bench.monotonic.seconds += 7
                await bench.call(method, path, body, token=token)
                await bench.gateway.flush.flush()
                seen.append(await sync(lambda: NodeSession.objects.get().last_seen_at))
            return seen

        first, second, third = agents.run(scenario)
        assert (second - first, third - second) == (timedelta(seconds=7),) * 2
        assert third == clock.now()

    def test_all_ages_are_flushed_in_one_statement_sorted_by_node(self, clock):
        nodes = [supply.node(gpus=1) for _ in range(3)]

        async def scenario(bench):
            for node in reversed(nodes):
                await bench.session(node.pk)
            await sync(clock.advance, "1s")
            asked = []
            execute = bench.gateway.database.run

            async def run(function, *args, **kwargs):
                asked.append([each.node_id for each in args[0]])
                return await execute(function, *args, **kwargs)

            bench.gateway.flush._database.run = run
            await bench.gateway.flush.flush()
            await bench.gateway.flush.flush()  # nothing is new
            return asked

        (only,) = agents.run(scenario)
        assert only == sorted(node.pk for node in nodes)
        assert set(NodeSession.objects.values_list("last_seen_at", flat=True)) == {clock.now()}

    @pytest.mark.parametrize("off", [-3_600, 3_600], ids=["an hour slow", "an hour fast"])
    def test_a_gateway_with_a_wrong_clock_fakes_no_liveness(self, clock, monkeypatch, off):
        node = supply.node()
        wall, wall_ns = time.time, time.time_ns  # noqa: TID251  # to be made wrong
        monkeypatch.setattr(time, "time", lambda: wall() + off)
        monkeypatch.setattr(time, "time_ns", lambda: wall_ns() + off * 10**9)

        async def scenario(bench):
            only_when_told(bench)
            token = await bench.session(node.pk)
            begun = await sync(clock.now)
            found = []
            for talks in [True, True, False, False, False, False]:
                await sync(clock.advance, "5s")
                bench.monotonic.seconds += 5
                if talks:
                    await bench.call("POST", "/heartbeat", {}, token=token)
                await bench.gateway.flush.turn()
                await sync(liveness.judge)
                found.append(await sync(lambda: NodeCondition.objects.get().type))
            return begun, found

        begun, found = agents.run(scenario)
        assert found == ["Connected"] * 4 + ["Disconnected"] * 2
        assert NodeSession.objects.get().last_seen_at == begun + timedelta(seconds=10)
        assert GatewayWatch.objects.get().beat_at == begun + timedelta(seconds=30)

    def test_what_connecting_takes_is_silence_too_and_not_known_of(self, clock, monkeypatch):
        node = supply.node()

        async def scenario(bench):
            only_when_told(bench)
            await bench.session(node.pk)
            begin = sessions.SESSIONS.one

            def slow(statements, name, **parameters):
                if name == "begin":
                    clock.advance("9s")
                    bench.monotonic.seconds += 9
                return begin(name, **parameters)

            with monkeypatch.context() as patched:
                patched.setattr(type(sessions.SESSIONS), "one", slow)
                await bench.gateway.flush.turn()

        agents.run(scenario)
        heard_at = clock.now() - timedelta(seconds=9)
        assert NodeSession.objects.get().last_seen_at == heard_at
        assert GatewayWatch.objects.get().beat_at == heard_at

    @pytest.mark.parametrize(
        "heard_at", [1_001.0, float("nan"), float("inf"), float("-inf"), 899.0, -1e300]
    )
    def test_an_age_that_makes_no_sense_is_not_written(self, clock, heard_at, caplog):
        node, other = supply.node(), supply.node()

        async def scenario(bench):
            for each in (node, other):
                await bench.session(each.pk)

        agents.run(scenario)
        before = NodeSession.objects.get(node=node).last_seen_at
        clock.advance("100s")
        live = sessions.flush(
            [Heard(node.pk, 1, heard_at), Heard(other.pk, 1, 990.0)],
            gateway_id="own_test",
            since=900.0,
            monotonic=lambda: 1_000.0,
        )
        assert NodeSession.objects.get(node=node).last_seen_at == before
        assert live == {other.pk}
        assert NodeSession.objects.get(node=other).last_seen_at == clock.now() - timedelta(
            seconds=10
        )
        assert "make no sense" in caplog.text

    @pytest.mark.rule("C38")
    def test_a_flush_that_fails_is_no_beat(self, clock, monkeypatch):
        node = supply.node()

        async def scenario(bench):
            only_when_told(bench)
            token = await bench.session(node.pk)
            await bench.gateway.flush.turn()
            before = await sync(lambda: GatewayWatch.objects.get().beat_at)
            await sync(clock.advance, "5s")
            bench.monotonic.seconds += 5
            await bench.call("POST", "/heartbeat", {}, token=token)

            def broken(*args, **kwargs):
                raise OperationalError

            with monkeypatch.context() as patched:
                patched.setattr(sessions, "flush", broken)
                await bench.gateway.flush._survive(bench.gateway.flush.turn)
            return before, await sync(lambda: GatewayWatch.objects.get().beat_at)

        before, after = agents.run(scenario)
        assert before == after

    @pytest.mark.rule("C31")
    @pytest.mark.rule("C38")
    def test_a_gateway_holds_its_lease_and_beats_and_gives_both_up_when_it_stops(self):
        async def scenario(bench):
            await bench.gateway.flush.turn()
            return bench.gateway.flush.lease_name, await sync(
                lambda: (leases.holders(), heartbeats.alive("gateway"))
            )

        name, (holders, alive) = agents.run(scenario)
        assert [holder.name for holder in holders] == [name]
        assert holders[0].expires_at == clock_module.now() + timedelta(seconds=20)
        assert [f"gateway:{process}" for process in alive] == [name]
        assert leases.holders() == []


@pytest.mark.rule("N2")
class TestDatabaseAway:
    @pytest.fixture
    def away(self, monkeypatch):
        """Switches the gateway's way to the database off and on."""

        class Switch:
            def __call__(self, bench, *, away=True):
                async def unavailable(*args, **kwargs):
                    raise errors.Unavailable

                if away:
                    monkeypatch.setattr(bench.gateway.database, "run", unavailable)
                else:
                    monkeypatch.undo()

        return Switch()

    def test_sessions_go_on_from_memory_and_reports_stay_with_the_agent(self, away, clock):
        node = supply.node()
        planned(node, want=True)

        async def scenario(bench):
            token = await bench.session(node.pk)
            before = await bench.call("GET", "/desired?generation=-1", token=token)
            away(bench)
            answers = [
                await bench.call("POST", "/heartbeat", {}, token=token),
                await bench.call("GET", "/desired?generation=1&wait=1", token=token),
                await bench.call("POST", "/reports", {"entries": [bound(node, 1)]}, token=token),
                await bench.call("GET", "/desired?generation=-1", token=token),
                await bench.call("POST", "/challenge", {"nodeId": node.pk}),
            ]
            away(bench, away=False)
            later = await bench.call("POST", "/reports", {"entries": [bound(node, 1)]}, token=token)
            return before.json(), answers, later

        before, (heartbeat, same, reports, anew, challenge), later = agents.run(scenario)
        assert heartbeat.status_code == 200
        assert same.json() == before
        for refused in (reports, anew, challenge):
            assert code(refused) == (503, "UNAVAILABLE")
            assert refused.headers["Retry-After"]
        assert later.json()["appliedSeq"] == 1

    @pytest.mark.rule("C38")
    def test_a_gateway_that_is_cut_off_sends_its_agents_to_another(self, away, clock):
        node = supply.node()

        async def scenario(bench):
            only_when_told(bench)
            token = await bench.session(node.pk)
            await bench.call("GET", "/desired?generation=-1", token=token)
            await bench.gateway.flush.turn()
            away(bench)
            statuses = []
            for seconds in (30, 29, 1):
                bench.monotonic.seconds += seconds
                await bench.gateway.flush._survive(bench.gateway.flush.turn)
                for method, path, body in [
                    ("POST", "/heartbeat", {}),
                    ("GET", "/desired?generation=0", None),
                ]:
                    answer = await bench.call(method, path, body, token=token)
                    statuses.append(answer.status_code)
            heard = bench.gateway.live.unflushed()
            away(bench, away=False)
            await bench.gateway.flush.turn()
            back = await bench.call("POST", "/heartbeat", {}, token=token)
            return statuses, heard[0].at_monotonic == bench.monotonic.seconds, back.status_code

        statuses, is_heard, back = agents.run(scenario)
        assert statuses == [200] * 4 + [503] * 2
        assert is_heard, "a call that is refused is contact all the same"
        assert back == 200

    def test_ages_grow_truthfully_meanwhile(self, away, clock):
        node = supply.node()

        async def scenario(bench):
            token = await bench.session(node.pk)
            away(bench)
            for _ in range(3):
                await sync(clock.advance, "10s")
                bench.monotonic.seconds += 10
                await bench.gateway.flush._survive(bench.gateway.flush.turn)
                if _ < 2:
                    await bench.call("POST", "/heartbeat", {}, token=token)
            away(bench, away=False)
            await bench.gateway.flush.flush()

        agents.run(scenario)
        assert NodeSession.objects.get().last_seen_at == clock.now() - timedelta(seconds=10)

    def test_a_connection_that_the_database_dropped_is_replaced(self, monkeypatch):
        monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", 600)
        node = supply.node()
        ours = connection.connection.info.backend_pid

        async def scenario(bench):
            token = await bench.session(node.pk)
            dropped = await sync(_drop_connections, but=ours)
            answers = [
                await bench.call("GET", "/desired?generation=-1", token=token) for _ in range(6)
            ]
            return dropped, {answer.status_code for answer in answers}

        dropped, statuses = agents.run(scenario)
        assert dropped
        assert statuses == {200}


def _drop_connections(*, but):
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND backend_type = 'client backend'"
            " AND pid NOT IN (pg_backend_pid(), %s)",
            [but],
        )
        return cursor.rowcount


# --- bad input ------------------------------------------------------------------------------------

PATHS = ["/enroll", "/challenge", "/hello", "/reports", "/heartbeat", "/desired"]


@pytest.mark.rule("A3")
class TestBadInput:
    @pytest.mark.parametrize("path", ["/enroll", "/challenge", "/hello", "/reports"])
    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"{",
            b"null",
            b"[]",
            b"[" * 50_000,
            b"\xff\xfe",
            b'{"nodeId": "\\u0000"}',
            b'{"nodeId": "\\ud800"}',
            b'{"entries": [{"seq": 1e400, "kind": "x", "body": ""}]}',
            b'{"entries": [{"seq": 99999999999999999999999, "kind": "x", "body": ""}]}',
            b'{"hello": "{", "signature": ""}',
            b'{"token": "x", "publicKey": "AAAA"}',
        ],
    )
    def test_is_a_problem_and_never_ours(self, path, body):
        node = supply.node(gpus=1)

        async def scenario(bench):
            token = await bench.session(node.pk) if path == "/reports" else ""
            return await bench.call("POST", path, body, token=token)

        answer = agents.run(scenario)
        assert code(answer) == (400, "INVALID_INPUT")
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert answer.json()["requestId"] == answer.headers["X-Request-Id"]

    def test_names_the_field(self):
        node = supply.node(gpus=1)

        async def scenario(bench):
            entries = [bound(node, 1), {**bound(node, 2), "seq": "2"}, {"seq": 3}]
            token = await bench.session(node.pk)
            return await bench.call("POST", "/reports", {"entries": entries}, token=token)

        found = agents.run(scenario).json()["details"]["errors"]
        assert [each["path"] for each in found] == [
            "entries[1].seq",
            "entries[2].kind",
            "entries[2].body",
        ]

    def test_the_wrong_method_path_or_type_is_named(self):
        async def scenario(bench):
            url = agents.URL + "/node/v1"
            return [
                await bench.call("GET", "/enroll"),
                await bench.call("GET", "/nothing"),
                await bench.client.post(url + "/enroll", content=b"{}"),
                await bench.call("POST", "/enroll", b" " * 70_000),
            ]

        wrong_method, nothing, untyped, huge = agents.run(scenario)
        assert code(wrong_method) == (405, "METHOD_NOT_ALLOWED")
        assert wrong_method.headers["Allow"] == "POST"
        assert code(nothing) == (404, "NOT_FOUND")
        assert code(untyped) == (415, "UNSUPPORTED_MEDIA_TYPE")
        assert code(huge) == (413, "PAYLOAD_TOO_LARGE")

    def test_health_is_answered_to_anybody(self):
        async def scenario(bench):
            return [await bench.client.get(agents.URL + path) for path in ("/healthz", "/readyz")]

        alive, ready = agents.run(scenario)
        assert (alive.status_code, ready.status_code) == (200, 200)
