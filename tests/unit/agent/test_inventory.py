"""The shape of an inventory report, and identity across hosts."""

from typing import Any

import pytest
from pydantic import ValidationError

from bettercompute.agent import inventory
from bettercompute.agent.inventory import (
    DuplicateIdentity,
    Gpu,
    HostInventory,
    MigInstance,
    NumaNode,
)


def gpu(uuid: str = "GPU-a", index: int = 0, **fields: Any) -> Gpu:
    return Gpu(
        uuid=uuid,
        index=index,
        model="NVIDIA H100 80GB HBM3",
        model_class="H100",
        memory_mib=81559,
        pci_bus_id=f"00000000:{index:02X}:00.0",
        **fields,
    )


def test_the_report_is_camel_case_with_units_as_the_api_writes_them() -> None:
    host = HostInventory(
        hostname="gpu-1", memory_gib=2, hugepages_1gi=3, hugepages_2mi=4, gpus=(gpu(),)
    )

    body = host.to_wire()

    assert (body["memoryGiB"], body["hugepages1Gi"], body["hugepages2Mi"]) == (2, 3, 4)
    assert body["gpus"][0]["memoryMiB"] == 81559
    assert body["gpus"][0]["pciBusId"] == "00000000:00:00.0"
    assert HostInventory.from_wire(body) == host


def test_an_unknown_field_is_refused_at_any_depth() -> None:
    body = HostInventory(numa=(NumaNode(id=0),)).to_wire()
    body["numa"][0]["colour"] = "green"

    with pytest.raises(ValidationError, match="colour"):
        HostInventory.from_wire(body)


@pytest.mark.parametrize("uuid", ["", "GPU-a/m0", "GPU-a:s1", "GPU a", "GPU-\x00", "x" * 129])
def test_a_device_id_has_no_separator_in_it(uuid: str) -> None:
    with pytest.raises(ValidationError):
        gpu(uuid)


@pytest.mark.parametrize("hostname", ["a\x00b", "h" * 256])
def test_text_of_a_report_is_bounded(hostname: str) -> None:
    with pytest.raises(ValidationError):
        HostInventory(hostname=hostname)


@pytest.mark.rule("N9")
def test_two_cards_of_one_host_cannot_share_a_uuid() -> None:
    with pytest.raises(ValidationError, match="GPU-a"):
        HostInventory(gpus=(gpu(index=0), gpu(index=1)))


@pytest.mark.rule("N9")
def test_an_atom_is_named_by_card_place_and_profile() -> None:
    atom = inventory.mig_atom_id("GPU-a", start=4, profile="3g.40gb")
    instance = MigInstance(atom_id=atom, profile="3g.40gb", start=4, size=4)

    assert atom == "GPU-a/m4-3g.40gb"
    assert gpu(mig_instances=(instance,)).mig_instances == (instance,)
    with pytest.raises(ValidationError, match=r"should be 'GPU-b/m4-3g\.40gb'"):
        gpu("GPU-b", mig_instances=(instance,))


@pytest.mark.rule("N9")
def test_one_uuid_in_two_hosts_is_refused_and_both_are_named() -> None:
    hosts = {
        "one.xml": HostInventory(gpus=(gpu("GPU-a"),)),
        "two.xml": HostInventory(gpus=(gpu("GPU-a"),)),
        "three.xml": HostInventory(gpus=(gpu("GPU-c"),)),
    }

    with pytest.raises(DuplicateIdentity, match=r"GPU-a is in one\.xml and in two\.xml"):
        inventory.refuse_duplicates(hosts)

    del hosts["two.xml"]
    inventory.refuse_duplicates(hosts)


def test_a_derived_id_depends_on_its_origin_alone() -> None:
    # Bookings hold these ids, so they may not change from one release to the next.
    assert inventory.derived_id("x") == "GPU-3486af97-5eb5-56e1-92f2-cd3dfbc952ec"
    assert inventory.derived_id("x") != inventory.derived_id("y")
