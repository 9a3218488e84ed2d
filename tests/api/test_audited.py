"""Whatever changes something is in the audit, on every route there is and will be.

Each route of the API that writes is sent a request that it takes, with ids of a world that has one
of everything, and what the audit then says is read. A new route has no request here, and the test
fails until it has one, or is named among those that change nothing.
"""

import pytest
from django.http import HttpResponse

from bettercompute.audit.models import Entry
from tests.support.everything import WRITES, Everything

pytestmark = pytest.mark.django_db

#: They answer what would be, and book nothing; an offer is forgotten after a minute.
CHANGE_NOTHING = {
    "/policies/dry-run",
    "/capacity/preview",
    "/capacity/offers",
}


@pytest.fixture
def everything() -> Everything:
    return Everything()


def entries_of(answer: HttpResponse) -> list[Entry]:
    return list(Entry.objects.filter(request_id=answer["X-Request-Id"]))


def test_every_route_that_changes_something_leaves_an_entry(everything: Everything) -> None:
    silent = []
    for method, template in WRITES:
        answer = everything.send(method, template)
        assert answer.status_code < 300, (method, template, answer.content)
        found = entries_of(answer)
        if template in CHANGE_NOTHING:
            assert found == [], (method, template)
            continue
        told = [each for each in found if each.account_id == everything.alice.account_id]
        if not told or any(each.outcome != "allowed" for each in told):
            silent.append((method, template))
        for entry in told:
            assert entry.action.startswith(("compute:", "iam:")), entry.action
            assert entry.object_id, entry.action
            assert entry.via == "token"
            assert entry.tenant_id == everything.world.tenant
    assert silent == []
    assert len(WRITES) > 25


PLANTED = (
    "bct_01k9zzzzzzzzzzzzzzzzzzzzzz_" + "a2" * 26,
    "whsec_" + "Ab3x" * 10,
    "bce_" + "Zz9_" * 10,
    "postgresql://better:hunter2hunter2@db/postgres",
)


def test_no_secret_that_is_sent_anywhere_stays(
    everything: Everything, capsys: pytest.CaptureFixture[str]
) -> None:
    """In every text of every body, and in the headers that are kept."""
    for method, template in WRITES:
        body = everything.bodies.get((method, template), {})
        for name in (name for name, value in body.items() if isinstance(value, str)):
            secret = PLANTED[len(name) % len(PLANTED)]
            path = template.replace("<str:", secret[:40]).replace(">", "")
            everything.api.send(method, path, {**body, name: secret}, User_Agent=secret)
    told = "\n".join(str(values) for values in Entry.objects.values())
    assert Entry.objects.exclude(outcome="allowed").exists(), "some of it was refused"
    shown = "".join(capsys.readouterr())
    for secret in PLANTED:
        assert secret not in told
        assert secret not in shown
    assert "hunter2" not in told + shown
