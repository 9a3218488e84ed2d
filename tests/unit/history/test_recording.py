"""What a recorder writes is what is read; and what nobody recorded is refused."""

import json
import threading
from pathlib import Path

import pytest

from tests.support.history import __main__ as command
from tests.support.history import recording
from tests.support.history.recording import NEVER, Answer, Call, FinalState, Recorder
from tests.unit.history.script import shown

CREATE = Call("create", caller="alice", tenant="ten_acme", key="k1", asked={"duration": "1h"})
GET = Call("get", caller="alice", tenant="ten_acme", target="rsv-k1")


def test_operations_are_what_was_recorded(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    with Recorder(path) as recorder:
        lost, got = recorder.invoke(CREATE), recorder.invoke(GET)
        recorder.answered(got, Answer(200, shown(), {"etag": '"2"'}))
        recorder.lost(lost, "ReadTimeout")
        open_ = recorder.invoke(GET)
        recorder.conclude(FinalState({"rsv-k1": shown()}, ("ten_acme",), 5.0, closed=True))

    history = recording.read(path)
    assert history == recorder.history()
    create, get, last = history.operations
    assert (create.id, create.call, create.error) == (lost, CREATE, "ReadTimeout")
    assert create.unknown
    assert create.completed == NEVER
    assert get.acknowledged
    assert create.invoked <= get.invoked <= get.completed <= last.invoked
    assert last.id == open_
    assert last.unknown
    assert history.final is not None
    assert history.final.closed


def test_every_event_is_in_the_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    recorder = Recorder(path)
    recorder.invoke(CREATE)
    assert [each.call for each in recording.read(path).operations] == [CREATE]
    recorder.close()


def test_a_line_that_its_writer_did_not_finish_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    with Recorder(path) as recorder:
        number = recorder.invoke(CREATE)
        recorder.answered(number, Answer(201, shown()))
    path.write_text(path.read_text()[:-9])
    (create,) = recording.read(path).operations
    assert create.unknown


def test_threads_do_not_mix_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"

    def work() -> None:
        for _ in range(50):
            recorder.answered(recorder.invoke(GET), Answer(200, shown()))

    with Recorder(path) as recorder:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    operations = recording.read(path).operations
    assert sorted(each.id for each in operations) == list(range(1, 201))
    assert all(each.acknowledged for each in operations)
    times = [each.invoked for each in operations]
    assert times == sorted(times)


@pytest.mark.parametrize(
    "lines",
    [
        ['{"event": "answer", "id": 1, "at": 1, "status": 200, "body": null, "headers": {}}'],
        ['{"event": "history", "format": 2}'],
        ['{"event": "surprise"}'],
        ["no json", "{}"],
    ],
    ids=["an end without a beginning", "another format", "another event", "no JSON"],
)
def test_what_no_recorder_writes_is_refused(tmp_path: Path, lines: list[str]) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(recording.NotAHistory):
        recording.read(path)


@pytest.mark.parametrize(
    ("status", "acknowledged", "refused", "unknown"),
    [
        (200, True, False, False),
        (201, True, False, False),
        (404, False, True, False),
        (409, False, True, False),
        (429, False, False, False),
        (500, False, False, True),
        (503, False, False, True),
        (None, False, False, True),
    ],
)
def test_what_an_answer_says_of_its_effect(
    status: int | None, acknowledged: bool, refused: bool, unknown: bool
) -> None:
    answer = None if status is None else Answer(status)
    done = recording.Operation(1, CREATE, 0.0, 1.0 if answer else NEVER, answer)
    assert (done.acknowledged, done.refused, done.unknown) == (acknowledged, refused, unknown)
    assert done.ended == (NEVER if unknown else 1.0)


def test_the_command_says_what_it_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "history.jsonl"
    with Recorder(path) as recorder:
        number = recorder.invoke(GET)
        recorder.answered(number, Answer(500, {"status": 500}))
    assert command.main([str(path)]) == 1
    told = capsys.readouterr().out
    assert "server-error rsv-k1: get answered 500 (operations 1)" in told
    assert f"{path}: 1 operations (1 get 500), no final state" in told
    assert command.main([]) == 2


def test_the_command_says_what_is_no_history(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "other.txt"
    path.write_text("no json\n")
    assert command.main([str(path)]) == 2
    assert command.main([str(tmp_path / "absent")]) == 2
    told = capsys.readouterr().err
    assert "line 1 is no JSON" in told
    assert "No such file" in told


def test_a_file_is_plain_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    with Recorder(path) as recorder:
        recorder.invoke(CREATE)
    events = [json.loads(line) for line in path.read_text().splitlines()]
    assert [event["event"] for event in events] == ["history", "invoke"]
