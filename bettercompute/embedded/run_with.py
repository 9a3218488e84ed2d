"""Run a command on embedded services: ``python -m bettercompute.embedded.run_with -- pytest``.

The services are its own, live in a temporary directory, keep nothing, and end with the command.
DATABASE_URL and REDIS_URL replace them. Stop signals go to the command, and its exit code is this
program's.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bettercompute.embedded import directories, postgres, processes, services
from bettercompute.embedded.failures import CannotStart, StopRequested
from bettercompute.embedded.interruption import Interruption
from bettercompute.embedded.supervisor import Supervisor


def main(arguments: Sequence[str]) -> int:
    command = list(arguments[1:] if arguments[:1] == ["--"] else arguments)
    if not command:
        sys.stderr.write(
            "usage: python -m bettercompute.embedded.run_with -- COMMAND [ARGUMENT]...\n"
        )
        return 2
    interruption = Interruption()
    interruption.listen()
    home = Path(tempfile.mkdtemp(prefix="better-compute-")).resolve()
    home.chmod(0o711)  # the services' account passes through
    try:
        return _run(command, home=home, interruption=interruption)
    except CannotStart as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    except StopRequested:
        return 128 + interruption.received[0]
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _run(command: list[str], *, home: Path, interruption: Interruption) -> int:
    instead = services.external(os.environ)
    placed = services.place(directories.make_home(home), instead=instead)
    supervisor = Supervisor(interruption=interruption, say=_say)
    try:
        addresses = services.start(
            supervisor, placed, instead=instead, parameters=postgres.DISPOSABLE
        )
        environment = {
            **os.environ,
            "DATABASE_URL": addresses.database_url,
            "REDIS_URL": addresses.redis_url,
            processes.MARK: str(home),
        }
        return _attend(command, environment, supervisor=supervisor, interruption=interruption)
    finally:
        supervisor.stop()
        processes.stop_leftovers(mark=str(home), directories=directories.of_services(home))
        if placed is not None:
            directories.remove(placed)


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
