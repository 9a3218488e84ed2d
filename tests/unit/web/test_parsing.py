"""Bodies: what is let in, and how what is not is named."""

import contextlib
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bettercompute import jsontext
from bettercompute.errors import InvalidInput, PayloadTooLarge
from bettercompute.web import parsing
from bettercompute.wire.dryrun import PolicyDryRun
from bettercompute.wire.iam import TokenCreate
from bettercompute.wire.reservations import ReservationRequest

REQUEST: dict[str, Any] = {
    "tenantId": "ten_a",
    "poolId": "pool_a",
    "devices": [{"class": "gpu", "count": 1}],
    "duration": "2h",
}


def errors_of(action: Any) -> dict[str, str]:
    with pytest.raises(InvalidInput) as refused:
        action()
    return {error["path"]: error["message"] for error in refused.value.details["errors"]}


@pytest.mark.parametrize(
    ("raw", "path", "says"),
    [
        (b"", "body", "not valid JSON"),
        (b"{", "body", "not valid JSON"),
        (b"{'a': 1}", "body", "line 1, column 2"),
        (b'{"a": 1} tail', "body", "not valid JSON"),
        (b"\xff\xfe", "body", "not valid UTF-8 at byte 0"),
        (b'{"a": NaN}', "body", "NaN is not JSON"),
        (b'{"a": -Infinity}', "body", "-Infinity is not JSON"),
        (b'{"a": 1e999}', "body", "too large"),
        (b'{"a": 9223372036854775808}', "body", "too large"),
        (b'{"a": ' + b"9" * 5000 + b"}", "body", "too large"),
        (b'{"a": 1, "b": {"c": 1, "c": 2}}', "c", "given twice"),
        (b'{"a": {"b": ["x", "\\u0000"]}}', "a.b[1]", "NUL"),
        (b'{"a": "\\ud800"}', "a", "lone surrogate"),
        (b'{"a\\u0000b": 1}', "a\\u0000b", "NUL"),
        (b'{"a\\ud800b": 1}', "a\\ud800b", "lone surrogate"),
        (b'{"a\\ud800": 1, "a\\ud800": 1}', "a\\ud800", "given twice"),
        (b'{"' + b"k" * 5000 + b'": "\\u0000"}', "k" * 300 + "…", "NUL"),
        (b"[" * 17 + b"]" * 17, "[0]" * 16, "nested deeper than 16"),
        (b"[" * 100_000 + b"]" * 100_000, "body", "nested deeper than 16"),
        (b'{"a":' * 17 + b"1" + b"}" * 17, ".".join("a" * 16), "nested deeper than 16"),
    ],
)
def test_what_is_no_json_of_ours_is_refused_and_located(raw: bytes, path: str, says: str) -> None:
    found = errors_of(lambda: jsontext.load(raw))
    assert list(found) == [path]
    assert says in found[path]


def test_a_body_may_have_256_kib_and_sixteen_levels() -> None:
    text = json.dumps({"a": "x" * (parsing.BODY_BYTES_MAX - 10)}).encode()
    assert len(text) <= parsing.BODY_BYTES_MAX
    jsontext.load(text)
    with pytest.raises(PayloadTooLarge):
        jsontext.load(b" " * (parsing.BODY_BYTES_MAX + 1))
    assert jsontext.load(b"[" * 16 + b"]" * 16)


@pytest.mark.rule("A11")
@pytest.mark.parametrize("many", [[0] * 10_000, {str(number): 0 for number in range(10_000)}])
def test_a_long_key_above_many_values_costs_no_more_than_its_body(many: Any) -> None:
    raw = json.dumps({"k" * 10_000: many}).encode()
    tracemalloc.start()
    try:
        jsontext.load(raw)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100 * len(raw)


def test_ordinary_json_is_what_it_says() -> None:
    document = {"a": [1, -1, 2.5, None, True, "ü 😀"], "b": {"c": 9223372036854775807}}
    assert jsontext.load(json.dumps(document).encode()) == document


