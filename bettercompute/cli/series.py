"""`better-compute series list | get | cancel | skip`"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import click

from bettercompute.cli import completing, listing, readers, times
from bettercompute.cli import session as sessions
from bettercompute.cli.groups import Collection
from bettercompute.cli.output import Cell, Shown, Table, facts
from bettercompute.cli.session import Session
from bettercompute.cli.views import Reader
from bettercompute.pages import repeats, zones
from bettercompute.wire.capacity import PreviewOccurrence
from bettercompute.wire.series import Occurrence, Series, SeriesWithOccurrences

if TYPE_CHECKING:
    from bettercompute.client.blocking import Client

FROM = "--from"
OCCURRENCE = "WHEN"


@click.group(cls=Collection, one="get")
def series() -> None:
    """Recurring reservations: each occurrence is a reservation of its own.

    \b
    better-compute reserve … --start "Mon 15:00" --repeat "weekly mon,wed until 2027-03-01"
    better-compute series list
    better-compute series cancel ser_… --from "Mon 15:00"

    Occurrences are shown, and moments are read, by the clock of the series.
    """


@series.command("list")
@click.option("--all", "everyone", is_flag=True, help="Also those of others in the tenant.")
@listing.LIMIT
@sessions.command
def list_(session: Session, *, everyone: bool, limit: int) -> None:
    """List recurring reservations, newest first."""
    with session.client() as client:
        scope = "all" if everyone else "mine"
        every = client.series.list(scope=scope, page_size=listing.page_size(limit))
        found, more = listing.beginning(every, limit)
        session.out.show(_several(found, readers.with_pools(session, client), more=more))
        listing.hint(session, limit, more=more)


@series.command()
@click.argument("series_id", metavar="ID", shell_complete=completing.series)
@sessions.command
def get(session: Session, *, series_id: str) -> None:
    """Show one, with what became of each occurrence."""
    with session.client() as client:
        found = client.series.get(series_id)
        session.out.show(_one(found, readers.with_pools(session, client)))


@series.command()
@click.argument("series_id", metavar="ID", shell_complete=completing.series)
@click.option(FROM, "since", metavar="WHEN", help="Only what begins then or later.")
@click.option("--release-running", is_flag=True, help="Also release the one that runs now.")
@sessions.command
def cancel(session: Session, *, series_id: str, since: str | None, release_running: bool) -> None:
    """Book no more of its occurrences, and cancel those that have not begun."""
    with session.client() as client:
        found = client.series.cancel(
            series_id,
            since=None if since is None else _instant(client, series_id, since, FROM),
            release_running=release_running,
        )
        session.out.show(_one(found, readers.with_pools(session, client)))


@series.command()
@click.argument("series_id", metavar="ID", shell_complete=completing.series)
@click.argument("when", metavar=OCCURRENCE)
@sessions.command
def skip(session: Session, *, series_id: str, when: str) -> None:
    """Leave out the occurrence that begins then, booked or not."""
    with session.client() as client:
        found = client.series.skip(
            series_id, occurrence=_instant(client, series_id, when, OCCURRENCE)
        )
        session.out.show(_one(found, readers.with_pools(session, client)))


def _instant(client: "Client", series_id: str, text: str, param_hint: str) -> int:
    """The moment meant, by the clock of the series, as its occurrences are shown."""
    zone = _zone(client.series.get(series_id))
    found, _ = times.start_ms(text, now=times.now(), zone=zone, param_hint=param_hint)
    if found is None:
        raise click.BadParameter("give a moment", param_hint=param_hint)
    return found


def _zone(series: SeriesWithOccurrences) -> ZoneInfo:
    return zones.named(series.time_zone) or times.local_zone()


def _several(found: Sequence[Series], reader: Reader, *, more: bool) -> Shown:
    rows = [
        (
            each.id,
            str(each.state),
            reader.pool(each.pool_id),
            repeats.text(each.rule),
            reader.moment(each.next_start),
            str(each.unbooked),
        )
        for each in found
    ]
    titles = ("ID", "STATE", "POOL", "REPEATS", "NEXT", "UNBOOKED")
    return Shown(
        document={"items": list(found), "more": more},
        ids=[each.id for each in found],
        human=[Table(titles, rows, "No recurring reservations.")],
    )


def _one(found: SeriesWithOccurrences, reader: Reader) -> Shown:
    reader = replace(reader, zone=_zone(found))
    told: list[str | Table] = [f"{found.id}  {found.state}"]
    told += facts(
        [
            ("Pool", reader.pool(found.pool_id)),
            ("Repeats", f"{repeats.text(found.rule)} ({found.time_zone})"),
            ("Cut short", reader.moment(found.cut_at)),
            ("Asked by", f"agent {found.agent}" if found.agent else ""),
        ]
    )
    told += [f"{condition.message}" for condition in found.conditions]
    rows = [_row(each, reader) for each in found.occurrences]
    told.append(Table(("WHEN", "STATE", "RESERVATION", "WHY"), rows, "No occurrences."))
    return Shown(document=found, ids=[found.id], human=told)


def _row(each: Occurrence, reader: Reader) -> tuple[str | Cell, ...]:
    state = "unbooked" if each.state is None else str(each.state)
    why = ": ".join(part for part in (each.reason, each.message) if part)
    return (
        reader.window(each.start, each.end),
        Cell(state, "yellow" if each.state is None else None),
        each.reservation_id or "",
        why,
    )


def previewed(found: Sequence[PreviewOccurrence] | None, reader: Reader) -> list[str | Table]:
    """What a preview says of each occurrence."""
    if found is None:
        return []
    fitting = sum(each.fits for each in found)
    rows = [
        (
            reader.window(each.start, each.end),
            "; ".join(f"{reason.filter}: needs {reason.needs}" for reason in each.reasons),
        )
        for each in found
        if not each.fits
    ]
    told: list[str | Table] = [f"{fitting} of the next {len(found)} occurrences would be booked."]
    return [*told, Table(("NOT BOOKED", "WHY"), rows, "")] if rows else told
