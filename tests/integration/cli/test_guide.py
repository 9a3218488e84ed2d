"""The guides do what they show."""

from pathlib import Path

import pytest
from pytest_django.live_server_helper import LiveServer

from reservations.models import Confirmation, Reservation
from tests.support import cast, guide
from tests.support.guide import Reader
from tests.support.terminal import Terminal

ROOT = Path(__file__).parents[3]

pytestmark = [pytest.mark.django_db(transaction=True)]


@pytest.fixture
def reader(
    live_server: LiveServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Reader:
    """Alice, who is not signed in yet and has her token in a file."""
    terminal = Terminal(live_server.url, tmp_path, capsys, monkeypatch, gpus=8)
    for name in ("URL", "TOKEN", "TENANT"):
        monkeypatch.delenv(f"BETTER_COMPUTE_{name}", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "token").write_text(cast.token("alice")[1])
    return Reader(terminal, tmp_path)


@pytest.mark.rule("A8")
def test_the_guide_to_the_command_line_does_what_it_shows(reader: Reader) -> None:
    reader.read((ROOT / "docs/how-to/cli.md").read_text())
    assert reader.commands > 30


@pytest.mark.rule("A9")
def test_the_guide_to_the_python_client_does_what_it_shows(
    reader: Reader, capsys: pytest.CaptureFixture[str]
) -> None:
    reader.scope["token"] = cast.token("alice")[1]
    capsys.readouterr()
    reader.read((ROOT / "docs/how-to/python-client.md").read_text())
    assert "bcd.dev/gpu=" in capsys.readouterr().out


@pytest.mark.rule("R36")
def test_the_guide_to_agents_does_what_it_shows(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BETTER_COMPUTE_URL", reader.terminal.url)
    reader.terminal.become("alice")
    reader.read((ROOT / "docs/how-to/agents.md").read_text())
    assert reader.commands > 12
    assert Reservation.objects.get().agent == "trainer"
    told = Confirmation.objects.order_by("asked_at").values_list("state", flat=True)
    assert list(told) == ["used", "denied"]


def test_so_does_the_first_reservation_of_the_readme(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BETTER_COMPUTE_URL", reader.terminal.url)
    reader.terminal.become("alice")
    page = (ROOT / "README.md").read_text()
    reader.read(page)
    assert reader.commands == 4


def test_what_a_guide_shows_and_nothing_runs_is_found(reader: Reader) -> None:
    with pytest.raises(AssertionError, match="nothing runs this"):
        reader.read("```bash\ncurl https://compute.example.org\n```\n")
    with pytest.raises(AssertionError, match="No such command"):
        reader.read("```bash\nbetter-compute reserv\n```\n")
    assert [block.kind for block in guide.blocks("```console\n$ x\n```\n")] == ["console"]
