"""The MIG instances of a card: which profile each is, and where on the card it sits.

``nvidia-smi -q`` gives neither: it lists compute instances with their GPU instance's id, memory
and copy engines. ``-L`` adds the profile's name, ``mig -lgi`` the position. Where they are missing
the profile follows from memory and copy engines (one for each compute slice), and the position
from the instance's id, which the driver numbers by position for one- and two-slice instances of a
7-slice card, and from what is left for the larger ones.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bettercompute.agent import inventory
from bettercompute.agent.vendors import nvidia_text
from bettercompute.agent.vendors.nvidia_tree import Section
from nodes import layouts

_COMPUTE_PREFIX = re.compile(r"^\d+c\.")
_MIG_UUID = re.compile(r"MIG-[0-9A-Za-z-]{1,100}")
# A capture masks them by counting: MIG-00000002-0000-0000-0000-000000000002.
_MASKED = re.compile(r"MIG-([0-9a-f]{8})-0000-0000-0000-0000\1")
_SEVEN_SLICE_UNITS = 8
_MEMORY_TOLERANCE = 0.12


@dataclass(frozen=True, slots=True)
class Reading:
    """The instances that could be placed, and a word on those that could not."""

    instances: tuple[inventory.MigInstance, ...] = ()
    placement: str = ""  # "listed" by the driver, or "inferred"
    unplaced: str = ""
    uuids_derived: bool = False


@dataclass(frozen=True, slots=True)
class _Instance:
    """One GPU instance: several compute instances of it are one place and one memory."""

    id: int
    memory_mib: int
    copy_engines: int | None
    listed_profile: str
    uuids: tuple[str, ...]


def read(
    section: Section,
    *,
    gpu_uuid: str,
    gpu_index: int,
    model_class: str,
    memory_mib: int,
    listings: nvidia_text.Listings,
) -> Reading:
    """The MIG instances of one card."""
    found = _gpu_instances(section, gpu_index, listings.mig)
    if not found:
        return Reading()
    try:
        card = layouts.card(model_class, memory_mib=memory_mib)
        named = {each.id: _profile(card, each) for each in found}
        listed = {
            each.id: start
            for each in found
            if (start := listings.starts.get((gpu_index, each.id))) is not None
        }
        starts = _starts(card, named, listed)
    except (LookupError, layouts.LayoutImpossible) as error:
        return Reading(unplaced=f"{len(found)} MIG instances not placed: {error.args[0]}")
    instances = [_placed(gpu_uuid, each, named[each.id], starts[each.id]) for each in found]
    return Reading(
        tuple(sorted(instances, key=lambda each: each.start)),
        "listed" if starts == listed else "inferred",
        uuids_derived=any(_MASKED.fullmatch(uuid) for each in found for uuid in each.uuids),
    )


def _gpu_instances(
    section: Section, gpu_index: int, listed: Mapping[tuple[int, int], nvidia_text.ListedMig]
) -> list[_Instance]:
    group = section.at("mig_devices") or section
    instances: dict[int, _Instance] = {}
    for device in group.all("mig_device"):
        gpu_instance, index = device.count("gpu_instance_id"), device.count("index")
        if gpu_instance is None or index is None:
            continue
        line = listed.get((gpu_index, index), nvidia_text.ListedMig("", ""))
        uuid = device.text("uuid", "mig_uuid") or line.uuid
        earlier = instances.get(gpu_instance)
        instances[gpu_instance] = _Instance(
            gpu_instance,
            device.count("fb_memory_usage/total", "shared_fb_memory_usage/total") or 0,
            device.count("device_attributes/shared/copy_engine_count"),
            _COMPUTE_PREFIX.sub("", line.profile),
            (earlier.uuids if earlier else ()) + ((uuid,) if _MIG_UUID.fullmatch(uuid) else ()),
        )
    return sorted(instances.values(), key=lambda each: each.id)


def _profile(card: layouts.Card, instance: _Instance) -> layouts.Profile:
    """Raises: UnknownProfile."""
    if instance.listed_profile:
        return layouts.profile(card.name, instance.listed_profile)
    gib = instance.memory_mib / 1024
    near = [
        each
        for each in card.profiles
        if "+" not in each.name and abs(gib - each.memory_gb) <= each.memory_gb * _MEMORY_TOLERANCE
    ]
    # Eight copy engines belong to the whole card, whose profile has seven compute slices.
    slices = min(instance.copy_engines or 0, 7)
    exact = [each for each in near if each.compute_slices == slices]
    if len(exact or near) != 1:
        raise layouts.UnknownProfile(
            f"an instance with {instance.memory_mib} MiB and {instance.copy_engines} copy engines"
            f" is no profile of a {card.name}"
        )
    return (exact or near)[0]


def _starts(
    card: layouts.Card, named: Mapping[int, layouts.Profile], listed: Mapping[int, int]
) -> dict[int, int]:
    """A start for each GPU instance id: as listed, else inferred. Raises: LayoutImpossible."""
    if listed.keys() == named.keys():
        layout = [(named[id_].name, start) for id_, start in listed.items()]
        if not layouts.is_legal(card.name, layout):
            raise layouts.LayoutImpossible(f"A {card.name} cannot be cut into {layout}")
        return dict(listed)

    numbered = {id_: _numbered(card, id_, each) for id_, each in named.items()}
    pinned = {id_: start for id_, start in numbered.items() if start is not None}
    counts = Counter(each.name for each in named.values())
    try:
        layout = [(named[id_].name, start) for id_, start in pinned.items()]
        return _assign(layouts.pack(card.name, counts, pinned=layout), named, pinned)
    except layouts.LayoutImpossible:
        return _assign(layouts.pack(card.name, counts), named, {})


def _numbered(card: layouts.Card, id_: int, profile: layouts.Profile) -> int | None:
    """The start that the id stands for; None where ids do not follow positions."""
    if card.grid_units != _SEVEN_SLICE_UNITS or profile.size > 2:
        return None
    start = id_ - 7 if profile.size == 1 else (id_ - 3) * 2
    return start if start in profile.starts else None


def _assign(
    packed: Sequence[layouts.Placement],
    named: Mapping[int, layouts.Profile],
    pinned: Mapping[int, int],
) -> dict[int, int]:
    starts = dict(pinned)
    for id_, profile in named.items():
        if id_ not in starts:
            used = {starts[other] for other in starts if named[other].name == profile.name}
            starts[id_] = next(
                each.start
                for each in packed
                if each.profile == profile.name and each.start not in used
            )
    return starts


def _placed(
    gpu_uuid: str, instance: _Instance, profile: layouts.Profile, start: int
) -> inventory.MigInstance:
    uuids = tuple(
        inventory.derived_id(f"{gpu_uuid} {uuid}", prefix="MIG")
        if _MASKED.fullmatch(uuid)
        else uuid
        for uuid in instance.uuids
    )
    return inventory.MigInstance(
        atom_id=inventory.mig_atom_id(gpu_uuid, start=start, profile=profile.name),
        uuid=uuids[0] if uuids else None,
        compute_uuids=uuids,
        profile=profile.name,
        start=start,
        size=profile.size,
        memory_mib=instance.memory_mib,
    )
