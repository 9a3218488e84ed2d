"""A group whose commands are imported when they are used: help and completion stay quick."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click
from click.shell_completion import CompletionItem


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a command is, and what the list of commands says of it."""

    module: str  # below bettercompute.cli
    name: str
    about: str


class LazyGroup(click.Group):
    """Commands by section, in the order in which they are listed."""

    def __init__(
        self,
        *args: Any,
        sections: Mapping[str, Mapping[str, Entry]],
        aliases: Mapping[str, str],
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.sections = sections
        self.aliases = aliases
        self._entries = {
            name: entry for section in sections.values() for name, entry in section.items()
        }

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return list(self._entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, imported now."""
        entry = self._entries.get(self.aliases.get(cmd_name, cmd_name))
        if entry is None:
            return None
        module = importlib.import_module(f"bettercompute.cli.{entry.module}")
        command = getattr(module, entry.name)
        assert isinstance(command, click.Command), cmd_name
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands that begin so, none of which is imported for it."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [
            CompletionItem(name, help=entry.about)
            for name, entry in self._entries.items()
            if name.startswith(incomplete)
        ]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The sections with their commands, none of which is imported for it."""
        width = max(map(len, self._entries))
        for title, section in self.sections.items():
            with formatter.section(title):
                rows = [(f"{name:<{width}}", entry.about) for name, entry in section.items()]
                formatter.write_dl(rows)
