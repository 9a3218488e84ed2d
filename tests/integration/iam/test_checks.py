"""The self-check of iam finds what it is for."""

import pytest

from bettercompute.iam import checks, projection
from bettercompute.iam.models import AuthzResource, Policy
from tests.support import cast

pytestmark = [pytest.mark.django_db, pytest.mark.rule("C39")]


def test_a_policy_that_no_longer_fits_is_found() -> None:
    Policy.objects.create(name="good", text="forbid(principal, action, resource);")
    Policy.objects.create(name="off", text="nonsense", enabled=False)
    assert checks.policies_compile() == []
    Policy.objects.create(
        name="bad", text="forbid(principal, action, resource) when { context.x };"
    )
    (finding,) = checks.policies_compile()
    assert finding.check == "iam.policies"
    assert "bad" in finding.message


def test_a_projection_that_left_its_feed_is_found() -> None:
    projection.record("rsv_1", "reservation", cast.tenant("acme").pk, {"gpus": 8})
    projection.record("rsv_2", "reservation", cast.tenant("acme").pk, {}, pending={"gpus": 1})
    assert checks.projection_follows_feed() == []
    AuthzResource.objects.filter(pk="rsv_1").update(attributes={"gpus": 9})
    assert [finding.check for finding in checks.projection_follows_feed()] == ["iam.projection"]
