"""What is accepted, and what a body may be called."""

import pytest
from django.test import RequestFactory
from rest_framework.request import Request

from bettercompute.errors import NotAcceptable
from bettercompute.web.parsing import JsonParser
from bettercompute.web.rendering import EventStreamNegotiation, JsonNegotiation, JsonRenderer

pytestmark = pytest.mark.rule("A3")


def accepts(header: str | None, negotiation: type[JsonNegotiation] = JsonNegotiation) -> bool:
    headers = {} if header is None else {"Accept": header}
    request = Request(RequestFactory().get("/", headers=headers))
    try:
        negotiation().select_renderer(request, [JsonRenderer()])
    except NotAcceptable:
        return False
    return True


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "*/*",
        "APPLICATION/JSON",
        "application/*;q=0.001",
        "text/html, application/json;version=1",
        "text/html;q=0, */*",
        "application/json;q=much",
        "a/b; x*=bogus''y, */*",
    ],
)
def test_whoever_takes_json_gets_it(header: str | None) -> None:
    assert accepts(header)


@pytest.mark.parametrize(
    "header",
    [
        "text/html",
        "application/json;q=0",
        "*/*; Q=0.000",
        "text/html, */*;q=0",
        "a/b; x*=bogus''y",
        "application/json; x*=bogus''y",
    ],
)
def test_whoever_takes_no_json_is_told(header: str) -> None:
    assert not accepts(header)


def test_a_stream_is_asked_for_by_its_name() -> None:
    assert accepts("text/event-stream", EventStreamNegotiation)
    assert not accepts("text/event-stream;q=0", EventStreamNegotiation)


@pytest.mark.parametrize(
    ("content_type", "is_json"),
    [
        ("application/json", True),
        ('Application/JSON ; Charset="UTF-8"', True),
        ("application/json; charset=utf-8;", True),
        ("application/json; profile=x; charset=utf8", True),
        ("application/json; charset=utf-16", False),
        ("application/problem+json", False),
        ("text/plain; charset=application/json", False),
        ("", False),
    ],
)
def test_a_body_is_json_in_utf_8(content_type: str, is_json: bool) -> None:
    request = Request(RequestFactory().generic("POST", "/", b"{}", content_type=content_type))
    assert (JsonNegotiation().select_parser(request, [JsonParser()]) is not None) == is_json
