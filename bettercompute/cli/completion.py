"""`better-compute completion bash | zsh | fish`"""

import click
from click.shell_completion import get_completion_class

from bettercompute.cli import session as sessions
from bettercompute.cli.output import Shown
from bettercompute.cli.session import Session

PROGRAM = "better-compute"
VARIABLE = "_BETTER_COMPUTE_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@sessions.command
def completion(session: Session, *, shell: str) -> None:
    """Print what makes a shell complete commands, options, names and ids.

    \b
    better-compute completion bash > ~/.local/share/bash-completion/completions/better-compute
    better-compute completion zsh > ~/.zfunc/_better-compute      # a directory of your $fpath
    better-compute completion fish > ~/.config/fish/completions/better-compute.fish
    """
    from bettercompute.cli import main

    kind = get_completion_class(shell)
    assert kind is not None, "click knows these three"
    script = kind(main.cli, {}, PROGRAM, VARIABLE).source()
    document = {"shell": shell, "script": script}
    session.out.show(Shown(document=document, ids=[shell], human=script.splitlines()))
