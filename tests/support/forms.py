"""Forms of the console as a browser sends them: with the key that their page has."""

import re
from collections.abc import Mapping
from typing import Any

from django.http import HttpResponse
from django.test import Client

_KEY = re.compile(r'<input type="hidden" name="once" value="([^"]+)">')


def key(browser: Client, path: str) -> str:
    """The key of a form that has just been opened."""
    found = _KEY.search(browser.get(path).content.decode())
    assert found is not None, f"no form of {path} makes anything"
    return found[1]


def send(browser: Client, path: str, given: Mapping[str, Any], **how: Any) -> HttpResponse:
    """Open the form, fill it in, and send it once."""
    answer: HttpResponse = browser.post(path, {"once": key(browser, path), **given}, **how)
    return answer
