"""A supervisor for tests: keeps PostgreSQL and Valkey up on a data directory until a signal."""

import json
import sys
from pathlib import Path

from bettercompute.embedded import directories, lock, postgres, services
from bettercompute.embedded.failures import StopRequested
from bettercompute.embedded.interruption import Interruption
from bettercompute.embedded.services import Addresses
from bettercompute.embedded.supervisor import Supervisor


def main() -> None:
    interruption = Interruption()
    interruption.listen()
    home = directories.make_home(Path(sys.argv[1]))
    supervisor = Supervisor(interruption=interruption, say=lambda line: print(line, flush=True))
    instead = Addresses("", "")
    with lock.held(home, where="a test"):
        placed = services.place(home, instead=instead)
        try:
            addresses = services.start(
                supervisor, placed, instead=instead, parameters=postgres.DURABLE
            )
            print(json.dumps([addresses.database_url, addresses.redis_url]), flush=True)
            while True:
                supervisor.tend()
                interruption.pause(1)
        except StopRequested:
            supervisor.stop()
            if placed is not None:
                directories.remove_sockets(placed)


if __name__ == "__main__":
    main()
