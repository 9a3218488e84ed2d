"""Building calls and reading answers."""

import pytest

from bettercompute import errors
from bettercompute.client import calls, failures
from bettercompute.client.calls import Answer
from bettercompute.wire.iam import WhoAmI
from tests.support import answers


@pytest.mark.rule("A3")
def test_every_code_of_the_wire_has_an_exception_of_its_own() -> None:
    assert set(failures.BY_CODE) == {each.code for each in errors.ALL}


@pytest.mark.rule("A3")
@pytest.mark.parametrize("code", sorted(failures.BY_CODE))
def test_a_problem_becomes_the_exception_of_its_code(code: str) -> None:
    document = answers.problem(409, code, "Somebody was first.", resource="gpuMilli")
    error = calls.problem(answers.answer(document, 409, retry_after="7"))
    assert type(error) is failures.BY_CODE[code]
    assert (error.code, error.status, error.detail) == (code, 409, "Somebody was first.")
    assert error.details == {"resource": "gpuMilli"}
    assert error.request_id == "req_1"
    assert error.retry_after_seconds == 7


def test_a_code_of_a_newer_server_is_still_a_refusal_with_its_code() -> None:
    error = calls.problem(answers.refusal(409, "ON_FIRE"))
    assert type(error) is failures.Refused
    assert error.code == "ON_FIRE"


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_proxy_that_has_no_server_is_unavailable(status: int) -> None:
    error = calls.problem(Answer(status, {"retry-after": "3"}, b"<html>Bad Gateway</html>"))
    assert isinstance(error, failures.Unavailable)
    assert (error.status, error.retry_after_seconds) == (status, 3)


@pytest.mark.parametrize("status", [400, 401, 404, 418, 500])
def test_a_page_of_somebody_else_is_no_answer_of_ours(status: int) -> None:
    error = calls.problem(Answer(status, {}, b"<html>\xff</html>"))
    assert type(error) is failures.UnexpectedAnswer
    assert str(status) in error.detail
    assert "<html>" in error.detail


def test_a_redirect_is_not_followed_and_says_where_it_points() -> None:
    error = calls.problem(Answer(301, {"location": "https://elsewhere.example/"}, b""))
    assert type(error) is failures.UnexpectedAnswer
    assert "https://elsewhere.example/" in error.detail


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"not json", b'{"accountId": 3}'])
def test_a_success_that_cannot_be_read_is_no_answer_of_ours(body: bytes) -> None:
    with pytest.raises(failures.UnexpectedAnswer):
        calls.reader(WhoAmI)(Answer(200, {}, body))


def test_a_field_of_a_newer_server_is_ignored() -> None:
    who = calls.reader(WhoAmI)(answers.answer({**answers.whoami(), "mood": "fine"}))
    assert who.username == "alice"


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ("0", 0.0),
        ("12", 12.0),
        ("Mon, 02 Mar 2026 09:00:30 GMT", 30.0),
        ("Mon, 02 Mar 2026 08:00:00 GMT", 0.0),  # already past
        ("", None),
        ("-1", None),
        ("soon", None),
        ("9" * 30, None),
    ],
)
def test_retry_after_is_seconds_or_a_date_by_the_servers_own_clock(
    given: str, seconds: float | None
) -> None:
    answer = Answer(503, {"retry-after": given, "date": "Mon, 02 Mar 2026 09:00:00 GMT"}, b"")
    assert calls.retry_after(answer) == seconds


def test_a_retry_after_date_without_the_servers_date_says_nothing() -> None:
    answer = Answer(503, {"retry-after": "Mon, 02 Mar 2026 09:00:30 GMT"}, b"")
    assert calls.retry_after(answer) is None


@pytest.mark.parametrize(
    ("identifier", "part"),
    [
        ("rsv_abc", "rsv_abc"),
        ("../whoami", "..%2Fwhoami"),
        ("a?b#c", "a%3Fb%23c"),
        ("..", "%2E%2E"),
        ("é\n", "%C3%A9%0A"),
    ],
)
def test_an_id_stays_one_part_of_the_path(identifier: str, part: str) -> None:
    assert calls.segment(identifier) == part
