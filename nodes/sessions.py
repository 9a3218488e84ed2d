"""Sessions of node agents: challenge, hello, supersede, flush (N2, N5, C37).

A node has one live session. A hello opens the next epoch, and from then on every older one is
refused, whoever holds it: the guard is in the statement that writes.

A challenge is not stored anywhere. It names the node, the epoch it was made at and when it
expires, under a MAC that every gateway of a deployment can check; and since the hello that answers
it moves the epoch on, it opens one session only.
"""

import hashlib
import hmac
import json
import logging
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.utils import crypto
from pydantic import ValidationError

from bettercompute import clock, errors, sql
from bettercompute.states import NodeState
from nodes import eligibility
from nodes.protocol import codes, signing
from nodes.protocol.messages import Hello
from nodes.protocol.signing import Purpose

log = logging.getLogger(__name__)

SESSIONS = sql.load(__package__, "sessions")

CHALLENGE_SECONDS = 30
CLOCK_SKEW_MS_MAX = 60_000
CAPABILITY_PREFIX = "bc.dev/cap."
LIVE_SECONDS = 15  # silent for longer is Disconnected (C36)
_SALT = "nodes.sessions.challenge"


class SessionSuperseded(errors.Conflict):
    """This node's agent has a newer session; an older one's reports are refused."""

    code = codes.SESSION_SUPERSEDED
    title = "Session superseded"


