"""`better-compute completion bash | zsh | fish`"""

import click

from bettercompute.cli import session as sessions
from bettercompute.cli import shells
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

    script = shells.script(shell, command=main.cli, program=PROGRAM, variable=VARIABLE)
    document = {"shell": shell, "script": script}
    session.out.show(Shown(document=document, ids=[shell], human=script.splitlines()))
