"""No secret reaches a log line."""

import json
import logging
import re
from collections.abc import Iterator

import pytest
import structlog
from django.test import override_settings

from bettercompute import redaction
from bettercompute.web import logs

TOKEN = "bct_01k9zzzzzzzzzzzzzzzzzzzzzz_" + "a2" * 26
FEED = TOKEN.replace("bct_", "bcf_")


@pytest.fixture
def as_json(capsys: pytest.CaptureFixture[str]) -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    with override_settings(LOG_FORMAT="json"):
        logs.configure()
        yield
    # Not configured anew: the new handler would keep this test's stderr.
    root.handlers[:], root.level = handlers, level


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("authorization", f"Bearer {TOKEN}"),
        ("HTTP_COOKIE", "sessionid=abc"),
        ("password", "hunter2"),
        ("client_secret", "hunter2"),
        ("api_key", "hunter2"),
        ("token", "hunter2"),
    ],
)
def test_what_is_named_like_a_secret_is_blanked(name: str, value: str) -> None:
    assert logs.redact(None, "info", {"event": "x", name: value})[name] == redaction.REDACTED


@pytest.mark.parametrize(
    "text",
    [
        f"refused {TOKEN} twice",
        f"Authorization: Bearer {TOKEN}",
        f"GET /feeds/{FEED}.ics failed",
        "postgresql://better:hunter2@db/postgres",
        f"enrolled with bce_{'hunter2' * 6}-_",
        f"refused node_{'0a' * 13}.4.{'hunter2' * 6}",
        f"signed with whsec_{'hunter2' * 6}+/=",
    ],
)
def test_what_looks_like_a_secret_is_blanked_inside_any_text(text: str) -> None:
    event = logs.redact(None, "info", {"event": text, "deep": {"list": [text]}})
    assert TOKEN not in str(event)
    assert FEED not in str(event)
    assert "hunter2" not in str(event)
    assert str(event).count(redaction.REDACTED) == 2


def test_identifiers_stay_readable() -> None:
    event = {"event": "revoked", "token_id": "tok_1", "token_name": "ci", "count": 3}
    assert logs.redact(None, "info", dict(event)) == event


def test_a_line_is_json_with_the_request_id(
    as_json: None, capsys: pytest.CaptureFixture[str]
) -> None:
    structlog.contextvars.clear_contextvars()
    with structlog.contextvars.bound_contextvars(request_id="req_1"):
        structlog.get_logger("test").info("placed", reservation="rsv_1", password="hunter2")
        logging.getLogger("other").warning("said %s", TOKEN)
    first, second = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert (first["event"], first["reservation"], first["request_id"]) == (
        "placed",
        "rsv_1",
        "req_1",
    )
    assert first["password"] == redaction.REDACTED
    assert (second["event"], second["request_id"]) == (f"said {redaction.REDACTED}", "req_1")
    assert re.match(r"\d{4}-\d\d-\d\dT", second["timestamp"])


def test_a_traceback_is_redacted_too(as_json: None, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        int(TOKEN)
    except ValueError:
        structlog.get_logger("test").exception("failed")
    line = capsys.readouterr().err
    assert "ValueError" in line
    assert TOKEN not in line