@given(st.binary(max_size=300))
def test_no_bytes_raise_anything_but_invalid_input(raw: bytes) -> None:
    with contextlib.suppress(InvalidInput):
        jsontext.load(raw)


@pytest.mark.parametrize(
    ("change", "path", "says"),
    [
        ({"devices": []}, "devices", "at least 1"),
        ({"devices": [{"class": "gpu", "count": 0}]}, "devices[0].count", "greater than"),
        ({"devices": [{"class": "gpu", "count": "1"}]}, "devices[0].count", "a whole number"),
        ({"devices": [{"class": "tpu", "count": 1}]}, "devices[0].class", "gpu.mig"),
        ({"devices": [{"class": "gpu", "count": 1, "x": 1}]}, "devices[0].x", "unknown field"),
        ({"devices": [{"class": "gpu", "count": {"min": 1}}]}, "devices[0].count.max", "required"),
        ({"tenantId": None}, "tenantId", "valid string"),
        ({"tenantId": ""}, "tenantId", "at least 1 character"),
        ({"colour": "red"}, "colour", "unknown field"),
        ({"tenant_id": "x"}, "tenant_id", "unknown field"),
        ({"resources": {"memoryGiB": -1}}, "resources.memoryGiB", "greater than"),
        ({"resources": {"gold": 1}}, "resources.gold", "unknown field"),
        ({"wait": {"timeoutMs": 1.5}}, "wait.timeoutMs", "valid integer"),
        ({"spot": "yes"}, "spot", "valid boolean"),
        ({"labels": {"a": 1}}, "labels.a", "valid string"),
        # Called as a type or a branch of a union is, and named all the same.
        ({"Colour": 1}, "Colour", "unknown field"),
        ({"str": 1}, "str", "unknown field"),
        ({"a[b]": 1}, "a[b]", "unknown field"),
        ({"labels": {"Team": 1}}, "labels.Team", "valid string"),
        ({"devices": [{"class": "gpu", "count": 1, "Line": 1}]}, "devices[0].Line", "unknown"),
        (
            {"devices": [{"class": "gpu", "count": {"min": 1, "max": 2, "Range": 1}}]},
            "devices[0].count.Range",
            "unknown field",
        ),
        ({"start": -1}, "start", ""),
        ({"duration": ""}, "duration", ""),
        ({"k" * 5000: 1}, "k" * 300 + "…", "unknown field"),
    ],
)
@pytest.mark.rule("R2", "A3")
def test_what_is_wrong_is_named_by_its_path(change: dict[str, Any], path: str, says: str) -> None:
    found = errors_of(lambda: parsing.parse(ReservationRequest, REQUEST | change))
    assert list(found) == [path]
    assert says in found[path]


def test_a_request_is_read_by_its_names_on_the_wire_only() -> None:
    assert parsing.parse(ReservationRequest, REQUEST).devices
    renamed = {"tenant_id" if key == "tenantId" else key: value for key, value in REQUEST.items()}
    assert errors_of(lambda: parsing.parse(ReservationRequest, renamed)) == {
        "tenantId": "required",
        "tenant_id": "unknown field",
    }


def test_a_missing_field_is_required() -> None:
    assert errors_of(lambda: parsing.parse(TokenCreate, {})) == {
        "tenantId": "required",
        "name": "required",
    }


@pytest.mark.parametrize("body", [None, [], "text", 1, True])
def test_a_body_that_is_no_object_is_refused(body: Any) -> None:
    assert errors_of(lambda: parsing.parse(TokenCreate, body)) == {"body": "must be a JSON object"}


def test_errors_are_bounded_and_never_repeat_the_input() -> None:
    wrong = {f"field-{number}": "a secret value" for number in range(1000)}
    with pytest.raises(InvalidInput) as refused:
        parsing.parse(PolicyDryRun, wrong)
    assert len(refused.value.details["errors"]) == parsing.ERRORS_MAX
    assert "secret" not in str(refused.value.details)
    assert len(refused.value.message) < 1000
