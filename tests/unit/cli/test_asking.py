"""From options to a request."""

from typing import Any

import click
import pytest

from bettercompute.cli import asking
from bettercompute.cli.session import Session
from bettercompute.wire.reservations import ReservationRequest
from tests.support import answers


def ask(*arguments: str) -> asking.Wanted:
    """What these options mean, after the three that are always needed."""
    given: dict[str, Any] = {}

    @click.command()
    @asking.options
    def command(**options: Any) -> None:
        given.update(options)

    command.main(
        ["--pool", "main", "--gpus", "4", "--for", "8h", *arguments], standalone_mode=False
    )
    return asking.wanted(Session(), given)


def test_little_is_asked_where_little_is_said() -> None:
    wanted = ask()
    assert wanted.pool == "main"
    assert wanted.start_ms is None
    assert wanted.fields == {
        "devices": [{"class": "gpu", "count": 4}],
        "duration": "28800000ms",
    }


def test_everything_can_be_asked() -> None:
    wanted = ask(
        "--class", "gpu.mig", "--profile", "1g.10gb", "--count", "2-6", "--model", "H100",
        "--topology", "same-numa", "--nodes", "2", "--cpus", "16", "--memory", "1TiB",
        "--gang-topology", "same-rack", "--kubernetes", "--spot", "--priority", "-5",
        "--lease", "90 minutes",
        "--for", "1d 12h", "--start", "in 2h",
    )  # fmt: skip
    assert wanted.fields == {
        "devices": [
            {
                "class": "gpu.mig",
                "count": {"min": 2, "max": 6},
                "profile": "1g.10gb",
                "topology": "same-numa",
                "selector": {"model": "H100"},
            }
        ],
        "duration": "129600000ms",
        "start": answers.NOW_MS + answers.HOUR_MS,
        "binding": "kubernetes",
        "spot": True,
        "priority": -5,
        "gang": {"nodes": 2, "topology": "same-rack"},
        "resources": {"vcpu": 16, "memoryGiB": 1_024},
        "lease_seconds": 5_400,
    }


def test_what_is_asked_is_valid_on_the_wire() -> None:
    from bettercompute.client import reservations
    from tests.support.flows import Driver

    driver = Driver([], tenant="ten_acme")
    fields: Any = ask("--nodes", "2", "--memory", "64", "--lease", "1h", "--spot").fields
    body = driver.run(reservations.compose(driver.api, None, {"pool_id": "p", **fields}))
    import json

    ReservationRequest.model_validate_json(json.dumps(body))


@pytest.mark.rule("R16")
def test_where_several_nodes_stand_is_asked_of_several_nodes() -> None:
    with pytest.raises(click.UsageError, match="give --nodes, too"):
        ask("--gang-topology", "same-rack")


def test_zero_host_resources_are_said() -> None:
    assert ask("--cpus", "0", "--memory", "0").fields["resources"] == {"vcpu": 0, "memoryGiB": 0}


@pytest.mark.parametrize(
    ("text", "gib"), [("64", 64), ("64g", 64), ("64 GiB", 64), ("2TB", 2_048), ("1tib", 1_024)]
)
def test_memory_has_a_unit_or_is_gib(text: str, gib: int) -> None:
    assert ask("--memory", text).fields["resources"]["memoryGiB"] == gib


@pytest.mark.rule("R4")
def test_a_start_is_shown_back_in_the_local_zone(capsys: pytest.CaptureFixture[str]) -> None:
    ask("--start", "2026-03-09T08:00Z")
    told = capsys.readouterr().err.replace("\u00a0", " ")
    assert told == "Start: Mon 9 Mar 09:00 (Europe/Berlin, UTC+01:00; in 7 d)\n"
