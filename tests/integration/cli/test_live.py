"""The command line against the product itself: a real server, a real database, real tokens."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pytest_django.live_server_helper import LiveServer

from bettercompute.cli import main, settings
from bettercompute.cli.exits import Exit
from bettercompute.client.blocking import Client
from pools.models import Pool
from tests.support import cast, make

pytestmark = pytest.mark.django_db(transaction=True)

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)  # when every test begins
Run = Callable[..., tuple[int, Any]]


@pytest.fixture
def pool() -> Pool:
    """Acme's pool: one machine of eight GPUs; acme may hold all of them."""
    return make.pool(name="main", nodes=1, gpus=8, quota_gpus=8)


@pytest.fixture
def sign_in(
    live_server: LiveServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[[str], None]:
    """From here on commands are one of the cast's."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv(settings.URL_VARIABLE, live_server.url)
    monkeypatch.delenv(settings.TENANT_VARIABLE, raising=False)

    def sign_in_(name: str) -> None:
        monkeypatch.setenv(settings.TOKEN_VARIABLE, cast.token(name)[1])

    sign_in_("bob")
    return sign_in_


@pytest.fixture
def run(sign_in: Callable[[str], None], capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command for a program: its exit code, and its document or its error."""

    def run_(*arguments: str) -> tuple[int, Any]:
        capsys.readouterr()
        code = main.run([*arguments, "--json"])
        captured = capsys.readouterr()
        if captured.out:
            return code, json.loads(captured.out)
        last = captured.err.strip().splitlines()[-1]
        return code, json.loads(last)["error"]

    return run_


def reserve(*more: str, gpus: int = 4) -> tuple[str, ...]:
    return ("reserve", "--pool", "main", "--gpus", str(gpus), "--for", "8h", *more)


@pytest.mark.rule("A8")
def test_a_reservation_is_made_shown_listed_and_given_back(run: Run, pool: Pool) -> None:
    start = START + timedelta(hours=1)
    code, made = run(*reserve("--start", start.isoformat(), "--wait", "5"))
    assert code == 0, made
    assert made["state"] == "placed"
    assert made["during"]["start"] == round(start.timestamp() * 1_000)
    assert len(made["allocations"][0]["deviceIds"]) == 4

    assert run("get", made["id"]) == (0, made)
    code, listed = run("list", "--pool", "main", "--state", "placed")
    assert [each["id"] for each in listed["items"]] == [made["id"]]

    code, ended = run("release", made["id"])
    assert (code, ended["state"]) == (0, "released")
    assert run("release", made["id"]) == (0, ended)
    assert run("list", "--state", "placed")[1]["items"] == []


@pytest.mark.rule("A8")
def test_an_active_one_is_shown_with_the_command_that_uses_it(
    sign_in: Callable[[str], None], pool: Pool, capsys: pytest.CaptureFixture[str]
) -> None:
    made = make.active(cast.caller("bob"), pool, gpus=2)
    assert main.run(["get", made.pk]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{made.pk}  active\n")
    assert "\n  Pool        main\n" in out
    assert out.count("--device ") == 2
    assert out.endswith("IMAGE nvidia-smi\n")


@pytest.mark.rule("R8")
def test_the_same_key_reaches_the_same_reservation_and_no_other(run: Run, pool: Pool) -> None:
    _, first = run(*reserve("--key", "nightly"))
    code, again = run(*reserve("--key", "nightly"))
    assert (code, again["id"]) == (0, first["id"])
    code, error = run(*reserve("--key", "nightly", gpus=2))
    assert (code, error["code"]) == (Exit.NO_CAPACITY, "CONFLICT")
    assert error["details"]["reservationId"] == first["id"]


@pytest.mark.rule("R20")
def test_what_a_preview_says_a_create_finds(run: Run, pool: Pool) -> None:
    ask = ("capacity", "--preview", *reserve()[1:])
    code, fits = run(*ask)
    assert (code, fits["fits"]) == (0, True)
    assert run(*reserve(gpus=6))[0] == 0
    code, full = run(*ask)
    assert (code, full["fits"]) == (Exit.NO_CAPACITY, False)
    assert "busy" in {each["filter"] for each in full["reasons"]}


def test_more_than_the_quota_is_refused_with_what_is_left(run: Run, pool: Pool) -> None:
    assert run(*reserve(gpus=8))[0] == 0
    code, error = run(*reserve(gpus=1))
    assert (code, error["code"]) == (Exit.NO_CAPACITY, "QUOTA_EXCEEDED")


def test_a_wait_for_what_never_comes_times_out(run: Run, pool: Pool) -> None:
    make.grant("acme", gpus=99)
    assert run(*reserve(gpus=8))[0] == 0
    code, error = run(*reserve("--wait", "0.3", gpus=8))
    assert (code, error["code"]) == (Exit.TIMED_OUT, "WAIT_TIMED_OUT")
    assert error["next"][0].startswith("It goes on: better-compute get rsv_")


def test_a_pending_or_future_one_can_be_cancelled_and_only_once(run: Run, pool: Pool) -> None:
    start = (START + timedelta(hours=1)).isoformat()
    _, made = run(*reserve("--start", start))
    code, ended = run("cancel", made["id"])
    assert (code, ended["state"]) == (0, "cancelled")
    code, error = run("cancel", made["id"])
    assert (code, error["code"]) == (Exit.NO_CAPACITY, "INVALID_STATE")


@pytest.mark.rule("R38")
def test_another_tenants_reservation_and_pool_are_not_found(
    run: Run, pool: Pool, sign_in: Callable[[str], None]
) -> None:
    _, made = run(*reserve())
    sign_in("mallory")
    for arguments in (("get", made["id"]), ("release", made["id"]), reserve()):
        code, error = run(*arguments)
        assert (code, error["code"]) == (Exit.NOT_FOUND, "NOT_FOUND"), arguments
    assert run("list", "--all")[1]["items"] == []


def test_pools_and_quotas_are_those_of_the_tenant(run: Run, pool: Pool) -> None:
    assert run(*reserve(gpus=2))[0] == 0
    code, found = run("pools")
    assert code == 0
    assert [(each["name"], each["total"], each["free"]) for each in found["items"]] == [
        ("main", 8, 6)
    ]
    quotas = {each["resource"]: (each["used"], each["max"]) for each in found["quotas"]}
    assert quotas["gpuMilli"] == (2_000, 8_000)


def test_a_revoked_or_made_up_token_is_not_authenticated(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(settings.TOKEN_VARIABLE, "bct_nonsense")
    code, error = run("list", "--tenant", "ten_x")
    assert (code, error["code"]) == (Exit.NOT_AUTHENTICATED, "UNAUTHENTICATED")


def test_a_wrong_option_is_named_by_the_server(run: Run, pool: Pool) -> None:
    code, error = run(*reserve("--profile", "1g.10gb"))
    assert (code, error["code"]) == (Exit.USAGE, "INVALID_INPUT")
    assert error["details"]["errors"][0]["path"] == "devices[0].profile"


def test_the_doctor_finds_a_running_server_well(run: Run, pool: Pool) -> None:
    code, found = run("doctor")
    verdicts = {each["check"]: each["verdict"] for each in found["checks"]}
    assert code == 0, found
    assert verdicts["server.ready"] == verdicts["token.valid"] == "ok"


@pytest.mark.rule("A9")
def test_a_stale_version_is_refused(live_server: LiveServer, pool: Pool) -> None:
    from bettercompute.client import failures

    with Client(live_server.url, cast.token("bob")[1]) as client:
        made = client.reservations.create(
            pool_id=pool.id, devices=[{"class": "gpu", "count": 1}], duration="1h"
        )
        with pytest.raises(failures.PreconditionFailed):
            client.reservations.release(made.id, version=made.version + 1)
        assert client.reservations.release(made.id, version=made.version).state == "released"
        timeline = client.pools.timeline(pool.id)
        assert len(timeline.devices) == 8
