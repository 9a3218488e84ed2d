"""The rules and the tests that prove them."""

import pytest

from scripts import rules

MODULE = """
import pytest
pytestmark = [pytest.mark.django_db, pytest.mark.rule("C1")]

@pytest.mark.rule("C2", "C3")
def test_a(): ...

@pytest.mark.parametrize("x", [1, pytest.param(2, marks=pytest.mark.rule("C4"))])
def test_b(x): ...

@pytest.mark.rule("C5")
class TestC:
    @pytest.mark.rule("C6")
    async def test_d(self): ...

@pytest.mark.rule("C9")
def no_test(): ...
"""


def test_marks_are_found_on_functions_parameters_classes_and_modules():
    found = set(rules.marks(MODULE))
    assert found == {
        ("C1", "test_a"),
        ("C2", "test_a"),
        ("C3", "test_a"),
        ("C1", "test_b"),
        ("C4", "test_b"),
        ("C1", "TestC::test_d"),
        ("C5", "TestC::test_d"),
        ("C6", "TestC::test_d"),
    }


def test_a_required_rule_without_a_test_and_a_mark_of_no_rule_are_problems():
    listed = [
        rules.Rule("C1", "required", "one"),
        rules.Rule("C2", "required", "two"),
        rules.Rule("C3", "planned", "three"),
    ]
    found = rules.problems(listed, {"C1": ["t::a"], "C99": ["t::b"]})
    assert found == [
        "C2 is required and no test proves it: two",
        "t::b proves C99, which docs/rules.toml does not have",
    ]


def test_a_status_that_does_not_exist_is_refused(tmp_path):
    file = tmp_path / "rules.toml"
    file.write_text('C1 = { status = "done", rule = "x" }', encoding="utf-8")
    with pytest.raises(ValueError, match="C1: status is one of"):
        rules.read(file)


def test_every_rule_of_the_contract_is_listed_once_in_order():
    counts = {"C": 40, "R": 39, "N": 18, "A": 11, "U": 11}
    wanted = [f"{letter}{n}" for letter, count in counts.items() for n in range(1, count + 1)]
    assert [rule.id for rule in rules.read()] == wanted
    assert all(rule.text for rule in rules.read())


def test_no_test_claims_a_rule_that_does_not_exist():
    known = {rule.id for rule in rules.read()}
    assert set(rules.proofs()) - known == set()
