"""A history and the final state in, anomalies out: in the spirit of Jepsen.

An empty answer is no proof that all is well, but each anomaly is one that something is wrong: no
order of the operations that their times allow, and no schedule of the control plane, explains it.
"""

from collections.abc import Callable, Iterable

from tests.support.history import (
    check_answers,
    check_endings,
    check_holders,
    check_keys,
    check_lists,
    check_quotas,
    check_registers,
)
from tests.support.history.anomalies import Anomaly
from tests.support.history.evidence import Evidence
from tests.support.history.recording import FinalState, History

CHECKS: tuple[Callable[[Evidence], Iterable[Anomaly]], ...] = (
    check_answers.check,
    check_keys.check,
    check_registers.check,
    check_endings.check,
    check_holders.check,
    check_quotas.check,
    check_lists.check,
)


def check(history: History, final: FinalState | None = None) -> list[Anomaly]:
    """Everything that cannot have happened if the promises hold.

    ``final`` is by default the one that was recorded; without any, only what the answers show among
    themselves is judged.
    """
    evidence = Evidence(history, history.final if final is None else final)
    return [anomaly for check_ in CHECKS for anomaly in check_(evidence)]
