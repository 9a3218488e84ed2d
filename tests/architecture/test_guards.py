"""The table of guards that `make guards` breaks: complete, and about code that is there."""

from scripts import break_guards, rules


def test_every_guard_is_found_where_the_table_says():
    assert break_guards.problems(break_guards.read()) == []


def test_every_required_consistency_rule_has_a_guard_to_break():
    required = {
        rule.id for rule in rules.read() if rule.status == "required" and rule.id.startswith("C")
    }
    assert required - {guard.rule for guard in break_guards.read()} == set()


def test_the_tests_that_must_notice_carry_the_rule():
    proofs = rules.proofs()
    strangers = [
        f"{guard.rule}, {guard.what}"
        for guard in break_guards.read()
        if not any(proof.startswith(test) for proof in proofs[guard.rule] for test in guard.tests)
    ]
    assert strangers == []


def test_a_guard_that_is_gone_and_a_test_that_is_gone_are_told():
    guard = break_guards.Guard(
        rule="C9",
        what="nothing",
        file="scripts/break_guards.py",
        find="no such " + "text",
        put="",
        tests=("tests/nowhere.py",),
    )
    assert break_guards.problems([guard]) == [
        "C9, nothing: found 0 times in scripts/break_guards.py",
        "C9, nothing: there is no tests/nowhere.py",
    ]
