"""An agent at the command line: it asks, waits, and goes on with the same request."""

import json
from typing import Any

import pytest

from bettercompute.cli.exits import Exit
from bettercompute.client.calls import Answer
from tests.support import answers
from tests.support.wire_server import WireServer
from tests.unit.cli.conftest import Run, Serve
from tests.unit.cli.test_reserving import CREATE, MAIN, ONE, POOLS, RESERVE, in_turn, plain, shown

pytestmark = pytest.mark.rule("R36", "A8")

ASKED = ("GET", "/confirmations/cnf_1")


def refused() -> Answer:
    problem = answers.problem(403, "CONFIRMATION_REQUIRED", "trainer may do this once …")
    until = answers.NOW_MS + 1_800_000
    details = {"confirmationId": "cnf_1", "expiresAt": until, "resourceId": "rsv_first"}
    return answers.answer({**problem, "details": details}, 403)


def confirmation(state: str, **changes: Any) -> Answer:
    return answers.answer(
        {
            "id": "cnf_1",
            "tenantId": answers.TENANT_ID,
            "accountId": "usr_ada",
            "username": "ada",
            "agent": "trainer",
            "tokenId": "tok_1",
            "action": "compute:reservations:create",
            "resourceId": "rsv_first",
            "summary": "Reserve 2 GPUs for 8h, as soon as it fits",
            "asked": {"verb": "create"},
            "state": state,
            "reason": None,
            "askedAt": answers.NOW_MS,
            "expiresAt": answers.NOW_MS + 1_800_000,
            "decidedAt": None,
            "decidedBy": None,
            "version": 1,
            **changes,
        }
    )


def keys(server: WireServer) -> list[Any]:
    """The idempotency key of each create that arrived."""
    return [each.body["idempotencyKey"] for each in server.received if each.method == "POST"]


def test_with_wait_it_waits_for_the_person_and_sends_the_same_again(run: Run, serve: Serve) -> None:
    server = serve(
        {
            POOLS: MAIN,
            CREATE: in_turn(refused(), shown("active", 201)),
            ASKED: in_turn(confirmation("open"), confirmation("open"), confirmation("approved")),
        }
    )
    result = run(*RESERVE, "--wait", "60")
    assert result.code == 0
    assert "waits for cnf_1 to be approved" in result.err
    first, second = keys(server)
    assert first == second


def test_nobody_answers_in_time(run: Run, serve: Serve) -> None:
    server = serve({POOLS: MAIN, CREATE: refused(), ASKED: confirmation("open")})
    result = run(*RESERVE, "--wait", "2")
    assert result.code == Exit.DENIED
    assert "better-compute confirmations approve cnf_1; then run the same again" in result.err
    assert len(keys(server)) == 1


def test_without_wait_the_same_command_goes_on_with_its_key(run: Run, serve: Serve) -> None:
    script = [refused(), shown("placed", 201), shown("placed", 201)]
    server = serve({POOLS: MAIN, CREATE: in_turn(*script), ASKED: confirmation("open")})
    assert run(*RESERVE).code == Exit.DENIED
    result = run(*RESERVE)
    assert result.code == 0
    assert "Going on with the same command" in result.err
    assert "which waits for a confirmation" in result.err
    assert run(*RESERVE).code == 0, "and the next time it is another"
    first, second, third = keys(server)
    assert first == second != third


@pytest.mark.parametrize(
    ("answered", "told"),
    [
        (confirmation("approved"), "has been confirmed"),
        (confirmation("denied", reason="tomorrow"), "was denied (tomorrow)"),
        (confirmation("denied", withdrawn=True), "was confirmed, and withdrawn"),
        (confirmation("expired"), "was not confirmed in time"),
        (answers.refusal(404, "NOT_FOUND"), "had to be confirmed"),
    ],
)
def test_the_same_command_says_what_was_answered_meanwhile(
    run: Run, serve: Serve, answered: Answer, told: str
) -> None:
    script = in_turn(refused(), refused(), refused(), shown("denied", 200))
    server = serve({POOLS: MAIN, CREATE: script, ASKED: answered})
    assert run(*RESERVE).code == Exit.DENIED
    assert f", which {told}; another --key" in run(*RESERVE).err
    looked = len(server.received)
    assert run(*RESERVE, "--quiet").code == Exit.DENIED
    assert len(server.received) == looked + 1, "what is not told is not asked"
    assert run(*RESERVE).code == Exit.DENIED
    assert len(set(keys(server))) == 1


def test_what_is_asked_is_shown_with_its_pool_its_cost_and_moments_by_ones_own_clock(
    run: Run, serve: Serve
) -> None:
    until = answers.NOW_MS + 10 * answers.HOUR_MS
    asked = confirmation("open", summary="…", asked={"verb": "extend", "until": until})
    every = answers.answer({"items": [json.loads(asked.body)], "nextCursor": None})
    serve({POOLS: MAIN, ASKED: asked, ("GET", "/confirmations"): every, ONE: shown("active")})
    wish = "Extend 2 × H100 in main until today 20:00"
    assert wish in plain(run("confirmations").out)
    lines = plain(run("confirmations", "show", "cnf_1").out).splitlines()
    assert f"  Wants to   {wish}" in lines
    assert "  Pool       main" in lines
    assert "  Cost       16 GPU-hours" in lines
    assert "  Longer by  2 h, 4 GPU-hours more" in lines


def test_a_create_is_shown_with_what_the_tenant_would_hold_then(run: Run, serve: Serve) -> None:
    waiting = answers.reservation("awaiting-confirmation")
    asked = confirmation("open", asked={"verb": "create", "request": waiting["request"]})
    after = answers.preview(quotaAfter=[{"resource": "gpuMilli", "used": 28_000, "max": 256_000}])
    preview = ("POST", "/capacity/preview")
    serve({POOLS: MAIN, ASKED: asked, ONE: answers.answer(waiting), preview: answers.answer(after)})
    told = plain(run("confirmations", "show", "cnf_1").out)
    assert "  Quota then  28 of 256 GPUs\n" in told
    assert "Reserve 2 GPUs in main for 8h, as soon as it fits" in told


def test_what_is_released_says_what_that_means_and_a_program_costs_no_second_call(
    run: Run, serve: Serve
) -> None:
    asked = confirmation("open", asked={"verb": "release"})
    server = serve({POOLS: MAIN, ASKED: asked, ONE: shown("active")})
    told = plain(run("confirmations", "show", "cnf_1").out)
    assert "Release 2 × H100 in main now" in told
    assert "What runs on it stops" in told
    before = len(server.received)
    assert run("confirmations", "show", "cnf_1", "--json").code == 0
    assert len(server.received) == before + 1
