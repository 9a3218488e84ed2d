"""The client for asyncio; the same calls as the blocking one.

    async with AsyncClient("https://compute.example.org", token) as client:
        async for reservation in client.reservations.list():
            ...

A call that is cancelled ends at once; a create whose answer was lost so is found by its key.
"""

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import httpx2

from bettercompute.client import (
    accounts,
    audit,
    capacity,
    confirmations,
    events,
    feeds,
    maintenance,
    members,
    nodes,
    operating,
    policies,
    pools,
    reservations,
    series,
    server,
    tokens,
    transport,
    usage,
    webhooks,
)
from bettercompute.client.blocking import TIMEOUT_SECONDS
from bettercompute.client.calls import Answer, Lost
from bettercompute.client.flows import Api, Flow, Pages, Pause, Send
from bettercompute.client.following import Following, Streamed

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(slots=True)
class Ended:
    """How a stream ended; properly, where nothing is said."""

    outcome: Answer | Lost | None = None


class Group:
    """Calls that belong together."""

    def __init__(self, client: "AsyncClient") -> None:
        self._client = client


def _call(
    flow: Callable[Concatenate[Api, P], Flow[T]],
) -> Callable[Concatenate[Group, P], Coroutine[Any, Any, T]]:
    """A method that runs a flow to its end."""

    @functools.wraps(flow)
    async def method(self: Group, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._client.run(flow(self._client.api, *args, **kwargs))

    return method


def _iterate(
    pages: Callable[Concatenate[Api, P], Pages[T]],
) -> Callable[Concatenate[Group, P], AsyncIterator[T]]:
    """A method that walks over pages, asking for each when it is reached."""

    @functools.wraps(pages)
    async def method(self: Group, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        page, cursor = pages(self._client.api, *args, **kwargs), None
        while True:
            items, cursor = await self._client.run(page(cursor))
            for item in items:
                yield item
            if cursor is None:
                return

    return method


def _follow(
    opening: Callable[Concatenate[Api, P], Flow[Following]],
) -> Callable[Concatenate[Group, P], AsyncIterator[Streamed]]:
    """A method that follows a stream, opening it again where it broke."""

    @functools.wraps(opening)
    async def method(self: Group, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[Streamed]:
        following = await self._client.run(opening(self._client.api, *args, **kwargs))
        while True:
            ended = Ended()
            async for streamed in self._client.follow(following, ended):
                yield streamed
            await asyncio.sleep(following.lose(ended.outcome))

    return method


class Reservations(Group):
    """Claims on devices."""

    create = _call(reservations.create)
    get = _call(reservations.get)
    list = _iterate(reservations.pages)
    extend = _call(reservations.extend)
    available_until = _call(reservations.available_until)
    renew = _call(reservations.renew)
    change_users = _call(reservations.change_users)
    release = _call(reservations.release)
    cancel = _call(reservations.cancel)
    wait_until_placed = _call(reservations.wait_until_placed)
    wait_until_active = _call(reservations.wait_until_active)


class Series(Group):
    """Reservations that repeat."""

    get = _call(series.get)
    list = _iterate(series.pages)
    cancel = _call(series.cancel)
    skip = _call(series.skip)


class Capacity(Group):
    """What would fit."""

    preview = _call(capacity.preview)
    offers = _call(capacity.offers)


class Confirmations(Group):
    """What agents ask their people for."""

    list = _iterate(confirmations.pages)
    get = _call(confirmations.get)
    approve = _call(confirmations.approve)
    deny = _call(confirmations.deny)
    withdraw = _call(confirmations.withdraw)
    wait = _call(confirmations.wait)


class Feeds(Group):
    """Addresses that calendar programs read."""

    create = _call(feeds.create)
    list = _iterate(feeds.pages)
    revoke = _call(feeds.revoke)


class Events(Group):
    """What happened, and what happens."""

    list = _iterate(events.pages)
    newest = _call(events.newest)
    get = _call(events.get)
    catalog = _call(events.catalog)
    event_type = _call(events.event_type)
    stream = _follow(events.stream)


class Pools(Group):
    """What the tenant may book."""

    list = _call(pools.list_)
    get = _call(pools.get)
    find = _call(pools.find)
    timeline = _call(pools.timeline)
    fragmentation = _call(pools.fragmentation)


class Nodes(Group):
    """Machines, for operators and owners of pools."""

    list = _iterate(nodes.pages)
    get = _call(nodes.get)
    cordon = _call(nodes.cordon)
    uncordon = _call(nodes.uncordon)


class Audit(Group):
    """Who did what, and what was refused."""

    list = _iterate(audit.pages)


class Tokens(Group):
    """API tokens."""

    create = _call(tokens.create)
    list = _iterate(tokens.pages)
    revoke = _call(tokens.revoke)


class Policies(Group):
    """Who may reserve what."""

    list = _call(policies.list_)
    get = _call(policies.get)
    create = _call(policies.create)
    replace = _call(policies.replace)
    delete = _call(policies.delete)
    examples = _call(policies.examples)
    try_ = _call(policies.try_)


class Maintenance(Group):
    """Planned work on nodes and pools."""

    announce = _call(maintenance.announce)
    of_pool = _call(maintenance.of_pool)
    of_node = _call(maintenance.of_node)
    get = _call(maintenance.get)
    cancel = _call(maintenance.cancel)


class Webhooks(Group):
    """Receivers that are sent events."""

    create = _call(webhooks.create)
    list = _iterate(webhooks.pages)
    get = _call(webhooks.get)
    update = _call(webhooks.update)
    delete = _call(webhooks.delete)
    rotate_secret = _call(webhooks.rotate_secret)
    test = _call(webhooks.test)
    deliveries = _iterate(webhooks.delivery_pages)
    delivery = _call(webhooks.delivery)
    redeliver = _call(webhooks.redeliver)
    redeliver_range = _call(webhooks.redeliver_range)


class Operating(Group):
    """What operators of the platform look at."""

    self_check = _call(operating.self_check)
    leases = _call(operating.leases)


class Account(Group):
    """Who the client is, and what its tenant may use."""

    whoami = _call(accounts.whoami)
    tenant_id = _call(accounts.tenant_id)
    account_ids = _call(members.account_ids)
    members = _call(members.list_)
    quotas = _call(pools.quotas)
    budgets = _call(usage.budgets)
    usage = _call(usage.usage)
    probe = _call(server.probe)


class AsyncClient:
    """Better Compute at one address, as one token; arguments as for ``blocking.Client``."""

    def __init__(
        self,
        url: str,
        token: str,
        tenant: str | None = None,
        *,
        timeout: float = TIMEOUT_SECONDS,
        transport_: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self.api = Api(timeout_seconds=timeout, tenant=tenant)
        self._http = httpx2.AsyncClient(**transport.settings(url, token), transport=transport_)
        self.reservations = Reservations(self)
        self.series = Series(self)
        self.capacity = Capacity(self)
        self.confirmations = Confirmations(self)
        self.feeds = Feeds(self)
        self.events = Events(self)
        self.pools = Pools(self)
        self.nodes = Nodes(self)
        self.maintenance = Maintenance(self)
        self.tokens = Tokens(self)
        self.audit = Audit(self)
        self.policies = Policies(self)
        self.webhooks = Webhooks(self)
        self.operating = Operating(self)
        account = Account(self)
        self.whoami = account.whoami
        self.tenant_id = account.tenant_id
        self.members = account.members
        self.account_ids = account.account_ids
        self.quotas = account.quotas
        self.budgets = account.budgets
        self.usage = account.usage
        self.probe = account.probe

    async def run(self, flow: Flow[T]) -> T:
        """Send and sleep as a flow says, and answer what it answers."""
        outcome: Answer | Lost | None = None
        while True:
            try:
                step = flow.send(outcome)
            except StopIteration as done:
                result: T = done.value
                return result
            match step:
                case Pause(seconds):
                    await asyncio.sleep(seconds)
                    outcome = None
                case Send():
                    outcome = await self._send(step)

    async def follow(self, following: Following, ended: Ended) -> AsyncIterator[Streamed]:
        """What one stream brings until it ends; how it ended is said beside it."""
        try:
            async with self._http.stream(**transport.stream(following)) as response:
                if response.status_code != transport.OPENED:
                    await response.aread()
                    ended.outcome = transport.answered(response)
                    return
                following.begin()
                async for chunk in response.aiter_raw():
                    for streamed in following.feed(chunk):
                        yield streamed
        except (httpx2.RequestError, OSError) as error:
            ended.outcome = transport.lost(error, self.url)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def _send(self, send: Send) -> Answer | Lost:
        try:
            return transport.answered(await self._http.request(**transport.arguments(send)))
        except (httpx2.RequestError, OSError) as error:
            return transport.lost(error, self.url)
