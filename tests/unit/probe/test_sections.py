"""Each parser on what real machines print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rigops
from rigops.probe.registry import PASTED, SECTIONS
from rigops.probe.sections import (
    boot,
    bootloader,
    iommu_groups,
    nvidia_smi_p2p,
    nvidia_version,
    os_release,
    package_holds,
    packages,
    pci,
    proc_cmdline,
    rigops_state,
    uname,
)
from tests.corpus import CORPUS
from tests.unit.probe import answers, host_sections, pasted
from tests.unit.probe.snippets import run, tree
from tests.unit.programs import SHELLS
from tests.unit.recorded import rig

SOURCES = Path(rigops.__file__).parent

SAMPLES = {
    **{name: one.text for name, one in rig("threadripper-3x3090").sections.items()},
    **host_sections.ALL,
    **answers.BROKEN,
    **pasted.SAMPLES,
    "pasted": f"It hangs:\n{answers.UNAME}{answers.CMDLINE}",
}


def test_os_release() -> None:
    found = os_release.parse(answers.OS_RELEASE)

    assert (found.id, found.version_id, found.codename) == ("debian", "12", "bookworm")
    assert found.pretty_name == "Debian GNU/Linux 12 (bookworm)"


@pytest.mark.parametrize(
    ("line", "release", "machine"),
    [
        (answers.UNAME, "6.1.0-18-amd64", "x86_64"),
        ("== uname -a\nLinux pi 6.6.1 #1 Mon aarch64\n", "6.6.1", "aarch64"),
        ("rubbish", None, None),
    ],
)
def test_uname(line: str, release: str | None, machine: str | None) -> None:
    found = uname.parse(line)

    assert (found.release, found.machine) == (release, machine)
    assert bool(found.unparsed) == (release is None)


def test_a_command_line_with_quotes_and_repetitions() -> None:
    found = proc_cmdline.parse('root=/dev/sda1 dyndbg="file a.c +p" iommu=pt iommu=pt ro\n')

    assert found.arguments == (
        "root=/dev/sda1",
        'dyndbg="file a.c +p"',
        "iommu=pt",
        "iommu=pt",
        "ro",
    )


def test_boot() -> None:
    found = boot.parse(answers.BOOT)

    assert found.boot_id == "07940a50-a863-475b-8d58-ba4ed6b08cf0"
    assert found.uptime_s == 4099.41
    assert found.reboot_required
    assert found.reboot_packages == ("linux-image-6.1.0-20-amd64", "nvidia-driver")
    assert not boot.parse(answers.BOOT.split("== /run")[0]).reboot_required


def test_pci() -> None:
    found = pci.parse(answers.PCI)
    card = found.nvidia_gpus[0]

    assert [one.address for one in found.nvidia_gpus] == ["0000:0a:00.0", "0000:0b:00.0"]
    assert (card.device, card.driver, card.bar1_bytes) == (
        0x2204,
        "nvidia",
        268435456,
    )
    assert (card.link, card.fastest_link) == (pci.Link(2.5, 16), pci.Link(16.0, 16))
    assert found.functions[0].driver is None
    assert found.functions[0].link is None
    assert not found.unparsed


# As the kernel writes `resource`: the registers of an H100 are 64 bits wide, those of a 3090 32.
WIDE = "0x88042000000 0x88042ffffff 0x000000000014220c\n0x0 0x0 0x0\n"
NARROW = "0x00000000f6000000 0x00000000f6ffffff 0x0000000000040200\n"


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("registers", "sizes", "window"),
    [
        (WIDE, {0: 16 << 20, 2: 128 << 30, 4: 32 << 20}, 128 << 30),
        (NARROW, {0: 16 << 20, 1: 256 << 20, 3: 32 << 20}, 256 << 20),
        (NARROW, {0: 16 << 20, 3: 32 << 20}, None),
        (None, {1: 256 << 20}, 256 << 20),
        ("", {1: 256 << 20}, 256 << 20),
    ],
)
def test_the_window_of_a_card_in_sysfs(
    tmp_path: Path, shell: str, registers: str | None, sizes: dict[int, int], window: int | None
) -> None:
    card = tmp_path / "sys/bus/pci/devices/0000:3b:00.0"
    values = {"vendor": "0x10de\n", "device": "0x2331\n", "class": "0x030200\n"}
    if registers is not None:
        values["resource"] = registers
    tree(card, values)
    for number, size in sizes.items():
        with (card / f"resource{number}").open("wb") as file:
            file.truncate(size)

    _, text = run(pci.SECTION, shell, tmp_path, "/sys/bus/pci", "/sys/kernel")

    (found,) = pci.parse(text).functions
    assert found.bar1_bytes == window


@pytest.mark.parametrize(
    "line",
    [
        "0000:0a:00.0 vendor=0x10de device=0x22",
        "0000:0a:00.0 vendor=0x10de device=0x2204 class=0x0300",
        "0a:00.0 VGA compatible controller",
        "0000:0a:00.0",
    ],
)
def test_a_function_that_was_cut_short_is_not_read_as_another(line: str) -> None:
    assert pci.parse(line) == pci.Pci(unparsed=(line,))


def test_iommu_groups() -> None:
    found = iommu_groups.parse("== cat\r\n" + answers.TRANSLATED.replace("\n", "\r\n"))

    member = found.by_address.get("0000:0a:00.0")
    assert member is not None
    assert (member.group, member.type) == (13, "DMA-FQ")
    assert found.by_address.get("0000:0c:00.0") is None
    assert not found.is_off
    assert iommu_groups.parse("").is_off
    assert not iommu_groups.parse("13 DMA").is_off


@pytest.mark.parametrize(
    ("text", "version", "flavor"),
    [
        (answers.VERSION.format("545.29.06"), "545.29.06", "proprietary"),
        (answers.VERSION.format("352.63"), "352.63", "proprietary"),
        (answers.OPEN_VERSION, "580.95.05", "open"),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  545.2", None, None),
        ("", None, None),
    ],
)
def test_nvidia_version(text: str, version: str | None, flavor: str | None) -> None:
    found = nvidia_version.parse(text)

    assert (found.version, found.flavor) == (version, flavor)
    assert found.is_loaded == bool(text)


@pytest.mark.parametrize(("cell", "granted", "refuses"), [("OK", 2, False), ("CNS", 0, True)])
def test_the_peer_matrix(cell: str, granted: int, *, refuses: bool) -> None:
    found = nvidia_smi_p2p.parse(answers.MATRIX.format(cell))

    assert found.gpus == (0, 1)
    assert len(found.granted) == granted
    assert found.refuses_all is refuses
    assert not found.unparsed


def test_a_matrix_that_was_pasted_with_spaces_and_its_command() -> None:
    text = "$ nvidia-smi topo -p2p r\n     GPU0  GPU1 GPU2\n GPU0 X OK CNS\n GPU1 OK X CNS\n"

    found = nvidia_smi_p2p.parse(text + " GPU2 CNS CNS X\n")

    assert found.granted == ((0, 1), (1, 0))
    assert not found.refuses_all


def test_a_matrix_that_was_cut_short_refuses_nothing() -> None:
    whole = answers.MATRIX.format("CNS")
    last_letter = whole.index("\n\n") - 1
    refusing = [
        length for length in range(len(whole)) if nvidia_smi_p2p.parse(whole[:length]).refuses_all
    ]

    assert refusing == list(range(last_letter, len(whole)))


def test_an_error_of_nvidia_smi_is_no_matrix() -> None:
    found = nvidia_smi_p2p.parse("NVIDIA-SMI has failed because it couldn't communicate\n")

    assert found.unparsed
    assert not found.refuses_all


def test_packages() -> None:
    found = packages.parse(answers.PACKAGES)

    driver = found.installed("nvidia-driver")
    assert driver is not None
    assert (driver.version, driver.status) == ("545.29.06-1", "hi")
    assert found.installed("nvidia-driver-435") is None
    assert found.installed("libcuda1") is None
    assert not found.unparsed


def test_package_holds() -> None:
    found = package_holds.parse(answers.HOLDS)

    assert found.held == ("nvidia-driver", "libnvidia-compute-535:i386")
    assert [(pin.package, pin.priority) for pin in found.pins] == [
        ("*nvidia*", 1001),
        ("nvidia-driver-545", -1),
    ]
    assert found.unattended_blacklist == ("nvidia", "linux-")


def test_bootloader() -> None:
    found = bootloader.parse(answers.GRUB)

    assert found.reads_drop_ins
    assert found.environment["saved_entry"] == "0"
    assert found.kernels == ("6.1.0-18-amd64", "6.1.0-20-amd64")
    assert found.menu is not None
    assert [entry.arguments[-1] for entry in found.menu] == ["iommu=pt", "single"]
    assert found.files["/etc/default/grub.d/99-rigops.cfg"].endswith('iommu=pt"\n')
    assert bootloader.parse("").menu is None


def test_drop_ins_that_grub_does_not_read_are_none_of_its_files() -> None:
    drop_in, head = "/etc/default/grub.d/99-rigops.cfg", "== grep -l default/grub.d grub-mkconfig\n"
    read = f"{head}/usr/sbin/grub-mkconfig\n"
    assert read in answers.GRUB

    not_read = bootloader.parse(answers.GRUB.replace(read, head))
    not_asked = bootloader.parse(answers.GRUB.replace(read, ""))

    assert drop_in not in not_read.files
    assert drop_in in not_read.every_file
    assert drop_in in not_asked.files


def test_rigops_state() -> None:
    found = rigops_state.parse(answers.STATE)

    assert found.owned == '{"schema": "rigops.owned/1", "files": []}\n'
    assert list(found.records) == ["/var/lib/rigops/leaving.json"]
    assert found.journal == ('{"host": "rig"}',)


@pytest.mark.parametrize("section", [*SECTIONS, *PASTED], ids=lambda section: section.name)
@settings(max_examples=settings().max_examples // 3)
@given(text=st.text(), cut=st.integers(0, 4000), at=st.integers(0, 4000), letter=st.characters())
def test_no_text_makes_a_parser_raise(
    section: object, text: str, cut: int, at: int, letter: str
) -> None:
    from rigops.probe.section import Section  # noqa: PLC0415 - to narrow the parameter only

    assert isinstance(section, Section)
    sample = SAMPLES[section.name]
    for damaged in (
        text,
        sample[:cut],
        sample[:at] + letter + sample[at + 1 :],
        sample[:at] + text + sample[at:],
        sample + text,
    ):
        section.parse(damaged)
    section.parse(text.encode("utf-16", "replace").decode("utf-8", "replace"))


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("file", "gpus"), [("nccl-docs-example.p2p.txt", 8), ("stas-8xh100-ok.p2p-r.txt", 8)]
)
def test_matrices_of_real_machines(file: str, gpus: int) -> None:
    found = nvidia_smi_p2p.parse((CORPUS / "03-topo-p2p" / file).read_text())

    assert len(found.gpus) == gpus
    assert len(found.granted) == gpus * (gpus - 1)


@pytest.mark.corpus
@pytest.mark.parametrize(
    "folder", sorted({path.parent for path in CORPUS.rglob("*.*")}), ids=lambda path: path.name
)
def test_no_real_output_makes_a_parser_raise(folder: Path) -> None:
    for path in filter(Path.is_file, folder.iterdir()):
        text = path.read_bytes().decode("utf-8", "replace")
        for section in (*SECTIONS, *PASTED):
            section.parse(text)


def test_only_block_prints_heads_since_no_content_can_forge_those() -> None:
    with_sections = [
        path for path in SOURCES.rglob("*.py") if " Section(" in path.read_text(encoding="utf-8")
    ]

    assert len(with_sections) > len(SECTIONS) / 2
    assert not [
        path
        for path in with_sections
        if re.search(r"""(echo|printf) ["']== """, path.read_text(encoding="utf-8"))
    ]
