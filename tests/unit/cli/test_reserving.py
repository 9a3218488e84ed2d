"""`reserve`, `get`, `list`, `release`, `cancel` against a scripted server."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from bettercompute.cli.exits import Exit
from bettercompute.client.calls import Answer
from tests.support import answers, wire_server
from tests.support.wire_server import Received
from tests.unit.cli.conftest import TOKEN, Run, Serve

POOLS = ("GET", "/pools")
CREATE = ("POST", "/reservations")
LIST = ("GET", "/reservations")
ONE = ("GET", "/reservations/rsv_first")
RELEASE = ("POST", "/reservations/rsv_first/release")
CANCEL = ("POST", "/reservations/rsv_first/cancel")
MAIN = answers.answer({"items": [answers.pool()], "nextCursor": None})
RESERVE = ("reserve", "--pool", "main", "--gpus", "2", "--for", "8h")

ACTIVE = """\
rsv_first  active
  Pool        main
  Devices     2 × H100
  When        today 10:00 – 18:00 (8 h; Europe/Berlin, UTC+01:00; in 1 h)
  Host share  48 CPUs, 512 GiB memory per node
  Nodes       gpu-01
  Cost        16 GPU-hours

Use it on gpu-01:
  docker run --rm -it \\
    --device bcd.dev/gpu=GPU-1 \\
    --device bcd.dev/gpu=GPU-2 \\
    --cgroup-parent bcd-alloc-alloc_1.slice \\
    --env-file /run/bcd/allocations/alloc_1.env \\
    IMAGE nvidia-smi
