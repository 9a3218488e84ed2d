"""Tests on several processes, each with a PostgreSQL and a Valkey of its own.

A database of its own would not do: what has committed is read up to the horizon of the whole
cluster (C21), and tests empty the broker. ``make test`` starts the services (``run_with --copies``)
and says ``-n auto``: as many processes as there are services. Where somebody else's server is
given, or a person wants to see or debug what runs, everything runs in this process.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

# Each of these is a dozen processes: one process of the suite does them, one after another, while
# the others do what needs the processor more.
DEPLOYMENTS = "tests/faults/deployment"

# Tests of a file stay together (they share fixtures), and these come first: they wait for real
# processes, so that the many short ones fill the other workers, and none trails at the end.
LONGEST_FIRST = (
    DEPLOYMENTS,
    "tests/faults/embedded",
    "tests/faults",
    "tests/integration/history",
    "tests/simulation",
    "tests/concurrency",
    "tests/browser",
    "tests/api",
)


class Spec(Protocol):
    """How xdist starts a worker."""

    env: dict[str, str]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """What ``-n auto`` means; 0 is this process."""
    watched = config.option.capture == "no" or config.option.collectonly
    writes = "UPDATE_QUERY_COUNTS" in os.environ  # one file, which all of them would write
    copies = len(list(_services(os.environ)))
    return 0 if watched or writes or copies < 2 else copies


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(specs: Sequence[Spec]) -> None:
    """Tell each worker which services are its own, before it reads anything."""
    services = list(_services(os.environ))
    if len(specs) > len(services):
        raise pytest.UsageError(
            f"{len(specs)} workers need {len(specs)} copies of the services, and there are "
            f"{len(services)}: say `make test WORKERS={len(specs)}`, or -n auto"
        )
    for spec, own in zip(specs, services, strict=False):
        spec.env.update(own)


class ByFile(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types here
    """A file stays on one worker, and all deployments on one."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(f"{DEPLOYMENTS}/"):
            return DEPLOYMENTS
        scope: str = super()._split_scope(nodeid)
        return scope


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile | None:
    """How files are dealt out, unless another way was asked for."""
    return ByFile(config, log) if config.option.dist == "loadfile" else None


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Begin with what takes longest."""
    items.sort(key=lambda item: _rank(item.nodeid))


def _rank(nodeid: str) -> int:
    ranks = (rank for rank, start in enumerate(LONGEST_FIRST) if nodeid.startswith(f"{start}/"))
    return next(ranks, len(LONGEST_FIRST))


def _services(environ: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The services of each worker, as ``run_with`` names them."""
    suffix, number = "", 1
    while database_url := environ.get(f"DATABASE_URL{suffix}"):
        yield {"DATABASE_URL": database_url, "REDIS_URL": environ[f"REDIS_URL{suffix}"]}
        number += 1
        suffix = f"_{number}"
