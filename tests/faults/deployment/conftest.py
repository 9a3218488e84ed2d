"""What tests of faults of a whole deployment share."""

from collections.abc import Callable

import pytest

from tests.support.deployment import recoveries
from tests.support.deployment.trial import Recovery


@pytest.fixture
def report(record_property: Callable[[str, object], None]) -> Callable[[Recovery], None]:
    """Say how long a recovery took in the table at the end of the run."""
    return lambda recovery: record_property(recoveries.PROPERTY, str(recovery))
