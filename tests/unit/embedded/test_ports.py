"""Ports are taken before anything starts."""

import socket
from collections.abc import Iterator

import pytest

from bettercompute.embedded import ports
from bettercompute.embedded.failures import CannotStart

pytestmark = pytest.mark.enable_socket


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which somebody listens."""
    with socket.socket() as listener:
        listener.bind((ports.HOST, 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_free_port_is_found_and_named(taken: int) -> None:
    with ports.take_both(0, 0) as both:
        assert both.url.startswith("http://127.0.0.1:")
        assert both.url != both.gateway_url
        assert not both.url.endswith(":0")


@pytest.mark.parametrize(("web", "variable"), [(True, "PORT"), (False, "GATEWAY_PORT")])
def test_a_taken_port_is_refused_with_the_variable_to_set(
    taken: int, web: bool, variable: str
) -> None:
    wanted = (taken, 0) if web else (0, taken)

    with (
        pytest.raises(CannotStart, match=rf"^Port {taken} is taken.* or set {variable} to another"),
        ports.take_both(*wanted),
    ):
        pytest.fail("the port was given twice")


def test_a_port_that_is_listened_on_everywhere_is_taken_too() -> None:
    with socket.socket() as listener:
        listener.bind(("0.0.0.0", 0))
        listener.listen()

        with (
            pytest.raises(CannotStart, match="is taken"),
            ports.take_both(listener.getsockname()[1], 0),
        ):
            pytest.fail("the port was given twice")


def test_two_starts_at_one_moment_cannot_both_listen() -> None:
    with ports.take_both(0, 0) as first:
        port = first.web.getsockname()[1]
        with ports.take_both(port, 0) as second:  # neither listens yet
            first.open_to_clients()

            with pytest.raises(CannotStart, match=f"Port {port} is taken"):
                second.open_to_clients()


def test_a_port_can_be_taken_again_right_after_a_run_that_had_clients() -> None:
    with ports.take_both(0, 0) as first:
        first.open_to_clients()
        port = first.web.getsockname()[1]
        client = socket.create_connection((ports.HOST, port))
        served, _ = first.web.accept()
        served.close()  # the server closes first: its side lingers in TIME_WAIT
        client.close()

    with ports.take_both(port, 0) as second:
        second.open_to_clients()
