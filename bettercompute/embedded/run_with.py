"""Run a command on embedded services: ``python -m bettercompute.embedded.run_with -- pytest``.

The services are its own, live in a temporary directory, keep nothing, and end with the command.
DATABASE_URL and REDIS_URL replace them. Stop signals go to the command, and its exit code is this
program's.

``--copies 2`` gives a command that runs several processes services for each of them: those of the
second are DATABASE_URL_2 and REDIS_URL_2, and so on.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bettercompute.embedded import directories, postgres, processes, services
from bettercompute.embedded.failures import CannotStart, StopRequested
from bettercompute.embedded.interruption import Interruption
from bettercompute.embedded.services import Addresses
from bettercompute.embedded.supervisor import Supervisor

USAGE = "python -m bettercompute.embedded.run_with [--copies N] -- COMMAND [ARGUMENT]..."


@dataclass(frozen=True, slots=True)
class Wish:
    """A command, and how many copies of the services it asks for."""

    command: list[str]
    copies: int


def main(arguments: Sequence[str]) -> int:
    wish = _parse(arguments)
    interruption = Interruption()
    interruption.listen()
    home = Path(tempfile.mkdtemp(prefix="better-compute-")).resolve()
    home.chmod(0o711)  # the services' account passes through
    try:
        return _run(wish, home=home, interruption=interruption)
    except CannotStart as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    except StopRequested:
        return 128 + interruption.received[0]
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _parse(arguments: Sequence[str]) -> Wish:
    parser = argparse.ArgumentParser(usage=USAGE)
    parser.add_argument("--copies", type=int, default=1, help="how many of each service")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    found = parser.parse_args(arguments)
    command = found.command[1:] if found.command[:1] == ["--"] else found.command
    if not command or found.copies < 1:
        parser.error("a command is needed, and at least one copy")
    return Wish(command, found.copies)


def _run(wish: Wish, *, home: Path, interruption: Interruption) -> int:
    instead = services.external(os.environ)
    copies = wish.copies
    if copies > 1 and (instead.database_url or instead.redis_url):
        _say(f"DATABASE_URL or REDIS_URL is given: one copy of the services, not {copies}.")
        copies = 1
    homes = [home / str(number) for number in range(1, copies + 1)]
    placed = [services.place(directories.make_home(each), instead=instead) for each in homes]
    supervisor = Supervisor(interruption=interruption, say=_say)
    try:
        addresses = [
            services.start(supervisor, each, instead=instead, parameters=postgres.DISPOSABLE)
            for each in placed
        ]
        environment = {**os.environ, **_variables(addresses), processes.MARK: str(home)}
        return _attend(wish.command, environment, supervisor=supervisor, interruption=interruption)
    finally:
        supervisor.stop()
        places = [place for each in homes for place in directories.of_services(each)]
        processes.stop_leftovers(mark=str(home), directories=places)
        for each in placed:
            if each is not None:
                directories.remove(each)


def _variables(addresses: Sequence[Addresses]) -> Mapping[str, str]:
    """What tells the command where its services are."""
    variables = {}
    for number, each in enumerate(addresses, start=1):
        suffix = "" if number == 1 else f"_{number}"
        variables[f"DATABASE_URL{suffix}"] = each.database_url
        variables[f"REDIS_URL{suffix}"] = each.redis_url
    return variables


def _attend(
    command: list[str],
    environment: dict[str, str],
    *,
    supervisor: Supervisor,
    interruption: Interruption,
) -> int:
    """Wait for the command, passing on the stop signals that come meanwhile, each once."""
    # In a session of its own: a Ctrl-C comes from here, and not a second time from the terminal.
    try:
        process = subprocess.Popen(
            command,
            env=environment,
            start_new_session=True,
            preexec_fn=processes.die_with_supervisor(signal.SIGTERM),  # noqa: PLW1509  (one thread)
        )
    except OSError as error:
        raise CannotStart(f"{command[0]}: {error.strerror}", exit_code=127) from error
    passed_on = 0
    while process.poll() is None:
        supervisor.tend()
        interruption.rest(1.0)
        for number in interruption.received[passed_on:]:
            process.send_signal(number)
        passed_on = len(interruption.received)
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def _say(message: str) -> None:
    sys.stderr.write(f"{message}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
