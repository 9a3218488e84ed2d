"""The page of the audit: who did what at the tenant, for its admins; the same as a file."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from bettercompute import ids, spreadsheets
from bettercompute.audit.queries import Filters, Row
from bettercompute.iam import auditing, memberships
from bettercompute.pages import moments, parts, rendering, visitors
from bettercompute.pages.chips import Chip
from bettercompute.pages.visitors import Visitor
from bettercompute.wire import audit as wire
from outbox import subjects

SHOWN_MAX = 100
TEXT_MAX = 255
SPANS: Mapping[str, tuple[str, timedelta | None]] = {
    "1d": ("24 hours", timedelta(days=1)),
    "7d": ("7 days", timedelta(days=7)),
    "30d": ("30 days", timedelta(days=30)),
    "all": ("All that is kept", None),
}
SPAN_DEFAULT = "7d"
CHIPS: Mapping[str, Chip] = {
    "allowed": Chip("Done", "green", "It was done."),
    "denied": Chip("Denied", "red", "Who asked for it may not do it."),
    "failed": Chip("Failed", "amber", "It could not be done then."),
}
_NAMED = re.compile(r"(?P<kind>[a-z]+)[/ ](?P<id>\S+)")


@dataclass(frozen=True, slots=True)
class Choice:
    """What the address asks for."""

    span: str
    outcome: str
    action: str
    object_id: str
    account: str  # a member's name, or the id of an account

    @property
    def query(self) -> str:
        """The same choice as an address."""
        asked = {
            "span": self.span,
            "outcome": self.outcome,
            "action": self.action,
            "object": self.object_id,
            "account": self.account,
        }
        return urlencode({name: value for name, value in asked.items() if value})


@dataclass(frozen=True, slots=True)
class Line:
    """One entry."""

    when: moments.Moment
    who: str
    who_href: str  # what else they did
    how: str
    action: str
    thing: str
    chip: Chip
    why: str
    where: str


@dataclass(frozen=True, slots=True)
class Page:
    """All of the page."""

    choice: Choice
    account: parts.Field
    spans: tuple[parts.Option, ...]
    outcomes: tuple[parts.Option, ...]
    lines: tuple[Line, ...]
    more: bool
    csv_href: str
    json_href: str
    platform_href: str  # all of it, for operators


@require_safe
@visitors.required
def index(request: HttpRequest, visitor: Visitor) -> HttpResponse:
    """The newest entries, by what is chosen."""
    choice = read(request.GET)
    wanted = filters(choice, visitor)
    rows = auditing.search(visitor.caller, wanted, limit=SHOWN_MAX + 1)
    account = parts.Field("account", choice.account, _wrong(wanted, visitor))
    page = Page(
        choice=choice,
        account=account,
        spans=parts.options(((key, label) for key, (label, _) in SPANS.items()), choice.span),
        outcomes=parts.options(
            [("", "Any"), *((key, chip.label) for key, chip in CHIPS.items())], choice.outcome
        ),
        lines=tuple(_line(row, choice, visitor) for row in rows[:SHOWN_MAX]),
        more=len(rows) > SHOWN_MAX,
        csv_href=f"{reverse('audit-csv')}?{choice.query}",
        json_href=f"{reverse('audit-jsonl')}?{choice.query}",
        platform_href=reverse("admin:audit_entry_changelist") if visitor.caller.is_operator else "",
    )
    status = 400 if account.error else 200
    return rendering.render(request, "console/audit.html", page, section="audit", status=status)


@require_safe
@visitors.required
def table(request: HttpRequest, visitor: Visitor) -> HttpResponse:
    """The entries chosen, for a spreadsheet."""
    found = map(wire.file_row, _chosen(request, visitor))
    text = spreadsheets.written(wire.FILE_COLUMNS, found)
    return _file(text, "audit.csv", "text/csv; charset=utf-8")


@require_safe
@visitors.required
def lines(request: HttpRequest, visitor: Visitor) -> HttpResponse:
    """The entries chosen, each as one line of JSON."""
    found = _chosen(request, visitor)
    text = "".join(f"{entry.model_dump_json(by_alias=True)}\n" for entry in found)
    return _file(text, "audit.jsonl", "application/x-ndjson")


def read(given: Mapping[str, str]) -> Choice:
    """A choice from an address; what is none of ours is left out."""
    span, outcome = given.get("span", ""), given.get("outcome", "")
    return Choice(
        span=span if span in SPANS else SPAN_DEFAULT,
        outcome=outcome if outcome in wire.OUTCOMES else "",
        action=given.get("action", "").strip()[:TEXT_MAX],
        object_id=_id_of(given.get("object", "").strip()[:TEXT_MAX]),
        account=given.get("account", "").strip()[:TEXT_MAX],
    )


def _id_of(thing: str) -> str:
    """``rsv_…`` of ``reservation/rsv_…``, as events and the lines of the page name it."""
    named = _NAMED.fullmatch(thing)
    if named and (named["kind"] in subjects.KNOWN or ids.prefix(named["id"])):
        return named["id"]
    return thing


def filters(choice: Choice, visitor: Visitor) -> Filters:
    """The same choice as it is looked for."""
    _, length = SPANS[choice.span]
    return Filters(
        account_id=_account_id(choice.account, visitor) or None,
        object_id=choice.object_id or None,
        action=choice.action or None,
        outcome=choice.outcome or None,
        start=None if length is None else visitor.now - length,
    )


def _account_id(account: str, visitor: Visitor) -> str:
    """Of a member by their name; anything else as it is, which finds nothing where it is no id."""
    if not account or ids.prefix(account) == "usr":
        return account
    return memberships.account_id(visitor.caller.tenant_id, account) or account


def _wrong(wanted: Filters, visitor: Visitor) -> str:
    """What to say of an account that is neither a member's name nor an id."""
    if wanted.account_id is None or ids.prefix(wanted.account_id) == "usr":
        return ""
    return (
        f"No member of {visitor.tenant_name} is called that. Give a member’s name or the whole id"
        " of an account (usr_…)."
    )


def _chosen(request: HttpRequest, visitor: Visitor) -> Iterator[wire.AuditEntry]:
    return auditing.export(visitor.caller, filters(read(request.GET), visitor))


def _line(row: Row, choice: Choice, visitor: Visitor) -> Line:
    return Line(
        when=moments.moment(row.at, now=visitor.now, zone=visitor.zone),
        who=wire.actor(row.username, row.detail) or "Nobody known",
        who_href=_of(row.account_id, choice) if row.account_id else "",
        how=f"token {row.token_name}" if row.token_name else row.via,
        action=row.action,
        thing=f"{row.object_kind} {row.object_id}".strip(),
        chip=CHIPS[row.outcome],
        why=str(row.detail.get("message") or row.detail.get("reason") or ""),
        where=row.address,
    )


def _of(account_id: str, choice: Choice) -> str:
    """The address of the same choice, of what this account did."""
    return f"{reverse('audit')}?{replace(choice, account=account_id).query}"


def _file(text: str, name: str, media_type: str) -> HttpResponse:
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "Cache-Control": "no-store, private",
    }
    return HttpResponse(text, content_type=media_type, headers=headers)
