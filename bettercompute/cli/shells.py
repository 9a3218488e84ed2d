"""The shells that are completed: click's, mended where a value is typed after an ``=``."""

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
)


class _Joined(ShellComplete):
    """A shell that has ``--pool=m`` as one word wants it back whole: ``--pool=main``."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """What is offered, as what replaces the word that is being typed."""
        found = super().get_completions(args, incomplete)
        option, equals, _ = incomplete.partition("=")
        if not equals or not option.startswith("--"):
            return found
        return [_with_option(option, each) for each in found]


@add_completion_class
class Bash(_Joined, BashComplete):
    """Bash makes three words of ``--pool=m``, unless a user has it otherwise."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the cursor, without what bash takes ``=`` for, and the one there."""
        words, incomplete = super().get_completion_args()
        return _without_equals(words), incomplete


@add_completion_class
class Zsh(_Joined, ZshComplete):
    """Zsh."""


@add_completion_class
class Fish(_Joined, FishComplete):
    """Fish; descriptions have commas, of which only the first ends the kind of what is offered."""

    source_template = FishComplete.source_template.replace(
        'string split ","', 'string split --max 1 ","'
    )


def _without_equals(words: list[str]) -> list[str]:
    """``--pool = main`` as ``--pool main``, which means the same."""
    return [
        word
        for number, word in enumerate(words)
        if word != "=" or number == 0 or not words[number - 1].startswith("--")
    ]


def _with_option(option: str, item: CompletionItem) -> CompletionItem:
    if item.type != "plain":
        return item  # files, which the shell itself looks for
    return CompletionItem(f"{option}={item.value}", type=item.type, help=item.help)


def script(shell: str, *, command: click.Command, program: str, variable: str) -> str:
    """What makes a shell complete the program."""
    kinds: dict[str, type[ShellComplete]] = {"bash": Bash, "zsh": Zsh, "fish": Fish}
    return kinds[shell](command, {}, program, variable).source()
