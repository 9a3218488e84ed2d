"""Nodes as people read them at a terminal. Pure."""

from collections.abc import Sequence

from bettercompute.cli.output import Cell, Shown, Table, facts
from bettercompute.cli.views import Reader
from bettercompute.wire.nodes import Node, NodeDevice, NodeOperation, NodeSummary


def several(found: Sequence[NodeSummary], reader: Reader, *, more: bool) -> Shown:
    """Nodes, by id."""
    rows = [
        (
            each.id,
            each.name,
            reader.pool(each.pool_id),
            _state(each),
            f"{each.healthy_devices} of {each.bookable_devices}",
            ", ".join(each.conditions),
        )
        for each in found
    ]
    columns = ("ID", "NAME", "POOL", "STATE", "HEALTHY", "CONDITIONS")
    return Shown(
        document={"items": found, "more": more},
        ids=[each.id for each in found],
        human=[Table(columns, rows, "No nodes.")],
    )


def one(found: Node, reader: Reader) -> Shown:
    """One with all that is known of it."""
    labels = ", ".join(f"{name}={value}" for name, value in sorted(found.labels.items()))
    taints = ", ".join(":".join(taint.values()) for taint in found.taints)
    human: list[str | Table] = [f"{found.id}  {found.name}"]
    human += facts(
        [
            ("State", _state(found).text),
            ("Pool", reader.pool(found.pool_id)),
            ("Labels", labels),
            ("Taints", taints),
            ("Agent", found.agent_version),
            ("Last heard", reader.moment(found.last_seen) or "never"),
            *((each.type, each.message or each.reason) for each in found.condition_details),
        ]
    )
    amounts = [
        (each.resource, str(each.allocated), str(each.allocatable)) for each in found.resources
    ]
    if amounts:
        human += ["", Table(("RESOURCE", "BOOKED AT THE PEAK", "OF"), amounts, "")]
    devices = [_device(each) for each in found.devices]
    columns = ("DEVICE", "KIND", "MODEL", "PROFILE", "BOOKABLE", "STATE")
    human += ["", Table(columns, devices, "No devices.")]
    return Shown(document=found, ids=[found.id], human=human)


def operation(done: NodeOperation, reader: Reader, *, preview: bool) -> Shown:
    """What was done to a node, and what is on it."""
    node, effect = done.node, done.effect
    if preview:
        told = f"{node.id}  {_state(node).text}, and stays so: this was a preview"
    else:
        told = f"{node.id}  {_state(node).text}{'' if done.applied else ', as before'}"
    on_it = "Nothing is on it."
    if effect.allocations:
        many = effect.allocations != 1
        ends = reader.moment(effect.last_end)
        on_it = (
            f"{effect.allocations} {'allocations' if many else 'allocation'} with "
            f"{effect.devices} {'devices' if effect.devices != 1 else 'device'} "
            f"{'stay' if many else 'stays'} on it" + (f", the last until {ends}." if ends else ".")
        )
    return Shown(document=done, ids=[node.id], human=[told, on_it])


def _state(node: NodeSummary) -> Cell:
    if node.cordoned:
        return Cell(f"{node.state}, cordoned", "yellow")
    return Cell(str(node.state), "green" if node.eligible else "yellow")


def _device(device: NodeDevice) -> tuple[str | Cell, ...]:
    if device.quarantined:
        state = Cell("quarantined", "red")
    elif not device.healthy:
        state = Cell(device.health_reason or "unhealthy", "red")
    else:
        state = Cell("healthy", "green")
    return (
        device.id,
        device.kind,
        device.model,
        device.profile,
        "yes" if device.bookable else "no",
        state,
    )
