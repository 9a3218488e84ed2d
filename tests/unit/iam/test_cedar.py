"""The policy engine: what a text must be, and what is asked of it."""

import concurrent.futures
import threading
from pathlib import Path

import pytest

from bettercompute.iam import cedar

EXAMPLES = sorted(Path(cedar.__file__).parent.glob("policies/examples/*.cedar"))


@pytest.mark.rule("R38")
def test_the_actions_are_the_contracts() -> None:
    reservations = {
        f"compute:reservations:{verb}" for verb in ("create", "read", "extend", "release")
    }
    assert reservations <= cedar.actions()
    assert {action.split(":")[1] for action in cedar.actions()} == {
        "reservations",
        "pools",
        "nodes",
        "webhooks",
        "events",
        "audit",
    }


def test_the_shipped_policies_fit_the_schema() -> None:
    documents = cedar.check(cedar.default_text())
    forbids = [document for document in documents if document["effect"] == "forbid"]
    assert [document["annotations"]["id"] for document in forbids] == ["tenants-stay-apart"]
    assert all(document["annotations"]["id"] for document in documents)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_policy_fits_the_schema(path: Path) -> None:
    assert cedar.check(path.read_text())


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 4


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("", 1, "no policy"),
        ("// only words", 1, "no policy"),
        ("permit(principal, action", 1, "not a Cedar policy"),
        ("permit(principal, action, resource);\n\nforbid(all);", 3, "not a Cedar policy"),
        (
            (
                '// a comment; with a semicolon\n@message("; not an end")\n'
                "forbid(principal, action, resource) when { context.gpu > 1 };"
            ),
            3,
            "attribute `gpu` in context not found$",
        ),
        (
            (
                "forbid(principal, action, resource)\n"
                'when { "gpux" == context.region || // gpux\n  context.gpux > 1 };'
            ),
            3,
            "attribute `gpux`",
        ),
        ("forbid(principal, action, resource)\nwhen { true }\nunles { false };", 3, "unles"),
        ('forbid(principal, action, resource) when { context.gpus > "8" };', 1, "expected Long"),
        (
            'permit(principal, action == Action::"compute:beds:create", resource);',
            1,
            "unrecognized",
        ),
        ("permit(principal == ?principal, action, resource);", 1, "templates"),
        ("forbid(principal, action, resource);" * 65, 1, "at most 64"),
        ("/" * 40_000, 1, "at most 32768"),
    ],
)
def test_a_text_that_is_no_policy_is_refused_with_its_line(text: str, line: int, says: str) -> None:
    with pytest.raises(cedar.InvalidPolicy, match=says) as refused:
        cedar.check(text)
    assert refused.value.line == line


PERMIT = "permit(principal, action, resource);"


def when(condition: str) -> str:
    return f"forbid(principal, action, resource) when {{ {condition} }};"


@pytest.mark.parametrize(
    "text",
    [
        when("(" * 1_000 + "true" + ")" * 1_000),
        when("[" * 1_000 + "]" * 1_000 + " == [1]"),
        when("{a: " * 1_000 + "1" + "}" * 1_000 + " == 1"),
        when("(" * 33 + "true" + ")" * 33),
        when("(" * 20_000),
        when(" && ".join(["context.gpus > 1"] * 100)),
        when(" || ".join(["true"] * 3_000)),
        when("1 > " + "+".join(["1"] * 5_000)),
        when("context" + ".gpus" * 5_000),
        when("1 > " + "+".join(["1"] * 2_000)),
        when("context" + ".a" * 2_000),
        when("context" + '["a"]' * 2_000),
        when("if true then " * 900 + "true" + " else false" * 900),
        when("true } when { " * 64 + "true"),
        when("!" * 3_000 + "true"),
    ],
    ids=lambda text: text[45:60],
)
def test_what_would_overflow_the_engine_is_refused(text: str) -> None:
    """In a thread of its own, as small as a server's may be: the engine has no bound itself."""
    size = threading.stack_size(2 * 1024 * 1024)
    try:
        with (
            concurrent.futures.ThreadPoolExecutor(1) as executor,
            pytest.raises(cedar.InvalidPolicy),
        ):
            executor.submit(cedar.check, text).result()
    finally:
        threading.stack_size(size)


def test_what_is_within_the_bounds_compiles_and_is_decided() -> None:
    for condition in (
        "(" * 31 + "false" + ")" * 31,
        " && ".join(["context.gpus > 1000"] * 40),
        "false } when { " * 63 + "false",
    ):
        assert len(cedar.check(when(condition))) == 1
        verdict = cedar.evaluate(
            cedar.compile_set([("t", PERMIT + when(condition))]),
            principal=cedar.Entity(
                "Account", "usr_a", {"role": "admin", "tenant": "t", "operator": True}
            ),
            action="compute:pools:read",
            resource=cedar.Entity("Pool", "pool_a", {"tenant": "t"}),
            context={"gpus": 9},
        )
        assert verdict.allowed


@pytest.mark.parametrize(
    ("text", "policies"),
    [
        (f"// a comment\r{PERMIT}\n{when('true')}", 2),
        (f"{when('true')}\n// a\x0bb", 1),
        (f"{when('true')}\n// a\u2028{PERMIT}", 1),
        (f"// one\r// two\n{when('true')} // three", 1),
        (f'@id("a;\\"//b"){when("true")}', 1),
    ],
)
def test_policies_are_told_apart_as_the_engine_does(text: str, policies: int) -> None:
    assert len(cedar.check(text)) == policies


@pytest.mark.parametrize("blank", ["\x1c", "\x85", "\u2028", "\ufeff"])
def test_what_only_python_takes_for_a_blank_is_not_stored(blank: str) -> None:
    """Stored, it would fail in every decision of the tenant."""
    text = blank + when("true")
    try:
        cedar.check(text)
    except cedar.InvalidPolicy:
        return
    cedar.compile_set([("stored", text)])


def test_policies_of_one_text_are_named_after_their_id_or_place() -> None:
    text = (
        '@id("a") forbid(principal, action, resource);\n' * 2
        + "forbid(principal, action, resource);"
    )
    compiled = cedar.compile_set([("team", text), ("other", text)])
    assert set(compiled.documents) == {
        "team/a",
        "team/a-2",
        "team/3",
        "other/a",
        "other/a-2",
        "other/3",
    }


def test_more_than_ten_policies_keep_their_order() -> None:
    text = "".join(f'@id("p{number}") forbid(principal, action, resource);' for number in range(12))
    assert list(cedar.compile_set([("t", text)]).documents) == [
        f"t/p{number}" for number in range(12)
    ]


def test_a_policy_that_cannot_be_evaluated_is_no_verdict() -> None:
    """Cedar would leave a failing forbid out, and so allow: failing closed means no answer."""
    overflow = (
        "permit(principal, action, resource);"
        "forbid(principal, action, resource)"
        " when { context.gpus * 9223372036854775807 > 1 };"
    )
    cedar.check(overflow)
    with pytest.raises(cedar.EvaluationFailed, match="overflow"):
        cedar.evaluate(
            cedar.compile_set([("t", overflow)]),
            principal=cedar.Entity(
                "Account", "usr_a", {"role": "admin", "tenant": "t", "operator": True}
            ),
            action="compute:pools:read",
            resource=cedar.Entity("Pool", "pool_a", {"tenant": "t"}),
            context={"gpus": 9},
        )
