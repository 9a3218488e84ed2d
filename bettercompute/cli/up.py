"""`better-compute up`: hands over to the embedded deployment in a process of its own.

The command line stays free of what a server needs: the program that runs is
`bettercompute.embedded.up`, in this very process, so a signal reaches it.
"""

import importlib.util
import os
import sys

import click

_NEEDED = ("django", "psycopg", "psutil")


@click.command()
def up() -> None:
    """Run everything on this machine: database, web, gateway, worker and simulated nodes.

    PORT (8000), GATEWAY_PORT (a free one), BETTERCOMPUTE_DATA (.data) and SIM (simulated nodes, 5)
    configure it; DATABASE_URL and REDIS_URL replace the embedded servers. Ctrl-C stops everything.
    """
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise click.ClickException(
            f"{', '.join(missing)} not installed: pip install 'bettercompute[server,embedded]'."
        )
    sys.stdout.flush()
    command = [sys.executable, "-m", "bettercompute.embedded.up"]
    os.execv(command[0], command)  # noqa: S606  (our own interpreter)


if __name__ == "__main__":
    up()
