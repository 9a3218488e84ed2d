"""``python -m tests.support.history FILE``: check a recorded history.

Exit codes: 1 where it has anomalies, 2 where it is no history.
"""

import sys
from collections import Counter
from pathlib import Path

from tests.support.history import checker, recording


def main(arguments: list[str]) -> int:
    """Check the files; one line an anomaly."""
    if not arguments:
        print("usage: python -m tests.support.history FILE…", file=sys.stderr)
        return 2
    found = 0
    for name in arguments:
        try:
            history = recording.read(Path(name))
        except (OSError, ValueError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 2
        anomalies = checker.check(history)
        for anomaly in anomalies:
            print(f"{name}: {anomaly}")
        tally = Counter(f"{each.call.op} {each.status or 'lost'}" for each in history.operations)
        told = ", ".join(f"{number} {what}" for what, number in sorted(tally.items()))
        end = "" if history.final else ", no final state"
        print(f"{name}: {len(history.operations)} operations ({told}){end}")
        print(f"{name}: {len(anomalies)} anomalies")
        found += len(anomalies)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
