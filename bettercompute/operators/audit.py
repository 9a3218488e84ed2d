"""Who did what, and why: written before it is done, completed when it is.

An entry that still says *begun* tells that the process ended in between: what became of it is in
the events of the thing. Entries are Django's own, so a page's history shows them. What came of it
is told in the transaction that does it by ``bettercompute.audit``, with this reason.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.contrib.admin.models import ADDITION, CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import models

from bettercompute import acts, clock, errors
from bettercompute.acts import Actor, Thing

NAME_MAX = 200  # Django's column
BEGUN = "begun"


class Entry:
    """One act of an operator, under way."""

    def __init__(self, row: LogEntry, text: str) -> None:
        self._row = row
        self._text = text

    def done(self, outcome: str) -> None:
        """It happened, and this is what came of it."""
        self._row.change_message = f"{self._text} Outcome: {outcome}"
        self._row.save(update_fields=["change_message"])

    def about(self, made: models.Model) -> None:
        """The row that the act made."""
        self._row.object_id, self._row.object_repr = str(made.pk), str(made)[:NAME_MAX]
        self._row.save(update_fields=["object_id", "object_repr"])


@contextmanager
def act(
    account: Any, about: models.Model, what: str, *, why: str, adds: bool = False
) -> Iterator[Entry]:
    """An act that is audited whatever becomes of it. A refusal is written down and passed on."""
    text = f"{what}. Reason: {' '.join(why.split())}."
    row = LogEntry.objects.create(
        user_id=account.pk,
        action_time=clock.now(),
        content_type=ContentType.objects.get_for_model(about),
        object_id=None if adds else str(about.pk),
        object_repr=str(about)[:NAME_MAX],
        action_flag=ADDITION if adds else CHANGE,
        change_message=f"{text} Outcome: {BEGUN}",
    )
    entry = Entry(row, text)
    thing = Thing(about._meta.model_name or "", "" if adds else str(about.pk))
    verb = what.partition(":")[0].lower().replace(" ", "-")
    detail = {"operation": what, "reason": " ".join(why.split())}
    acts.identify(_operator(account))
    try:
        with acts.part(f"admin:{thing.kind}:{verb}", thing, detail):
            yield entry
    except errors.ApiError as error:
        entry.done(f"refused, {error.message}")
        raise


def _operator(account: Any) -> Actor:
    name = account.get_username()
    return Actor(account_id=account.pk, username=name, operator=True, via="session")
