"""A terminal at which the command line is used against the product itself."""

from pathlib import Path

import pytest
from pytest_django.live_server_helper import LiveServer

from tests.support.terminal import Terminal


@pytest.fixture
def terminal(
    live_server: LiveServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Terminal:
    """The product with its world, and a terminal."""
    return Terminal(live_server.url, tmp_path, capsys, monkeypatch)
