"""What the policies say, with the shipped ones and with examples: no database."""

from pathlib import Path

import pytest

from bettercompute.errors import AccessDenied, Unavailable
from bettercompute.iam import cedar, decisions, rehearsal
from bettercompute.iam.callers import Caller
from bettercompute.iam.decisions import Attributes, Decision

DEFAULT = ("default", cedar.default_text())
ALICE = Caller(tenant_id="ten_acme", account_id="usr_alice", role="admin")
BOB = Caller(tenant_id="ten_acme", account_id="usr_bob", role="member")
OLGA = Caller(tenant_id="ten_acme", account_id="usr_olga", role="member", is_operator=True)
CREATE = "compute:reservations:create"


def example(name: str) -> tuple[str, str]:
    path = Path(cedar.__file__).parent / "policies" / "examples" / f"{name}.cedar"
    return "example", path.read_text()


def judge(
    caller: Caller,
    action: str,
    attributes: Attributes | None = None,
    *,
    policies: list[tuple[str, str]] | None = None,
) -> Decision:
    compiled = cedar.compile_set([DEFAULT, *(policies or [])])
    return decisions.judge(
        compiled,
        caller,
        action,
        resource_id="rsv_1",
        attributes=attributes or Attributes(),
    )


@pytest.mark.rule("R38")
@pytest.mark.parametrize("verb", ["create", "read", "extend"])
def test_any_member_creates_reads_and_extends(verb: str) -> None:
    of_alice = Attributes(owner="usr_alice", tenant="ten_acme")
    assert judge(BOB, f"compute:reservations:{verb}", of_alice).allowed


@pytest.mark.rule("R38")
def test_members_end_their_own_and_admins_anyones() -> None:
    release = "compute:reservations:release"
    assert judge(BOB, release, Attributes(owner="usr_bob")).allowed
    assert judge(ALICE, release, Attributes(owner="usr_bob")).allowed
    assert judge(OLGA, release, Attributes(owner="usr_bob")).allowed
    denied = judge(BOB, release, Attributes(owner="usr_alice"))
    assert not denied.allowed
    assert denied.policies == ()
    assert "an admin of the tenant anyone's" in denied.message
    assert denied.details == {"decision": {"policies": []}}


def test_another_tenants_resource_is_denied_to_all_but_operators() -> None:
    foreign = Attributes(tenant="ten_globex", owner="usr_bob")
    for verb in ("create", "read", "extend", "release"):
        assert not judge(ALICE, f"compute:reservations:{verb}", foreign).allowed
        assert judge(OLGA, f"compute:reservations:{verb}", foreign).allowed


def test_nodes_are_operated_by_the_pool_owners_admins_and_operators() -> None:
    own, foreign = Attributes(tenant="ten_acme"), Attributes(tenant="ten_globex")
    assert judge(ALICE, "compute:nodes:manage", own).allowed
    assert not judge(BOB, "compute:nodes:manage", own).allowed
    assert not judge(ALICE, "compute:nodes:manage", foreign).allowed
    assert judge(OLGA, "compute:nodes:manage", foreign).allowed
    assert judge(BOB, "compute:pools:read", foreign).allowed


H100S = Attributes(
    gpus=8, models=("NVIDIA H100 80GB HBM3",), duration_minutes=72 * 60, region="eu-west"
)


