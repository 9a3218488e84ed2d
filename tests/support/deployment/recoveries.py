"""The table of recovery times at the end of a run of the fault tests."""

import pytest
from _pytest.terminal import TerminalReporter

PROPERTY = "recovery"


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """One line for each fault that was survived: the property of its test's report."""
    lines = [
        str(value)
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", "") == "call"
        for name, value in report.user_properties
        if name == PROPERTY
    ]
    if lines:
        terminalreporter.section("seconds to recover, from the end of each fault")
        for line in sorted(lines):
            terminalreporter.write_line(line)
