"""Signatures are those of Standard Webhooks, checked with the public package (A6)."""

import base64
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook

from outbox.webhooks import signing
from tests.support import receiving

pytestmark = pytest.mark.rule("A6")

KEYS = st.binary(min_size=signing.KEY_BYTES_MIN, max_size=signing.KEY_BYTES_MAX)
TIMES = st.integers(1_500_000_000, 4_000_000_000)
TEXTS = st.text(st.characters(blacklist_categories=["Cs"]), max_size=200)


def _secret(key: bytes) -> str:
    return f"whsec_{base64.b64encode(key).decode()}"


@pytest.mark.parametrize(
    ("secret", "message_id", "timestamp", "body", "signature"),
    [
        (
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1614265330,
            b'{"test": 2432232314}',
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        ),
        (
            "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
            "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk",
            1649367553,
            b'{"email":"test@example.com","username":"test_user"}',
            "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=",
        ),
    ],
)
def test_the_published_vectors(
    secret: str, message_id: str, timestamp: int, body: bytes, signature: str
) -> None:
    made = signing.signature(secret, message_id=message_id, timestamp=timestamp, body=body)
    assert made == signature


@given(KEYS, TIMES, TEXTS)
def test_the_public_package_signs_the_same(key: bytes, timestamp: int, text: str) -> None:
    secret, at = _secret(key), datetime.fromtimestamp(timestamp, UTC)
    ours = signing.signature(secret, message_id="evt_1", timestamp=timestamp, body=text.encode())
    assert ours == Webhook(secret).sign("evt_1", at, text)


def test_while_a_secret_is_replaced_who_knows_either_is_satisfied() -> None:
    old, new, foreign = (signing.fresh() for _ in range(3))
    sent = signing.headers([new, old], message_id="evt_1", timestamp=1_700_000_000, body=b"{}")
    assert sent[signing.SIGNATURE_HEADER].count("v1,") == 2
    for known in (old, new):
        assert receiving.verified(known, headers=sent, body=b"{}") == {}
    for secret, body in ((foreign, b"{}"), (new, b'{"a":1}')):
        with pytest.raises(receiving.NotVerified):
            receiving.verified(secret, headers=sent, body=body)


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "whsec_",
        "whsec_c2hvcnQ=",  # too short
        "whsec_not base64!",
        "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",  # without what it begins with
        _secret(b"x" * 65),
    ],
)
def test_what_is_no_secret_signs_nothing(secret: str) -> None:
    with pytest.raises(ValueError):
        signing.signature(secret, message_id="evt_1", timestamp=1, body=b"")


def test_an_id_with_a_dot_would_leave_open_what_was_signed() -> None:
    with pytest.raises(ValueError):
        signing.signature(signing.fresh(), message_id="evt.1", timestamp=1, body=b"")


def test_fresh_secrets_are_long_and_never_the_same() -> None:
    drawn = {signing.fresh() for _ in range(20)}
    assert len(drawn) == 20
    assert all(len(signing.key(secret)) == signing.KEY_BYTES for secret in drawn)