"""


def shown(state: str = "active", status: int = 200, **changes: Any) -> Answer:
    return answers.answer(answers.reservation(state, **changes), status)


def in_turn(*outcomes: Answer) -> Callable[[Received], Answer]:
    script = iter(outcomes)
    return lambda _: next(script)


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


class TestReserve:
    @pytest.mark.rule("A8")
    def test_with_wait_it_prints_how_to_use_the_devices(self, run: Run, serve: Serve) -> None:
        server = serve(
            {
                POOLS: MAIN,
                CREATE: shown("pending", 201, operation="running"),
                ONE: in_turn(shown("placed"), shown("binding"), shown("active")),
            }
        )
        result = run(*RESERVE, "--wait")
        assert result.code == 0
        assert plain(result.out) == ACTIVE
        assert result.err.splitlines() == [
            "Waiting up to 20 s …",
            "  is being placed",
            "  has its devices, and is about to get them",
            "  getting its devices on 1 node",
            "Give it back: better-compute release rsv_first",
        ]
        created = next(each for each in server.received if each.method == "POST")
        assert created.body["wait"] == {"timeoutMs": 20_000}
        assert created.body["poolId"] == "pool_main"

    @pytest.mark.rule("A8")
    def test_for_programs_it_prints_the_answer_of_the_wire(self, run: Run, serve: Serve) -> None:
        serve({POOLS: MAIN, CREATE: shown("active", 201)})
        result = run(*RESERVE, "--wait", "5", "--json")
        assert result.code == 0
        assert result.err == ""
        assert json.loads(result.out) == answers.reservation("active")

    def test_for_scripts_it_prints_the_id(self, run: Run, serve: Serve) -> None:
        serve({POOLS: MAIN, CREATE: shown("placed", 201)})
        assert run(*RESERVE, "--output", "id").out == "rsv_first\n"

    def test_without_wait_it_comes_back_at_once(self, run: Run, serve: Serve) -> None:
        server = serve({POOLS: MAIN, CREATE: shown("pending", 201)})
        result = run(*RESERVE)
        assert result.code == 0
        assert "8 h, as soon as it is placed" in plain(result.out)
        assert "better-compute get rsv_first" in result.err
        assert "wait" not in server.received[-1].body

    def test_a_start_ahead_is_waited_for_only_until_it_is_placed(
        self, run: Run, serve: Serve
    ) -> None:
        serve({POOLS: MAIN, CREATE: shown("placed", 201)})
        result = run(*RESERVE, "--start", "in 1h", "--wait")
        assert result.code == 0
        assert result.out.startswith("rsv_first  placed\n")

    @pytest.mark.rule("A8")
    def test_a_wait_that_ends_without_devices_says_how_to_go_on(
        self, run: Run, serve: Serve
    ) -> None:
        server = serve({POOLS: MAIN, CREATE: shown("pending", 201), ONE: shown("pending")})
        result = run(*RESERVE, "--wait", "10")
        assert result.code == Exit.TIMED_OUT
        assert result.out == ""
        assert "rsv_first is not placed after 10 s; it is pending." in result.err
        assert "better-compute get rsv_first" in result.err
        polls = [each for each in server.received if each.path.startswith("/api/v1/reservations/")]
        assert len(polls) > 5

    def test_one_that_fails_while_waiting_is_an_error(self, run: Run, serve: Serve) -> None:
        serve({POOLS: MAIN, CREATE: shown("placed", 201), ONE: shown("failed")})
        assert run(*RESERVE, "--wait").code == Exit.NO_CAPACITY

    @pytest.mark.rule("R8")
    def test_a_lost_answer_is_repeated_with_the_same_key(self, run: Run, serve: Serve) -> None:
        server = serve(
            {
                POOLS: MAIN,
                CREATE: in_turn(
                    wire_server.DROP,
                    answers.refusal(503, "UNAVAILABLE"),
                    shown("placed", 201),
                ),
            }
        )
        assert run(*RESERVE).code == 0
        keys = [each.body["idempotencyKey"] for each in server.received if each.body]
        assert len(keys) == 3
        assert len(set(keys)) == 1

    def test_a_key_of_ones_own_is_used(self, run: Run, serve: Serve) -> None:
        server = serve({POOLS: MAIN, CREATE: shown("placed", 200)})
        run(*RESERVE, "--key", "nightly-42")
        assert server.received[-1].body["idempotencyKey"] == "nightly-42"

    def test_an_answer_that_never_comes_is_answered_with_the_key(
        self, run: Run, serve: Serve
    ) -> None:
        server = serve({POOLS: MAIN, CREATE: wire_server.DROP})
        result = run(*RESERVE)
        assert result.code == Exit.ERROR
        assert f"--key {server.received[-1].body['idempotencyKey']}" in result.err

    def test_an_interrupt_while_waiting_says_that_it_goes_on(
        self, run: Run, serve: Serve, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        serve({POOLS: MAIN, CREATE: shown("pending", 201), ONE: shown("pending")})

        def interrupt(_: float) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("bettercompute.client.blocking.time.sleep", interrupt)
        result = run(*RESERVE, "--wait")
        assert result.code == Exit.INTERRUPTED
        assert "It goes on without this command: better-compute get rsv_first" in result.err
        assert "--key" not in result.err


class TestErrors:
    @pytest.mark.rule("A8")
    @pytest.mark.parametrize(
        ("status", "code", "expected"),
        [
            (400, "INVALID_INPUT", Exit.USAGE),
            (401, "UNAUTHENTICATED", Exit.NOT_AUTHENTICATED),
            (403, "ACCESS_DENIED", Exit.DENIED),
            (403, "CONFIRMATION_REQUIRED", Exit.DENIED),
            (404, "NOT_FOUND", Exit.NOT_FOUND),
            (409, "CONFLICT", Exit.NO_CAPACITY),
            (409, "INVALID_STATE", Exit.NO_CAPACITY),
            (409, "QUOTA_EXCEEDED", Exit.NO_CAPACITY),
            (409, "BUDGET_EXCEEDED", Exit.NO_CAPACITY),
            (412, "PRECONDITION_FAILED", Exit.NO_CAPACITY),
            (422, "UNSUPPORTED", Exit.ERROR),
            (429, "RATE_LIMITED", Exit.ERROR),
            (500, "INTERNAL", Exit.ERROR),
            (503, "UNAVAILABLE", Exit.ERROR),
        ],
    )
    def test_each_has_its_exit_code_its_words_and_no_stdout(
        self, run: Run, serve: Serve, status: int, code: str, expected: Exit
    ) -> None:
        serve({POOLS: MAIN, CREATE: answers.refusal(status, code, "what happened")})
        result = run(*RESERVE)
        assert result.code == expected
        assert result.out == ""
        assert result.err.startswith("Error: what happened\n")

    @pytest.mark.rule("A8")
    def test_a_quota_says_what_to_do(self, run: Run, serve: Serve) -> None:
        serve({POOLS: MAIN, CREATE: answers.refusal(409, "QUOTA_EXCEEDED", "2 of 2 GPUs are held")})
        assert run(*RESERVE).err == (
            "Error: 2 of 2 GPUs are held\n"
            "  Release something (better-compute list), or ask for more quota.\n"
        )

    def test_a_program_reads_it_as_a_document_on_stderr(self, run: Run, serve: Serve) -> None:
        document = answers.problem(409, "QUOTA_EXCEEDED", "too much", resource="gpuMilli")
        serve({POOLS: MAIN, CREATE: answers.answer(document, 409)})
        result = run(*RESERVE, "--json")
        told = json.loads(result.err)["error"]
        assert result.out == ""
        assert told["code"] == "QUOTA_EXCEEDED"
        assert told["details"] == {"resource": "gpuMilli"}
        assert told["requestId"] == "req_1"
        assert told["next"] == ["Release something (better-compute list), or ask for more quota."]

    def test_an_unknown_pool_names_those_there_are(self, run: Run, serve: Serve) -> None:
        serve({POOLS: MAIN})
        result = run("reserve", "--pool", "mian", "--gpus", "2", "--for", "8h")
        assert result.code == Exit.NOT_FOUND
        assert "You may book: main." in result.err

    def test_nobody_signed_in_is_told_how_to(self, run: Run) -> None:
        result = run("list", "--url", "http://127.0.0.1:9")
        assert result.code == Exit.NOT_AUTHENTICATED
        assert "better-compute login" in result.err

    def test_a_server_that_is_away_is_an_error_that_points_to_the_doctor(
        self, run: Run, serve: Serve
    ) -> None:
        serve({LIST: wire_server.DROP})
        result = run("list")
        assert result.code == Exit.ERROR
        assert "better-compute doctor" in result.err

    def test_what_is_told_by_the_server_cannot_steer_the_terminal(
        self, run: Run, serve: Serve
    ) -> None:
        serve({POOLS: MAIN, CREATE: answers.refusal(409, "CONFLICT", "\x1b[2Jgone")})
        assert "\x1b" not in run(*RESERVE).err

    def test_the_token_is_in_nothing_that_is_printed(self, run: Run, serve: Serve) -> None:
        serve({POOLS: MAIN, CREATE: answers.refusal(401, "UNAUTHENTICATED")})
        for arguments in (RESERVE, (*RESERVE, "--json"), ("doctor",), ("list",)):
            result = run(*arguments)
            assert TOKEN not in result.out + result.err


class TestGet:
    def test_it_prints_all_that_is_known(self, run: Run, serve: Serve) -> None:
        serve({POOLS: MAIN, ONE: shown("active")})
        result = run("get", "rsv_first")
        assert result.code == 0
        assert plain(result.out) == ACTIVE

    def test_it_says_what_it_waits_for(self, run: Run, serve: Serve) -> None:
        condition = {
            "type": "Unschedulable",
            "status": "True",
            "reason": "NoCapacity",
            "message": "busy: 2 nodes",
            "since": answers.NOW_MS,
        }
        serve({POOLS: MAIN, ONE: shown("pending", conditions=[condition])})
        assert "  Unschedulable  busy: 2 nodes\n" in run("get", "rsv_first").out

    def test_what_can_never_be_served_is_said_with_the_way_out(
        self, run: Run, serve: Serve
    ) -> None:
        lacking = {"filter": "class", "needs": "16 GPUs", "nodes": 2, "samples": ["gpu-01"]}
        reasons = [{**lacking, "most": "8 GPUs on a node"}]
        waits = answers.waiting(reasons=reasons, earliestStart=None, earliestTestedAt=None)
        serve({POOLS: MAIN, CREATE: shown("pending", waiting=waits)})
        result = run(*RESERVE)
        assert "16 GPUs (class on 2 nodes); the most is 8 GPUs on a node" in result.out
        assert "This pool can never serve it, even with nothing booked." in result.err
        assert "better-compute cancel rsv_first" in result.err

    def test_pool_names_are_a_courtesy_that_may_fail(self, run: Run, serve: Serve) -> None:
        serve({POOLS: answers.refusal(403, "ACCESS_DENIED"), ONE: shown("active")})
        result = run("get", "rsv_first")
        assert result.code == 0
        assert "  Pool        pool_main\n" in result.out

    def test_a_program_costs_no_second_call(self, run: Run, serve: Serve) -> None:
        server = serve({ONE: shown("active")})
        assert run("get", "rsv_first", "--json").code == 0
        assert len(server.received) == 1

    def test_an_id_with_a_slash_reaches_no_other_route(self, run: Run, serve: Serve) -> None:
        server = serve({})
        assert run("get", "../whoami").code == Exit.NOT_FOUND
        assert server.received[0].path.startswith("/api/v1/reservations/..%2Fwhoami")


class TestList:
    def test_what_waits_shows_the_model_that_was_asked_for(self, run: Run, serve: Serve) -> None:
        line = {"class": "gpu", "count": 1, "selector": [{"key": "model", "value": "A100"}]}
        asked = {**answers.reservation()["request"], "devices": [line]}
        waiting = answers.reservation("pending", request=asked)
        every = answers.answer({"items": [waiting], "nextCursor": None})
        serve({POOLS: MAIN, LIST: every, ONE: answers.answer(waiting)})
        assert "  1 × A100  " in plain(run("list").out)
        assert "  Devices     1 × A100\n" in plain(run("get", "rsv_first").out)

    def test_it_prints_one_a_line(self, run: Run, serve: Serve) -> None:
        items = [
            answers.reservation("active"),
            answers.reservation("pending", id="rsv_second", poolId="pool_gone"),
        ]
        server = serve({POOLS: MAIN, LIST: answers.answer({"items": items, "nextCursor": None})})
        result = run("list")
        assert result.code == 0
        assert plain(result.out) == (
            "ID          STATE    POOL       DEVICES   WHEN\n"
            "rsv_first   active   main       2 × H100  today 10:00 – 18:00\n"
            "rsv_second  pending  pool_gone  2 GPUs    8 h, not placed\n"
        )
        assert "scope=mine" in server.received[0].path

    def test_its_filters_reach_the_server(self, run: Run, serve: Serve) -> None:
        server = serve({POOLS: MAIN, LIST: answers.answer({"items": [], "nextCursor": None})})
        result = run("list", "--all", "--state", "active", "--state", "placed", "--pool", "main")
        assert result.out == "No reservations.\n"
        asked = next(each.path for each in server.received if "/reservations" in each.path)
        for part in ("scope=all", "state=active", "state=placed", "poolId=pool_main"):
            assert part in asked

    def test_a_limit_is_kept_over_pages_and_more_is_said(self, run: Run, serve: Serve) -> None:
        def page(received: Received) -> Answer:
            number = int(received.path.partition("cursor=")[2].partition("&")[0] or 0)
            items = [answers.reservation(id=f"rsv_{number}{each}") for each in "ab"]
            return answers.answer({"items": items, "nextCursor": str(number + 1)})

        serve({POOLS: MAIN, LIST: page})
        result = run("list", "--limit", "3", "--output", "id")
        assert result.out == "rsv_0a\nrsv_0b\nrsv_1a\n"
        assert json.loads(run("list", "--limit", "3", "--json").out)["more"] is True
        assert "There are more: give --limit 6" in run("list", "--limit", "3").err


class TestEnding:
    @pytest.mark.parametrize(
        ("verb", "route", "state"),
        [("release", RELEASE, "released"), ("cancel", CANCEL, "cancelled")],
    )
    def test_it_ends_and_prints_what_is_left(
        self, run: Run, serve: Serve, verb: str, route: tuple[str, str], state: str
    ) -> None:
        server = serve({POOLS: MAIN, route: shown(state)})
        result = run(verb, "rsv_first")
        assert result.code == 0
        assert result.out.startswith(f"rsv_first  {state}\n")
        assert server.received[0].body == {"tenantId": answers.TENANT_ID}
        assert "docker" not in result.out

    def test_what_has_started_cannot_be_cancelled(self, run: Run, serve: Serve) -> None:
        serve({CANCEL: answers.refusal(409, "INVALID_STATE", "It is active.")})
        result = run("cancel", "rsv_first")
        assert result.code == Exit.NO_CAPACITY
        assert "It is active." in result.err
