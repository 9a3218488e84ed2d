"""The server itself: whether it lives, is ready, and what time it says it is."""

from bettercompute.client import calls
from bettercompute.client.calls import Answer, Call, Lost
from bettercompute.client.flows import Api, Flow, Send

PROBE_SECONDS = 5.0


def probe(_: Api, path: str) -> Flow[Answer]:
    """One look at a path such as ``/healthz``, whatever it answers; asked once.

    Raises:
        failures.Unreachable: nothing came back.
    """
    outcome = yield Send(Call("GET", path, _as_it_is), seconds=PROBE_SECONDS)
    if isinstance(outcome, Lost):
        raise calls.unreachable(outcome)
    assert outcome is not None, "a Send is answered"
    return outcome


def _as_it_is(answer: Answer) -> Answer:
    return answer
