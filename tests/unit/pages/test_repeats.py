"""How often, in words: understood, and told back."""

import pytest

from bettercompute.pages import repeats
from pools import recurrence


@pytest.mark.parametrize(
    ("words", "rule", "told"),
    [
        ("daily", "FREQ=DAILY", "daily"),
        ("Every day", "FREQ=DAILY", "daily"),
        ("every 2 days", "FREQ=DAILY;INTERVAL=2", "every 2 days"),
        ("every 1 days", "FREQ=DAILY", "daily"),
        ("daily 10 times", "FREQ=DAILY;COUNT=10", "daily, 10 times"),
        ("daily for 1 times", "FREQ=DAILY;COUNT=1", "daily, once"),
        ("weekly", "FREQ=WEEKLY", "weekly"),
        ("weekly mon,wed", "FREQ=WEEKLY;BYDAY=MO,WE", "weekly on Mon, Wed"),
        ("weekly on wednesday and monday", "FREQ=WEEKLY;BYDAY=MO,WE", "weekly on Mon, Wed"),
        ("every tuesday", "FREQ=WEEKLY;BYDAY=TU", "weekly on Tue"),
        ("every 2 weeks fri", "FREQ=WEEKLY;INTERVAL=2;BYDAY=FR", "every 2 weeks on Fri"),
        ("workdays", "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR", "on workdays"),
        ("every weekday", "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR", "on workdays"),
        (
            "weekly mon, wed until 2027-03-01",
            "FREQ=WEEKLY;BYDAY=MO,WE;UNTIL=20270301",
            "weekly on Mon, Wed until 1 Mar 2027",
        ),
        (
            "FREQ=DAILY;UNTIL=20270301T150000Z",
            "FREQ=DAILY;UNTIL=20270301T150000Z",
            "daily until 1 Mar 2027",
        ),
    ],
)
def test_words_become_a_rule_that_is_allowed_and_is_told_back(words, rule, told):
    assert repeats.parse(words) == rule
    assert repeats.text(rule) == told
    recurrence.parse(rule, weekday=0)


@pytest.mark.parametrize(
    "words",
    [
        "",
        "hourly",
        "every",
        "every month",
        "weekly someday",
        "weekly mo",
        "daily mon",
        "workdays sat",
        "every 2 workdays",
        "daily until tomorrow",
        "daily until 2027-02-30",
        "daily until 2027-03-01 10 times",
        "10 times",
        "daily 99999 times",
    ],
)
def test_other_words_are_refused_with_examples(words):
    with pytest.raises(repeats.NotUnderstood, match=r"Try|Say"):
        repeats.parse(words)


def test_a_rule_of_another_kind_is_told_as_it_is():
    assert repeats.text("FREQ=MONTHLY;BYMONTHDAY=1") == "FREQ=MONTHLY;BYMONTHDAY=1"
