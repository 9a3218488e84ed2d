"""`better-compute webhooks …`: receivers that are sent events, and what they were sent."""

from typing import TYPE_CHECKING, get_args

import click

from bettercompute.cli import asking, completing, listing, readers, times, views, webhook_views
from bettercompute.cli import session as sessions
from bettercompute.cli.exits import Exit
from bettercompute.cli.groups import Collection
from bettercompute.cli.output import Shown
from bettercompute.cli.session import Session
from bettercompute.wire.webhooks import DeliveryState, Scope

if TYPE_CHECKING:
    from bettercompute.client.blocking import Client

ROUNDS_MAX = 100

_ID = click.argument("webhook_id", metavar="ID", shell_complete=completing.webhooks)
_PLATFORM = click.option(
    "--platform", is_flag=True, help="The platform's, for the events of all tenants: operators."
)
_TYPES = click.option(
    "--type",
    "types",
    multiple=True,
    metavar="TYPE",
    help="Only events of this type, like reservation.active or reservation.*; may be repeated.",
)


@click.group(cls=Collection, one="get")
def webhooks() -> None:
    """Receivers that are sent events as they happen.

    \b
    better-compute webhooks create https://hooks.example.com/gpus --type 'reservation.*'
    better-compute webhooks test whk_…
    better-compute webhooks deliveries whk_… --state failed
    """


@webhooks.command("list")
@_PLATFORM
@listing.LIMIT
@sessions.command
def list_(session: Session, *, platform: bool, limit: int) -> None:
    """List webhooks, newest first, and what is wrong with them."""
    with session.client() as client:
        every = client.webhooks.list(scope=_scope(platform), page_size=listing.page_size(limit))
        found, more = listing.beginning(every, limit)
    session.out.show(webhook_views.several(found, readers.here(), more=more))
    listing.hint(session, limit, more=more)


@webhooks.command()
@_ID
@sessions.command
def get(session: Session, *, webhook_id: str) -> None:
    """Show a webhook: where to, which events, and how it fares."""
    with session.client() as client:
        found = client.webhooks.get(webhook_id)
    session.out.show(webhook_views.one(found, readers.here()))


@webhooks.command()
@click.argument("receiver", metavar="URL")
@_TYPES
@click.option("--subject", default="", help="Only about this: reservation/rsv_… or node/*.")
@click.option("--description", default="", help="What it is for.")
@click.option("--disabled", is_flag=True, help="Send nothing until it is enabled.")
@_PLATFORM
@sessions.command
def create(
    session: Session,
    /,
    *,
    receiver: str,
    types: tuple[str, ...],
    subject: str,
    description: str,
    disabled: bool,
    platform: bool,
) -> None:
    """Have URL sent events, and print the secret that signs them, this once.

    Without --type it is sent all of them.
    """
    with session.client() as client:
        made = client.webhooks.create(
            url=receiver,
            event_types=types,
            subject=subject,
            description=description,
            enabled=not disabled,
            scope=_scope(platform),
        )
    session.out.show(webhook_views.secret(made))
    session.out.note(f"{made.id} signs with it; it is not shown again.")
    session.out.note(f"Try it: better-compute webhooks test {made.id}")


@webhooks.command()
@_ID
@click.option("--to", "receiver", metavar="URL", help="Send to this URL.")
@_TYPES
@click.option("--all-types", is_flag=True, help="Send events of every type.")
@click.option("--subject", help="Only about this; '' for anything.")
@click.option("--description", help="What it is for.")
@click.option("--enable/--disable", "enabled", default=None, help="Send, or send nothing.")
@sessions.command
def update(
    session: Session,
    /,
    *,
    webhook_id: str,
    receiver: str | None,
    types: tuple[str, ...],
    all_types: bool,
    subject: str | None,
    description: str | None,
    enabled: bool | None,
) -> None:
    """Change what is given; the rest stays. Enabling it sends what waited."""
    if types and all_types:
        raise click.UsageError("Give --type or --all-types.")
    given = (receiver, subject, description, enabled)
    if not types and not all_types and all(each is None for each in given):
        raise click.UsageError("Say what to change: --to, --type, --subject, --enable, …")
    with session.client() as client:
        changed = client.webhooks.update(
            webhook_id,
            url=receiver,
            event_types=types if types or all_types else None,
            subject=subject,
            description=description,
            enabled=enabled,
        )
    session.out.show(webhook_views.one(changed, readers.here()))


@webhooks.command()
@_ID
@sessions.command
def delete(session: Session, *, webhook_id: str) -> None:
    """Delete a webhook, with what it was sent. To keep it, disable it instead."""
    with session.client() as client:
        client.webhooks.delete(webhook_id)
    session.out.show(views.deleted(webhook_id))


