"""Long lists at a terminal: how much of one is shown, and what is said of the rest."""

import itertools
from collections.abc import Iterator
from typing import TypeVar

import click

from bettercompute.cli.session import Session
from bettercompute.wire.base import PAGE_DEFAULT, PAGE_MAX

T = TypeVar("T")

LIMIT_MAX = 100_000

LIMIT = click.option(
    "--limit",
    type=click.IntRange(1, LIMIT_MAX),
    default=PAGE_DEFAULT,
    show_default=True,
    help="At most.",
)


def page_size(limit: int) -> int:
    """How many to ask for at once, of so many."""
    return min(limit, PAGE_MAX)


def beginning(every: Iterator[T], limit: int) -> tuple[list[T], bool]:
    """So many of them at most, and whether there are more."""
    found = list(itertools.islice(every, limit))
    return found, next(every, None) is not None


def hint(session: Session, limit: int, *, more: bool) -> None:
    """Say how to see what was left out."""
    if more:
        session.out.note(f"There are more: give --limit {min(limit * 2, LIMIT_MAX)}")
