"""The suite on several processes: each has services of its own, and slow files come first."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support import collecting, parallel, paths


@pytest.fixture
def _two_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("DATABASE_URL", "REDIS_URL"):
        for suffix in ("", "_2"):
            monkeypatch.setenv(f"{variable}{suffix}", f"{variable.lower()}{suffix}")
    monkeypatch.delenv("DATABASE_URL_3", raising=False)
    monkeypatch.delenv("UPDATE_QUERY_COUNTS", raising=False)


def workers(**options: object) -> int:
    option = SimpleNamespace(**{"capture": "fd", "collectonly": False, **options})
    return parallel.pytest_xdist_auto_num_workers(SimpleNamespace(option=option))


@pytest.mark.usefixtures("_two_copies")
def test_there_are_as_many_workers_as_copies_of_the_services() -> None:
    assert workers() == 2


@pytest.mark.usefixtures("_two_copies")
def test_what_a_person_watches_runs_in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    assert workers(capture="no") == 0
    assert workers(collectonly=True) == 0
    monkeypatch.setenv("UPDATE_QUERY_COUNTS", "1")
    assert workers() == 0


@pytest.mark.usefixtures("_two_copies")
def test_somebody_elses_server_serves_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABASE_URL_2")

    assert workers() == 0


@pytest.mark.usefixtures("_two_copies")
def test_each_worker_is_told_its_own_services() -> None:
    specs = [SimpleNamespace(env={}), SimpleNamespace(env={})]

    parallel.pytest_xdist_setupnodes(specs)

    assert [spec.env for spec in specs] == [
        {"DATABASE_URL": "database_url", "REDIS_URL": "redis_url"},
        {"DATABASE_URL": "database_url_2", "REDIS_URL": "redis_url_2"},
    ]


@pytest.mark.usefixtures("_two_copies")
def test_a_worker_without_services_is_refused() -> None:
    specs = [SimpleNamespace(env={}) for _ in range(3)]

    with pytest.raises(pytest.UsageError, match="WORKERS=3"):
        parallel.pytest_xdist_setupnodes(specs)


def test_files_that_wait_for_processes_come_first_and_stay_together() -> None:
    wanted = ["tests/faults/embedded/test_a.py::b", "tests/faults/embedded/test_a.py::a"]
    wanted += ["tests/faults/nodes/test_b.py::a", "tests/browser/test_c.py::a"]
    wanted += ["tests/unit/test_d.py::a", "tests/integration/test_e.py::a"]
    shuffled = [wanted[number] for number in (4, 3, 0, 5, 2, 1)]
    items = [SimpleNamespace(nodeid=nodeid) for nodeid in shuffled]

    parallel.pytest_collection_modifyitems(items)

    assert [item.nodeid for item in items] == wanted


def test_deployments_share_a_worker_and_other_files_are_dealt_out() -> None:
    scope = parallel.ByFile._split_scope
    one, other = (f"tests/faults/deployment/test_{name}.py" for name in "ab")
    unused = parallel.ByFile.__new__(parallel.ByFile)

    assert scope(unused, f"{one}::t") == scope(unused, f"{other}::t[x]")
    assert scope(unused, "tests/unit/test_a.py::A::t") == "tests/unit/test_a.py"
    assert scope(unused, "tests/unit/test_b.py::t") == "tests/unit/test_b.py"


def collected(directory: pytest.Directory, number: int) -> list[str]:
    """In which order one of two processes goes through a directory."""
    hook = collecting.FromElsewhere(number, 2).pytest_make_collect_report(directory)
    next(hook)
    with pytest.raises(StopIteration) as end:
        hook.send(SimpleNamespace(passed=True, result=["a", "b", "c", "d"]))
    return end.value.value.result


def test_processes_begin_to_collect_at_different_files_and_agree_in_the_end() -> None:
    directory = pytest.Directory.__new__(pytest.Dir)
    assert collected(directory, 0) == ["a", "b", "c", "d"]
    assert collected(directory, 1) == ["c", "d", "a", "b"]

    names = ["c::2", "c::1", "d::1", "a::1", "b::1"]
    items = [SimpleNamespace(path=Path(name[0]), name=name) for name in names]
    next(collecting.FromElsewhere(1, 2).pytest_collection_modifyitems(items))
    assert [item.name for item in items] == ["a::1", "b::1", "c::2", "c::1", "d::1"]


def test_a_mistyped_path_is_said_before_any_process_is_started(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").touch()
    config = SimpleNamespace(
        args=["test_it.py::test_one", "test_if.py::test_one"],
        invocation_params=SimpleNamespace(dir=tmp_path),
        option=SimpleNamespace(pyargs=False),
    )
    with pytest.raises(pytest.UsageError, match=r"not found: test_if\.py::test_one"):
        paths.pytest_cmdline_main(config)
    config.args.pop()
    paths.pytest_cmdline_main(config)
