"""schemathesis over the whole OpenAPI document, in all its phases, against a whole deployment.

``make fuzz SECONDS=600 SEED=7``. It sends what the document allows and what it does not, and every
answer must be as documented; the first command line that it prints for a failure repeats it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.support.deployment import deployment
from tests.support.deployment.deployment import Deployment

SECONDS = os.environ.get("SECONDS", "120")
SEED = os.environ.get("SEED", "1")
PHASES = os.environ.get("PHASES", "examples,coverage,fuzzing,stateful")
# What is valid by its schema may still be refused: there is no such pool, or no room in it.
LEFT_OUT = "positive_data_acceptance"


def main() -> int:
    # The limits of requests are not what is tried here.
    os.environ |= {
        "BETTERCOMPUTE_REQUESTS_PER_SECOND": "0",
        "BETTERCOMPUTE_ATTEMPTS_PER_MINUTE": "0",
    }
    with deployment.started() as running:
        return _run(running, os.environ.get("ARGS", "").split())


def _run(running: Deployment, more: list[str]) -> int:
    url = running.planes[0].web.url
    running.client().get("/api/v1/openapi.json")  # made once a process, which takes a moment
    command = [
        str(Path(sys.executable).with_name("schemathesis")),
        *("--config-file", str(Path(__file__).with_name("schemathesis.toml"))),
        "run",
        f"{url}/api/v1/openapi.json",
        *("--header", f"Authorization:Bearer {running.token}"),
        *("--phases", PHASES),
        *("--checks", "all", "--exclude-checks", LEFT_OUT),
        *("--seed", SEED, "--max-time", SECONDS),
        "--continue-on-failure",
        *("--exclude-path", "/api/v1/events/stream"),  # it never ends
        *("--warnings", "off"),
        *more,
    ]
    hooks = {"SCHEMATHESIS_HOOKS": "tests.support.fuzz.hooks", "FUZZ_IDS": _ids(running)}
    found = subprocess.run(command, env={**os.environ, **hooks}, check=False).returncode
    broken = running.invariants()
    for each in broken:
        sys.stderr.write(f"broken: {each}\n")
    return found or bool(broken)


def _ids(running: Deployment) -> str:
    nodes = [node for (node,) in running.sql("SELECT id FROM nodes ORDER BY id")]
    real = {
        "tenantId": [running.tenant_id],
        "poolId": [running.pool_id],
        "pool_id": [running.pool_id],
        "node_id": nodes,
        "text": ["forbid(principal, action, resource) when { context.gpus > 4000 };"],
    }
    return json.dumps(real)


if __name__ == "__main__":
    sys.exit(main())
