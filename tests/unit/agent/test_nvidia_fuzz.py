"""Whatever happens to a real file, reading it answers a host or says that it cannot."""

from pathlib import Path

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from bettercompute.agent.inventory import Health, HostInventory, InventoryUnreadable
from bettercompute.agent.vendors import nvidia

DATA = Path(__file__).parents[2] / "data" / "nvidia-smi"
CONTENTS = [
    path.read_text(encoding="utf-8")
    for path in sorted([*DATA.glob("*.xml"), *DATA.glob("*-mig*.txt")])
]
JUNK = st.sampled_from(
    ["", "\x00", "<", "</gpu>", "]]>", "&x;", "ERR!", "9" * 5000, "\n", "GPU 0", " : ", "\ud800",
     "-1", "[N/A]", "MIG Device", "\t" * 50, "GPU-00000000-0000-0000-0000-000000000000", "٣", "é"]
)  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A real file after one to four accidents."""
    text = draw(st.sampled_from(CONTENTS))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.sampled_from([0, 1, 9, 200, 5000, 10**6])))
        kind = draw(st.sampled_from(["cut", "replace", "double", "words"]))
        if kind == "cut":
            text = text[:start] + text[end:]
        elif kind == "double":
            text = text[:end] + text[start:end] + text[end:]
        elif kind == "replace":
            text = text[:start] + draw(JUNK) + text[end:]
        else:
            line = text[start:].partition("\n")[0]
            text = text.replace(line, draw(JUNK)) if len(line) > 3 else text
    return text[:2_000_000]


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(damaged())
def test_a_damaged_file_reads_or_is_unreadable(text: str) -> None:
    try:
        host = nvidia.read(text, source="damaged")
    except InventoryUnreadable as error:
        event("unreadable")
        message = str(error)
        host = HostInventory()
    else:
        event(f"{len(host.gpus)} cards")
        message = "damaged: "

    assert message.startswith("damaged: ")
    assert HostInventory.from_wire(host.to_wire()) == host
    for gpu in host.gpus:
        assert (gpu.health is Health.HEALTHY) == (gpu.health_reason == "")


@settings(max_examples=100)
@given(st.text(max_size=300), st.sampled_from(["", "==NVSMI LOG==\n", "<nvidia_smi_log>"]))
def test_any_text_reads_or_is_unreadable(text: str, beginning: str) -> None:
    message = "input: "
    try:
        nvidia.read(beginning + text)
    except InventoryUnreadable as error:
        message = str(error)

    assert message.startswith("input: ")
