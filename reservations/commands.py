"""Commands to copy: how to use the devices on a node, and how to ask for the same again. Pure."""

import json
import shlex

from bettercompute import durations
from bettercompute.pages import moments
from bettercompute.pages.parts import Command
from bettercompute.wire.reservations import NodeBinding, Reservation
from reservations import timing

_ASKED = ("devices", "duration", "start", "binding", "resources", "gang", "leaseSeconds", "spot")
_HAS_A_FLAG = {"poolId", "devices", "duration", "binding", "start", "spot"}


def on_node(allocation_id: str, binding: NodeBinding) -> tuple[Command, ...]:
    """How to use the devices of one allocation, on its node."""
    flags = [f"--device {shlex.quote(device)}" for device in binding.cdi_devices]
    if binding.cgroup_parent:
        flags.append(f"--cgroup-parent {shlex.quote(binding.cgroup_parent)}")
    env = shlex.quote(binding.env_file)
    run = " \\\n  ".join(["run --rm -it", *flags, f"--env-file {env}", "IMAGE nvidia-smi"])
    return (
        Command(f"docker-{allocation_id}", "In a container, with Docker", f"docker {run}"),
        Command(f"podman-{allocation_id}", "In a container, with Podman", f"podman {run}"),
        Command(f"env-{allocation_id}", "In a shell on the node", f"set -a; . {env}; set +a"),
    )


def calls(shown: Reservation, pool: str, origin: str) -> list[Command]:
    """How a program would have asked for the same, and how it looks at this one."""
    return [
        Command("call-cli", "On the command line", f"better-compute get {shown.id}"),
        *_reserve(shown, pool),
        Command("call-curl", "Ask for the same with curl", _curl(shown, origin)),
    ]


def _reserve(shown: Reservation, pool: str) -> list[Command]:
    """The same as one command line, where it has a flag for all that was asked."""
    request, times = shown.request, timing.of(shown)
    (line, *others) = request["devices"]
    simple = not others and {"class", "count", "topology"} >= line.keys()
    if not simple or not isinstance(line["count"], int) or request.keys() - _HAS_A_FLAG:
        return []
    if line["class"] != "gpu" or request.get("binding", "hold") != "hold":
        return []
    words = ["better-compute reserve", "--pool", pool, "--gpus", str(line["count"])]
    words += ["--for", durations.human(times.duration_ms).replace(" ", "")]
    if topology := line.get("topology"):
        words += ["--topology", topology]
    if times.asked:
        words += ["--start", moments.iso(times.asked)]
    if request.get("spot"):
        words += ["--spot"]
    return [Command("call-reserve", "Ask for the same", " ".join([*words, "--wait"]))]


def _curl(shown: Reservation, origin: str) -> str:
    body = {
        "tenantId": shown.tenant_id,
        "poolId": shown.pool_id,
        **{name: shown.request[name] for name in _ASKED if shown.request.get(name)},
        "idempotencyKey": "choose-one-per-intent",
    }
    return (
        f"curl {origin}/api/v1/reservations \\\n"
        '  -H "Authorization: Bearer $BETTER_COMPUTE_TOKEN" \\\n'
        "  -H 'Content-Type: application/json' \\\n"
        f"  -d {shlex.quote(json.dumps(body, indent=2))}"
    )
