"""The journal: nothing said is lost, no number is used twice."""

import contextlib

import pytest

from bettercompute.agent import journal as journals
from bettercompute.agent.journal import FileJournal, MemoryJournal
from nodes.protocol import messages
from nodes.protocol.messages import ReportEntry


def write(body="{}"):
    return lambda seq: ReportEntry(seq=seq, kind="Inventory", body=body)


@pytest.fixture(params=["file", "memory"])
def journal(request, tmp_path):
    made = FileJournal(tmp_path / "journal") if request.param == "file" else MemoryJournal()
    with contextlib.closing(made):
        yield made


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal"


@contextlib.contextmanager
def opened(path):
    with contextlib.closing(FileJournal(path)) as made:
        yield made


def seqs(journal):
    return [entry.seq for entry in journal.pending()]


def test_entries_come_in_order_until_they_are_acknowledged(journal):
    for _ in range(3):
        journal.append(write())
    assert seqs(journal) == [1, 2, 3]
    journal.acknowledge(2)
    assert seqs(journal) == [3]


def test_numbers_go_on_behind_what_was_acknowledged(journal):
    journal.append(write())
    journal.acknowledge(1)
    journal.append(write())
    assert seqs(journal) == [2]


@pytest.mark.rule("N7")
def test_a_call_carries_at_most_so_many_entries(journal):
    for _ in range(messages.ENTRIES_PER_CALL_MAX + 1):
        journal._entries.append(write()(journal._next))
        journal._next += 1
    assert len(journal.pending()) == messages.ENTRIES_PER_CALL_MAX


def test_a_call_carries_at_most_so_much_text_but_always_one_entry(monkeypatch):
    monkeypatch.setattr(journals, "BATCH_CHARS_MAX", 100)
    entries = [write("x" * 40)(seq) for seq in range(1, 4)]
    assert len(journals.batch(entries)) == 2
    assert len(journals.batch([write("x" * 101)(1), *entries])) == 1


class TestResume:
    def test_a_journal_that_lost_its_place_goes_on_behind_the_control_plane(self, journal):
        assert journal.resume(41) is False
        journal.append(write())
        assert seqs(journal) == [42]

    def test_a_journal_that_is_ahead_keeps_what_has_not_arrived(self, journal):
        for _ in range(3):
            journal.append(write())
        assert journal.resume(1) is True
        assert seqs(journal) == [2, 3]


@pytest.mark.rule("N7")
class TestFile:
    def test_what_was_said_survives_a_restart(self, path):
        with opened(path) as journal:
            journal.append(write('{"said": 1}'))
        with opened(path) as journal:
            assert [entry.body for entry in journal.pending()] == ['{"said": 1}']
            journal.append(write())
            assert seqs(journal) == [1, 2]

    def test_numbers_survive_an_emptied_file(self, path):
        with opened(path) as journal:
            journal.append(write())
            journal.acknowledge(1)
        with opened(path) as journal:
            journal.append(write())
            assert seqs(journal) == [2]

    def test_a_torn_last_line_was_never_sent_and_is_dropped(self, path):
        with opened(path) as journal:
            journal.append(write())
            journal.append(write())
        path.write_text(path.read_text()[:-5])
        with opened(path) as journal:
            assert seqs(journal) == [1]
            journal.append(write())
            assert seqs(journal) == [1, 2]

    @pytest.mark.parametrize(
        "damage", ["", "\n", "no json\n", '{"next": "x"}\n', '{"next": 5}\n{\n']
    )
    def test_a_damaged_file_begins_anew(self, path, damage):
        path.write_text(damage)
        with opened(path) as journal:
            journal.append(write())
            assert len(seqs(journal)) == 1

    def test_an_entry_is_on_disk_before_it_can_be_sent(self, path, monkeypatch):
        forced = []
        with opened(path) as journal:
            monkeypatch.setattr(journals.os, "fsync", lambda descriptor: forced.append(1))
            journal.append(write())
            assert forced == [1]
            assert '"seq":1' in path.read_text()

    def test_only_its_owner_may_read_it(self, path):
        with opened(path):
            assert path.stat().st_mode & 0o077 == 0
