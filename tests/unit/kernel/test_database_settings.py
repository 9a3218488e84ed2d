"""How the product connects to PostgreSQL, whatever lies between."""

import socket
import threading
from collections.abc import Iterator

import psycopg
import pytest

from bettercompute.settings import env


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a host that accepts connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        kept: list[socket.socket] = []

        def accept() -> None:
            try:
                while True:
                    kept.append(server.accept()[0])
            except OSError:
                return

        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)  # closing alone would not wake who accepts
        accepting.join()
        for each in kept:
            each.close()


@pytest.mark.rule("C40")
def test_a_host_that_says_nothing_is_given_up_on(silent: int) -> None:
    options = env.database(f"postgresql://user:x@127.0.0.1:{silent}/db")["OPTIONS"]
    known = {key: value for key, value in options.items() if key != "prepare_threshold"}
    with pytest.raises(psycopg.OperationalError, match="timeout"):
        psycopg.connect(
            host="127.0.0.1", port=silent, user="user", **{**known, "connect_timeout": 1}
        )


@pytest.mark.rule("C40")
def test_a_connection_whose_other_end_vanished_ends_within_half_a_minute() -> None:
    options = env.database("postgresql://user@db.example/db")["OPTIONS"]
    probed = (
        options["keepalives_idle"] + options["keepalives_interval"] * options["keepalives_count"]
    )
    assert probed <= 30  # waiting for an answer
    assert options["tcp_user_timeout"] <= 30_000  # with something sent that nobody acknowledged


def test_a_url_may_say_otherwise() -> None:
    options = env.database("postgresql://user@db.example/db?connect_timeout=1")["OPTIONS"]
    assert options["connect_timeout"] == "1"