class HelloRefused(errors.Unauthenticated):
    """The hello does not prove that it comes from this node."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """What a hello must sign, and for how long it works."""

    text: str
    expires_in_seconds: int = CHALLENGE_SECONDS


@dataclass(frozen=True, slots=True)
class SessionToken:
    """A session's bearer token. It names its node and epoch, which prove nothing by themselves."""

    node_id: str
    epoch: int
    text: str

    @classmethod
    def mint(cls, node_id: str, epoch: int) -> "SessionToken":
        return cls(node_id, epoch, f"{node_id}.{epoch}.{secrets.token_urlsafe(32)}")

    @classmethod
    def read(cls, text: str) -> "SessionToken":
        """A token from its text. Raises: errors.Unauthenticated."""
        node_id, _, rest = text.partition(".")
        epoch, _, secret = rest.partition(".")
        if not (node_id and secret and epoch.isascii() and epoch.isdigit() and len(epoch) < 19):
            raise errors.Unauthenticated("This is no session token; say hello.")
        return cls(node_id, int(epoch), text)

    @property
    def hash(self) -> str:
        """What is stored of it."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Opened:
    """A session that has just begun."""

    token: SessionToken
    applied_seq: int


@dataclass(frozen=True, slots=True)
class Heard:
    """When a gateway last heard of a session, by its own monotonic clock."""

    node_id: str
    epoch: int
    at_monotonic: float


@dataclass(frozen=True, slots=True)
class Waiting:
    """What an agent knows that waits for news."""

    node_id: str
    generation: int
    epoch: int


@dataclass(frozen=True, slots=True)
class News:
    """What is so now of a node that waits."""

    node_id: str
    generation: int
    epoch: int


def challenge(node_id: str) -> Challenge:
    """A fresh challenge for whoever says that they are this node; tells nothing of the node."""
    row = SESSIONS.one("epoch", node_id=node_id)
    assert row is not None
    epoch, now = row
    expires_ms = clock.to_ms(now) + CHALLENGE_SECONDS * 1_000
    claims = f"{epoch}.{expires_ms}.{secrets.token_urlsafe(16)}"
    return Challenge(f"{claims}.{_mac(node_id, claims)}")


def hello(*, text: str, signature: str, gateway_id: str) -> Opened:
    """Open the next session of the node that signed this hello.

    Raises:
        errors.InvalidInput: the hello cannot be read.
        HelloRefused: key, signature or challenge is not good.
        errors.AccessDenied: the node is retired.
    """
    said = _read(text)
    epoch, expires_ms = _read_challenge(said)
    with transaction.atomic():
        row = SESSIONS.one("key", kid=said.kid, node_id=said.node_id)
        if row is None:
            raise HelloRefused("This node has no such key, or it is revoked or expired.")
        public_key, state, system_labels, now = row
        raw = signing.decode(signature) or b""
        if not signing.verify(bytes(public_key), Purpose.HELLO, text.encode(), raw):
            raise HelloRefused("The signature is not by this key over this hello.")
        if clock.to_ms(now) >= expires_ms:
            raise HelloRefused("The challenge has expired; ask for another.")
        if state == NodeState.RETIRED:
            raise errors.AccessDenied("This node is retired.")
        _warn_of_clock(said, now)
        opened = _open(said, epoch, gateway_id)
        _set_capabilities(said, system_labels)
    return opened


def adopt(token: SessionToken, *, gateway_id: str) -> None:
    """Go on with a session that another gateway, or this one before its restart, began.

    Raises:
        SessionSuperseded: the node has a newer session.
        errors.Unauthenticated: there is no such session.
    """
    row = SESSIONS.one(
        "adopt",
        node_id=token.node_id,
        epoch=token.epoch,
        token_hash=token.hash,
        gateway_id=gateway_id,
    )
    if row is not None:
        return
    current = SESSIONS.one("epoch", node_id=token.node_id)
    if current is not None and current[0] > token.epoch:
        raise SessionSuperseded
    raise errors.Unauthenticated("There is no such session; say hello.")


@transaction.atomic
def flush(
    heard: Sequence[Heard],
    *,
    gateway_id: str,
    since: float,
    monotonic: Callable[[], float] = time.monotonic,
) -> set[str]:
    """Write when these sessions were last heard of; answers the nodes whose session was live.

    What a gateway knows is how long ago (C8). The ages are taken once the transaction has begun,
    which fixes its ``compute_now()``: however long connecting or the statement itself takes, nobody
    looks any fresher for it. An age below 0, or from before ``since`` when this gateway began to
    listen, is a mistake of ours: it is not written.
    """
    SESSIONS.one("begin")
    now = monotonic()
    ages = [(each, now - each.at_monotonic) for each in heard]
    sound = [(each, age) for each, age in ages if 0 <= age <= now - since]
    if len(sound) < len(ages):
        log.error("%d ages of nodes make no sense and are not written", len(ages) - len(sound))
    rows = SESSIONS.all(
        "flush",
        node_ids=[each.node_id for each, _ in sound],
        epochs=[each.epoch for each, _ in sound],
        ages=[age for _, age in sound],
        gateway_id=gateway_id,
    )
    return {node_id for (node_id,) in rows}


def news(waiting: Sequence[Waiting]) -> list[News]:
    """What is not as these agents know it."""
    rows = SESSIONS.all(
        "news",
        node_ids=[each.node_id for each in waiting],
        generations=[each.generation for each in waiting],
        epochs=[each.epoch for each in waiting],
    )
    return [News(*row) for row in rows]


def settled() -> int:
    """How many nodes are live with their reported inventory applied."""
    row = SESSIONS.one("settled", seconds=LIVE_SECONDS)
    assert row is not None
    return int(row[0])


def _read(text: str) -> Hello:
    try:
        return Hello.from_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(["hello", *map(str, first["loc"])])
        raise errors.InvalidInput.at(where, first["msg"]) from error


def _read_challenge(said: Hello) -> tuple[int, int]:
    """The epoch and expiry of a challenge that we gave to this node. Raises: HelloRefused."""
    claims, _, mac = said.challenge.rpartition(".")
    if not hmac.compare_digest(mac.encode(), _mac(said.node_id, claims).encode()):
        raise HelloRefused("This challenge was not given to this node.")
    epoch, expires_ms, _ = claims.split(".", 2)
    return int(epoch), int(expires_ms)


def _mac(node_id: str, claims: str) -> str:
    return crypto.salted_hmac(_SALT, f"{node_id}.{claims}", algorithm="sha256").hexdigest()


def _open(said: Hello, challenged_epoch: int, gateway_id: str) -> Opened:
    token = SessionToken.mint(said.node_id, challenged_epoch + 1)
    row = SESSIONS.one(
        "open",
        node_id=said.node_id,
        challenged_epoch=challenged_epoch,
        token_hash=token.hash,
        gateway_id=gateway_id,
        boot_id=said.boot_id,
        agent_version=said.agent_version,
        capabilities=sorted(set(said.capabilities)),
    )
    if row is None:
        raise HelloRefused("The challenge has been used; ask for another.")
    return Opened(token, row[0])


def _set_capabilities(said: Hello, stored: str) -> None:
    """Keep ``bc.dev/cap.*`` true (N5); the node's row changes only where they do (C13)."""
    before = json.loads(stored) if isinstance(stored, str) else stored
    others = {k: v for k, v in before.items() if not k.startswith(CAPABILITY_PREFIX)}
    after = {**others, **{CAPABILITY_PREFIX + each: "true" for each in said.capabilities}}
    if after != before:
        eligibility.set_system_labels(said.node_id, after)


def _warn_of_clock(said: Hello, now: datetime) -> None:
    """A wrong clock harms nothing here, but its owner will want to know."""
    if said.clock_ms is not None and abs(said.clock_ms - clock.to_ms(now)) > CLOCK_SKEW_MS_MAX:
        off = (said.clock_ms - clock.to_ms(now)) / 1_000
        log.warning("ClockSkew: node %s is off by %.0f s", said.node_id, off)
