"""What is offered to a shell, as words that it can take."""

import os
import re
from collections.abc import Callable

import click
from click.shell_completion import CompletionItem

from bettercompute.cli import contexts as stored
from bettercompute.cli import private
from bettercompute.cli.output import printable

Named = list[tuple[str, str]]  # what is typed, and what is said of it

_TYPEABLE = re.compile(r"[\w@][\w@.:+-]*\Z")


def is_typeable(name: str) -> bool:
    """Whether it has nothing that a shell would act on: it lands on a command line as it is."""
    return bool(_TYPEABLE.match(name))


def items(named: Named, incomplete: str) -> list[CompletionItem]:
    """Those that begin so."""
    return [
        CompletionItem(name, help=printable(about).replace("\n", " "))
        for name, about in named
        if name.startswith(incomplete) and is_typeable(name)
    ]


def several(*words: str) -> Callable[..., list[CompletionItem]]:
    """What completes a list with commas: each of these words once."""

    def complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
        before, comma, last = incomplete.rpartition(",")
        taken = before.split(",")
        return [
            CompletionItem(f"{before}{comma}{word}")
            for word in words
            if word.startswith(last) and word not in taken
        ]

    return complete


def contexts(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The contexts that are configured."""
    try:
        found = stored.load(stored.directory(os.environ)).contexts
    except (private.Unusable, OSError):
        return []
    return items([(name, each.url) for name, each in found.items()], incomplete)
