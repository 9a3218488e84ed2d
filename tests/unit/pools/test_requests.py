"""Requests: validated, normalised and hashed, without a database."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from bettercompute import errors
from bettercompute.wire.reservations import ReservationRequest
from pools import requests
from pools.planner.request import KUBERNETES_LABEL
from pools.requests import NormalisedRequest

NOW_MS = 1_772_442_000_000  # 2026-03-02T09:00:00Z
HOUR_MS = 3_600_000
YEAR_MS = 365 * 24 * HOUR_MS


def normalise(**changes: Any) -> NormalisedRequest:
    body = {
        "tenantId": "ten_acme",
        "poolId": "pool_main",
        "devices": [{"class": "gpu", "count": 4}],
        "duration": "8h",
        **changes,
    }
    wanted = ReservationRequest.model_validate_json(json.dumps(body))
    return requests.normalise(wanted, now_ms=NOW_MS)


def paths_refused(**changes: Any) -> set[str]:
    with pytest.raises(errors.InvalidInput) as refused:
        normalise(**changes)
    return {error["path"] for error in refused.value.details["errors"]}


@pytest.mark.rule("R5")
def test_the_document_is_the_one_the_contract_shows():
    line = {"class": "gpu", "count": 4, "topology": "nvlink-all"}
    assert normalise(devices=[line]).document == {
        "poolId": "pool_main",
        "devices": [line],
        "duration": "28800000ms",
        "binding": "hold",
    }


@pytest.mark.rule("R5")
def test_what_was_given_beside_the_defaults_is_in_the_document():
    given = {
        "start": NOW_MS + HOUR_MS,
        "resources": {"vcpu": 16, "memoryGiB": 64},
        "gang": {"nodes": 2, "topology": "same-rack"},
        "leaseSeconds": 600,
        "spot": True,
        "tolerations": [{"key": "gpu", "op": "exists"}],
        "labels": {"team": "vision"},
        "priority": 5,
        "users": ["usr_bob"],
    }
    document = normalise(**given).document
    assert {name: document[name] for name in given} == given


@pytest.mark.rule("R7")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"duration": "2h"}, {"duration": 7_200_000}),
        ({"duration": "2h"}, {"duration": "PT2H"}),
        ({}, {"binding": "hold"}),
        ({}, {"devices": [{"class": "gpu", "count": 4, "topology": "same-node"}]}),
        ({}, {"devices": [{"class": "gpu", "count": {"min": 4, "max": 4}}]}),
        ({}, {"devices": [{"anyOf": [{"class": "gpu", "count": 4}]}]}),
        ({}, {"wait": {"timeoutMs": 5_000}, "idempotencyKey": "again"}),
        ({}, {"resources": {}}),
        ({}, {"resources": {"vcpu": 0}}),
        ({"start": NOW_MS + HOUR_MS}, {"start": "2026-03-02T10:00:00Z"}),
        ({"start": NOW_MS + HOUR_MS}, {"start": "2026-03-02T11:00:00.000+01:00"}),
        (
            {"devices": [{"class": "gpu", "count": 1, "selector": {"model": "H100", "rack": "a"}}]},
            {
                "devices": [
                    {
                        "class": "gpu",
                        "count": 1,
                        "selector": [
                            {"key": "rack", "value": "a"},
                            {"key": "model", "op": "=", "value": "H100"},
                        ],
                    }
                ]
            },
        ),
    ],
)
def test_two_ways_to_say_the_same_have_one_hash(one, other):
    assert normalise(**one).hash == normalise(**other).hash


@pytest.mark.rule("R7")
@pytest.mark.parametrize(
    "change",
    [
        {"duration": "8h1ms"},
        {"poolId": "pool_other"},
        {"devices": [{"class": "gpu", "count": 5}]},
        {"devices": [{"class": "gpu", "count": 4, "topology": "any"}]},
        {"start": NOW_MS},
        {"gang": {"nodes": 1}},
        {"resources": {"vcpu": 1}},
        {"spot": True},
        {"priority": 1},
        {"leaseSeconds": 1},
        {"labels": {"a": "b"}},
        {"users": ["usr_bob"]},
        {"tolerations": [{"key": "a", "value": "b"}]},
    ],
)
def test_anything_that_differs_changes_the_hash(change):
    assert normalise(**change).hash != normalise().hash


def test_a_stored_document_gives_the_request_back():
    request = normalise(
        devices=[
            {
                "anyOf": [
                    {"class": "gpu", "count": {"min": 1, "max": 2}, "selector": {"memoryGiB": 80}},
                    {"class": "gpu.mig", "profile": "1g.10gb", "count": 1},
                ]
            }
        ],
        start=NOW_MS,
        tolerations=[{"key": "a", "value": "b"}, {"key": "c", "op": "exists"}],
        gang={"nodes": 3, "topology": "same-switch"},
        resources={"hugepages1Gi": 4},
    )
    assert requests.restore(request.document, tenant_id="ten_acme") == request


@pytest.mark.rule("R4")
@pytest.mark.parametrize(
    "start",
    [
        "2026-03-02T10:00:00",  # naive
        "2026-03-02",
        "2026-02-30T10:00:00Z",
        "2026-06-30T23:59:60Z",  # a leap second
        "2026-03-02T10:00:00+25:00",
        "tomorrow",
        str(NOW_MS),
        NOW_MS - 60_001,
        "2026-03-02T08:58:00Z",
        NOW_MS + 6 * YEAR_MS,
    ],
)
def test_a_start_that_is_no_instant_or_out_of_bounds_names_the_field(start):
    assert paths_refused(start=start) == {"start"}


@pytest.mark.rule("R4")
def test_a_start_less_than_a_minute_ago_or_five_years_ahead_is_accepted():
    assert normalise(start=NOW_MS - 60_000).start_ms == NOW_MS - 60_000
    assert normalise(start="2031-03-02T09:00:00Z").start_ms == 1_930_208_400_000


@pytest.mark.rule("R4")
@pytest.mark.parametrize(
    "duration", [0, -1, "0h", "8 hours", "1y", "P1M", "", 6 * YEAR_MS, "9" * 15]
)
def test_a_duration_that_is_none_names_the_field(duration):
    if duration == "":
        with pytest.raises(ValidationError):
            normalise(duration=duration)
        return
    assert paths_refused(duration=duration) == {"duration"}


@pytest.mark.rule("R2", "R3")
@pytest.mark.parametrize(
    ("line", "path"),
    [
        ({"class": "gpu.mig", "count": 1}, "devices[0].profile"),
        ({"class": "gpu", "count": 1, "profile": "1g.10gb"}, "devices[0].profile"),
        ({"class": "gpu", "count": {"min": 3, "max": 2}}, "devices[0].count.min"),
        ({"anyOf": [{"class": "gpu.mig", "count": 1}]}, "devices[0].anyOf[0].profile"),
        (
            {"class": "gpu", "count": 1, "selector": {"memoryGiB": "lots"}},
            "devices[0].selector.memoryGiB",
        ),
        (
            {"class": "gpu", "count": 1, "selector": [{"key": "model"}]},
            "devices[0].selector[0].value",
        ),
        (
            {"class": "gpu", "count": 1, "selector": [{"key": "a", "op": "in", "value": "b"}]},
            "devices[0].selector[0].values",
        ),
        (
            {"class": "gpu", "count": 1, "selector": [{"key": "a", "op": "exists", "value": "b"}]},
            "devices[0].selector[0].value",
        ),
        (
            {"class": "gpu", "count": 1, "selector": [{"key": "zone", "op": ">=", "value": "x"}]},
            "devices[0].selector[0].value",
        ),
    ],
)
def test_a_line_that_makes_no_sense_names_its_field(line, path):
    assert paths_refused(devices=[line]) == {path}


@pytest.mark.rule("R2")
def test_every_wrong_field_is_named_at_once():
    refused = paths_refused(
        duration="x", start="y", devices=[{"class": "gpu.mig", "count": {"min": 2, "max": 1}}]
    )
    assert refused == {"duration", "start", "devices[0].profile", "devices[0].count.min"}


@pytest.mark.rule("R2")
def test_nul_names_the_field_that_has_it():
    assert paths_refused(labels={"a": "b\x00"}) == {"labels"}
    assert paths_refused(poolId="pool\x00") == {"poolId"}


@pytest.mark.rule("R2", "R28")
@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"binding": "node"}, "node.profileId"),
        ({"binding": "node", "node": {"profileId": "p"}, "spot": True}, "spot"),
        ({"node": {"profileId": "p"}}, "node"),
        ({"tolerations": [{"key": "a"}]}, "tolerations[0].value"),
        ({"tolerations": [{"key": "a", "op": "exists", "value": "b"}]}, "tolerations[0].value"),
    ],
)
def test_fields_that_contradict_each_other_are_invalid(changes, path):
    assert paths_refused(**changes) == {path}


@pytest.mark.rule("R2")
@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"binding": "instance"}, "binding"),
        ({"binding": "node", "node": {"profileId": "p"}}, "binding"),
    ],
)
def test_what_is_not_available_is_unsupported_and_named(changes, field):
    with pytest.raises(errors.Unsupported) as refused:
        normalise(**changes)
    assert refused.value.details["field"] == field
    assert field in refused.value.message


@pytest.mark.rule("R2")
def test_a_wrong_field_wins_over_one_that_is_not_available():
    assert paths_refused(binding="instance", duration="x") == {"duration"}


@pytest.mark.case(10)
@pytest.mark.parametrize(
    ("line", "replicas", "milli"),
    [
        ({"class": "gpu", "count": 3}, 4, 3_000),
        ({"class": "gpu.mig", "profile": "1g.10gb", "count": 7}, 4, 7 * 142),
        ({"class": "gpu.slot", "count": 9}, 9, 9 * 111),
        ({"class": "gpu", "count": {"min": 1, "max": 8}}, 4, 8_000),
        (
            {"anyOf": [{"class": "gpu.slot", "count": 1}, {"class": "gpu", "count": 1}]},
            4,
            1_000,
        ),
    ],
)
def test_quota_is_counted_in_whole_thousandths_at_the_most(line, replicas, milli):
    assert normalise(devices=[line]).gpu_milli(replicas) == milli
    assert normalise(devices=[line], gang={"nodes": 5}).gpu_milli(replicas) == 5 * milli


@pytest.mark.rule("R27")
def test_a_kubernetes_binding_needs_nodes_that_can():
    demand = normalise(binding="kubernetes").demand({}, replicas=4)
    assert demand.labels == (KUBERNETES_LABEL,)
    assert normalise().demand({}, replicas=4).labels == ()


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=20),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["class", "count", "anyOf", "min", "max", "selector", "key", "op"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_nothing_in_place_of_devices_breaks_normalising(devices):
    with suppress(ValidationError, errors.InvalidInput, errors.Unsupported):
        normalise(devices=devices)
