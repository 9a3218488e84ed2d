"""How often, as people write and read it: ``weekly mon, wed until 2027-03-01``, ``daily 10 times``.

From words to a rule of RFC 5545 and back. Which rules are allowed, the server says.
"""

import re
from collections.abc import Mapping
from datetime import date

EXAMPLES = (
    "daily, workdays, weekly mon, wed, every 2 weeks, daily 10 times or weekly until 2027-03-01"
)

_DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_NAMES = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WORKDAYS = "MO,TU,WE,TH,FR"
_HOW_OFTEN = re.compile(
    r"(?P<word>daily|weekly|workdays|weekdays)\b|every (?:(?P<number>\d{1,3}) )?"
    r"(?P<unit>days?|weeks?|workday|weekday)\b|every (?=[a-z]{3})"
)
_END = re.compile(r"(?:until (?P<until>\S+)|(?:for )?(?P<count>\d{1,4}) times)\Z")


class NotUnderstood(ValueError):
    """The text names no rule; the message says what would be."""


def parse(text: str) -> str:
    """The rule that a person meant; a rule of RFC 5545 as it is.

    Raises:
        NotUnderstood: it is neither.
    """
    if "=" in text:
        return text.strip()
    words = " ".join(text.lower().replace(",", " ").split())
    head = _HOW_OFTEN.match(words)
    if head is None:
        raise NotUnderstood(f"Not a way to repeat that we understand. Try {EXAMPLES}.")
    rest = words[head.end() :].strip()
    end = _END.search(rest)
    named = rest[: end.start()].strip() if end else rest
    parts = [*_frequency(head, _days(named)), *_ending(end)]
    return ";".join(parts)


def _days(words: str) -> str:
    """``on mon and wed`` as ``MO,WE``; empty for none."""
    found = []
    for word in words.removeprefix("on ").split():
        if word == "and":
            continue
        if not word.isalpha():
            raise NotUnderstood(f"Not a way to repeat that we understand. Try {EXAMPLES}.")
        day = next((day for day in _NAMES if len(word) >= 3 and day.startswith(word)), None)
        if day is None:
            raise NotUnderstood(f"“{word}” is no day of the week. Try {EXAMPLES}.")
        found.append(_DAYS[_NAMES.index(day)])
    return ",".join(sorted(set(found), key=_DAYS.index))


def _frequency(head: re.Match[str], days: str) -> list[str]:
    word = head["word"] or head["unit"] or "weekly"
    interval = [f"INTERVAL={int(head['number'])}"] if int(head["number"] or 1) != 1 else []
    if word.startswith(("workday", "weekday")):
        if days or interval:
            raise NotUnderstood(f"Workdays are Monday to Friday, every week. Try {EXAMPLES}.")
        return ["FREQ=WEEKLY", f"BYDAY={_WORKDAYS}"]
    if word.startswith(("daily", "day")):
        if days:
            raise NotUnderstood(f"For some days of the week say weekly. Try {EXAMPLES}.")
        return ["FREQ=DAILY", *interval]
    return ["FREQ=WEEKLY", *interval, *([f"BYDAY={days}"] if days else [])]


def _ending(end: re.Match[str] | None) -> list[str]:
    if end is None:
        return []
    if end["count"]:
        return [f"COUNT={int(end['count'])}"]
    try:
        day = date.fromisoformat(end["until"])
    except ValueError as error:
        raise NotUnderstood("Say the last day as 2027-03-01.") from error
    return [f"UNTIL={day:%Y%m%d}"]


def text(rule: str) -> str:
    """``every 2 weeks on Mon, Wed until 1 Mar 2027``; a rule of another kind as it is."""
    parts = dict(part.partition("=")[::2] for part in rule.split(";"))
    how_often = _how_often(parts)
    if how_often is None:
        return rule
    if count := parts.get("COUNT"):
        return f"{how_often}, {count} times" if count != "1" else f"{how_often}, once"
    if until := parts.get("UNTIL"):
        day = date.fromisoformat(f"{until[:4]}-{until[4:6]}-{until[6:8]}")
        return f"{how_often} until {day.day} {day:%b %Y}"
    return how_often


def _how_often(parts: Mapping[str, str]) -> str | None:
    every, interval = parts.get("FREQ"), int(parts.get("INTERVAL", "1"))
    days = parts.get("BYDAY", "")
    match every:
        case "DAILY":
            return "daily" if interval == 1 else f"every {interval} days"
        case "WEEKLY" if days == _WORKDAYS and interval == 1:
            return "on workdays"
        case "WEEKLY":
            names = [_NAMES[_DAYS.index(day)][:3] for day in days.split(",") if day]
            named = ", ".join(name.title() for name in names)
            weeks = "weekly" if interval == 1 else f"every {interval} weeks"
            return f"{weeks} on {named}" if named else weeks
        case _:
            return None
