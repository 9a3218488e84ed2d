"""When a call is sent again, and for how long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bettercompute.client import calls, failures, flows
from bettercompute.client.calls import Answer, Lost
from bettercompute.wire.iam import WhoAmI
from tests.support import answers
from tests.support.flows import Driver

REFUSED = Lost("connection refused", sent=False)
BROKEN = Lost("connection reset", sent=True)
OK = answers.answer(answers.whoami())
READ = calls.get("/whoami", WhoAmI)
WRITE = calls.post("/x", {}, WhoAmI, repeatable=False)
KEYED_WRITE = calls.post("/x", {}, WhoAmI, repeatable=True)


def unavailable(**headers: str) -> Answer:
    return answers.refusal(503, "UNAVAILABLE", **headers)


@pytest.mark.rule("A9")
@pytest.mark.parametrize("call", [READ, KEYED_WRITE], ids=["read", "write with a key"])
@pytest.mark.parametrize(
    "trouble",
    [
        REFUSED,
        BROKEN,
        unavailable(),
        answers.refusal(429, "RATE_LIMITED"),
        Answer(502, {}, b"bad gateway"),
        Answer(504, {}, b""),
    ],
    ids=["refused", "reset", "503", "429", "502", "504"],
)
def test_what_is_safe_to_repeat_survives_passing_trouble(
    call: calls.Call[WhoAmI], trouble: Answer | Lost
) -> None:
    driver = Driver([trouble, trouble, OK])
    assert driver.run(flows.exchange(driver.api, call)).username == "alice"
    assert driver.calls == [call] * 3
    assert driver.pauses == [0.2, 0.4]


@pytest.mark.rule("A9")
@pytest.mark.parametrize(
    "trouble", [BROKEN, unavailable(), Answer(502, {}, b"")], ids=["reset", "503", "502"]
)
def test_a_write_without_a_key_is_never_sent_twice(trouble: Answer | Lost) -> None:
    driver = Driver([trouble])
    with pytest.raises(failures.ClientError):
        driver.run(flows.exchange(driver.api, WRITE))
    assert len(driver.sent) == 1


def test_even_a_write_without_a_key_is_sent_again_if_it_never_left() -> None:
    driver = Driver([REFUSED, OK])
    driver.run(flows.exchange(driver.api, WRITE))
    assert len(driver.sent) == 2


@pytest.mark.parametrize(("status", "code"), [(400, "INVALID_INPUT"), (409, "CONFLICT")])
def test_an_answer_that_repeating_cannot_change_is_final(status: int, code: str) -> None:
    driver = Driver([answers.refusal(status, code)])
    with pytest.raises(failures.BY_CODE[code]) as raised:
        driver.run(flows.exchange(driver.api, READ))
    assert raised.value.attempts == 1


def test_an_internal_error_is_not_repeated() -> None:
    driver = Driver([answers.refusal(500, "INTERNAL")])
    with pytest.raises(failures.Internal):
        driver.run(flows.exchange(driver.api, READ))


def test_retry_after_is_never_undercut() -> None:
    driver = Driver([unavailable(retry_after="3"), OK])
    driver.run(flows.exchange(driver.api, READ))
    assert driver.pauses == [3.2]


def test_a_retry_after_beyond_the_deadline_is_reported_at_once() -> None:
    driver = Driver([unavailable(retry_after="60")], timeout_seconds=30)
    with pytest.raises(failures.Unavailable) as raised:
        driver.run(flows.exchange(driver.api, READ))
    assert driver.pauses == []
    assert raised.value.retry_after_seconds == 60


def test_it_gives_up_after_a_bounded_number_of_attempts() -> None:
    driver = Driver([REFUSED] * 99)
    with pytest.raises(failures.Unreachable) as raised:
        driver.run(flows.exchange(driver.api, READ))
    assert len(driver.sent) == raised.value.attempts == flows.ATTEMPTS_MAX


@given(
    timeout=st.floats(0.1, 120),
    per_send=st.floats(0, 20),
    retry_after=st.integers(0, 100),
)
def test_no_attempt_begins_after_the_deadline_or_may_outlast_it(
    timeout: float, per_send: float, retry_after: int
) -> None:
    trouble = unavailable(retry_after=str(retry_after))
    driver = Driver([trouble] * 9, timeout_seconds=timeout, seconds_per_send=per_send)
    begun = driver.now
    with pytest.raises(failures.Unavailable):
        driver.run(flows.exchange(driver.api, READ))
    assert sum(driver.pauses) + per_send * (len(driver.sent) - 1) <= timeout + 1e-6
    for index, send in enumerate(driver.sent):
        left = timeout - per_send * index - sum(driver.pauses[:index])
        assert send.seconds <= max(left, 0.001) + 1e-6
    assert driver.now >= begun


def test_pauses_are_jittered_between_half_and_the_whole() -> None:
    asked: list[tuple[float, float]] = []
    driver = Driver([REFUSED] * 99)
    driver.api.jitter = lambda low, high: asked.append((low, high)) or low
    with pytest.raises(failures.Unreachable):
        driver.run(flows.exchange(driver.api, READ))
    assert asked == [(0.1, 0.2), (0.2, 0.4), (0.4, 0.8), (0.8, 1.6), (1.6, 3.2)]


def test_a_held_answer_has_its_time_on_top() -> None:
    call = calls.post("/x", {}, WhoAmI, repeatable=True, holds_seconds=20)
    driver = Driver([OK])
    driver.run(flows.exchange(driver.api, call))
    assert driver.sent[0].seconds == flows.ATTEMPT_SECONDS + 20
