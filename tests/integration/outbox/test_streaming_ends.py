"""A stream ends with its right and with its process; how many there may be (A7, A11, R38)."""

import asyncio
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.contrib.sessions.models import Session
from django.test import Client

from bettercompute import clock as clocks
from bettercompute.iam import memberships, tokens
from bettercompute.iam.models import ApiToken, Policy
from bettercompute.web import lifetime
from outbox import reader
from outbox.streaming import hub, serving
from tests.support import cast
from tests.support.streams import apart, bearer, named, opened, published, quick

__all__ = ["quick"]  # a fixture of every test here

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("A7")]

FORBID = 'forbid (principal, action == Action::"compute:events:read", resource);'


def _revoke():
    tokens.revoke(cast.caller("alice"), ApiToken.objects.get(name="alice's").pk)


def _leave():
    memberships.remove(cast.account("alice"), cast.tenant())


def _disable():
    account = cast.account("alice")
    account.is_active = False
    account.save()


def _forbid():
    Policy.objects.create(tenant=cast.tenant(), name="no events", text=FORBID)


def _forbid_all():
    Policy.objects.create(tenant=None, name="no events", text=FORBID)


@pytest.mark.rule("A2", "R38")
@pytest.mark.parametrize("cut", [_revoke, _leave, _disable, _forbid, _forbid_all])
def test_a_stream_ends_when_its_right_does_and_nothing_is_sent_behind_that(monkeypatch, cut):
    monkeypatch.setattr(hub, "CHECK_SECONDS", 0.0)  # before each look
    headers, bob = bearer("alice"), bearer("bob")
    cast.account("mallory")

    async def scenario():
        async with opened(headers) as stream:
            await published("a")
            await stream.count(1)
            await apart(cut)
            await published("b")
            await stream.end()
            assert named(stream.events) == ["a"]
            assert stream.frames[-1].retry > 0
        async with opened(headers) as stream:
            assert stream.status in {401, 403}
        async with opened(bob, last="0-0") as stream:  # the others' go on
            assert stream.status == (403 if cut in {_forbid, _forbid_all} else 200)

    asyncio.run(scenario())


@pytest.mark.rule("A2", "R38")
def test_a_right_is_asked_for_between_the_pages_of_a_backlog_too(monkeypatch):
    monkeypatch.setattr(hub, "CHECK_SECONDS", 0.0)
    monkeypatch.setattr(hub, "BATCH", 1)
    headers, follow, cuts = bearer("alice"), reader.follow, []

    def cutting(*args, **kwargs):
        page = follow(*args, **kwargs)
        if [row.subject for row in page.rows] == ["reservation/a"]:
            cuts.append(_revoke())
        return page

    monkeypatch.setattr(reader, "follow", cutting)

    async def scenario():
        async with opened(headers) as stream:
            await published("first")
            await stream.count(1)
            await published("a", "b")
            await stream.end()
            assert named(stream.events) == ["first", "a"]

    asyncio.run(scenario())
    assert len(cuts) == 1


def test_a_stream_ends_with_its_token_at_once_and_not_at_the_next_check(monkeypatch):
    monkeypatch.setattr(hub, "CHECK_SECONDS", 10_000.0)
    bob = bearer("bob")
    soon = clocks.now() + timedelta(milliseconds=300)
    _, plaintext = tokens.mint(cast.account("alice"), cast.tenant(), name="short", expires_at=soon)

    async def scenario():
        async with opened(bob) as other:
            await published("a")
            await other.count(1)  # the first check is behind
            async with opened({"authorization": f"Bearer {plaintext}"}) as stream:
                assert stream.status == 200
                await stream.end()
            assert not other.is_over

    asyncio.run(scenario())


def _sign_out(client):
    client.post("/logout")
    assert not Session.objects.exists()


def _change_password(client):
    account = cast.account("alice")
    account.set_password("another")
    account.save()


@pytest.mark.rule("A2")
@pytest.mark.parametrize("cut", [_sign_out, _change_password])
def test_a_session_streams_until_it_is_signed_out_or_its_password_changed(monkeypatch, cut):
    monkeypatch.setattr(hub, "CHECK_SECONDS", 0.0)
    client = Client()
    client.force_login(cast.account("alice"))
    headers = {"cookie": f"sessionid={client.cookies['sessionid'].value}"}

    async def scenario():
        async with opened(headers) as stream:
            await published("a")
            assert named(await stream.count(1)) == ["a"]
            await apart(lambda: cut(client))
            await stream.end()
        async with opened(headers) as stream:
            assert stream.status == 401

    asyncio.run(scenario())


@pytest.mark.rule("A11")
def test_streams_are_bounded_by_account_and_by_process(monkeypatch):
    monkeypatch.setattr(hub, "STREAMS_PER_ACCOUNT_MAX", 1)
    monkeypatch.setattr(hub, "STREAMS_MAX", 2)
    alice, bob, mallory = bearer("alice"), bearer("bob"), bearer("mallory")

    async def scenario():
        async with opened(alice) as one, opened(bob):
            async with opened(alice) as refused:
                assert (refused.status, refused.is_over) == (429, True)
                assert int(refused.headers["retry-after"]) > 0
            async with opened(mallory) as refused:
                assert refused.status == 503
                assert int(refused.headers["retry-after"]) > 0
            await published("a")
            await one.count(1)
        async with opened(alice) as again:
            assert again.status == 200

    asyncio.run(scenario())


def test_a_process_that_stops_lets_its_streams_go_with_a_time_to_come_back(monkeypatch):
    headers = bearer("alice")
    worker = SimpleNamespace(alive=True)
    monkeypatch.setattr(lifetime, "_watched", [worker])

    async def scenario():
        async with opened(headers) as stream:
            await published("a")
            await stream.count(1)
            worker.alive = False
            await stream.end()
            low, high = serving.BACK_MS
            assert low <= stream.frames[-1].retry <= high

    asyncio.run(scenario())
