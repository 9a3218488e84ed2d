"""The operator of a deployment: a process that migrates and seeds, then checks when asked.

``python -m tests.support.deployment.console NODES`` prints one line of JSON: what was seeded; then
one line for each line it reads, the name of a question.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import django

django.setup()

from django.core.management import call_command  # noqa: E402  # Django's settings come first
from django.db import connection  # noqa: E402

from bettercompute import selfcheck  # noqa: E402
from bettercompute.agent.inventory import HostInventory  # noqa: E402
from nodes import importing  # noqa: E402
from pools import catalogue  # noqa: E402
from tests.support import cast, invariants, make, supply  # noqa: E402

GPUS_PER_NODE = 8
PEOPLE = ("alice", "mallory", "olga")


def seed(nodes: int) -> dict[str, Any]:
    """Two tenants that share a pool of H100 hosts, and a token of an administrator of each."""
    owner = cast.tenant("acme")
    pool = catalogue.create_pool(owner, name="main", region="eu", policy={"maxAhead": "366d"})
    tokens = {name: cast.token(name)[1] for name in PEOPLE}
    catalogue.offer(pool, cast.tenant("globex"))
    hosts: dict[str, HostInventory] = {
        f"gpu-{number:02}": supply.host(f"gpu-{number:02}", gpus=GPUS_PER_NODE)
        for number in range(1, nodes + 1)
    }
    importing.import_hosts(pool.pk, hosts, capabilities=("devices.limits",))
    for slug in ("acme", "globex"):
        make.grant(slug, gpus=GPUS_PER_NODE * nodes)
    return {
        "pool": pool.pk,
        "tokens": tokens,
        "tenants": {name: cast.tenant(cast.HOMES[name][0]).pk for name in PEOPLE},
    }


def findings() -> list[str]:
    """What the self-check of the product says."""
    return [f"{each.check}: {each.message}" for each in selfcheck.run().findings]


QUESTIONS: dict[str, Callable[[], list[str]]] = {
    "findings": findings,
    "held": invariants.held,
    "invariants": invariants.violations,
}


def answer(question: str) -> list[str]:
    """One question's answer; a database that is away is an answer too."""
    try:
        return QUESTIONS[question]()
    except Exception as error:  # noqa: BLE001  # the edge of the process: whoever asked is told
        return [f"{question} could not be asked: {type(error).__name__}: {error}"]
    finally:
        connection.close()


def main() -> None:
    # Standard output is for answers; whatever else prints goes to the log.
    answers, sys.stdout = sys.stdout, sys.stderr
    call_command("prepare")
    seeded = seed(int(sys.argv[1]))
    connection.close()
    print(json.dumps(seeded), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(line.strip())), file=answers, flush=True)


if __name__ == "__main__":
    main()
