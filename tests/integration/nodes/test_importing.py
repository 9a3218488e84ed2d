"""`manage.py import_inventory` and `import_fleet`, as an operator runs them."""

import io
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from nodes import desired, eligibility
from nodes.models import Device, Node, NodeInventory, NodeResource
from outbox.models import Event
from pools.models import Pool
from tests.support import supply

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("N9")]

DATA = Path(__file__).parents[2] / "data"
SMI = DATA / "nvidia-smi"
H100 = SMI / "linux-x86_64__nvidia-h100-80gb-hbm3__590.48.01.txt"
OPENB = DATA / "openb" / "openb_node_list_gpu_node.csv"


@pytest.fixture
def pool() -> Pool:
    """acme's pool `main`."""
    return supply.pool("main")


def _inventory(*arguments: object, pool: str = "main") -> str:
    out = io.StringIO()
    call_command(
        "import_inventory", *map(str, arguments), "--tenant=acme", f"--pool={pool}", stdout=out
    )
    return out.getvalue()


def _fleet(*arguments: object) -> str:
    out = io.StringIO()
    call_command(
        "import_fleet", "openb", *map(str, arguments), "--tenant=acme", "--pool=main", stdout=out
    )
    return out.getvalue()


def test_a_real_card_multiplies_into_the_demo_pool(pool: Pool) -> None:
    arguments = [H100, "--multiply=8", "--nodes=4", "--name-prefix=gpu-"]
    host = ["--vcpu=192", "--memory-gib=2048", "--capability=devices.limits"]
    said = _inventory(*arguments, *host)
    assert said == "4 nodes added, 0 known already; 32 GPUs.\n"
    assert sorted(pool_names(pool)) == ["gpu-01", "gpu-02", "gpu-03", "gpu-04"]
    assert Device.objects.filter(bookable_mode="whole", model="H100").count() == 32
    node = Node.objects.get(name="gpu-01")
    assert node.system_labels == {"bc.dev/cap.devices.limits": "true"}
    amounts = dict(NodeResource.objects.filter(node=node).values_list("resource", "allocatable"))
    assert amounts == {"vcpu": 190, "memoryGiB": 2048}
    assert eligibility.lock(node_ids=[node.pk], device_ids=[]).nodes[node.pk].eligible
    assert desired.generation(node.pk) == 0

    events = Event.objects.count()
    assert _inventory(*arguments, *host) == "0 nodes added, 4 known already; 32 GPUs.\n"
    assert Event.objects.count() == events, "importing again changes nothing"


def pool_names(pool: Pool) -> list[str]:
    """The names of a pool's nodes."""
    return list(Node.objects.filter(pool=pool).values_list("name", flat=True))


def test_what_was_imported_is_there_for_an_agent_to_report(pool: Pool) -> None:
    _inventory(H100, "--multiply=2", "--vcpu=8", "--memory-gib=64")
    row = NodeInventory.objects.get()
    assert (row.seq, row.error, len(row.body["gpus"])) == (0, "", 2)
    assert row.applied_at is not None


def test_two_pools_may_have_nodes_of_the_same_name(pool: Pool) -> None:
    supply.pool("other")
    arguments = [H100, "--multiply=2", "--name-prefix=gpu-", "--vcpu=8", "--memory-gib=64"]
    _inventory(*arguments)
    _inventory(*arguments, pool="other")
    assert Device.objects.count() == 4


@pytest.mark.rule("N10")
def test_a_multiplied_card_can_be_cut(pool: Pool) -> None:
    host = ["--multiply=2", "--vcpu=8", "--memory-gib=64"]
    _inventory(H100, *host, "--mig=3g.40gb=1", "--mig=1g.10gb=4")
    atoms = Device.objects.filter(bookable_mode="mig")
    assert sorted(atoms.values_list("profile", flat=True)) == ["1g.10gb"] * 8 + ["3g.40gb"] * 2
    with pytest.raises(CommandError, match="cannot be cut"):
        _inventory(H100, *host, "--name-prefix=x-", "--mig=3g.40gb=2", "--mig=1g.10gb=1")


def test_single_machines_keep_their_own_cards(pool: Pool) -> None:
    _inventory(SMI / "tesla-t4.xml", SMI / "rtx-3060-v12.xml", "--vcpu=16", "--memory-gib=64")
    assert sorted(pool_names(pool)) == ["rtx-3060-v12", "tesla-t4"]


def test_two_files_that_share_a_card_import_nothing(pool: Pool) -> None:
    with pytest.raises(CommandError, match="UUID is its identity"):
        _inventory(*sorted(SMI.glob("*.xml")))
    assert not Node.objects.exists()


def test_a_card_of_an_earlier_import_is_refused_and_named(pool: Pool) -> None:
    _inventory(SMI / "tesla-t4.xml")
    with pytest.raises(CommandError, match="belongs to node"):
        _inventory(SMI / "tesla-t4.xml", "--name-prefix=again-")
    assert Node.objects.count() == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([SMI / "LICENSE.xml-MIT"], "LICENSE"),
        ([SMI / "no-such-file.xml"], "No such file"),
        ([H100, "--nodes=2"], "--multiply"),
        ([H100, "--multiply=0"], "whole number above 0"),
        ([H100, "--multiply=999"], "gpus must be 1 to"),
        ([H100, "--multiply=2", "--mig=1g.99gb=1"], "no MIG profile"),
    ],
    ids=["not an inventory", "missing", "nodes alone", "zero", "too many", "no such profile"],
)
def test_what_cannot_be_imported_says_why(pool: Pool, arguments: list[object], says: str) -> None:
    with pytest.raises(CommandError, match=says):
        _inventory(*arguments)
    assert not Node.objects.exists()


def test_a_pool_that_does_not_exist_is_answered_with_those_that_do(pool: Pool) -> None:
    with pytest.raises(CommandError, match="acme/main"):
        _inventory(H100, pool="mian")


def test_the_public_fleet_comes_in_as_a_whole_and_again_changes_nothing(pool: Pool) -> None:
    assert _fleet(OPENB) == "1213 nodes added, 0 known already; 6212 GPUs.\n"
    assert Device.objects.filter(bookable_mode="whole", healthy=True).count() == 6212
    assert NodeResource.objects.filter(resource="vcpu", allocatable__gt=0).count() == 1213
    versions = set(Device.objects.values_list("version", flat=True))
    assert _fleet(OPENB) == "0 nodes added, 1213 known already; 6212 GPUs.\n"
    assert set(Device.objects.values_list("version", flat=True)) == versions == {1}


def test_a_broken_line_imports_nothing(pool: Pool, tmp_path: Path) -> None:
    broken = tmp_path / "fleet.csv"
    broken.write_text("sn,cpu_milli,memory_mib,gpu,model\nn1,1000,1024,1,T4\nn2,x,1024,1,T4\n")
    with pytest.raises(CommandError, match="line 3"):
        _fleet(broken)
    assert not Node.objects.exists()
