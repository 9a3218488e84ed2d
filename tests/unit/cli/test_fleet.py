"""`capacity --preview` and `pools`."""

import json

import pytest

from bettercompute.cli.exits import Exit
from tests.support import answers
from tests.unit.cli.conftest import Run, Serve

POOLS = ("GET", "/pools")
PREVIEW = ("POST", "/capacity/preview")
QUOTAS = ("GET", "/quotas")
MAIN = answers.answer({"items": [answers.pool()], "nextCursor": None})
ASK = ("capacity", "--preview", "--pool", "main", "--gpus", "2", "--for", "8h")

BUSY = {
    "filter": "busy",
    "needs": "2 free gpu",
    "nodes": 12,
    "samples": ["main-0", "main-1"],
    "until": answers.NOW_MS + answers.HOUR_MS,
    "most": None,
}
DENIED = {"filter": "policy", "needs": "at most 1 GPU", "nodes": 0, "samples": [], "until": None}


@pytest.mark.rule("R20")
def test_what_fits_says_where_and_exits_with_0(run: Run, serve: Serve) -> None:
    server = serve({POOLS: MAIN, PREVIEW: answers.answer(answers.preview())})
    result = run(*ASK)
    assert result.code == 0
    assert result.out == (
        "It fits. It would cost 16 GPU-hours and take\nNODE    DEVICES\nmain-0  2\n"
    )
    assert server.received[-1].body == {
        "tenantId": answers.TENANT_ID,
        "poolId": "pool_main",
        "devices": [{"class": "gpu", "count": 2}],
        "duration": "28800000ms",
    }


@pytest.mark.rule("R20")
def test_what_does_not_fit_says_why_and_exits_with_5(run: Run, serve: Serve) -> None:
    refused = answers.preview(fits=False, nodes=[], reasons=[DENIED, BUSY])
    serve({POOLS: MAIN, PREVIEW: answers.answer(refused)})
    result = run(*ASK)
    assert result.code == Exit.NO_CAPACITY
    assert result.out == (
        "It does not fit:\n"
        "  - policy: needs at most 1 GPU (see the pool's limits, better-compute pools NAME, or ask"
        " an admin of your tenant)\n"
        "  - busy: needs 2 free gpu; 12 nodes fail, such as main-0, main-1; until today 11:00"
        " (start later, or ask for fewer)\n"
    )
    assert result.err == ""


def test_the_first_start_at_which_it_fits_is_said(run: Run, serve: Serve) -> None:
    later = answers.NOW_MS + 24 * answers.HOUR_MS
    refused = answers.preview(fits=False, nodes=[], reasons=[BUSY], earliest=later)
    serve({POOLS: MAIN, PREVIEW: answers.answer(refused)})
    assert "The first start at which it fits: tomorrow 10:00\n" in run(*ASK).out


@pytest.mark.rule("R19")
def test_who_would_give_way_and_when_it_would_start_is_said(run: Run, serve: Serve) -> None:
    soon = {"reservations": 2, "start": answers.NOW_MS + 120_000}
    serve({POOLS: MAIN, PREVIEW: answers.answer(answers.preview(preempts=soon))})
    result = run(*ASK)
    assert result.code == Exit.OK
    assert "It starts today 10:02, when 2 spot reservations give way to it.\n" in result.out


def test_a_program_reads_the_preview_and_the_exit_code(run: Run, serve: Serve) -> None:
    refused = answers.preview(fits=False, nodes=[], reasons=[BUSY])
    serve({POOLS: MAIN, PREVIEW: answers.answer(refused)})
    result = run(*ASK, "--json")
    assert result.code == Exit.NO_CAPACITY
    assert json.loads(result.out) == refused


def test_pools_are_listed_with_what_is_free_and_the_quotas(run: Run, serve: Serve) -> None:
    full = answers.pool("mig", free=0, nextFreeAt=answers.NOW_MS + answers.HOUR_MS)
    own = {"resource": "gpuMilli", "used": 4_000, "max": 256_000}
    here = {"resource": "gpuMilli", "used": 2_000, "max": 8_000, "scope": "pool"}
    offered = {"resource": "vcpu", "used": 0, "max": 64, "scope": "offer", "poolOfferId": "off_1"}
    quotas = {"items": [own, {**here, "poolId": "pool_main"}, {**offered, "poolId": "pool_mig"}]}
    serve(
        {
            POOLS: answers.answer({"items": [answers.pool(), full], "nextCursor": None}),
            QUOTAS: answers.answer(quotas),
        }
    )
    result = run("pools")
    assert result.code == 0
    assert result.out == (
        "NAME  ID         REGION   NODES  DEVICES    FREE  NEXT FREE\n"
        "main  pool_main  eu-west  2      16 × H100  12    now\n"
        "mig   pool_mig   eu-west  2      16 × H100  0     today 11:00\n"
        "\n"
        "QUOTA  OF                 USED  MAX\n"
        "GPUs   all pools          4     256\n"
        "GPUs   pool main          2     8\n"
        "CPUs   offer of pool mig  0     64\n"
    )


