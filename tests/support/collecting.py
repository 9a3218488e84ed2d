"""Collecting some seven thousand tests, which every process of the suite does for itself."""

import gc
import os
from collections.abc import Iterator
from typing import Any

import pytest

# What is imported and collected stays: looking through it for garbage finds none.
gc.disable()


def pytest_configure(config: pytest.Config) -> None:
    """A process among others begins at a place of its own."""
    if worker := os.environ.get("PYTEST_XDIST_WORKER"):
        number = int(worker.removeprefix("gw"))
        count = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        config.pluginmanager.register(FromElsewhere(number, count))


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """Leave all that there is by now out of every collection of garbage to come."""
    gc.freeze()
    gc.enable()


class FromElsewhere:
    """Goes through directories from another file on than the other processes do.

    In a fresh clone each file is compiled for pytest's assertions, which takes three times as long
    as collecting it. Whoever comes to it later finds that done, as they do not all come at once.
    """

    def __init__(self, number: int, count: int) -> None:
        self._number = number
        self._count = count

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: Any) -> Iterator[None]:
        report: Any = yield
        if isinstance(collector, pytest.Directory) and report.passed:
            at = len(report.result) * self._number // self._count
            report.result = report.result[at:] + report.result[:at]
        return report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[Any]) -> Iterator[None]:
        """Before anybody orders the tests: they must be in the same order everywhere."""
        items.sort(key=lambda item: item.path)
        return (yield)
