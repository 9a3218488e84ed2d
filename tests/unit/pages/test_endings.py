from typing import get_args

from bettercompute.pages import endings
from outbox.catalog import ReservationReleased


def test_whatever_released_it_has_words():
    reasons = get_args(ReservationReleased.model_fields["reason"].annotation)
    assert "lease-lapsed" in reasons
    assert not [reason for reason in reasons if endings.in_words(reason) == reason]


def test_a_reason_without_words_is_shown_as_it_is():
    assert endings.in_words("quota-moved") == "quota-moved"
    assert endings.in_words(None) == ""
