"""What the console's pages of policies show. Pure: from wire models to what is printed."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.urls import reverse

from bettercompute.console.policies.form import Form
from bettercompute.iam.cedar import Example
from bettercompute.pages import chips, parts
from bettercompute.pages.chips import Chip
from bettercompute.pages.moments import Moment
from bettercompute.pages.parts import Notice, Question
from bettercompute.pages.readers import Reader
from bettercompute.wire import dryrun
from bettercompute.wire import iam as wire

DENIED_SHOWN = 20
ABOUT_MAX = 120

_ENABLED = Chip("Binds", "green", "It is asked for every request.")
_DISABLED = Chip("Disabled", "grey", "It is kept, and asked for nothing.")


@dataclass(frozen=True, slots=True)
class Row:
    """A policy in a list."""

    href: str
    name: str
    about: str
    chip: Chip
    version: int
    made: Moment


@dataclass(frozen=True, slots=True)
class Listing:
    """The tenant's policies, and the platform's."""

    rows: tuple[Row, ...]
    platform: tuple[Row, ...]
    may_write: bool


@dataclass(frozen=True, slots=True)
class Denial:
    """A reservation that would not have been let through."""

    href: str
    id: str
    owner: str
    chip: Chip
    made: Moment
    why: str


@dataclass(frozen=True, slots=True)
class Trial:
    """What a text would decide: on one request, and on those that were made of late."""

    asked: Chip
    message: str
    judged: str
    denied: tuple[Denial, ...]
    denied_count: int

    @property
    def more(self) -> int:
        """How many are refused beside those that are listed."""
        return self.denied_count - len(self.denied)


@dataclass(frozen=True, slots=True)
class Editing:
    """The form, of a policy that there is or of a new one; with what a trial found."""

    form: Form
    policy: wire.Policy | None
    chip: Chip | None
    examples: tuple[Example, ...]
    trial: Trial | None
    notice: Notice | None
    stored: str  # what somebody else has saved meanwhile


@dataclass(frozen=True, slots=True)
class Reading:
    """A text that the visitor may not change."""

    name: str
    whose: str
    chip: Chip
    text: str
    admin_href: str


def listing(found: Sequence[wire.Policy], reader: Reader, *, may_write: bool) -> Listing:
    """The list."""
    return Listing(
        rows=tuple(_row(each, reader) for each in found if each.scope == "tenant"),
        platform=tuple(_row(each, reader) for each in found if each.scope == "platform"),
        may_write=may_write,
    )


def editing(
    form: Form,
    *,
    policy: wire.Policy | None = None,
    examples: Sequence[Example] = (),
    trial: Trial | None = None,
    notice: Notice | None = None,
    stored: str = "",
) -> Editing:
    """The form's page."""
    chip = None if policy is None else _chip(policy)
    return Editing(form, policy, chip, tuple(examples), trial, notice, stored)


def reading(policy: wire.Policy, *, is_operator: bool) -> Reading:
    """A policy's page for somebody who may only read it."""
    is_platform = policy.scope == "platform"
    return Reading(
        name=policy.name,
        whose="of the platform: it binds every tenant" if is_platform else "of your tenant",
        chip=_chip(policy),
        text=policy.text,
        admin_href=reverse("admin:iam_policy_change", args=[policy.id]) if is_operator else "",
    )


def shipped(text: str) -> Reading:
    """What comes with the product."""
    chip = Chip("Binds", "green", "It says what each role may do.")
    return Reading("Shipped policies", "of Better Compute itself", chip, text, "")


def deletion(policy: wire.Policy) -> Question:
    """Whether to end it."""
    here = reverse("policy", args=[policy.id])
    return Question(
        title="Delete this policy?",
        what=policy.name,
        back_href=here,
        action_href=reverse("policy-delete", args=[policy.id]),
        verb="Delete",
        consequences=(
            "It stops binding with the next request. What was reserved stays.",
            "Its text is only in the audit then. To keep it at hand, disable it instead.",
        ),
    )


def trial(verdict: dryrun.PolicyVerdict, owners: Mapping[str, str], reader: Reader) -> Trial:
    """What a dry run found."""
    recent = verdict.recent or dryrun.RecentVerdicts(judged=0, denied=[])
    allowed = verdict.effect == "allow"
    return Trial(
        asked=Chip("Allowed", "green", "") if allowed else Chip("Refused", "red", ""),
        message=verdict.message or f"Allowed by {', '.join(verdict.policies)}.",
        judged=parts.count(recent.judged, "reservation"),
        denied=tuple(_denial(each, owners, reader) for each in recent.denied[:DENIED_SHOWN]),
        denied_count=len(recent.denied),
    )


def _denial(found: dryrun.WouldDeny, owners: Mapping[str, str], reader: Reader) -> Denial:
    return Denial(
        href=reverse("reservation", args=[found.reservation_id]),
        id=found.reservation_id,
        owner=owners.get(found.owner_identity_id, "somebody who has left"),
        chip=chips.reservation(found.state),
        made=reader.moment(found.created_at),
        why=found.message or ", ".join(found.policies),
    )


def _row(policy: wire.Policy, reader: Reader) -> Row:
    return Row(
        href=reverse("policy", args=[policy.id]),
        name=policy.name,
        about=about(policy.text),
        chip=_chip(policy),
        version=policy.version,
        made=reader.moment(policy.created_at),
    )


def about(text: str) -> str:
    """The comment at its head, as far as a list has room."""
    lines = itertools.takewhile(lambda line: line.startswith("//"), text.strip().splitlines())
    words = " ".join(line.removeprefix("//").strip() for line in lines)
    return words if len(words) <= ABOUT_MAX else f"{words[: ABOUT_MAX - 1].rstrip()}…"


def _chip(policy: wire.Policy) -> Chip:
    return _ENABLED if policy.enabled else _DISABLED
