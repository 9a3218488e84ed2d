"""What the environment may say to `better-compute up`."""

from pathlib import Path

import pytest

from bettercompute.embedded import options
from bettercompute.embedded.failures import CannotStart


def test_nothing_set_means_the_documented_defaults() -> None:
    read = options.read({})

    assert (read.data, read.port, read.gateway_port, read.nodes) == (Path(".data"), 8000, 0, 5)
    assert (read.instead.database_url, read.instead.redis_url) == ("", "")


def test_an_empty_value_is_an_unset_one() -> None:
    assert options.read({"PORT": "", "SIM": " ", "BETTERCOMPUTE_DATA": ""}) == options.read({})


def test_every_variable_is_read() -> None:
    read = options.read(
        {
            "PORT": "8080",
            "GATEWAY_PORT": "8081",
            "SIM": "0",
            "BETTERCOMPUTE_DATA": "/srv/bc",
            "DATABASE_URL": "postgresql://db/bc",
            "REDIS_URL": "redis://cache",
        }
    )

    assert (read.port, read.gateway_port, read.nodes) == (8080, 8081, 0)
    assert read.data == Path("/srv/bc")
    assert read.instead.database_url == "postgresql://db/bc"
    assert read.instead.redis_url == "redis://cache"


@pytest.mark.parametrize("variable", ["PORT", "GATEWAY_PORT", "SIM"])
@pytest.mark.parametrize("value", ["abc", "-1", "8.5", "1e3", "70000", "٣", "9" * 500, "0x50"])
def test_a_bad_number_is_refused_by_name_and_as_wrong_usage(variable: str, value: str) -> None:
    with pytest.raises(CannotStart, match=f"^{variable} must be a whole number") as refusal:
        options.read({variable: value})

    assert refusal.value.exit_code == 2
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("variable", "value"), [("DATABASE_URL", "mysql://db"), ("REDIS_URL", "localhost:6379")]
)
def test_an_address_of_something_else_is_refused_by_name(variable: str, value: str) -> None:
    with pytest.raises(CannotStart, match=f"^{variable} must start with") as refusal:
        options.read({variable: value})

    assert refusal.value.exit_code == 2
    assert value not in str(refusal.value)  # it may hold a password


def test_web_and_gateway_cannot_share_a_port() -> None:
    with pytest.raises(CannotStart, match="PORT and GATEWAY_PORT are both 8000"):
        options.read({"GATEWAY_PORT": "8000"})
