"""Versions as ETags."""

import pytest
from django.test import RequestFactory

from bettercompute.errors import InvalidInput, PreconditionFailed
from bettercompute.web import etags

pytestmark = pytest.mark.rule("C2")


def matching(header: str | None) -> frozenset[int] | None:
    headers = {} if header is None else {"If-Match": header}
    return etags.if_match(RequestFactory().post("/", headers=headers))


@pytest.mark.parametrize(
    ("header", "versions"),
    [
        (None, None),
        ("*", None),
        ('"3"', {3}),
        ('"3", "4"', {3, 4}),
        ('W/"3", "4"', {4}),
        ('"x","5"', {5}),
        ('"7.0123456789abcdef01234567"', {7}),
    ],
)
def test_if_match_names_versions(header: str | None, versions: set[int] | None) -> None:
    assert matching(header) == (None if versions is None else frozenset(versions))


@pytest.mark.parametrize(
    "header", ['W/"3"', '"abc"', '""', '"99999999999999999999"', '"3.x"', '"3."']
)
def test_what_no_version_can_match_has_failed_already(header: str) -> None:
    with pytest.raises(PreconditionFailed):
        matching(header)


@pytest.mark.parametrize("header", ["3", '"3', '"3" "4"', "w/3", "\x00"])
def test_what_is_no_list_of_etags_is_refused(header: str) -> None:
    with pytest.raises(InvalidInput):
        matching(header)


def test_a_required_version_must_be_among_them() -> None:
    etags.require(3, None)
    etags.require(3, frozenset({3, 4}))
    with pytest.raises(PreconditionFailed) as refused:
        etags.require(5, frozenset({3, 4}))
    assert refused.value.details == {"version": 5}


@pytest.mark.parametrize(
    ("header", "known"),
    [('"3"', True), ('W/"3"', True), ("*", True), ('"2", "3"', True), ('"4"', False)],
)
def test_if_none_match_compares_weakly(header: str, known: bool) -> None:
    request = RequestFactory().get("/", headers={"If-None-Match": header})
    assert etags.is_not_modified(request, etags.of_version(3)) is known
    assert not etags.is_not_modified(RequestFactory().get("/"), etags.of_version(3))


def test_a_version_with_what_changes_beside_it_is_read_back_as_the_version() -> None:
    one, other = (etags.of_version_and_content(3, body) for body in (b"one", b"other"))
    assert one != other
    assert matching(one) == matching(other) == frozenset({3})
