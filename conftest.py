"""What pytest knows of this repository before it knows which tests are meant."""

from tests.support.paths import pytest_cmdline_main

__all__ = ["pytest_cmdline_main"]
