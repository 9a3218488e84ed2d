"""`better-compute audit`: who did what, and what was refused."""

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bettercompute import spreadsheets
from bettercompute.cli import asking, listing, readers, times
from bettercompute.cli import session as sessions
from bettercompute.cli.output import Cell, Shown, Table
from bettercompute.cli.session import Session
from bettercompute.cli.views import Reader
from bettercompute.wire import audit as wire
from bettercompute.wire.audit import AuditEntry, Outcome

if TYPE_CHECKING:
    from bettercompute.client.blocking import Client

WRITTEN_MAX = 1_000_000
_COLOURS = {"allowed": "green", "denied": "red", "failed": "yellow"}


@click.command()
@click.option("--by", metavar="NAME", help="Who did it: a member's name, or the id of an account.")
@click.option("--object", "object_id", metavar="ID", help="What it was done to: rsv_…")
@click.option("--action", metavar="ACTION", help="Exactly: compute:reservations:release")
@click.option("--outcome", type=click.Choice(wire.OUTCOMES), help="How it ended.")
@click.option("--last", type=asking.Length(), help="So long up to now: 24h.")
@click.option("--platform", is_flag=True, help="Of all tenants and the platform. For operators.")
@listing.LIMIT
@click.option(
    "--file",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write all of them into this file instead: .csv for a spreadsheet, else JSON Lines.",
)
@sessions.command
def audit(
    session: Session,
    *,
    by: str | None,
    object_id: str | None,
    action: str | None,
    outcome: Outcome | None,
    last: int | None,
    platform: bool,
    limit: int,
    path: Path | None,
) -> None:
    """Who did what at your tenant, from where, and what was refused; for admins.

    \b
    better-compute audit --by bob --last 24h
    better-compute audit --outcome denied --file denied.csv
    """
    reader = readers.here()
    with session.client() as client:
        every = client.audit.list(
            account_id=None if by is None else _account(client, by),
            object_id=object_id,
            action=action,
            outcome=outcome,
            start_ms=None if last is None else times.to_ms(reader.now) - last,
            platform=platform,
            page_size=listing.page_size(limit if path is None else WRITTEN_MAX),
        )
        if path is not None:
            count = _write(path, itertools.islice(every, WRITTEN_MAX))
            session.out.note(f"{count} entries are in {path}.")
            return
        found, more = listing.beginning(every, limit)
    session.out.show(_table(found, reader, more=more))
    listing.hint(session, limit, more=more)


def _account(client: "Client", by: str) -> str:
    """Whoever has left is no member any more, and still in the audit by id."""
    return by if by.startswith("usr_") else client.account_ids([by])[0]


def _write(path: Path, found: Iterable[AuditEntry]) -> int:
    """Into a file, as it comes; answers how many."""
    count = 0
    as_table = path.suffix.lower() == ".csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        if as_table:
            file.write(spreadsheets.written(wire.FILE_COLUMNS, ()))
        for entry in found:
            count += 1
            if as_table:
                file.write(spreadsheets.line(wire.file_row(entry)))
            else:
                file.write(entry.model_dump_json(by_alias=True) + "\n")
    return count


def _table(found: list[AuditEntry], reader: Reader, *, more: bool) -> Shown:
    rows = [
        (
            reader.moment(each.at),
            wire.actor(each.actor.username, each.detail) or "unknown",
            each.action,
            f"{each.object.kind} {each.object.id}".strip(),
            Cell(each.outcome, _COLOURS[each.outcome]),
            each.code or "",
            each.origin.address,
        )
        for each in found
    ]
    columns = ("WHEN", "WHO", "DID", "TO", "OUTCOME", "CODE", "FROM")
    table = Table(columns, rows, "Nothing like that is in the audit.")
    return Shown(
        document={"items": found, "more": more}, ids=[each.id for each in found], human=[table]
    )
