"""Limits of requests (A11), with the real Valkey: by token, by session, by address; and without."""

import itertools
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from pytest_django.fixtures import Settings

from bettercompute.embedded import directories
from bettercompute.embedded.directories import Directories
from bettercompute.embedded.valkey import Valkey
from bettercompute.iam import tokens
from bettercompute.settings import env
from bettercompute.web import buckets, limits
from bettercompute.web.buckets import Breaker, Buckets, Limit
from tests.support import cast, conformance

pytestmark = pytest.mark.rule("A11")

THREE = Limit("test", 3, 60)


@pytest.fixture
def shared(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Buckets]:
    """The buckets of this process, all full; Valkey may take its time here."""
    found = Buckets(settings.REDIS_URL, Breaker(pause_seconds=0), seconds_max=60)
    monkeypatch.setattr(buckets, "shared", lambda: found)
    for key in found._client.scan_iter(f"{buckets.PREFIX}*"):
        found._client.delete(key)
    yield found
    found.close()


def until_refused(*clients: Client) -> list[Any]:
    """The answers to one request after the other, in turn, the first refusal the last of them."""
    answers: list[Any] = []
    for client in itertools.cycle(clients):
        answers.append(client.get("/api/v1/whoami"))
        if answers[-1].status_code == 429:
            return answers
        assert len(answers) < 20, "nobody is limited"
    raise AssertionError("a cycle has no end")


def let_pass(shared: Buckets, key: str, seconds: float) -> None:
    """As if so much time had passed since: the bucket is full so much earlier."""
    full_at = int(shared._client.get(buckets.PREFIX + key))
    shared._client.set(buckets.PREFIX + key, int(full_at - seconds * 1_000_000), px=60_000)


class TestABucket:
    def test_gives_its_quota_at_once_and_then_no_more(self, shared: Buckets) -> None:
        found = [shared.take("a", THREE) for _ in range(5)]
        assert [each.allowed for each in found if each] == [True, True, True, False, False]
        assert [each.remaining for each in found if each] == [2, 1, 0, 0, 0]
        assert found[0] is not None
        assert found[0].reset_seconds == 20
        assert found[4] is not None
        assert 10 <= found[4].retry_seconds <= 20
        assert shared.take("b", THREE).allowed  # type: ignore[union-attr]  # another's is full

    def test_fills_at_an_even_rate_and_never_over(self, shared: Buckets) -> None:
        for _ in range(4):
            shared.take("a", THREE)
        let_pass(shared, "a", 20.5)
        assert [shared.take("a", THREE).allowed for _ in range(2)] == [True, False]  # type: ignore[union-attr]
        let_pass(shared, "a", 10_000)
        assert [shared.take("a", THREE).allowed for _ in range(4)] == [True] * 3 + [False]  # type: ignore[union-attr]

    def test_is_forgotten_when_it_is_full(self, shared: Buckets) -> None:
        shared.take("a", THREE)
        assert 10_000 < shared._client.pttl(f"{buckets.PREFIX}a") <= 20_000

    def test_a_clock_set_back_locks_nobody_out_for_longer_than_a_window(
        self, shared: Buckets
    ) -> None:
        shared.take("a", THREE)
        let_pass(shared, "a", -86_400)
        found = shared.take("a", THREE)
        assert found is not None
        assert not found.allowed
        assert found.retry_seconds <= 20

    def test_survives_that_valkey_forgets_its_script(self, shared: Buckets) -> None:
        shared.take("a", THREE)
        shared._client.script_flush()
        found = shared.take("a", THREE)
        assert found is not None
        assert found.remaining == 1


@pytest.mark.django_db
class TestWhoIsKnown:
    def test_reads_what_is_left_from_every_answer(
        self, shared: Buckets, settings: Settings
    ) -> None:
        settings.REQUESTS_PER_SECOND = 5
        api = cast.api("alice")
        answer = api.get("/whoami")
        assert answer["RateLimit-Policy"] == '"requests";q=10;w=2'
        assert answer["RateLimit"] == '"requests";r=9;t=1'
        assert api.get("/nothing-here").status_code == 404
        refused = api.get("/pools/none")
        assert refused.status_code == 404
        assert refused["RateLimit"].startswith('"requests";r=')
        not_modified = api.get("/whoami", If_None_Match="*")
        assert not_modified.status_code == 304
        assert "RateLimit" in not_modified

    def test_is_refused_beyond_the_limit_and_told_when_to_come_back(
        self, shared: Buckets, settings: Settings
    ) -> None:
        settings.REQUESTS_PER_SECOND = 1
        api, other = cast.api("alice"), cast.api("alice")
        *taken, refused = until_refused(api.client)
        assert [answer.status_code for answer in taken[:2]] == [200, 200]
        conformance.check("GET", "/api/v1/whoami", refused)
        problem = cast.problem(refused, 429, "RATE_LIMITED")
        assert problem["details"] == {"retryAfterSeconds": 1, "quota": 2, "windowSeconds": 2}
        assert refused["Retry-After"] == "1"
        assert refused["RateLimit"].startswith('"requests";r=0;')
        assert other.get("/whoami").status_code == 200  # another token of hers

    def test_has_room_for_200_requests_a_second_by_default(self) -> None:
        assert settings.REQUESTS_PER_SECOND >= 200

    def test_may_have_a_limit_of_its_own_or_none(self, shared: Buckets, settings: Settings) -> None:
        settings.REQUESTS_PER_SECOND = 100
        token, plaintext = cast.token("alice")
        client = Client(headers={"Authorization": f"Bearer {plaintext}"})
        tokens.limit(token.pk, requests_per_second=1)
        assert len(until_refused(client)) > 2
        tokens.limit(token.pk, requests_per_second=0)
        answer = client.get("/api/v1/whoami")
        assert answer.status_code == 200
        assert "RateLimit" not in answer

    def test_in_a_session_is_limited_by_account(self, shared: Buckets, settings: Settings) -> None:
        settings.REQUESTS_PER_SECOND = 1
        first, second = cast.session("alice"), cast.session("alice")
        assert len(until_refused(first, second)) > 2


