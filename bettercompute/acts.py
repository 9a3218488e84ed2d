"""Who acts now, from where, and what decided: what the audit says of a change.

An *act* is one thing that somebody asks for: a request, one row of an operator's operation, a
command at a terminal. A door opens it (``web.requests``, ``operators.audit``, ``by_command``);
authentication says whose it is, decisions add what decided, and ``audit.entries`` writes it in the
transaction of the change. What the control plane does by itself is nobody's act: events tell of it.
"""

import getpass
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from bettercompute import ids
from bettercompute.errors import ApiError

Via = Literal["session", "token", "command", "none"]


@dataclass(frozen=True, slots=True)
class Origin:
    """From where: the request as it arrived, or the command."""

    request_id: str = ""
    address: str = ""
    user_agent: str = ""
    #: what is asked for, where nothing says it better: ``POST /api/v1/tokens``
    asked: str = ""
    #: whether it means to change something
    changes: bool = True


@dataclass(frozen=True, slots=True)
class Actor:
    """Who: an account with its token or session, or who sits at the terminal."""

    account_id: str = ""
    username: str = ""
    operator: bool = False
    via: Via = "none"
    token_id: str = ""
    token_name: str = ""
    #: the agent that uses the token for its account
    agent: str = ""
    tenant_id: str = ""
    role: str = ""


@dataclass(frozen=True, slots=True)
class Thing:
    """What an act is about: the same words as an event's subject, ``reservation/rsv_…``."""

    kind: str
    id: str

    @classmethod
    def of_subject(cls, subject: str) -> "Thing":
        """From an event's subject."""
        kind, _, identifier = subject.partition("/")
        return cls(kind, identifier)


NOTHING = Thing("", "")


@dataclass(frozen=True, slots=True)
class Decided:
    """The last decision of the policies in an act."""

    action: str
    about: Thing
    policies: tuple[str, ...]


@dataclass(slots=True)
class Act:
    """One thing that somebody asks for, under way."""

    origin: Origin
    actor: Actor = field(default_factory=Actor)
    #: what it is called where no policy decided on it
    action: str = ""
    about: Thing = NOTHING
    #: said by who acts, and what else is known of the whole act
    detail: dict[str, Any] = field(default_factory=dict)
    decided: Decided | None = None
    refusal: ApiError | None = None
    #: what is done now, where that says more than what was decided
    step: str = ""
    #: acts within this one, each of which came to an end of its own
    parts: list["Act"] = field(default_factory=list)
    _entries: dict[tuple[str, ...], str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What it is called in the audit."""
        decided = "" if self.decided is None else self.decided.action
        return self.step or decided or self.action or self.origin.asked

    @property
    def subject(self) -> Thing:
        """What it is about, as far as is known."""
        return self.about if self.decided is None else self.decided.about

    def entry_id(self, *what: str) -> str:
        """The id of the entry that says this of the act: the same, however often it is said."""
        return self._entries.setdefault(what, ids.new("aud"))


_current: ContextVar[Act | None] = ContextVar("act", default=None)


def current() -> Act | None:
    """The act under way; None where the control plane works by itself."""
    return _current.get()


@contextmanager
def under_way(act: Act) -> Iterator[Act]:
    """Let what happens inside be this act's."""
    token = _current.set(act)
    try:
        yield act
    finally:
        _current.reset(token)


@contextmanager
def part(action: str, about: Thing, detail: Mapping[str, Any]) -> Iterator[Act]:
    """An act within the present one, such as one row of several; by itself where there is none.

    A refusal is remembered with it, and passed on.
    """
    whole = current()
    act = Act(Origin(asked=action)) if whole is None else Act(whole.origin, whole.actor)
    act.action, act.about, act.detail = action, about, dict(detail)
    if whole is not None:
        whole.parts.append(act)
    with under_way(act):
        try:
            yield act
        except ApiError as error:
            act.refusal = error
            raise


@contextmanager
def by_command(name: str) -> Iterator[Act]:
    """The act of somebody at a terminal of the control plane: an operator, whatever the name."""
    actor = Actor(username=_login_name(), operator=True, via="command")
    with under_way(Act(Origin(asked=f"command:{name}"), actor, action=f"command:{name}")) as act:
        yield act


def identify(actor: Actor) -> None:
    """Say whose the present act is; until then it was about what they presented."""
    act = current()
    if act is not None:
        act.actor, act.action, act.about = actor, "", NOTHING


def acting_for(account_id: str, *, tenant_id: str, role: str) -> None:
    """Say for which tenant its account acts; what is found out of others says nothing of it."""
    act = current()
    if act is not None and act.actor.account_id == account_id:
        act.actor = replace(act.actor, tenant_id=tenant_id, role=role)


def decided(action: str, about: Thing, *, policies: tuple[str, ...]) -> None:
    """Remember what the policies said, and of what.

    Once the act was refused, what is asked is only asked to show that.
    """
    act = current()
    if act is not None and act.refusal is None:
        act.decided = Decided(action, about, policies)


def refused(error: ApiError) -> None:
    """Remember how the present act ended; the first refusal is the cause of others."""
    act = current()
    if act is not None and act.refusal is None:
        act.refusal = error


def attempt(action: str, about: Thing) -> None:
    """Say what the present act would be and is about, before it is known whose it is."""
    act = current()
    if act is not None:
        act.action, act.about = action, about


@contextmanager
def called(action: str, **detail: Any) -> Iterator[None]:
    """Call by this name, and tell with this detail, what the present act does inside.

    For what publishes an event, and is audited with it, but is decided on by a broader name.
    """
    act = current()
    if act is None:
        yield
        return
    before = act.step, act.detail
    act.step, act.detail = action, {**act.detail, **detail}
    try:
        yield
    finally:
        act.step, act.detail = before


def mention(**detail: Any) -> None:
    """Add to what is known of the present act."""
    act = current()
    if act is not None:
        act.detail.update(detail)


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # an account without a name, as containers have them
        return "unknown"
