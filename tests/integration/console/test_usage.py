"""The page of usage and budgets (U5), and its rows as a file."""

import csv
import io
import re

import pytest
from django.http import HttpResponse
from django.test import Client

from bettercompute.iam.models import Account
from pools import budgets
from pools.budgets import NewBudget
from pools.models import Pool
from tests.conftest import SimulatedClock
from tests.support import cast, make

pytestmark = [pytest.mark.django_db, pytest.mark.rule("R39", "U5")]


@pytest.fixture
def alice() -> Client:
    return cast.session("alice", check_csrf=False)


@pytest.fixture
def pool(clock: SimulatedClock) -> Pool:
    """Alice's two GPUs for an hour and bob's one, four hours ago; bob's were never handed over."""
    made = make.pool(nodes=1, gpus=8)
    make.active(cast.caller("alice"), made, gpus=2, duration="1h")
    make.look(make.reservation(cast.caller("bob"), made, duration="4m"))
    clock.advance("4h")
    return made


def text(response: HttpResponse) -> str:
    assert response.status_code == 200
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", response.content.decode()))


def test_usage_is_shown_by_what_is_chosen(alice: Client, pool: Pool) -> None:
    page = text(alice.get("/usage"))
    assert "No budget limits what your tenant reserves." in page
    assert f"2026-03-02 {pool.name} 2.07 0.07 In all 2.07 0.07" in page
    page = text(alice.get("/usage?span=7d&by=&by=owner"))
    assert re.search(
        r"Owner GPU-hours Of them idle (alice 2.00 0.00 bob|bob 0.07 0.07 alice)", page
    )
    assert "GPU-hours Of them idle 2.07 0.07" in text(alice.get("/usage?by="))
    assert "2.07" in text(alice.get("/usage?span=forever&by=nothing"))
    assert "Nothing was used" in text(cast.session("mallory").get("/usage"))
    assert 'href="/usage"' in alice.get("/").content.decode()


def test_the_file_has_the_same_rows_and_no_formulas(alice: Client, pool: Pool) -> None:
    Account.objects.filter(username="bob").update(username="=cmd")
    page = alice.get("/usage?by=owner&by=pool").content.decode()
    (address,) = re.findall(r'href="([^"]+usage.csv[^"]*|/usage\.csv[^"]+)"', page)
    answer = alice.get(address.replace("&amp;", "&"))
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert 'filename="usage-30d.csv"' in answer["Content-Disposition"]
    rows = list(csv.reader(io.StringIO(answer.content.decode())))
    assert rows[0] == ["Pool", "Owner", "GPU-hours", "Idle GPU-hours"]
    assert sorted(rows[1:]) == [
        [pool.name, "'=cmd", "0.067", "0.067"],
        [pool.name, "alice", "2.0", "0.0"],
    ]


def test_budgets_say_what_is_left(alice: Client, pool: Pool) -> None:
    tenant_id = cast.tenant().pk
    budgets.create(tenant_id, NewBudget(name="lab", gpu_milli_hours=10_000))
    make.reservation(cast.caller("alice"), pool, gpus=1, duration="3h")
    budgets.create(tenant_id, NewBudget(name="here", gpu_milli_hours=5_000, pool=pool))
    page = text(alice.get("/usage"))
    assert re.search(r"lab All pools .* 2.07 3.00 4.93 10.00 ", page)
    assert re.search(rf"here {pool.name} .* 2.07 3.00 -0.07 5.00 ", page)


def test_the_form_says_above_it_that_the_budget_has_no_room(alice: Client, pool: Pool) -> None:
    budgets.create(cast.tenant().pk, NewBudget(name="lab", gpu_milli_hours=2_100))
    form = {"pool": pool.pk, "class": "gpu", "count": "1", "duration": "1h", "key": "form-1"}
    answer = alice.post("/reserve", form)
    assert answer.status_code == 409
    assert "The budget lab has no room for it" in answer.content.decode()