@pytest.mark.django_db
class TestWhoIsNot:
    @pytest.fixture(autouse=True)
    def _two_attempts(self, shared: Buckets, settings: Settings) -> None:
        settings.ATTEMPTS_PER_MINUTE = 2
        settings.TRUSTED_PROXIES = env.networks("127.0.0.1")

    @pytest.mark.parametrize(
        "headers",
        [
            {},
            {"Authorization": "Bearer nonsense"},
            {"Authorization": f"Bearer bct_{'a' * 26}_{'b' * 52}"},
        ],
        ids=["nothing", "malformed", "unknown"],
    )
    def test_is_limited_by_address(self, headers: dict[str, str]) -> None:
        def ask(address: str) -> int:
            sent = {**headers, "X-Forwarded-For": address}
            answer = Client().get("/api/v1/whoami", headers=sent)
            if answer.status_code == 429:
                assert 15 <= int(answer["Retry-After"]) <= 30
                cast.problem(answer, 429, "RATE_LIMITED")
            return int(answer.status_code)

        assert [ask("198.51.100.1") for _ in range(3)] == [401, 401, 429]
        assert ask("198.51.100.2") == 401

    def test_guesses_so_many_addresses_of_feeds(self) -> None:
        answers = [Client().get("/feeds/bcf_guess.ics") for _ in range(3)]
        assert [answer.status_code for answer in answers] == [404, 404, 429]

    def test_takes_nothing_from_a_valid_token_behind_the_same_address(self) -> None:
        api = cast.api("alice")
        for _ in range(4):
            Client().get("/api/v1/whoami")
        assert Client().get("/api/v1/whoami").status_code == 429
        assert api.get("/whoami").status_code == 200

    def test_guesses_so_many_passwords_and_then_not_even_a_right_one(self) -> None:
        cast.account("alice")

        def sign_in(password: str) -> int:
            form = {"username": "alice", "password": password}
            return int(Client().post("/login", form).status_code)

        assert [sign_in("wrong"), sign_in("wronger")] == [400, 400]
        refused = Client().post("/login", {"username": "alice", "password": "alice"})
        assert refused.status_code == 429
        assert 15 <= int(refused["Retry-After"]) <= 30
        assert b"too many attempts" in refused.content


Server = tuple[Valkey, subprocess.Popen[bytes]]


@pytest.fixture
def valkey() -> Iterator[Server]:
    """A server of this test's own, to stop and to kill."""
    with tempfile.TemporaryDirectory() as name:  # short: a socket's path is bounded
        home = Path(name)
        placed = Directories(home=home, services=home, account=None)
        for directory in (placed.valkey, placed.sockets, placed.logs):
            directory.mkdir(exist_ok=True)
        server = Valkey(placed, os.environ)
        process = start(server)
        yield server, process
        process.kill()
        process.wait()
        directories.remove_sockets(placed)


def start(server: Valkey) -> subprocess.Popen[bytes]:
    process = server.launch()
    while not server.is_ready():
        assert process.poll() is None
    return process


class TestWithoutValkey:
    def test_nobody_is_limited_and_only_one_asks_until_it_is_back(self, valkey: Server) -> None:
        server, process = valkey
        limited = Buckets(server.url, Breaker(pause_seconds=3_600), seconds_max=60)
        assert limited.take("a", THREE) is not None
        process.kill()
        process.wait()
        assert limited.take("a", THREE) is None
        assert not limited.breaker.admits()
        limited.close()

        back = start(server)
        try:
            again = Buckets(server.url, Breaker(pause_seconds=0), seconds_max=60)
            assert again.breaker.failed()
            assert again.take("a", THREE) is not None
            assert again.breaker.admits()
            again.close()
        finally:
            back.kill()
            back.wait()

    @pytest.mark.django_db
    def test_requests_go_on_when_it_hangs(
        self,
        valkey: Server,
        settings: Settings,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        server, process = valkey
        settings.REQUESTS_PER_SECOND = settings.ATTEMPTS_PER_MINUTE = 1
        hanging = Buckets(server.url, Breaker(pause_seconds=3_600), seconds_max=0.05)
        monkeypatch.setattr(buckets, "shared", lambda: hanging)
        process.send_signal(signal.SIGSTOP)
        try:
            api = cast.api("alice")
            answers = [api.get("/whoami") for _ in range(4)]
            assert [answer.status_code for answer in answers] == [200] * 4
            assert all("RateLimit" not in answer for answer in answers)
            assert [Client().get("/api/v1/whoami").status_code for _ in range(3)] == [401] * 3
        finally:
            process.send_signal(signal.SIGCONT)
            hanging.close()


def test_one_at_a_time_tries_a_server_that_has_failed() -> None:
    breaker = Breaker(pause_seconds=0)
    assert breaker.admits()
    assert breaker.failed()
    assert not breaker.failed()  # said once
    breaker = Breaker(pause_seconds=3_600)
    breaker.failed()
    assert not breaker.admits()
    assert breaker.succeeded()
    assert not breaker.succeeded()
    assert breaker.admits()


def test_a_limit_of_zero_is_none(settings: Settings) -> None:
    settings.ATTEMPTS_PER_MINUTE = 0
    assert limits.attempts() is None
