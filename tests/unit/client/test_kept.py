"""Answers that are asked about instead of being read again."""

import pytest

from bettercompute.client import calls, flows, kept, reservations
from bettercompute.client.calls import Answer
from bettercompute.wire.iam import WhoAmI
from tests.support import answers
from tests.support.flows import Driver

READ = calls.get("/whoami", WhoAmI)
UNCHANGED = Answer(304, {"etag": '"3"'}, b"")


def whoami(tag: str = '"3"', **changes: str) -> Answer:
    return answers.answer({**answers.whoami(), **changes}, etag=tag)


def asked_whether(driver: Driver) -> list[str | None]:
    return [dict(call.headers).get("If-None-Match") for call in driver.calls]


@pytest.mark.rule("A5")
def test_what_was_read_is_asked_about_and_is_the_answer_while_it_is_unchanged() -> None:
    driver = Driver([whoami(), UNCHANGED, whoami('"4"', username="bob"), UNCHANGED])
    seen = [driver.run(flows.exchange(driver.api, READ)).username for _ in range(4)]
    assert seen == ["alice", "alice", "bob", "bob"]
    assert asked_whether(driver) == [None, '"3"', '"3"', '"4"']


def test_another_question_is_not_answered_by_what_was_read() -> None:
    driver = Driver([whoami(), whoami()])
    driver.run(flows.exchange(driver.api, READ))
    driver.run(flows.exchange(driver.api, calls.get("/whoami", WhoAmI, tenantId="ten_x")))
    assert asked_whether(driver) == [None, None]


@pytest.mark.parametrize(
    "answer",
    [
        answers.answer(answers.whoami()),
        Answer(200, {"etag": '"3"'}, whoami().body + b" " * kept.BYTES_MAX),
    ],
    ids=["no ETag", "too large to keep"],
)
def test_what_is_not_kept_is_read_again(answer: Answer) -> None:
    driver = Driver([answer, answer])
    for _ in range(2):
        driver.run(flows.exchange(driver.api, READ))
    assert asked_whether(driver) == [None, None]


def test_only_so_many_are_kept() -> None:
    driver = Driver([whoami()] * (kept.KEPT_MAX + 2))
    for number in range(kept.KEPT_MAX + 1):
        driver.run(flows.exchange(driver.api, calls.get(f"/{number}", WhoAmI)))
    driver.run(flows.exchange(driver.api, calls.get("/0", WhoAmI)))
    assert asked_whether(driver)[-1] is None


def test_a_write_is_never_answered_by_what_was_read() -> None:
    released = answers.answer(answers.reservation("released"), etag='"4"')
    driver = Driver([released, released], tenant="ten_acme")
    for _ in range(2):
        driver.run(reservations.release(driver.api, "rsv_first"))
    assert asked_whether(driver) == [None, None]
