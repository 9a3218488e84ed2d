"""`better-compute up`: the whole of Better Compute on one machine, until a signal stops it.

1. Take the data directory's lock and the ports; stop what a killed run left.
2. Start PostgreSQL and Valkey, unless the environment names others.
3. Migrate, expire the leases of an earlier run (C34) and seed, in one process.
4. Start web, gateway, worker, beat and the simulated nodes, and wait until they are ready.
5. Write `demo.json`, and start again whatever ends.

However this process ends, the kernel stops its children; the next start finds what it missed.
"""

import contextlib
import os
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from bettercompute.embedded import (
    announcement,
    demo,
    directories,
    lock,
    options,
    ports,
    postgres,
    preparation,
    processes,
    ready,
    services,
)
from bettercompute.embedded.directories import Directories
from bettercompute.embedded.failures import CannotStart, StopRequested
from bettercompute.embedded.interruption import Interruption
from bettercompute.embedded.options import Options
from bettercompute.embedded.ports import Ports
from bettercompute.embedded.programs import Programs
from bettercompute.embedded.services import Addresses
from bettercompute.embedded.supervisor import Supervisor

READY_SECONDS = 120
TEND_SECONDS = 1.0


def main() -> int:
    interruption = Interruption()
    interruption.listen()
    try:
        run(options.read(os.environ), interruption=interruption)
    except StopRequested:
        return 0
    except CannotStart as error:
        say(str(error))
        return error.exit_code
    except OSError as error:  # a disk that fills up, a permission that is missing
        say(f"Better Compute cannot go on: {error}")
        return 1
    return 0


def run(wished: Options, *, interruption: Interruption) -> None:
    """Run the deployment until it is asked to stop, and leave nothing behind.

    Raises:
        StopRequested: it was asked to stop, and has.
        CannotStart: it could not start, and what had been started is stopped.
    """
    started = time.monotonic()
    home = directories.make_home(wished.data)
    supervisor = Supervisor(interruption=interruption, say=say)
    with ExitStack() as cleanup:
        cleanup.enter_context(lock.held(home, where=f"port {wished.port}"))
        demo.remove(home)
        taken = cleanup.enter_context(ports.take_both(wished.port, wished.gateway_port))
        processes.stop_leftovers(mark=str(home), directories=directories.of_services(home))
        directories.remove_counts(home)
        directories.require_space(home)
        services.require_given(wished.instead)
        placed = services.place(home, instead=wished.instead)
        cleanup.callback(_leave_nothing, supervisor, home=home, placed=placed)
        say(f"Starting Better Compute on {home} …")

        addresses = services.start(
            supervisor, placed, instead=wished.instead, parameters=postgres.DURABLE
        )
        programs = Programs(home=home, addresses=addresses)
        seeded = preparation.run(programs.prepare(), interruption=interruption)
        _start_programs(programs, wished, taken=taken, addresses=addresses, supervisor=supervisor)
        demo.write(home, url=taken.url, gateway=taken.gateway_url, seeded=seeded)
        say(announcement.ready(taken.url, seeded, home=home, seconds=time.monotonic() - started))
        while True:
            supervisor.tend()
            interruption.pause(TEND_SECONDS)


def say(line: str) -> None:
    """Tell the person; one who no longer listens does not stop the deployment."""
    with contextlib.suppress(OSError):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


def _start_programs(
    programs: Programs,
    wished: Options,
    *,
    taken: Ports,
    addresses: Addresses,
    supervisor: Supervisor,
) -> None:
    """Start web, gateway, worker, beat and the nodes together; come back when all are ready."""
    taken.open_to_clients()
    readiness = ready.Readiness(taken, addresses, nodes=wished.nodes)
    wanted = [
        programs.gateway(socket=taken.gateway.fileno()),
        programs.web(socket=taken.web.fileno()),
        programs.worker(),
        programs.beat(),
    ]
    if wished.nodes:
        wanted.append(programs.simulated_nodes(count=wished.nodes, gateways=[taken.gateway_url]))
    supervisor.start(wanted)
    supervisor.wait_until(
        readiness.reached, what="Better Compute", seconds=READY_SECONDS, every=0.2
    )


def _leave_nothing(supervisor: Supervisor, *, home: Path, placed: Directories | None) -> None:
    demo.remove(home)
    say("Stopping everything …")  # some seconds: without a word, people press Ctrl-C again
    supervisor.stop()
    processes.stop_leftovers(mark=str(home), directories=directories.of_services(home), seconds=1)
    if placed is not None:
        directories.remove_sockets(placed)


if __name__ == "__main__":
    sys.exit(main())
