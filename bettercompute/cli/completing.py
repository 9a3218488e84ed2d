"""What a shell offers where a name or an id is to be typed.

A shell waits for the answer, so it comes from a file if that is fresh enough, else from the server
within a second and a half, else it is empty. Nothing is ever said on the terminal.
"""

import contextlib
import hashlib
import itertools
import json
import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click
from click.shell_completion import CompletionItem

from bettercompute.cli import offering, private, times
from bettercompute.cli import session as sessions
from bettercompute.cli.offering import Named
from bettercompute.cli.session import Session
from bettercompute.cli.settings import Target
from bettercompute.pages import chips

if TYPE_CHECKING:
    from bettercompute.client.blocking import Client
    from bettercompute.wire.pools import Pool

T = TypeVar("T")

ANSWER_SECONDS = 1.5
FRESH_MS = 30_000
OFFERED_MAX = 100

Ask = Callable[["Client"], Named]
Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _offering(kind: str, ask: Ask) -> Completer:
    """What completes things of a kind, which the server knows."""

    def complete(
        context: click.Context, _: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return offering.items(_known(context, kind, ask), incomplete)

    return complete


def _pool(pool: "Pool") -> tuple[str, str]:
    """By name, or by id where a shell would act on the name."""
    name = pool.name if offering.is_typeable(pool.name) else pool.id
    return name, f"{pool.free} of {pool.total} free"


def _reservations(client: "Client", states: tuple[str, ...]) -> Named:
    from bettercompute.cli import views

    listed = client.reservations.list(states=states, page_size=OFFERED_MAX)
    return [(each.id, f"{each.state} {views.devices(each.request)}") for each in _some(listed)]


def _some(listed: Iterable[T]) -> Iterator[T]:
    return itertools.islice(listed, OFFERED_MAX)


pools = _offering("pools", lambda client: [_pool(pool) for pool in client.pools.list()])
nodes = _offering(
    "nodes", lambda client: [(each.id, each.name) for each in _some(client.nodes.list())]
)
reservations = _offering("reservations", lambda client: _reservations(client, ()))
#: Those that have not ended.
live_reservations = _offering("live", lambda client: _reservations(client, chips.LIVE))
series = _offering(
    "series", lambda client: [(each.id, str(each.state)) for each in _some(client.series.list())]
)
feeds = _offering(
    "feeds", lambda client: [(each.id, each.username) for each in _some(client.feeds.list())]
)
confirmations = _offering(
    "confirmations",
    lambda client: [(each.id, each.summary) for each in _some(client.confirmations.list())],
)
tokens = _offering(
    "tokens", lambda client: [(each.id, each.name) for each in _some(client.tokens.list())]
)
policies = _offering(
    "policies", lambda client: [(each.id, each.name) for each in client.policies.list()]
)
webhooks = _offering(
    "webhooks", lambda client: [(each.id, each.url) for each in _some(client.webhooks.list())]
)


def _known(context: click.Context, kind: str, ask: Ask) -> Named:
    """What there is of a kind, from the file or the server; nothing where neither says so."""
    session = context.find_object(Session) or Session()
    # Whatever is wrong, a shell that completes is the wrong place to say so.
    with contextlib.suppress(Exception):
        target = session.target()
        file = _file(target, kind)
        fresh = _read(file)
        if fresh is not None:
            return fresh
        from bettercompute.client import blocking  # noqa: F401  (loading it is not waiting)

        found = _in_time(lambda: _asked(target, ask))
        _write(file, found)
        return found
    return []


def _asked(target: Target, ask: Ask) -> Named:
    with sessions.connect(target) as client:
        client.api.timeout_seconds = ANSWER_SECONDS
        return ask(client)


def _in_time(ask: Callable[[], Named]) -> Named:
    """What it answers in time; a name that is looked up for minutes keeps nobody waiting."""
    answer: queue.SimpleQueue[Named] = queue.SimpleQueue()

    def run() -> None:
        with contextlib.suppress(Exception):
            answer.put(ask())

    threading.Thread(target=run, daemon=True).start()
    return answer.get(timeout=ANSWER_SECONDS)


def _file(target: Target, kind: str) -> Path:
    """Where the answers for this server, identity and tenant are kept."""
    asked = "\0".join([kind, target.url, target.tenant or "", target.token])
    name = hashlib.sha256(asked.encode()).hexdigest()[:32]
    return private.home(os.environ, "XDG_CACHE_HOME", ".cache") / f"{name}.json"


def _read(file: Path) -> Named | None:
    content = private.read(file)
    if content is None:
        return None
    kept = json.loads(content.text)
    age_ms = times.to_ms(times.now()) - kept["at"]
    if not 0 <= age_ms < FRESH_MS:
        return None
    return [(str(name), str(about)) for name, about in kept["named"]]


def _write(file: Path, named: Named) -> None:
    document = {"at": times.to_ms(times.now()), "named": named}
    private.write(file, json.dumps(document))
