"""The blocking and the asynchronous client are one client twice."""

import inspect

import pytest

from tests.support import client_calls


@pytest.mark.rule("A9")
def test_both_have_the_same_calls_with_the_same_arguments_and_words() -> None:
    pairs = list(client_calls.pairs())
    assert len(pairs) > 40
    for name, one, other in pairs:
        assert inspect.signature(one) == inspect.signature(other), name
        assert inspect.getdoc(one) == inspect.getdoc(other), name
        assert inspect.getdoc(one), f"{name} does not say what it does"
        walks = inspect.isgeneratorfunction(inspect.unwrap(one, stop=lambda f: True))
        assert walks == inspect.isasyncgenfunction(inspect.unwrap(other, stop=lambda f: True)), name


@pytest.mark.rule("A9")
def test_both_ask_the_server_for_the_same() -> None:
    asked, other = client_calls.requests(), client_calls.requests_async()
    assert list(asked) == list(other)
    for name, requests in asked.items():
        assert [_body_of(each) for each in requests] == [_body_of(each) for each in other[name]]
        assert requests or name == "tenant_id", f"{name} asks for nothing"


def _body_of(request: client_calls.Request) -> tuple[object, ...]:
    """The request without the key, which each call makes anew."""
    *where, body = request
    return (*where, body and {name: body[name] for name in body if name != "idempotencyKey"})


def test_every_argument_of_a_call_is_typed() -> None:
    for name, one, _ in client_calls.pairs():
        for parameter in inspect.signature(one).parameters.values():
            assert parameter.annotation is not parameter.empty, f"{name}: {parameter}"
