"""Which bound of a policy failed."""

import json
from typing import Any

import cedarpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bettercompute.iam import explain
from bettercompute.iam.explain import Bound

ASKED = {
    "gpus": 9,
    "durationMinutes": 4380,
    "region": "ap-south",
    "models": ["H100", "NVIDIA H100 80GB HBM3"],
    "spot": False,
    "role": "member",
}


def bounds(condition: str, **changes: Any) -> list[Bound]:
    text = f"forbid(principal, action, resource) {condition};"
    (policy,) = json.loads(cedarpy.policies_to_json_str(text))["staticPolicies"].values()
    return explain.broken_bounds(policy, {"context": ASKED | changes})


def test_each_broken_conjunct_of_an_unless_is_a_bound() -> None:
    limits = (
        "unless { context.gpus <= 8 && context.durationMinutes <= 4320"
        ' && ["eu-west", "us-east"].contains(context.region) }'
    )
    assert bounds(limits) == [
        Bound("gpus", "<=", 8, 9),
        Bound("durationMinutes", "<=", 4320, 4380),
        Bound("region", "in", ("eu-west", "us-east"), "ap-south"),
    ]
    assert bounds(limits, gpus=8, region="eu-west") == [Bound("durationMinutes", "<=", 4320, 4380)]


def test_of_a_when_the_opposite_must_hold() -> None:
    assert bounds("when { context.gpus > 8 }") == [Bound("gpus", "<=", 8, 9)]
    assert bounds("when { 8 < context.gpus }") == [Bound("gpus", "<=", 8, 9)]
    assert bounds("when { context.gpus > 8 || context.durationMinutes > 9000 }") == [
        Bound("gpus", "<=", 8, 9)
    ]
    assert bounds("when { !(context.gpus <= 8) }") == [Bound("gpus", "<=", 8, 9)]
    assert bounds("when { context.gpus > 4 && !context.spot }") == [
        Bound("gpus", "<=", 4, 9),
        Bound("spot", "==", True, False),
    ]


def test_words_say_what_must_hold_and_what_was_asked() -> None:
    said = [str(bound) for bound in bounds("unless { context.gpus <= 8 }")]
    assert said == ["gpus must be at most 8, not 9"]
    said = [str(bound) for bound in bounds('unless { ["eu"].contains(context.region) }')]
    assert said == ["region must be one of eu, not ap-south"]
    said = [str(bound) for bound in bounds('when { context.models.contains("H100") }')]
    assert said == ["models (H100, NVIDIA H100 80GB HBM3) must not contain H100"]


@pytest.mark.parametrize(
    "condition",
    [
        'when { context.region like "ap-*" }',
        "when { if context.spot then false else true }",
        "when { context has gpus }",
        "when { principal.role == context.role }",
        "when { context.gpus + 1 > 8 }",
    ],
)
def test_of_what_it_does_not_read_no_bound_is_named(condition: str) -> None:
    assert bounds(condition) == []


def test_a_part_it_does_not_read_does_not_hide_the_others() -> None:
    assert bounds('unless { context.region like "ap-*" && context.gpus <= 8 }') == [
        Bound("gpus", "<=", 8, 9)
    ]


leaves = st.one_of(
    st.tuples(st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), st.integers(0, 4)).map(
        lambda part: f"context.gpus {part[0]} {part[1]}"
    ),
    st.sampled_from(
        [
            "context.spot",
            '["eu", "us"].contains(context.region)',
            'context.models.contains("H100")',
            'context.models.containsAny(["H100", "A100"])',
            'context.models.containsAll(["H100", "A100"])',
            'context.models == ["A100", "H100"]',
            'context.region == "eu"',
        ]
    ),
)
conditions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["&&", "||"]), inner).map(
            lambda p: f"({p[0]}) {p[1]} ({p[2]})"
        ),
        inner.map(lambda part: f"!({part})"),
    ),
    max_leaves=6,
)


@given(
    condition=conditions,
    asked=st.fixed_dictionaries(
        {
            "gpus": st.integers(0, 4),
            "spot": st.booleans(),
            "region": st.sampled_from(["eu", "ap"]),
            "models": st.lists(st.sampled_from(["H100", "A100"]), unique=True),
        }
    ),
)
def test_bounds_are_named_exactly_when_cedar_says_the_condition_decided(
    condition: str, asked: dict[str, Any]
) -> None:
    """The engine is the judge of what is true; this module must never contradict it."""
    text = f"permit(principal, action, resource) when {{ {condition} }};"
    request = {
        "principal": 'A::"a"',
        "action": 'Action::"a"',
        "resource": 'R::"r"',
        "context": asked,
    }
    holds = cedarpy.is_authorized(request, text, []).allowed
    (policy,) = json.loads(cedarpy.policies_to_json_str(text))["staticPolicies"].values()
    when = explain.broken_bounds(policy, {"context": asked})
    policy["conditions"][0]["kind"] = "unless"
    unless = explain.broken_bounds(policy, {"context": asked})
    assert bool(when) is holds
    assert bool(unless) is not holds
