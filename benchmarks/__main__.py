"""``make bench``: reservations per second over HTTP, beside the same SQL writes alone.

``make bench ARGS="planner"``: how long finding and committing a place takes as pools grow.

``make bench ARGS="webhooks"``: deliveries a second, and how long from commit to arrival.

``make bench ARGS="streams"``: what idle event streams cost, and how long until all have an event.

Each figure is taken on this machine in this run, so the ratio holds even where the machine is
slow or busy. Clients, web, and PostgreSQL share its cores.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import NoReturn

from benchmarks import deployment

KINDS = ("http", "planner", "webhooks", "streams")
NODES = (100, 1_213)
RESULTS = Path(__file__).parent / "results" / "latest.json"


def main() -> None:
    """Measure on pools of 100 and of 1,213 nodes, print tables, write JSON."""
    wished = _arguments()
    if wished.what == "streams":
        _become("bettercompute.embedded.run_with", "--", sys.executable, "-m", "benchmarks.streams")
    if wished.what == "webhooks":
        from benchmarks import webhooks

        webhooks.main(seconds=wished.seconds)
        return
    with deployment.running() as here:
        # Behind the deployment's start: these read its settings.
        from benchmarks import planner, report, runs, supply

        person = supply.person()
        if wished.what == "planner":
            sys.stdout.write(f"{planner.HEAD}\n")
            for row in planner.measure(wished.nodes or planner.NODES, person, runs=wished.runs):
                sys.stdout.write(f"{planner.line(row)}\n")
                sys.stdout.flush()
            return
        results = []
        for nodes in wished.nodes or NODES:
            stocked = supply.openb() if nodes == supply.OPENB_NODES else supply.h100s(nodes)
            result = runs.measure(
                here, person, stocked, clients=wished.clients, seconds=wished.seconds
            )
            sys.stdout.write(report.table(result) + "\n")
            sys.stdout.flush()
            results.append(result)
        report.write(results, wished.output)
    sys.stdout.write(f"Written to {wished.output}\n")


def _become(module: str, *arguments: str) -> NoReturn:
    """Go on as another module, in a process whose services are chosen before Django is set up."""
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("what", nargs="?", choices=KINDS, default="http")
    parser.add_argument("--nodes", type=int, nargs="+")
    parser.add_argument("--runs", type=int, default=5, help="of each figure of the planner")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 8])
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    parser.add_argument("--output", type=Path, default=RESULTS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
