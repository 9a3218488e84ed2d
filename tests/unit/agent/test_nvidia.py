"""Every real nvidia-smi output is read, and a broken card costs its neighbours nothing."""

import re
from pathlib import Path

import pytest

from bettercompute.agent import inventory
from bettercompute.agent.inventory import (
    DuplicateIdentity,
    EccMode,
    Gpu,
    Health,
    HostInventory,
    InventoryUnreadable,
    MigMode,
)
from bettercompute.agent.vendors import nvidia, nvidia_models, nvidia_text

DATA = Path(__file__).parents[2] / "data" / "nvidia-smi"
FILES = sorted([*DATA.glob("*.xml"), *DATA.glob("*.txt")])
H100 = "linux-x86_64__nvidia-h100-80gb-hbm3__590.48.01.txt"
H100_MIG = "linux-x86_64__nvidia-h100-mig__590.48.01.txt"
H200_MIG = "linux-x86_64__nvidia-h200-mig__590.48.01.txt"


def content(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


def substituted(name: str, old: str, new: str) -> str:
    """A real file with one field changed; it fails where the file has no such field."""
    text = content(name)
    assert old in text, f"{name} has no {old!r}"
    return text.replace(old, new, 1)


def only_gpu(host: HostInventory) -> Gpu:
    (gpu,) = host.gpus
    return gpu


def read_one(name: str) -> Gpu:
    return only_gpu(nvidia.read_file(DATA / name))


def neighbours(*sections: str) -> str:
    """A host of several cards: real `<gpu>` sections set side by side in one document."""
    inner = "\n".join(sections)
    return f"<?xml version='1.0'?>\n<nvidia_smi_log>\n{inner}\n</nvidia_smi_log>"


def gpu_section(name: str) -> str:
    match = re.search(r"<gpu id=.*</gpu>", content(name), re.DOTALL)
    assert match is not None
    return match[0]


class TestRealOutputs:
    def test_there_are_seventeen(self) -> None:
        assert len(FILES) == 17

    @pytest.mark.rule("N9")
    @pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
    def test_each_is_one_healthy_card_that_survives_the_wire(self, path: Path) -> None:
        host = nvidia.read_file(path, hostname="gpu-1")
        gpu = only_gpu(host)

        assert (gpu.health, gpu.health_reason) == (Health.HEALTHY, "")
        assert gpu.memory_mib > 1024
        assert re.fullmatch(r"GPU-[0-9a-f-]{36}", gpu.uuid)
        assert re.fullmatch(r"0{8}:[0-9A-F]{2}:[0-9A-F]{2}\.0", gpu.pci_bus_id)
        assert HostInventory.from_wire(host.to_wire()) == host

    @pytest.mark.parametrize(
        ("name", "model_class", "memory_mib"),
        [
            ("a100-sxm4-v12.xml", "A100", 81920),
            ("a10g.xml", "A10G", 23028),
            ("gtx-1070-ti.xml", "GTX 1070 Ti", 4096),
            ("gtx-1660-ti.xml", "Graphics Device", 5912),
            ("quadro-p2000-v12.xml", "Quadro P2000", 5120),
            ("rtx-3090-v12.xml", "RTX 3090", 24576),
            ("rtx-4000-sff-ada-v13.xml", "RTX 4000 SFF Ada", 20475),
            ("tesla-t4.xml", "T4", 15360),
            (H100, "H100", 81559),
            (H200_MIG, "H200", 143771),
            ("linux-x86_64__nvidia-l40s__595.80.txt", "L40S", 46068),
        ],
    )
    def test_models_have_a_class_and_their_memory(
        self, name: str, model_class: str, memory_mib: int
    ) -> None:
        gpu = read_one(name)

        assert (gpu.model_class, gpu.memory_mib) == (model_class, memory_mib)

    @pytest.mark.rule("N9")
    def test_the_minor_number_is_not_the_index(self) -> None:
        gpu = read_one("a100-sxm4-v12.xml")

        assert (gpu.index, gpu.minor) == (0, 1)

    def test_fewer_cards_than_attached_is_said(self) -> None:
        host = nvidia.read_file(DATA / "a100-sxm4-v12.xml")

        assert host.warnings == ("the driver counts 4 GPUs and describes 1",)

    @pytest.mark.case(29)
    def test_what_the_driver_does_not_say_is_none_with_its_word_kept(self) -> None:
        gpu = read_one("rtx-3080-v12.xml")

        assert (gpu.minor, gpu.serial, gpu.mig) == (None, None, MigMode.UNSUPPORTED)
        assert gpu.ecc == inventory.Ecc()
        assert gpu.unreported == {"minor": "N/A", "serial": "N/A", "mig": "N/A", "ecc": "N/A"}

    def test_errors_are_counted_where_the_card_counts_them(self) -> None:
        ecc = read_one("tesla-t4.xml").ecc

        assert (ecc.mode, ecc.volatile_uncorrectable, ecc.retired_pages) == (EccMode.ENABLED, 0, 0)
        assert read_one("rtx-4000-sff-ada-v13.xml").ecc.mode is EccMode.DISABLED

    def test_a_capture_adds_topology_and_versions(self) -> None:
        host = nvidia.read_file(DATA / H100)
        gpu = only_gpu(host)

        assert (host.driver_version, host.cuda_version) == ("590.48.01", "13.1")
        assert (gpu.numa_node, gpu.cpulist, gpu.nvlink_group) == (0, "0-19", None)

    def test_text_and_xml_of_one_card_agree(self) -> None:
        """The text of the log says what its XML says: written here from the XML's own values."""
        text = (
            "==============NVSMI LOG==============\n"
            "Driver Version                        : 515.105.01\n"
            "CUDA Version                          : 11.7\n"
            "Attached GPUs                         : 1\n"
            "GPU 00000000:00:1E.0\n"
            "    Product Name                      : Tesla T4\n"
            "    Product Brand                     : NVIDIA\n"
            "    Product Architecture              : Turing\n"
            "    MIG Mode\n        Current : N/A\n        Pending : N/A\n"
            "    Serial Number                     : 0000000000000\n"
            "    GPU UUID                  : GPU-d37e67a5-91dd-3774-a5cb-99096249601a\n"
            "    Minor Number                      : 0\n"
            "    VBIOS Version                     : 90.04.84.00.06\n"
            "    PCI\n        Bus Id                        : 00000000:00:1E.0\n"
            "    FB Memory Usage\n        Total                         : 15360 MiB\n"
            "    Compute Mode                      : Default\n"
            "    Ecc Mode\n        Current : Enabled\n        Pending : Enabled\n"
            "    ECC Errors\n        Volatile\n            DRAM Uncorrectable : 0\n"
            "        Aggregate\n            DRAM Uncorrectable : 0\n"
            "    Retired Pages\n        Single Bit ECC : 0\n        Double Bit ECC : 0\n"
        )

        assert nvidia.read(text) == nvidia.read(content("tesla-t4.xml"))


class TestMigInstances:
    @pytest.mark.rule("N9")
    @pytest.mark.rule("N10")
    def test_a_capture_without_positions_has_them_inferred(self) -> None:
        gpu = read_one(H100_MIG)

        assert gpu.mig is MigMode.ENABLED
        assert [(each.profile, each.start, each.size) for each in gpu.mig_instances] == [
            ("2g.20gb", 0, 2),
            ("1g.10gb", 2, 1),
            ("1g.10gb", 3, 1),
            ("3g.40gb", 4, 4),
        ]
        assert gpu.mig_instances[3].atom_id == f"{gpu.uuid}/m4-3g.40gb"
        assert gpu.attributes["mig-placement"] == "inferred"

    def test_two_compute_instances_are_one_atom_with_two_uuids(self) -> None:
        gpu = read_one(H200_MIG)
        split = gpu.mig_instances[-1]

        assert [each.profile for each in gpu.mig_instances] == [
            "2g.35gb",
            "1g.18gb",
            "1g.18gb",
            "3g.71gb",
        ]
        assert (split.memory_mib, len(set(split.compute_uuids))) == (71424, 2)
        assert split.uuid == split.compute_uuids[0]

    def test_xml_alone_gives_profiles_by_memory_and_copy_engines(self) -> None:
        gpu = read_one("a100-sxm4-v12.xml")

        assert [(each.profile, each.start) for each in gpu.mig_instances] == [
            ("1g.20gb", 0),
            ("1g.20gb", 2),
            ("1g.20gb", 4),
            ("1g.20gb", 6),
        ]
        assert {each.uuid for each in gpu.mig_instances} == {None}

    def test_the_ids_of_small_instances_say_where_they_are(self) -> None:
        # The first two of four instances taken out of the real file: ids 5 and 6 stay.
        text = re.sub(
            r"<mig_device>.*?</mig_device>",
            "",
            content("a100-sxm4-v12.xml"),
            count=2,
            flags=re.DOTALL,
        )

        assert [each.start for each in only_gpu(nvidia.read(text)).mig_instances] == [4, 6]

    @staticmethod
    def listed(places: dict[int, str]) -> Gpu:
        """The H100 capture with the places of its instances (by id) as `mig -lgi` prints them."""
        profiles = {2: ("3g.40gb", 9), 3: ("2g.20gb", 14), 9: ("1g.10gb", 19), 10: ("1g.10gb", 19)}
        lines = [
            f"|   0  MIG {profiles[id_][0]:12} {profiles[id_][1]:3} {id_:8}          {place}     |"
            for id_, place in places.items()
        ]
        return only_gpu(nvidia.read("\n".join([content(H100_MIG), *lines])))

    def test_positions_that_the_driver_lists_win(self) -> None:
        gpu = self.listed({2: "4:4", 3: "2:2", 9: "1:1", 10: "0:1"})

        assert gpu.attributes["mig-placement"] == "listed"
        assert [(each.profile, each.start) for each in gpu.mig_instances] == [
            ("1g.10gb", 0),
            ("1g.10gb", 1),
            ("2g.20gb", 2),
            ("3g.40gb", 4),
        ]

    def test_an_incomplete_list_of_positions_is_not_mixed_with_guesses(self) -> None:
        assert self.listed({2: "4:4", 3: "2:2"}).attributes["mig-placement"] == "inferred"

    @pytest.mark.rule("N10")
    def test_listed_positions_that_share_a_slice_are_shown_and_not_booked(self) -> None:
        gpu = self.listed({2: "0:4", 3: "4:2", 9: "6:1", 10: "5:1"})

        assert gpu.mig_instances == ()
        assert gpu.attributes["mig-unplaced"].startswith("4 MIG instances not placed")

    @pytest.mark.case(26)
    def test_instances_of_an_unknown_card_are_shown_and_not_booked(self) -> None:
        # One field changed: the model is one whose grid is not known.
        text = substituted("a100-sxm4-v12.xml", "NVIDIA A100-SXM4-80GB", "NVIDIA Z900-SXM9")

        gpu = only_gpu(nvidia.read(text))

        assert gpu.health is Health.HEALTHY
        assert gpu.mig_instances == ()
        assert "4 MIG instances not placed" in gpu.attributes["mig-unplaced"]

    def test_a_mode_that_waits_for_a_reset_is_pending(self) -> None:
        text = substituted(
            "a100-sxm4-v12.xml",
            "<pending_mig>Enabled</pending_mig>",
            "<pending_mig>Disabled</pending_mig>",
        )

        assert only_gpu(nvidia.read(text)).mig is MigMode.PENDING


class TestIdentity:
    @pytest.mark.rule("N9")
    def test_a_masked_uuid_is_derived_and_says_so(self) -> None:
        host = nvidia.read_file(DATA / H100)

        assert only_gpu(host).attributes["uuid-derived-from"].startswith("device identifier 0x")
        assert "1 GPU UUIDs are derived" in host.warnings[0]

    def test_a_masked_serial_number_is_none(self) -> None:
        assert "<serial>0000000000000</serial>" in content("tesla-t4.xml")
        assert read_one("tesla-t4.xml").serial is None
        assert read_one("a100-sxm4-v12.xml").serial == "1650522003820"

    def test_two_captures_of_one_masked_card_agree(self) -> None:
        assert read_one(H100).uuid == read_one(H100_MIG).uuid
        assert read_one(H100).uuid != read_one(H200_MIG).uuid

    def test_without_a_device_identifier_the_place_counts(self) -> None:
        text = content(H100).replace("0xd52bae2e458244e2", "N/A")

        first, again, elsewhere = (
            only_gpu(nvidia.read(text, hostname=name)).uuid for name in ("one", "one", "two")
        )

        assert first == again
        assert first != elsewhere

    def test_masked_mig_uuids_of_two_cards_differ(self) -> None:
        uuids = [
            {each.uuid for each in read_one(name).mig_instances} for name in (H100_MIG, H200_MIG)
        ]

        assert len(uuids[0]) == len(uuids[1]) == 4
        assert not uuids[0] & uuids[1]
        assert read_one(H100_MIG).attributes["mig-uuids"] == "derived"

    @pytest.mark.rule("N9")
    def test_two_files_with_one_uuid_are_refused_together(self) -> None:
        names = ("rtx-3080-v12.xml", "rtx-3080-v13.xml", "tesla-t4.xml")

        with pytest.raises(DuplicateIdentity, match=r"rtx-3080-v12\.xml and in rtx-3080-v13\.xml"):
            inventory.refuse_duplicates({name: nvidia.read_file(DATA / name) for name in names})

    def test_two_cards_of_one_output_with_one_uuid_are_refused(self) -> None:
        text = neighbours(gpu_section("tesla-t4.xml"), gpu_section("tesla-t4.xml"))

        with pytest.raises(InventoryUnreadable, match=r"both\.xml: .*GPU-d37e67a5"):
            nvidia.read(text, source="both.xml")


class TestBrokenCards:
    """No whole capture of these exists: each test changes fields of a real one."""

    @pytest.mark.rule("N9")
    @pytest.mark.case(28)
    @pytest.mark.parametrize(
        "word", ["GPU is lost", "[Unknown Error]", "Unknown Error", "ERR!", "[GPU requires reset]"]
    )
    def test_one_unreadable_field_makes_the_card_unhealthy(self, word: str) -> None:
        text = substituted("tesla-t4.xml", "<gpu_temp>40 C<", f"<gpu_temp>{word}<")

        gpu = only_gpu(nvidia.read(text))

        assert gpu.health is Health.UNHEALTHY
        assert gpu.health_reason == f"temperature/gpu temp reads {word!r}"
        assert gpu.uuid == "GPU-d37e67a5-91dd-3774-a5cb-99096249601a"

    @pytest.mark.rule("N9")
    @pytest.mark.case(28)
    def test_a_card_lost_altogether_leaves_its_neighbours_healthy(self) -> None:
        lost = re.sub(r">[^<>]*\S[^<>]*<", ">GPU is lost<", gpu_section("a100-sxm4-v12.xml"))
        text = neighbours(gpu_section("tesla-t4.xml"), lost, gpu_section("a10g.xml"))

        before, broken, after = nvidia.read(text, hostname="gpu-1").gpus

        assert (before.health, after.health) == (Health.HEALTHY, Health.HEALTHY)
        assert (before.model_class, after.model_class, after.index) == ("T4", "A10G", 2)
        assert broken.health is Health.UNHEALTHY
        assert broken.pci_bus_id == "00000000:01:00.0"
        assert broken.attributes["uuid-derived-from"] == "host gpu-1, PCI bus id 00000000:01:00.0"

    @pytest.mark.case(28)
    @pytest.mark.parametrize(
        "line",
        [
            "Unable to determine the device handle for GPU0000:CB:00.0: GPU is lost.  Reboot",
            "Unable to determine the device handle for GPU1: 0000:CB:00.0: Unknown Error",
            "Unable to determine the device handle for gpu 0000:cb:00.0: Unknown Error",
        ],
    )
    def test_a_card_that_the_driver_only_complains_about_is_a_device(self, line: str) -> None:
        for text in (f"{line}\n{content('tesla-t4.xml')}", f"{content('tesla-t4.xml')}\n{line}\n"):
            healthy, broken = nvidia.read(text, hostname="gpu-1").gpus

            assert healthy.health is Health.HEALTHY
            assert (broken.health, broken.pci_bus_id) == (Health.UNHEALTHY, "00000000:CB:00.0")
            assert broken.health_reason.startswith("the driver cannot reach it: ")

    def test_a_card_that_is_described_and_complained_about_is_one_device(self) -> None:
        line = "Unable to determine the device handle for GPU0000:00:1E.0: Unknown Error"

        gpu = only_gpu(nvidia.read(f"{content('tesla-t4.xml')}\n{line}\n"))

        assert gpu.uuid == "GPU-d37e67a5-91dd-3774-a5cb-99096249601a"
        assert gpu.health_reason == "the driver cannot reach it: Unknown Error"

    @pytest.mark.parametrize(
        ("name", "old", "new", "reason"),
        [
            (
                "a100-sxm4-v12.xml",
                "<reset_required>No<",
                "<reset_required>Yes<",
                "a reset is required",
            ),
            (
                "tesla-t4.xml",
                "<dram_uncorrectable>0<",
                "<dram_uncorrectable>3<",
                "3 uncorrectable memory errors since the last reset",
            ),
            (
                "tesla-t4.xml",
                "<retired_count>0<",
                "<retired_count>60<",
                "60 retired memory pages",
            ),
            (
                "tesla-t4.xml",
                "<pending_retirement>No<",
                "<pending_retirement>Yes<",
                "a retired page waits for a reset",
            ),
            (
                "rtx-4000-sff-ada-v13.xml",
                "<remapped_row_failure>No<",
                "<remapped_row_failure>Yes<",
                "remapping a memory row failed",
            ),
            (
                "rtx-4000-sff-ada-v13.xml",
                "<gpu_recovery_action>None<",
                "<gpu_recovery_action>Drain and Reset<",
                "the driver recommends: Drain and Reset",
            ),
            (
                H100,
                "        Pending                                        : No\n",
                "        Pending                                        : Yes\n",
                "a remapped row waits for a reset",
            ),
            (
                H100,
                ": Completed",
                ": In Progress",
                "NVLink fabric: In Progress",
            ),
            (
                "tesla-t4.xml",
                "<total>15360 MiB<",
                "<total>N/A<",
                "its memory size cannot be read",
            ),
        ],
    )
    def test_what_the_card_reports_about_itself_is_the_reason(
        self, name: str, old: str, new: str, reason: str
    ) -> None:
        gpu = only_gpu(nvidia.read(substituted(name, old, new)))

        assert (gpu.health, gpu.health_reason) == (Health.UNHEALTHY, reason)

    def test_fifty_nine_retired_pages_are_not_yet_a_reason(self) -> None:
        text = substituted("tesla-t4.xml", "<retired_count>0<", "<retired_count>59<")

        assert only_gpu(nvidia.read(text)).health is Health.HEALTHY

    def test_a_process_of_a_strange_name_is_no_fault(self) -> None:
        text = re.sub(
            r"<processes>.*?</processes>|<processes\s*/>",
            "<processes><process_info><process_name>ERR!</process_name></process_info></processes>",
            content("tesla-t4.xml"),
            count=1,
            flags=re.DOTALL,
        )

        assert "ERR!" in text
        assert only_gpu(nvidia.read(text)).health is Health.HEALTHY


class TestUnreadable:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", r"nodes\.xml: expected the output of `nvidia-smi -q -x`.*found nothing"),
            ("hello there", "found 'hello there'"),
            ("<html><body/></html>", "expected the output"),
            ("NVIDIA-SMI has failed because it couldn't communicate", "could not reach the driver"),
            ("<nvidia_smi_log><gpu>", r"broken XML"),
            ("<nvidia_smi_log>\x00</nvidia_smi_log>", "broken XML"),
            (f"<nvidia_smi_log>{'<a>' * 40}</nvidia_smi_log>", "deeper or longer"),
            ("<nvidia_smi_log></nvidia_smi_log>", "expected at least one GPU"),
            ("==NVSMI LOG==\nDriver Version : 590.48\nAttached GPUs : 8\n", "at least one GPU"),
            ("==NVSMI LOG==\n" + "\n".join(" " * i + "a" for i in range(99)), "deeper or longer"),
            ("x" * (nvidia.TEXT_CHARS_MAX + 1), "longer than"),
        ],
        ids=lambda value: value[:24] if value else "empty",
    )
    def test_the_message_names_the_file_and_what_was_expected(
        self, text: str, message: str
    ) -> None:
        with pytest.raises(InventoryUnreadable, match=message):
            nvidia.read(text, source="nodes.xml")

    def test_a_log_of_more_sections_than_any_is_refused(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(nvidia_text, "SECTIONS_MAX", 500)
        with pytest.raises(InventoryUnreadable, match="deeper or longer"):
            nvidia.read("==NVSMI LOG==\n" + "a\n" * 502, source="nodes.xml")

    @pytest.mark.parametrize(
        "declaration",
        [
            '<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">',
            '<!ENTITY a SYSTEM "file:///etc/hostname">',
            '<!ENTITY % a SYSTEM "http://127.0.0.1/x.dtd"> %a;',
        ],
    )
    def test_a_document_that_declares_an_entity_is_refused(self, declaration: str) -> None:
        text = content("tesla-t4.xml").replace(
            'SYSTEM "nvsmi_device_v11.dtd"', f"[{declaration}]", 1
        )
        assert declaration in text

        with pytest.raises(InventoryUnreadable, match="declares an entity"):
            nvidia.read(text, source="bomb.xml")

    def test_a_document_with_its_own_dtd_is_read(self) -> None:
        text = content("tesla-t4.xml").replace(
            'SYSTEM "nvsmi_device_v11.dtd"', "[<!ELEMENT nvidia_smi_log ANY>]", 1
        )
        assert "<!ELEMENT" in text

        assert only_gpu(nvidia.read(text)).model_class == "T4"

    def test_a_file_that_is_not_there_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(InventoryUnreadable, match=r"gone\.xml: No such file"):
            nvidia.read_file(tmp_path / "gone.xml")

    def test_a_host_without_cards_is_a_host(self) -> None:
        host = nvidia.read("No devices were found\n")

        assert (host.gpus, host.warnings) == ((), ("no GPU was found",))
        assert nvidia.read("==NVSMI LOG==\nAttached GPUs : 0\n").gpus == ()


@pytest.mark.parametrize(
    ("product", "model_class", "fabric"),
    [
        ("NVIDIA H100 80GB HBM3", "H100", True),
        ("NVIDIA H100 PCIe", "H100", False),
        ("NVIDIA H100 NVL", "H100", False),
        ("NVIDIA H200", "H200", True),
        ("NVIDIA A100-PCIE-40GB", "A100", False),
        ("A100-SXM4-40GB", "A100", True),
        ("Tesla V100-SXM2-16GB", "V100", True),
        ("NVIDIA GH200 480GB", "GH200", False),
        ("NVIDIA B200", "B200", True),
        ("NVIDIA GB200", "GB200", True),
        ("NVIDIA L4", "L4", False),
        ("NVIDIA L40S", "L40S", False),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000", False),
        ("NVIDIA GeForce RTX 3080", "RTX 3080", False),
        ("NVIDIA A100X", "A100X", False),
        ("", "unknown", False),
    ],
)
def test_product_names_have_a_class_and_perhaps_a_fabric(
    product: str, model_class: str, fabric: bool
) -> None:
    assert nvidia_models.model_class(product) == model_class
    assert nvidia_models.has_nvlink_fabric(product) is fabric
