"""The one-off step between the services and the programs: migrate, expire leases, seed."""

import json
import tempfile
import time
from typing import Any

from bettercompute.embedded import processes
from bettercompute.embedded.failures import CannotStart
from bettercompute.embedded.interruption import Interruption
from bettercompute.embedded.programs import PythonProgram

SECONDS_MAX = 300


def run(program: PythonProgram, *, interruption: Interruption) -> dict[str, Any]:
    """Run the program to its end, and answer what it seeded.

    Raises:
        CannotStart: it failed; what it said last is in the message.
        StopRequested: a stop signal came, and the program is stopped.
    """
    with tempfile.TemporaryFile() as printed:
        process = program.launch(stdout=printed.fileno())
        try:
            deadline = time.monotonic() + SECONDS_MAX
            while process.poll() is None and time.monotonic() < deadline:
                interruption.pause(0.2)
        finally:
            processes.stop([(process, program.farewell)])
        if process.returncode != 0:
            raise CannotStart(
                f"The database cannot be prepared: {processes.last_lines(program.log, count=1)} "
                f"(in {program.log})"
            )
        printed.seek(0)
        return _parse(printed.read().decode(errors="replace"))


def _parse(printed: str) -> dict[str, Any]:
    """What the seed says of the demo (tenants, pools, tokens, logins): its last line."""
    try:
        seeded = json.loads(printed.strip().splitlines()[-1])
    except (IndexError, ValueError) as error:
        raise CannotStart(f"The seed printed no JSON line but {printed[-200:]!r}.") from error
    if not isinstance(seeded, dict):
        raise CannotStart(f"The seed printed {type(seeded).__name__}, not an object.")
    return seeded
