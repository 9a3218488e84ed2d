"""No anomaly is known to the checker that nothing shows."""

from tests.support.history.anomalies import Kind
from tests.unit.history import test_rejected_answers, test_rejected_holders
from tests.unit.history.spoiling import SPOILERS


def test_every_anomaly_has_a_history_that_shows_it() -> None:
    rejected = [*test_rejected_answers.REJECTED.values(), *test_rejected_holders.REJECTED.values()]
    assert {kind for kinds, _, _ in rejected for kind in kinds} == set(Kind)


def test_every_anomaly_is_made_by_somebody_who_breaks_a_promise() -> None:
    assert set(SPOILERS) == set(Kind)
