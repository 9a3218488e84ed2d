"""Says that a path is mistyped before any process is started for it.

pytest reads ``tests/conftest.py`` only for a path that is there. Of one that is not, each worker
would find out for itself, once it has everything loaded.
"""

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Look for each path that was named.

    Raises:
        pytest.UsageError: there is no such file or directory.
    """
    for named in config.args:
        path = config.invocation_params.dir / named.partition("::")[0]
        if not path.exists() and not config.option.pyargs:
            raise pytest.UsageError(f"file or directory not found: {named}")
