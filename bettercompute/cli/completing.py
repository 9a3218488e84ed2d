"""What a shell offers where a name or an id is to be typed.

A shell waits for the answer, so it comes from a file if that is fresh enough, else from the server
within a second and a half, else it is empty. Nothing is ever said on the terminal.
"""

import contextlib
import hashlib
import json
import os
import queue
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from bettercompute.cli import contexts as stored
from bettercompute.cli import private, times
from bettercompute.cli import session as sessions
from bettercompute.cli.output import printable
from bettercompute.cli.session import Session
from bettercompute.cli.settings import Target

if TYPE_CHECKING:
    from bettercompute.client.blocking import Client

ANSWER_SECONDS = 1.5
FRESH_MS = 30_000
OFFERED_MAX = 100

Named = list[tuple[str, str]]  # what is typed, and what is said of it
Ask = Callable[["Client"], Named]
#: What is offered lands on a command line as it is, so nothing that a shell would act on.
_TYPEABLE = re.compile(r"[\w@][\w@.:+-]*\Z")
LIVE = ("awaiting-confirmation", "pending", "placed", "binding", "active")


def contexts(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The contexts that are configured."""
    try:
        found = stored.load(stored.directory(os.environ)).contexts
    except (private.Unusable, OSError):
        return []
    return _items([(name, each.url) for name, each in found.items()], incomplete)


def pools(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of the pools that may be booked."""
    return _items(_known(context, "pools", _ask_pools), incomplete)


def nodes(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The ids of nodes, with their names."""
    return _items(_known(context, "nodes", _ask_nodes), incomplete)


def webhooks(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The ids of webhooks, with their URLs."""
    return _items(_known(context, "webhooks", _ask_webhooks), incomplete)


def reservations(
    context: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The ids of one's reservations, newest first."""
    return _items(_known(context, "reservations", _ask_reservations), incomplete)


def live_reservations(
    context: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The ids of those that have not ended."""
    return _items(_known(context, "live", _ask_live_reservations), incomplete)


def _ask_pools(client: "Client") -> Named:
    return [
        (
            pool.name if _TYPEABLE.match(pool.name) else pool.id,
            f"{pool.free} of {pool.total} free",
        )
        for pool in client.pools.list()
    ]


def _ask_nodes(client: "Client") -> Named:
    listed = client.nodes.list(page_size=OFFERED_MAX)
    return [(node.id, node.name) for node, _ in zip(listed, range(OFFERED_MAX), strict=False)]


def _ask_webhooks(client: "Client") -> Named:
    listed = client.webhooks.list(page_size=OFFERED_MAX)
    return [(hook.id, hook.url) for hook, _ in zip(listed, range(OFFERED_MAX), strict=False)]


def _ask_reservations(client: "Client") -> Named:
    return _ask_some(client, ())


def _ask_live_reservations(client: "Client") -> Named:
    return _ask_some(client, LIVE)


def _ask_some(client: "Client", states: tuple[str, ...]) -> Named:
    from bettercompute.cli import views

    listed = client.reservations.list(states=states, page_size=OFFERED_MAX)
    found = [each for each, _ in zip(listed, range(OFFERED_MAX), strict=False)]
    return [(each.id, f"{each.state} {views.devices(each.request)}") for each in found]


def _items(named: Named, incomplete: str) -> list[CompletionItem]:
    return [
        CompletionItem(name, help=printable(about).replace("\n", " "))
        for name, about in named
        if name.startswith(incomplete) and _TYPEABLE.match(name)
    ]


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
    base = os.environ.get("XDG_CACHE_HOME", "")
    home = Path(base) if Path(base).is_absolute() else Path.home() / ".cache"
    asked = "\0".join([kind, target.url, target.tenant or "", target.token])
    name = hashlib.sha256(asked.encode()).hexdigest()[:32]
    return home / "better-compute" / f"{name}.json"


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
