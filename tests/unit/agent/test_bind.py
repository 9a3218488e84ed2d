"""Holds on disk: whole or not at all."""

import asyncio
import json
import stat

import pytest

from bettercompute.agent import bind
from bettercompute.agent.atoms import Atom
from bettercompute.agent.bind import BindFailed, DiskHolds, MemoryHolds
from nodes.protocol.messages import Assignment

ATOMS = [Atom("GPU-1", "GPU-1", 0, "GPU-1")]
WANTED = Assignment(allocation_id="alloc_1", device_ids=["GPU-1"])
SPEC = "etc/cdi/bcd-alloc_1.json"
ENV = "run/bcd/allocations/alloc_1.env"


@pytest.fixture(params=["disk", "disk, not durable", "memory"])
def holds(request, tmp_path):
    if request.param == "memory":
        return MemoryHolds()
    return DiskHolds(tmp_path, durable=request.param == "disk")


def test_what_is_bound_is_held_until_it_is_unbound(holds):
    asyncio.run(holds.bind(WANTED, ATOMS))
    assert holds.read() == {"alloc_1": WANTED}
    asyncio.run(holds.unbind("alloc_1"))
    assert holds.read() == {}


def test_both_verbs_may_be_repeated(holds):
    for _ in range(2):
        bound = asyncio.run(holds.bind(WANTED, ATOMS))
    assert bound.env_file == f"/{ENV}"
    for _ in range(2):
        asyncio.run(holds.unbind("alloc_1"))
    assert holds.read() == {}


@pytest.mark.rule("N12")
def test_a_hold_is_two_files_that_everybody_may_read(tmp_path):
    asyncio.run(DiskHolds(tmp_path).bind(WANTED, ATOMS))
    files = sorted(
        str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*") if each.is_file()
    )
    assert files == [SPEC, ENV]
    assert {stat.S_IMODE((tmp_path / each).stat().st_mode) for each in files} == {0o644}
    assert json.loads((tmp_path / SPEC).read_text())["kind"] == "bcd.dev/gpu"


@pytest.mark.rule("N15")
def test_holds_outlive_the_process(tmp_path):
    asyncio.run(DiskHolds(tmp_path).bind(WANTED, ATOMS))
    assert DiskHolds(tmp_path).read() == {"alloc_1": WANTED}


@pytest.mark.rule("N12")
def test_a_crash_between_the_two_files_leaves_no_hold(tmp_path, monkeypatch):
    holds = DiskHolds(tmp_path)
    write = holds._write

    def crash_at_the_spec(path, text):
        if path == SPEC:
            raise OSError(28, "No space left on device", path)
        write(path, text)

    monkeypatch.setattr(holds, "_write", crash_at_the_spec)
    with pytest.raises(BindFailed, match="No space left on device"):
        asyncio.run(holds.bind(WANTED, ATOMS))
    assert holds.read() == {}


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch):
    holds = DiskHolds(tmp_path)
    asyncio.run(holds.bind(WANTED, ATOMS))
    before = (tmp_path / SPEC).read_text()

    def fail(descriptor):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(bind.os, "fsync", fail)
    with pytest.raises(BindFailed):
        asyncio.run(holds.bind(WANTED, ATOMS))
    assert (tmp_path / SPEC).read_text() == before
    assert [each.name for each in (tmp_path / "etc/cdi").iterdir()] == ["bcd-alloc_1.json"]


def test_other_specs_are_none_of_ours(tmp_path):
    directory = tmp_path / "etc/cdi"
    directory.mkdir(parents=True)
    (directory / "nvidia.yaml").write_text("cdiVersion: 0.5.0")
    (directory / "bcd-alloc_2.json").write_text("{broken")
    (directory / "bcd-alloc_3.json").write_bytes(b"\xff\xfe")
    asyncio.run(DiskHolds(tmp_path).bind(WANTED, ATOMS))
    (directory / "bcd-alloc_4.json").write_text((tmp_path / SPEC).read_text())  # a copy
    assert list(DiskHolds(tmp_path).read()) == ["alloc_1"]