def test_a_tenant_without_pools_is_told_so(run: Run, serve: Serve) -> None:
    empty = answers.answer({"items": [], "nextCursor": None})
    serve({POOLS: empty, QUOTAS: empty})
    assert run("pools").out == "No pool is open to this tenant.\n"


LEASES = ("GET", "/leases")


def lease(name: str, role: str, **changes: object) -> dict[str, object]:
    """A role that a process has held for an hour."""
    held = {
        "name": name,
        "role": role,
        "held": True,
        "owner": "own_1",
        "note": "cp-1 pid 7",
        "epoch": 3,
        "since": answers.NOW_MS - answers.HOUR_MS,
        "lapsesInMs": 11_400,
    }
    return held | changes


@pytest.mark.rule("C29")
def test_leases_say_who_is_in_charge_since_when(run: Run, serve: Serve) -> None:
    nobody = {"held": False, "owner": "", "note": "", "since": None, "lapsesInMs": 0, "epoch": 0}
    rows = [
        lease("shard:0", "shard 0 of the work queue"),
        lease("singleton:sweep", "periodic job sweep", **nobody),
    ]
    serve({LEASES: answers.answer({"items": rows, "nextCursor": None})})
    lines = run("leases").out.splitlines()
    assert lines[0].split("  ")[0] == "ROLE"
    shard = [part.strip() for part in lines[1].split("  ") if part]
    assert shard == [
        "shard 0 of the work queue", "cp-1 pid 7", "own_1", "3", "today 09:00", "11 s",
    ]  # fmt: skip
    assert lines[2].split() == ["periodic", "job", "sweep", "nobody", "0"]
    assert run("leases", "--output", "id").out.split() == ["shard:0"]
    assert json.loads(run("leases", "--json").out)["items"][0]["lapsesInMs"] == 11_400


def test_leases_are_the_operators(run: Run, serve: Serve) -> None:
    problem = answers.problem(
        403, "ACCESS_DENIED", "Only an operator may do this.", needs="operator"
    )
    serve({LEASES: answers.answer(problem, 403)})
    result = run("leases")
    assert result.code == Exit.DENIED
    assert "Only an operator" in result.err
    assert "operator's token" in result.err
    assert "policies" not in result.err


FRAGMENTATION = {
    "poolId": "pool_main",
    "kinds": [
        {
            "class": "gpu",
            "model": "H100",
            "profile": None,
            "total": 16,
            "free": 9,
            "largestBlock": 8,
            "wholeNodes": 1,
            "inWholeNodes": 8,
            "blocks": [
                {"size": 1, "requests": 9},
                {"size": 8, "requests": 1},
                {"size": 16, "requests": 0},
            ],
            "fragmentationMilli": 111,
        }
    ],
}
LYING = ("GET", "/pools/pool_main/fragmentation")


@pytest.mark.rule("R15")
def test_one_pool_says_how_much_is_free_in_one_piece(run: Run, serve: Serve) -> None:
    serve({POOLS: MAIN, LYING: answers.answer(FRAGMENTATION)})
    result = run("pools", "main")
    assert result.code == 0
    header, row = (line.split("  ") for line in result.out.splitlines()[-2:])
    assert [cell.strip() for cell in row if cell.strip()] == [
        "16 × H100",
        "9",
        "8",
        "1 (8 devices)",
        "9 × 1, 1 × 8",
        "11.1 %",
    ]
    assert header[0] == "DEVICES"
    assert "\n  Free now  12 of 16\n" in result.out
    document = json.loads(run("pools", "main", "--json").out)
    assert (document["id"], document["fragmentation"]) == ("pool_main", FRAGMENTATION)


def test_a_pool_that_is_not_there_is_said(run: Run, serve: Serve) -> None:
    serve({POOLS: MAIN})
    result = run("pools", "other")
    assert result.code == Exit.NOT_FOUND
    assert "There is no pool other" in result.err
