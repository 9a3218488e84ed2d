"""From ASGI to WSGI and back."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.core.handlers.wsgi import WSGIRequest

from bettercompute.web import bridge
from bettercompute.web.bridge import Answer, WsgiBridge


def scope(**changes: Any) -> dict[str, Any]:
    return {
        "type": "http",
        "method": "POST",
        "path": "/a b",
        "raw_path": b"/a%20b",
        "query_string": b"x=1&y=%20",
        "headers": [(b"host", b"example.org"), (b"content-type", b"application/json")],
        "http_version": "1.1",
        "server": ("127.0.0.1", 8000),
        "client": ("10.0.0.1", 5000),
    } | changes


def test_the_environ_says_what_the_scope_said() -> None:
    environ = bridge.environ_of(scope(), b"{}")
    assert environ["REQUEST_METHOD"] == "POST"
    assert environ["PATH_INFO"] == "/a b"
    assert environ["QUERY_STRING"] == "x=1&y=%20"
    assert environ["CONTENT_TYPE"] == "application/json"
    assert environ["CONTENT_LENGTH"] == "2"
    assert environ["HTTP_HOST"] == "example.org"
    assert environ["REMOTE_ADDR"] == "10.0.0.1"
    assert environ["wsgi.input"].read() == b"{}"


@pytest.mark.parametrize(
    ("raw_path", "query", "path_info", "query_string"),
    [
        (b"/%ff%fe", b"", "/\xff\xfe", ""),
        (b"/\xc3\xbc", b"", "/\xc3\xbc", ""),
        (b"/a%00b", b"q=%00", "/a\x00b", "q=%00"),
        (b"/", b"q=\xff", "/", "q=%FF"),
        (b"/", b"q=\xc3\xbc&r=a+b", "/", "q=%C3%BC&r=a+b"),
        (b"/%zz", b"%zz", "/%zz", "%zz"),
        (b"http://example.org/a%20b", b"", "/a b", ""),
        (b"HTTPS://example.org:8443", b"q=1", "/", "q=1"),
        (b"/http://example.org/a", b"", "/http://example.org/a", ""),
    ],
)
def test_no_bytes_of_a_request_line_break_it(
    raw_path: bytes, query: bytes, path_info: str, query_string: str
) -> None:
    environ = bridge.environ_of(scope(raw_path=raw_path, query_string=query), b"")
    assert environ["PATH_INFO"] == path_info
    assert environ["QUERY_STRING"] == query_string


def test_repeated_headers_join_and_underscores_do_not_pass_for_dashes() -> None:
    headers = [
        (b"accept", b"a"),
        (b"accept", b"b"),
        (b"cookie", b"c=1"),
        (b"cookie", b"d=2"),
        (b"x_request_id", b"forged"),
    ]
    environ = bridge.environ_of(scope(headers=headers), b"")
    assert environ["HTTP_ACCEPT"] == "a,b"
    assert environ["HTTP_COOKIE"] == "c=1; d=2"
    assert "HTTP_X_REQUEST_ID" not in environ


@pytest.mark.rule("A3")
@pytest.mark.parametrize(
    ("content_type", "read"),
    [
        (b"application/json; charset=utf-8", "application/json; charset=utf-8"),
        (b"text/plain; title*=utf-8''%e2%82%ac", "text/plain; title*=utf-8''%e2%82%ac"),
        (b"application/json; charset*=bogus''x", ""),
        (b"a/b; x*=idna''%C3%A9..", ""),
        (b"a/b; x*=punycode''%ff", ""),
    ],
)
def test_a_content_type_that_nobody_can_read_is_none(content_type: bytes, read: str) -> None:
    """Django reads it before any of our code runs, and an error there would be a 500."""
    environ = bridge.environ_of(scope(headers=[(b"content-type", content_type)]), b"")
    assert environ["CONTENT_TYPE"] == read
    WSGIRequest(environ)


class Closing:
    """An answer that must be closed, as Django's."""

    def __init__(self, fails: bool) -> None:
        self.closed, self.fails = False, fails

    def __iter__(self) -> Iterator[bytes]:
        yield b"one "
        if self.fails:
            raise RuntimeError("half way")
        yield b"two"

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("fails", [False, True])
def test_an_answer_is_collected_and_closed_even_when_it_fails(fails: bool) -> None:
    chunks = Closing(fails)

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        start_response("201 Created", [("X-Name", "v"), ("Set-Cookie", "a"), ("Set-Cookie", "b")])
        return chunks

    with ThreadPoolExecutor(1) as executor:
        call = WsgiBridge(application, executor).call(scope(), b"")
        if fails:
            with pytest.raises(RuntimeError):
                asyncio.run(call)
        else:
            answer = asyncio.run(call)
            assert (answer.status, answer.body) == (201, b"one two")
            assert answer.headers == [
                (b"x-name", b"v"),
                (b"set-cookie", b"a"),
                (b"set-cookie", b"b"),
            ]
    assert chunks.closed


@pytest.mark.parametrize(("status", "length"), [(200, b"3"), (204, None), (304, None)])
def test_a_length_is_sent_where_there_is_a_body(status: int, length: bytes | None) -> None:
    sent: list[Any] = []

    async def to(message: Any) -> None:
        sent.append(message)

    asyncio.run(bridge.send(Answer(status, [], b"abc" if length else b""), to))
    assert dict(sent[0]["headers"]).get(b"content-length") == length
