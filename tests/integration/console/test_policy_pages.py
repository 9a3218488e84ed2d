"""The console's pages of policies."""

import html
import re

import pytest
from django.http import HttpResponse
from django.test import Client

from bettercompute.errors import AccessDenied
from bettercompute.iam import policies
from bettercompute.iam.models import Policy
from bettercompute.iam.policies import Draft
from tests.support import cast, forms, make

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("R38")]

LIMIT = (
    '// At most two GPUs at once.\n@id("two")\n@message("At most 2 GPUs.")\n'
    'forbid (principal, action == Action::"compute:reservations:create", resource)\n'
    "unless { context.gpus <= 2 };\n"
)


@pytest.fixture
def alice() -> Client:
    return cast.session("alice", check_csrf=False)


def text(response: HttpResponse) -> str:
    plain = re.sub(r"<[^>]+>", " ", response.content.decode())
    return re.sub(r"\s+", " ", html.unescape(plain))


def sent(text: str, /, **changes: str) -> dict[str, str]:
    """The form as a browser sends it: each line ends in CR LF."""
    crossed = text.replace("\n", "\r\n")
    return {"name": "team", "text": crossed, "enabled": "on", "do": "save", **changes}


def stored(name: str = "team", text: str = LIMIT) -> Policy:
    return policies.create(cast.caller("alice"), draft=Draft(name, text))


def test_a_text_is_saved_as_it_was_typed_and_binds(alice: Client) -> None:
    made = forms.send(alice, "/policies/new", sent(LIMIT), follow=True)
    assert "team is saved: it binds from now on." in text(made)
    assert Policy.objects.get().text == LIMIT
    listed = text(alice.get("/policies"))
    assert "team At most two GPUs at once. Binds" in listed
    with pytest.raises(AccessDenied, match="At most 2 GPUs"):
        make.reservation(cast.caller("bob"), make.pool(), gpus=3)


def test_what_is_wrong_is_said_with_its_line_beside_the_text(alice: Client) -> None:
    wrong = LIMIT.replace("context.gpus", "context.gpux")
    response = forms.send(alice, "/policies/new", sent(wrong))
    assert response.status_code == 400
    page = response.content.decode()
    assert "Line 5: attribute `gpux` in context not found." in text(response)
    assert '<li data-number="5" class="wrong">unless { context.gpux &lt;= 2 };</li>' in page
    assert re.search(r"<textarea[^>]*>\s*// At most two", page)  # as it was typed
    assert not Policy.objects.exists()
    taken = stored()
    assert "name" in text(forms.send(alice, "/policies/new", sent(LIMIT)))
    assert list(Policy.objects.all()) == [taken]


def test_a_trial_says_who_would_be_refused_and_saves_nothing(alice: Client) -> None:
    pool = make.pool()
    large = make.reservation(cast.caller("bob"), pool, gpus=4)
    small = make.reservation(cast.caller("carol"), pool, gpus=1)
    asked = {"do": "try", "pool": pool.pk, "count": "3", "duration": "8h", "role": "member"}
    page = text(alice.post("/policies/new", sent(LIMIT, **asked)))
    assert "The request Refused Policy draft/two denies this: At most 2 GPUs." in page
    assert "Of the latest 2 reservations, 1 would have been refused." in page
    assert f"bob {large.pk}" in page
    assert small.pk not in page
    assert not Policy.objects.exists()
    within = text(alice.post("/policies/new", sent(LIMIT, **{**asked, "count": "2"})))
    assert "The request Allowed" in within
    of_agents = LIMIT.replace("resource)", "resource) when { context.delegated }")
    for who, said in (("member", "Allowed"), ("agent", "Refused")):
        tried = text(alice.post("/policies/new", sent(of_agents, **{**asked, "role": who})))
        assert f"The request {said}" in tried
    for changes, told in (
        ({"count": "many"}, "Must be a whole number."),
        ({"duration": "soon"}, "Not a duration we understand"),
        ({"text": "permit(all);"}, "Line 1: this is not a Cedar policy"),
        ({"pool": "pool_gone"}, "At most 2 GPUs."),  # the text is still there
    ):
        refused = alice.post("/policies/new", sent(LIMIT, **{**asked, **changes}))
        assert refused.status_code == (404 if "pool" in changes else 400)
        assert told in text(refused)


