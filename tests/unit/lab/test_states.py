"""The states that a rig can be brought into, as the kernel and the tools then show them."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from rigops.probe.sections import nvidia_smi_xml
from tests.lab import rigs, settings
from tests.lab.errors import LabError
from tests.shards import LAB_ITSELF
from tests.unit.lab.rigsim_tree import SILICON, Tree, booted

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.shard(LAB_ITSELF)

EPYC = "epyc-8x4090"
CARD, PORT = "0000:41:00.0", "0000:40:01.1"


def _suffer(tree: Tree, **facts: object) -> None:
    tree.set_rig(**facts)
    tree.rigsim("refresh")


def _remap(tree: Tree) -> set[tuple[str | None, bool | None, int | None]]:
    """Of all cards but those that have nothing to tell."""
    found = nvidia_smi_xml.parse(tree.smi("-q", "-x")).gpus
    told = {(card.address, card.remap_pending, card.remapped_uncorrected) for card in found}
    return {one for one in told if one[1:] != (False, 0)}


def test_a_bad_row_is_pending_until_the_driver_is_loaded_anew(tmp_path: Path) -> None:
    tree = booted(tmp_path, EPYC)
    _suffer(tree, remap=[CARD])
    _suffer(tree)

    log = tree.read("run/rigsim/kernel-log")
    assert log.count("NVRM: Xid (PCI:0000:41:00): 63, ") == 1
    assert _remap(tree) == {(CARD, True, 1)}
    query = "--query-gpu=remapped_rows.pending,remapped_rows.uncorrectable"
    assert tree.smi("-i", "2", query, "--format=csv,noheader") == "1, 1\n"
    tree.rigsim("driver", "unload")
    tree.rigsim("driver", "load")
    _suffer(tree)
    assert _remap(tree) == {(CARD, False, 1)}


def test_a_card_without_a_remapper_has_no_row_to_remap(tmp_path: Path) -> None:
    tree = booted(tmp_path, "t180-4xv100")

    _suffer(tree, remap=["0000:04:00.0"])

    assert "Xid" not in tree.read("run/rigsim/kernel-log")


def test_errors_of_a_port_are_counted_and_logged_when_they_grow(tmp_path: Path) -> None:
    tree = booted(tmp_path, EPYC)
    files = [f"sys/bus/pci/devices/{PORT}/aer_dev_{kind}" for kind in ("correctable", "fatal")]
    seen = []
    for count in (0, 250, 250, 900):
        _suffer(tree, aer=[f"{PORT}+{count}"])
        logged = tree.read("run/rigsim/kernel-log").count(f"pcieport {PORT}: PCIe Bus Error")
        words = tree.read(files[0]).split()
        seen.append((words[words.index("BadTLP") + 1], words[-1], logged))

    assert seen == [("0", "0", 0), ("250", "250", 1), ("250", "250", 1), ("900", "900", 2)]
    assert tree.read(files[1]).endswith("TOTAL_ERR_FATAL 0")
    assert tree.read(f"sys/bus/pci/devices/{PORT}/aer_rootport_total_err_cor") == "900"


def test_the_kernel_knows_the_drivers_devices_and_taint(tmp_path: Path) -> None:
    tree = Tree(tmp_path, EPYC)
    (tree.root / "proc").mkdir()
    (tree.root / "proc/devices").write_text(
        "Character devices:\n  1 mem\n\nBlock devices:\n  7 loop\n"
    )
    tree.install("535.261.03")
    tree.rigsim("boot")

    assert tree.read("proc/devices").split("\n") == [
        "Character devices:", "  1 mem", "195 nvidia-frontend", "241 nvidia-nvlink",
        "511 nvidia-uvm", "", "Block devices:", "  7 loop",
    ]  # fmt: skip
    assert int(tree.read("proc/sys/kernel/tainted")) == 1 << 0 | 1 << 12 | 1 << 13
    tree.rigsim("driver", "unload")
    assert "nvidia" not in tree.read("proc/devices")
    assert tree.read("proc/sys/kernel/tainted") != "0"


def test_regions_have_the_size_of_the_cards_bars(tmp_path: Path) -> None:
    tree = booted(tmp_path, "desktop-3060-1060")

    sizes = {
        address: (tree.root / f"sys/bus/pci/devices/{address}/resource1").stat().st_size >> 20
        for address in ("0000:26:00.0", "0000:22:00.0")
    }
    assert sizes == {"0000:26:00.0": 16384, "0000:22:00.0": 256}


def test_nouveau_tells_which_cards_it_has_taken(tmp_path: Path) -> None:
    tree = booted(tmp_path, "fresh-install", driver="")

    assert "nouveau 0000:2d:00.0: enabling device" in tree.read("run/rigsim/kernel-log")


def test_a_module_tells_once_of_libraries_that_do_not_fit(tmp_path: Path) -> None:
    tree = booted(tmp_path, EPYC)

    for _ in range(2):
        done = tree.run("nvidia-smi", userspace="535.183.01")
        assert "Driver/library version mismatch" in done.stdout

    log = tree.read("run/rigsim/kernel-log")
    assert log.count("NVRM: API mismatch: the client has the version 535.183.01, but") == 1


def test_a_rig_is_no_virtual_machine() -> None:
    program = SILICON / "bin/systemd-detect-virt"

    loud, quiet = (
        subprocess.run([program, *words], capture_output=True, text=True, check=False)
        for words in ((), ("--quiet",))
    )

    assert (loud.returncode, loud.stdout) == (1, "none\n")
    assert (quiet.returncode, quiet.stdout) == (1, "")


def test_words_for_bad_rows_and_errors() -> None:
    rig = rigs.load(EPYC)

    changed = rig.with_settings(settings.parse([f"remap={CARD}", f"aer={PORT}+5,{CARD}+7"]))

    assert (changed.remap, changed.aer) == ((CARD,), (f"{PORT}+5", f"{CARD}+7"))
    assert changed.with_settings(settings.parse(["remap=", "aer="])) == rig


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("remap=0000:40:01.1", "epyc-8x4090 has no card at 0000:40:01.1"),
        ("aer=0000:99:00.0+1", "epyc-8x4090 has no port or card at 0000:99:00.0"),
        ("aer=0000:40:01.1", "aer takes errors at cards or ports such as 0000:00:03.1+250"),
        ("remap=2", "remap takes addresses of the rig's cards"),
    ],
)
def test_wrong_words_for_bad_rows_and_errors(word: str, said: str) -> None:
    with pytest.raises(LabError, match=said.replace(".", r"\.").replace("+", r"\+")):
        rigs.load(EPYC).with_settings(settings.parse([word]))


# ---- heat

QUERY = "--query-gpu=temperature.gpu,temperature.memory"
PLAIN = "--format=csv,noheader,nounits"


def test_less_power_cools_a_card_that_is_hot_and_no_other_is(tmp_path: Path) -> None:
    tree = booted(tmp_path, "t180-4xv100")
    _suffer(tree, heat=["0000:06:00.0+95"])
    assert tree.smi(QUERY, PLAIN).splitlines() == ["38, 36", "95, 64", "40, 36", "41, 36"]

    tree.smi("-i", "1", "-pl", "150")
    assert tree.smi("-i", "1", QUERY, PLAIN) == "62, 64\n"


def test_a_card_whose_fan_has_failed_gets_warmer_at_any_power(tmp_path: Path) -> None:
    tree = booted(tmp_path, "t180-4xv100")
    _suffer(tree, heat=["0000:04:00.0+fan"])
    tree.smi("-i", "0", "-pl", "150")
    declared = tree.root / "etc/rigsim/rig.json"
    before = declared.stat().st_mtime
    found = []
    for seconds in (0, 10, 1000):
        os.utime(declared, (before - seconds, before - seconds))
        found.append(int(tree.smi("-i", "0", QUERY, PLAIN).partition(",")[0]))

    assert 58 <= found[0] < 78 <= found[1] < 105 == found[2]


@pytest.mark.parametrize(
    ("word", "row", "celsius"),
    [
        ("na", "[N/A], 36", None),
        ("error", "[Unknown Error], 36", None),
        ("memory-91", "38, 91", 38),
    ],
)
def test_a_sensor_may_report_nothing_or_another_temperature(
    tmp_path: Path, word: str, row: str, celsius: float | None
) -> None:
    tree = booted(tmp_path, "t180-4xv100")
    _suffer(tree, heat=[f"0000:04:00.0+{word}"])

    assert tree.smi("-i", "0", QUERY, PLAIN) == f"{row}\n"
    assert nvidia_smi_xml.parse(tree.smi("-q", "-x")).gpus[0].celsius == celsius
    assert tree.run("nvidia-smi").returncode == 0


def test_margins_shrink_with_heat_on_cards_and_drivers_that_report_them(tmp_path: Path) -> None:
    query = "--query-gpu=temperature.gpu,temperature.gpu.tlimit"
    tree = booted(tmp_path, "desktop-5090", driver="580.178.04")
    assert tree.smi(query, PLAIN) == "36, 50\n"
    _suffer(tree, heat=["0000:01:00.0+90"])
    assert tree.smi(query, PLAIN) == "90, -4\n"


def test_jobs_are_those_that_still_run_with_their_card(tmp_path: Path) -> None:
    tree = booted(tmp_path, "t180-4xv100")
    jobs = tree.root / "run/rigsim/jobs"
    jobs.mkdir()
    (jobs / str(os.getpid())).write_text("0000:84:00.0\n")
    (jobs / "4194400").write_text("0000:84:00.0\n")  # above the highest number of a process

    query = "--query-compute-apps=gpu_uuid,pid"
    uuid = rigs.load("t180-4xv100").gpus[2].uuid
    assert tree.smi(query, "--format=csv,noheader") == f"{uuid}, {os.getpid()}\n"
    assert tree.smi("-i", "0", query, "--format=csv,noheader") == ""


@pytest.mark.parametrize("word", ["0000:04:00.0+hot", "0000:04:00.0", "0000:99:00.0+90"])
def test_heat_of_no_card_or_of_no_kind_is_refused(word: str) -> None:
    with pytest.raises(LabError):
        rigs.load("t180-4xv100").with_settings(settings.parse([f"heat={word}"]))