@webhooks.command("rotate-secret")
@_ID
@click.option("--expire-previous", is_flag=True, help="Sign with none of the former ones any more.")
@sessions.command
def rotate_secret(session: Session, *, webhook_id: str, expire_previous: bool) -> None:
    """Give a webhook a new secret and print it, this once. The one before signs too for a day."""
    with session.client() as client:
        rotated = client.webhooks.rotate_secret(webhook_id, expire_previous=expire_previous)
    session.out.show(webhook_views.secret(rotated))
    if told := webhook_views.former(rotated, readers.here()):
        session.out.note(told)


@webhooks.command()
@_ID
@sessions.command
def test(session: Session, *, webhook_id: str) -> int:
    """Send a test event now, and say what came of it; exits with 1 where it was not taken."""
    with session.client() as client, session.out.progress("Sending a test event"):
        done = client.webhooks.test(webhook_id)
    session.out.show(webhook_views.delivery(done, readers.here()))
    return Exit.OK if done.state == "delivered" else Exit.ERROR


@webhooks.command()
@_ID
@click.argument("delivery_id", metavar="[DELIVERY]", required=False)
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(get_args(DeliveryState)),
    help="Only in it; may be repeated.",
)
@click.option("--type", "event_type", metavar="TYPE", help="Only events of this type.")
@click.option("--event", "event_id", metavar="ID", help="Only this event.")
@listing.LIMIT
@sessions.command
def deliveries(
    session: Session,
    /,
    *,
    webhook_id: str,
    delivery_id: str | None,
    states: tuple[DeliveryState, ...],
    event_type: str | None,
    event_id: str | None,
    limit: int,
) -> None:
    """List what a webhook was sent and is to be sent; with DELIVERY, show one with its attempts."""
    with session.client() as client:
        if delivery_id is not None:
            found = client.webhooks.delivery(webhook_id, delivery_id)
            session.out.show(webhook_views.delivery(found, readers.here()))
            return
        every = client.webhooks.deliveries(
            webhook_id,
            states=states,
            event_id=event_id,
            event_type=event_type,
            page_size=listing.page_size(limit),
        )
        listed, more = listing.beginning(every, limit)
    session.out.show(webhook_views.deliveries(listed, readers.here(), more=more))
    listing.hint(session, limit, more=more)


@webhooks.command()
@_ID
@click.argument("delivery_id", metavar="[DELIVERY]", required=False)
@click.option("--last", "length", type=asking.Length(), help="What happened in the last 6h.")
@click.option("--from", "since", metavar="WHEN", help="What happened from here, in ISO 8601 …")
@click.option("--to", "until", metavar="WHEN", help="… to here; now if left out.")
@click.option("--all", "everything", is_flag=True, help="Also what was delivered.")
@sessions.command
def redeliver(
    session: Session,
    /,
    *,
    webhook_id: str,
    delivery_id: str | None,
    length: int | None,
    since: str | None,
    until: str | None,
    everything: bool,
) -> None:
    """Send again one DELIVERY, or what failed in a span, with the same ids and the same bytes.

    \b
    better-compute webhooks redeliver whk_… whd_…
    better-compute webhooks redeliver whk_… --last 6h
    """
    if [delivery_id, length, since].count(None) != 2:
        raise click.UsageError("Give DELIVERY, --last or --from.")
    with session.client() as client:
        if delivery_id is not None:
            found = client.webhooks.redeliver(webhook_id, delivery_id)
            session.out.show(webhook_views.delivery(found, readers.here()))
            return
        now_ms = times.to_ms(times.now())
        end_ms = now_ms if until is None else asking.moment(session, until, option="--to")
        start_ms = (
            asking.moment(session, since, option="--from")
            if since is not None
            else now_ms - (length or 0)
        )
        count, more = _redeliver(client, webhook_id, start_ms, end_ms, everything=everything)
    told = f"{count} sent again" if count else "Nothing to send again."
    document = {"count": count, "more": more}
    session.out.show(Shown(document=document, ids=[], human=[told]))
    if more:
        session.out.note("There are more: give a shorter span, or come again.")


def _redeliver(
    client: "Client", webhook_id: str, start_ms: int, end_ms: int, *, everything: bool
) -> tuple[int, bool]:
    """A span, a thousand at a time; how many were sent again, and whether some are left."""
    count, cursor = 0, None
    for _ in range(ROUNDS_MAX):
        done = client.webhooks.redeliver_range(
            webhook_id, start_ms=start_ms, end_ms=end_ms, everything=everything, cursor=cursor
        )
        count, cursor = count + done.count, done.next_cursor
        if cursor is None:
            break
    return count, cursor is not None


def _scope(platform: bool) -> Scope:
    return "platform" if platform else "tenant"
