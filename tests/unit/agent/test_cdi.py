"""CDI specs and env files, against the schema that CDI publishes."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
from referencing import Registry, Resource

from bettercompute.agent import cdi
from bettercompute.agent.atoms import Atom
from nodes.protocol.messages import Assignment, Limits

DATA = Path(__file__).parents[2] / "data" / "cdi"


@pytest.fixture(scope="module")
def schema():
    """The published schema, with the definitions it refers to."""
    root = json.loads((DATA / "schema_schema.json").read_text())
    definitions = json.loads((DATA / "schema_defs.json").read_text())
    registry = Registry().with_resource(
        "defs.json", Resource.from_contents(definitions, default_specification=_draft7())
    )
    return jsonschema.Draft7Validator(root, registry=registry)


def _draft7():
    from referencing.jsonschema import DRAFT7

    return DRAFT7


WHOLE = Atom("GPU-1", "GPU-1", 3, "GPU-1")
MIG = Atom("GPU-2/m0-1g.10gb+me", "GPU-2", 4, "MIG-now")
SLOT = Atom("GPU-3/s2", "GPU-3", None, "GPU-3")


def assignment(*atoms, **limits):
    return Assignment(
        allocation_id="alloc_1",
        device_ids=[atom.name for atom in atoms],
        limits=Limits(**limits),
    )


@pytest.mark.rule("N12")
@pytest.mark.parametrize("atoms", [(WHOLE,), (MIG,), (SLOT,), (WHOLE, MIG, SLOT)])
def test_a_spec_is_valid_against_the_published_schema(schema, atoms):
    schema.validate(cdi.spec(assignment(*atoms, memory_bytes=1), atoms))


@pytest.mark.rule("N12")
def test_the_schema_does_refuse_a_spec_without_devices(schema):
    broken = cdi.spec(assignment(WHOLE), [WHOLE])
    del broken["devices"]
    with pytest.raises(jsonschema.ValidationError):
        schema.validate(broken)


def test_device_names_are_such_that_loaders_accept_them():
    # From CDI's own rules: letters, digits, "_-.:" inside, a letter or digit at both ends.
    allowed = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?\Z")
    names = [cdi.device_name(atom.name) for atom in (WHOLE, MIG, SLOT)]
    assert names == ["GPU-1", "GPU-2:m0-1g.10gb.me", "GPU-3:s2"]
    assert all(allowed.match(name) for name in names)


def test_no_device_is_without_an_edit():
    # A loader refuses a device that changes nothing, and we may not know a card's device node.
    for device in cdi.spec(assignment(SLOT), [SLOT])["devices"]:
        assert device["containerEdits"]


def test_the_report_names_the_devices_of_the_spec():
    atoms = [WHOLE, MIG]
    wanted = assignment(*atoms)
    spec = cdi.spec(wanted, atoms)
    assert list(cdi.bound(wanted).cdi_devices) == [
        f"{spec['kind']}={device['name']}" for device in spec["devices"]
    ]


@pytest.mark.rule("N12")
def test_the_env_file_names_devices_as_the_driver_does_now():
    text = cdi.env_text(assignment(WHOLE, MIG), [WHOLE, MIG])
    assert text.splitlines() == [
        "BCD_ALLOCATION=alloc_1",
        "NVIDIA_VISIBLE_DEVICES=GPU-1,MIG-now",
        "CUDA_VISIBLE_DEVICES=GPU-1,MIG-now",
    ]


@pytest.mark.rule("R31")
def test_only_limits_make_a_slice():
    assert cdi.bound(assignment(WHOLE)).cgroup_parent == ""
    limited = assignment(WHOLE, cpu_millis=1_000)
    assert cdi.bound(limited).cgroup_parent == "bcd-alloc-alloc_1.slice"
    assert "BCD_CGROUP_PARENT=bcd-alloc-alloc_1.slice" in cdi.env_text(limited, [WHOLE])


def test_the_spec_is_the_hold():
    wanted = assignment(WHOLE, MIG, memory_bytes=7)
    assert cdi.assignment_of(json.dumps(cdi.spec(wanted, [WHOLE, MIG]))) == wanted


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"annotations": {"bcd.dev/assignment": 1}}']
)
def test_what_is_no_spec_of_ours_holds_nothing(text):
    assert cdi.assignment_of(text) is None
