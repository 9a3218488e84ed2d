"""``make bench``: reservations per second over HTTP, beside the same SQL writes alone.

Each figure is taken on this machine in this run, so the ratio holds even where the machine is
slow or busy. Clients, web, and PostgreSQL share its cores.
"""

import argparse
import sys
from pathlib import Path

from benchmarks import deployment

RESULTS = Path(__file__).parent / "results" / "latest.json"


def main() -> None:
    """Measure on pools of 100 and of 1,213 nodes, print tables, write JSON."""
    wished = _arguments()
    with deployment.running() as here:
        # Behind the deployment's start: these read its settings.
        from benchmarks import report, runs, supply

        person = supply.person()
        results = []
        for nodes in wished.nodes:
            stocked = supply.openb() if nodes == supply.OPENB_NODES else supply.h100s(nodes)
            result = runs.measure(
                here, person, stocked, clients=wished.clients, seconds=wished.seconds
            )
            sys.stdout.write(report.table(result) + "\n")
            sys.stdout.flush()
            results.append(result)
        report.write(results, wished.output)
    sys.stdout.write(f"Written to {wished.output}\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[100, 1_213])
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 8])
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    parser.add_argument("--output", type=Path, default=RESULTS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