def test_who_saves_over_a_version_not_seen_is_told_and_shown_it(alice: Client) -> None:
    policy = stored()
    here = f"/policies/{policy.pk}"
    assert 'name="version" value="1"' in alice.get(here).content.decode()
    theirs = LIMIT.replace("<= 2", "<= 4")
    policies.replace(cast.caller("alice"), policy.pk, draft=Draft("team", theirs))
    mine = LIMIT.replace("<= 2", "<= 8")
    overtaken = alice.post(here, sent(mine, version="1"))
    assert overtaken.status_code == 412
    page = text(overtaken)
    assert "somebody else changed it" in page
    assert "context.gpus <= 4" in page
    assert "context.gpus <= 8" in page
    policy.refresh_from_db()
    assert policy.text == theirs
    *_, now = re.findall(r'name="version" value="(\d+)"', overtaken.content.decode())
    assert alice.post(here, sent(mine, version=now)).status_code == 302
    policy.refresh_from_db()
    assert policy.text == mine


def test_it_is_disabled_enabled_and_deleted(alice: Client) -> None:
    policy = stored()
    here = f"/policies/{policy.pk}"
    page = text(alice.post(f"{here}/disable", {"version": "1"}, follow=True))
    assert "team is changed: it does not bind." in page
    assert alice.post(f"{here}/enable", {"version": "1"}).status_code == 412
    policy.refresh_from_db()
    assert (policy.enabled, policy.version) == (False, 2)
    alice.post(f"{here}/enable", {"version": "2"})
    policy.refresh_from_db()
    assert (policy.enabled, policy.text) == (True, LIMIT)
    assert "stops binding with the next request" in text(alice.get(f"{here}/delete"))
    assert alice.post(f"{here}/delete")["Location"] == "/policies"
    assert not Policy.objects.exists()


def test_members_read_what_binds_them_and_change_nothing(alice: Client) -> None:
    policy = stored()
    olga = cast.caller("olga")
    platform = policies.create(olga, draft=Draft("freeze", LIMIT), platform=True)
    bob = cast.session("bob", check_csrf=False)
    listed = text(bob.get("/policies"))
    assert "team" in listed
    assert "freeze" in listed
    assert "New policy" not in listed
    assert bob.get("/policies/new").status_code == 403
    for path in (f"/policies/{policy.pk}", f"/policies/{platform.pk}", "/policies/shipped"):
        page = bob.get(path).content.decode()
        assert "<textarea" not in page
        assert "forbid (principal" in page
    for path in ("", "/disable", "/delete"):
        answer = bob.post(f"/policies/{policy.pk}{path}", sent("x", version="1"))
        assert answer.status_code == 403
    assert alice.post(f"/policies/{platform.pk}", sent(LIMIT, version="1")).status_code == 403
    assert alice.post(f"/policies/{platform.pk}/disable", {"version": "1"}).status_code == 403
    mallory = cast.session("mallory", check_csrf=False)
    assert mallory.get(f"/policies/{policy.pk}").status_code == 404
    assert mallory.post(f"/policies/{policy.pk}", sent(LIMIT, version="1")).status_code == 404
    assert "team" not in text(mallory.get("/policies"))
    policy.refresh_from_db()
    assert policy.version == 1


def test_an_example_fills_the_form(alice: Client) -> None:
    page = alice.get("/policies/new?from=freeze").content.decode()
    assert "Reservations are frozen for maintenance." in page
    assert 'value="freeze"' in page