@pytest.mark.parametrize(
    ("asked", "limits"),
    [
        ({"gpus": 9}, [("gpus", "<=", 8, 9)]),
        ({"duration_minutes": 73 * 60}, [("durationMinutes", "<=", 4320, 4380)]),
        ({"region": "ap-south"}, [("region", "in", ("eu-west", "us-east"), "ap-south")]),
        (
            {"gpus": 9, "duration_minutes": 4380},
            [("gpus", "<=", 8, 9), ("durationMinutes", "<=", 4320, 4380)],
        ),
    ],
)
def test_at_most_8_h100s_for_72_hours_in_these_regions(
    asked: dict[str, object], limits: list[tuple[object, ...]]
) -> None:
    from dataclasses import replace

    policies = [example("h100-limit")]
    assert judge(BOB, CREATE, H100S, policies=policies).allowed
    denied = judge(ALICE, CREATE, replace(H100S, **asked), policies=policies)
    assert not denied.allowed
    assert denied.policies == ("example/h100-limit",)
    assert "at most 8" in denied.message
    found = [
        (limit["attribute"], limit["operator"], limit["limit"], limit["asked"])
        for limit in denied.details["limits"]
        if limit["attribute"] != "models"
    ]
    assert found == limits
    with pytest.raises(AccessDenied) as refused:
        denied.require()
    assert refused.value.details["decision"] == {"policies": ["example/h100-limit"]}


def test_other_models_are_not_limited_by_it() -> None:
    asked = Attributes(gpus=64, models=("NVIDIA A100-SXM4-80GB",), region="ap-south")
    assert judge(BOB, CREATE, asked, policies=[example("h100-limit")]).allowed


def test_a_forbid_wins_over_every_permit_and_a_freeze_spares_operators() -> None:
    assert not judge(ALICE, CREATE, policies=[example("freeze")]).allowed
    assert judge(OLGA, CREATE, policies=[example("freeze")]).allowed
    assert judge(ALICE, "compute:reservations:read", policies=[example("freeze")]).allowed


def test_lead_time_binds_members_only() -> None:
    far = Attributes(lead_minutes=15 * 1440)
    assert not judge(BOB, CREATE, far, policies=[example("lead-time")]).allowed
    assert judge(ALICE, CREATE, far, policies=[example("lead-time")]).allowed


def test_large_jobs_are_spot() -> None:
    policies = [example("large-jobs-are-spot")]
    assert not judge(ALICE, CREATE, Attributes(gpus=65), policies=policies).allowed
    assert judge(ALICE, CREATE, Attributes(gpus=65, spot=True), policies=policies).allowed


@pytest.mark.parametrize(
    ("reported", "short"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA H200 NVL", "H200"),
        ("NVIDIA GB200", "GB200"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("AMD Instinct MI300X", "MI300X"),
        ("NVIDIA L40S", "L40S"),
        ("Tesla T4", None),
    ],
)
def test_a_model_counts_by_its_short_name_too(reported: str, short: str | None) -> None:
    names = decisions.short_models((reported,))
    assert reported in names
    assert short is None or short in names


def test_an_engine_that_fails_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> cedar.Verdict:
        raise cedar.EvaluationFailed("broken")

    monkeypatch.setattr(cedar, "evaluate", fail)
    with pytest.raises(Unavailable):
        judge(ALICE, CREATE)


@pytest.mark.rule("R38")
def test_each_policy_that_denies_has_a_sentence_and_a_name_of_its_own_text() -> None:
    few = "forbid(principal, action, resource) when { context.gpus > 4 };"
    many = '@message("Ask the lab first.") forbid(principal, action, resource);'
    decision = judge(ALICE, CREATE, Attributes(gpus=5), policies=[("few", few), ("lab", many)])
    assert decision.policies == ("few/1", "lab/1")
    assert decision.message == (
        "Policy few/1 denies this: gpus must be at most 4, not 5."
        " Policy lab/1 denies this: Ask the lab first."
    )


def test_ordinary_requests_speak_of_all_that_a_decision_does() -> None:
    """What a policy is tried on before it is stored has the attributes of a real request."""
    real = decisions.context(BOB, Attributes())
    for request in rehearsal._REQUESTS:
        assert {key: type(value) for key, value in request.context.items()} == {
            key: type(value) for key, value in real.items()
        }
    assert rehearsal.fault(cedar.default_text()) is None
    assert [rehearsal.fault(each.text) for each in cedar.examples()] == [None] * len(
        cedar.examples()
    )
