"""The simulated nvidia-smi: real shapes, real refusals, changes that last as long as they do."""

from __future__ import annotations

import csv
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from rigops.probe.sections import nvidia_smi_p2p
from tests.corpus import CORPUS
from tests.lab import rigs
from tests.shards import LAB_ITSELF
from tests.unit.lab.rigsim_tree import SILICON, Tree, booted

pytestmark = pytest.mark.shard(LAB_ITSELF)

RIG = "threadripper-3x3090"
QUERY = (
    "index,uuid,pci.bus_id,name,vbios_version,driver_version,persistence_mode,pstate,"
    "display_active,compute_mode,mig.mode.current,pcie.link.gen.current,pcie.link.gen.max,"
    "pcie.link.width.current,pcie.link.width.max,power.draw,power.limit,enforced.power.limit,"
    "power.default_limit,power.min_limit,power.max_limit,clocks.current.sm,"
    "clocks.current.memory,clocks.applications.graphics,clocks.applications.memory,"
    "clocks.max.sm,clocks_throttle_reasons.active,temperature.gpu,temperature.memory,fan.speed,"
    "memory.total,memory.used,ecc.mode.current,ecc.errors.uncorrected.volatile.total"
)
NOTHING_ANSWERS = "couldn't communicate with the NVIDIA driver. Make sure that the latest"
# Only where a card has them, or in the layout of one source.
OPTIONAL = {"mig_device", "process_info", "row_remapper_histogram"}


def paths(node: ET.Element, above: str = "") -> set[str]:
    found = set()
    for child in node:
        path = f"{above}/{child.tag}"
        found |= {path} | paths(child, path)
    return found


def real(name: str) -> list[Path]:
    """The file of the corpus, where that is: one that has gone from it must not pass for seen."""
    if not CORPUS.is_dir():
        return []
    assert (CORPUS / name).is_file()
    return [CORPUS / name]


def shape(text: str) -> ET.Element:
    return ET.fromstring(text)  # noqa: S314 - # written by the simulation, or a file of our own


def labels(text: str) -> list[str]:
    """Indentation and label of every line of -q that has a value."""
    return [line.split(" : ")[0].rstrip() for line in text.splitlines() if " : " in line]


@pytest.mark.parametrize("driver", ["535.261.03", "545.29.06", "550.163.01", "580.95.05"])
@pytest.mark.parametrize("rig", ["threadripper-3x3090", "t180-4xv100", "epyc-8x4090"])
def test_xml_is_well_formed_and_whole(tmp_path: Path, rig: str, driver: str) -> None:
    tree = booted(tmp_path, rig, driver)
    log = shape(tree.smi("-q", "-x"))
    assert log.findtext("driver_version") == driver
    assert log.findtext("attached_gpus") == str(len(rigs.load(rig).gpus))
    cards = log.findall("gpu")
    assert [card.findtext("uuid") for card in cards] == [gpu.uuid for gpu in rigs.load(rig).gpus]
    for card in cards:
        assert card.findtext("gpu_power_readings/current_power_limit", "").endswith(".00 W")
        assert card.findtext("pci/pci_bus_id") == card.get("id")
        draw = "power_draw" if driver.startswith("535") else "instant_power_draw"
        assert card.find(f"gpu_power_readings/{draw}") is not None


@pytest.mark.corpus
def test_xml_has_the_elements_of_a_real_card_of_that_driver(tmp_path: Path) -> None:
    own = shape(booted(tmp_path, "epyc-8x4090").smi("-q", "-x", "-i", "0"))
    for path in real("01-nvidia-smi-xml/netdata--rtx-4090-driver-535.xml"):
        wanted = paths(shape(path.read_text()))
        assert {
            path for path in wanted ^ paths(own) if path.split("/")[-1] not in OPTIONAL
        } == set()


@pytest.mark.corpus
def test_xml_of_newer_drivers_keeps_what_parsers_look_for(tmp_path: Path) -> None:
    tree = booted(tmp_path, "desktop-3060-1060", "570.124.04")
    own = paths(shape(tree.smi("-q", "-x", "-i", "0000:26:00.0")))
    missing: set[str] = set()
    for path in real("01-nvidia-smi-xml/telegraf--rtx-3060-v12.xml"):
        missing |= paths(shape(path.read_text())) - own
    wanted = ("power_draw", "power_limit", "uuid", "temp", "clock", "link", "total", "ecc_mode")
    assert [path for path in missing if path.endswith(wanted)] == []


@pytest.mark.corpus
def test_text_has_the_labels_of_a_real_one(tmp_path: Path) -> None:
    own = labels(booted(tmp_path, RIG, "580.95.05").smi("-q"))
    for path in real("01b-nvidia-smi-q-text/cap-rtx2080s-595.nvidia-smi-q.txt"):
        theirs = labels(path.read_text())
        strange = [label for label in dict.fromkeys(own) if label not in theirs]
        known = ("Reset Required", "Drain and Reset Recommended", "Processes")
        assert [label for label in strange if label.strip() not in known] == []


def test_sections_of_the_text(tmp_path: Path) -> None:
    text = booted(tmp_path, RIG).smi("-q", "-d", "POWER,CLOCK", "-i", "1")
    assert "        Current Power Limit               : 350.00 W\n" in text
    assert "    Max Clocks\n" in text
    assert "FB Memory Usage" not in text
    assert text.count("\nGPU 00000000:") == 1


def test_every_field_of_the_collector_has_a_value(tmp_path: Path) -> None:
    tree = booted(tmp_path, RIG)
    text = tree.smi(f"--query-gpu={QUERY}", "--format=csv,noheader,nounits")
    rows = list(csv.reader(text.splitlines(), skipinitialspace=True))
    assert [len(row) for row in rows] == [len(QUERY.split(","))] * 3
    assert all(cell for row in rows for cell in row)
    values = dict(zip(QUERY.split(","), rows[0], strict=True))
    assert values["pci.bus_id"] == "00000000:0A:00.0"
    assert values["clocks.applications.graphics"] == "[N/A]"
    assert values["temperature.memory"] == "N/A"
    assert values["power.max_limit"] == "366.00"


def test_the_header_has_canonical_names_and_units(tmp_path: Path) -> None:
    tree = booted(tmp_path, RIG)
    fields = "gpu_name,clocks.sm,power.limit,clocks_throttle_reasons.active"
    header, row = tree.smi(f"--query-gpu={fields}", "--format=csv", "-i", "0").splitlines()
    assert header == ("name, clocks.current.sm [MHz], power.limit [W], clocks_event_reasons.active")
    assert row == "NVIDIA GeForce RTX 3090, 210 MHz, 350.00 W, 0x0000000000000001"


def test_known_fields_are_fields_of_the_real_tool(tmp_path: Path) -> None:
    names = re.findall(r'^"([^"]+)"', booted(tmp_path, RIG).smi("--help-query-gpu"), re.MULTILINE)
    assert "power.limit" in names
    for path in real("01c-nvidia-smi-other/rtx4080s-595.query-gpu.csv"):
        header = path.read_text().splitlines()[0]
        theirs = {re.sub(r" \[.*", "", name) for name in header.split(", ")}
        assert set(names) <= theirs


def test_an_unknown_field_fails_the_query(tmp_path: Path) -> None:
    done = booted(tmp_path, RIG).run("nvidia-smi", "--query-gpu=index,nonsense", "--format=csv")
    assert (done.returncode, done.stdout) == (
        2, 'Field "nonsense" is not a valid field to query.\n\n',
    )  # fmt: skip


@pytest.mark.parametrize("driver", ["535.261.03", "580.95.05"])
def test_the_table_is_square(tmp_path: Path, driver: str) -> None:
    lines = booted(tmp_path, RIG, driver).smi().splitlines()[1:]
    width = 89 if driver.startswith("535") else 91
    assert {len(line) for line in lines} <= {width, 0}
    assert f"NVIDIA-SMI {driver}" in lines[1]
    for path in real("01c-nvidia-smi-other/jarkko-2x4090.table.txt"):
        theirs = path.read_text().splitlines()
        at = next(number for number, line in enumerate(theirs) if "| GPU  Name" in line)
        if width == 91:
            assert lines[3:7] == theirs[at : at + 4]


def test_the_list(tmp_path: Path) -> None:
    first = booted(tmp_path, RIG).smi("-L").splitlines()[0]
    assert first == f"GPU 0: NVIDIA GeForce RTX 3090 (UUID: {rigs.load(RIG).gpus[0].uuid})"


def test_the_products_own_parser_reads_what_the_simulation_prints(tmp_path: Path) -> None:
    tree = booted(tmp_path, RIG, "545.29.06")

    found = nvidia_smi_p2p.parse(tree.smi("topo", "-p2p", "r"))

    assert len(found.gpus) == 3
    assert len(found.granted) == 6
    assert found.unparsed == ()


def test_topology(tmp_path: Path) -> None:
    lines = booted(tmp_path, RIG).smi("topo", "-m").splitlines()
    assert lines[0] == "\t\x1b[4mGPU0\tGPU1\tGPU2\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m"
    assert [line.split("\t")[1:4] for line in lines[1:4]] == [
        [" X ", "NODE", "NODE"], ["NODE", " X ", "PHB"], ["NODE", "PHB", " X "],
    ]  # fmt: skip
    for path in real("02-topo-m/cap-rtx4080s-595.topo-m.txt"):
        assert lines[4:] == path.read_text().splitlines()[2:]


@pytest.mark.parametrize(
    ("rig", "driver", "kind", "cell"),
    [
        (RIG, "535.261.03", "r", "CNS"),
        (RIG, "545.29.06", "r", "OK"),
        (RIG, "545.29.06", "w", "OK"),
        (RIG, "545.29.06", "n", "NS"),
        ("desktop-3060-1060", "535.261.03", "r", "GNS"),
        ("t180-4xv100", "535.261.03", "n", "OK"),
        ("t180-4xv100", "535.261.03", "a", "OK"),
        ("t180-4xv100", "535.261.03", "p", "OK"),
    ],
)
def test_p2p_capabilities(tmp_path: Path, rig: str, driver: str, kind: str, cell: str) -> None:
    lines = booted(tmp_path, rig, driver).smi("topo", "-p2p", kind).splitlines()
    count = len(rigs.load(rig).gpus)
    assert lines[0] == " \t" + "\t".join(f"GPU{number}" for number in range(count))
    for row, line in enumerate(lines[1 : count + 1]):
        cells = line.split("\t")
        assert cells[0] == f" GPU{row}"
        assert set(cells[1 : row + 1] + cells[row + 2 :]) == {cell}
        assert cells[row + 1] == "X"


def test_nvlink(tmp_path: Path) -> None:
    text = booted(tmp_path, "t180-4xv100").smi("nvlink", "-s")
    assert text.count("\t Link 5: 25.781 GB/s\n") == 4
    assert text.startswith("GPU 0: Tesla V100-SXM2-16GB (UUID: GPU-")


def test_a_pair_shows_its_bridge(tmp_path: Path) -> None:
    tree = booted(tmp_path, "nvlink-2x3090")
    assert "\tNV4\t" in tree.smi("topo", "-m")
    assert tree.smi("nvlink", "-s").count("14.062 GB/s") == 8


def test_a_power_limit_is_kept_within_the_cards_range(tmp_path: Path) -> None:
    tree = booted(tmp_path, RIG)
    done = tree.run("nvidia-smi", "-i", "0", "-pl", "9999")
    assert done.returncode != 0
    assert "should be between 100.00 W and 366.00 W for GPU 00000000:0A:00.0" in done.stdout
    assert done.stdout.endswith("Terminating early due to previous errors.\n")


def limits(tree: Tree) -> list[str]:
    return tree.smi("--query-gpu=power.limit", "--format=csv,noheader,nounits").split()


def test_a_power_limit_is_read_back_and_gone_after_a_reboot(tmp_path: Path) -> None:
    tree = booted(tmp_path, RIG)
    tree.smi("-pm", "1")
    uuid = rigs.load(RIG).gpus[1].uuid
    answer = tree.smi("-i", uuid, "-pl", "285")
    assert answer.startswith("Power limit for GPU 00000000:42:00.0 was set to 285.00 W from 350.00")
    assert limits(tree) == ["350.00", "285.00", "350.00"]
    tree.rigsim("driver", "unload")
    tree.rigsim("driver", "load")
    assert limits(tree) == ["350.00"] * 3


def test_without_persistence_a_setting_goes_with_its_last_client(tmp_path: Path) -> None:
    tree = booted(tmp_path, RIG)
    assert "Warning: persistence mode is disabled" in tree.smi("-i", "0", "-pl", "200")
    assert limits(tree) == ["350.00"] * 3
    (tree.root / "run/rigsim/clients").mkdir()
    (tree.root / f"run/rigsim/clients/{os.getpid()}").touch()
    tree.smi("-i", "0", "-pl", "200")
    assert limits(tree) == ["200.00", "350.00", "350.00"]


def test_several_cards_stop_at_the_first_refusal(tmp_path: Path) -> None:
    tree = booted(tmp_path, "desktop-3060-1060")
    tree.smi("-pm", "1")
    done = tree.run("nvidia-smi", "-i", "0,1", "-pl", "90")
    assert done.returncode == 2
    assert limits(tree) == ["90.00", "170.00"]


@pytest.mark.parametrize(
    "change", [["-pm", "1"], ["-pl", "200"], ["-lgc", "210,1500"], ["-ac", "877,1005"], ["-rac"]]
)
def test_changes_take_root(tmp_path: Path, change: list[str]) -> None:
    tree = booted(tmp_path, "t180-4xv100", persistence=False)
    done = tree.run("nvidia-smi", *change, user=1000)
    assert done.returncode == 4
    assert "ermission" in done.stdout
    assert not list((tree.root / "run/rigsim/gpu").glob("*/*"))


def test_clocks(tmp_path: Path) -> None:
    tree = booted(tmp_path, "t180-4xv100")
    query = ["--query-gpu=clocks.applications.graphics", "--format=csv,noheader", "-i", "0"]
    assert tree.smi(*query) == "1312 MHz\n"
    tree.smi("-i", "0", "-ac", "877,1005")
    assert tree.smi(*query) == "1005 MHz\n"
    refused = tree.run("nvidia-smi", "-i", "0", "-ac", "877,1006")
    assert refused.returncode == 2
    assert 'combination "(MEM 877, SM 1006)" is not supported' in refused.stdout
    tree.smi("-i", "0", "-rac")
    assert tree.smi(*query) == "1312 MHz\n"
    tree.smi("-lgc", "135,1005")
    assert tree.read("run/rigsim/gpu/0/graphics_clock") == "135,1005"
    tree.smi("-rgc")
    assert not (tree.root / "run/rigsim/gpu/0/graphics_clock").exists()


def test_what_a_card_cannot_do_is_a_warning(tmp_path: Path) -> None:
    tree = booted(tmp_path, "desktop-3060-1060")
    assert "not supported" in tree.smi("-i", "0000:22:00.0", "-lgc", "210,1500")
    assert "not supported" in tree.smi("-i", "0000:26:00.0", "-ac", "7501,1500")


def test_no_driver(tmp_path: Path) -> None:
    done = booted(tmp_path, RIG, driver="").run("nvidia-smi", "-L")
    assert done.returncode == 9
    assert NOTHING_ANSWERS in done.stdout


def test_libraries_of_another_version(tmp_path: Path) -> None:
    done = booted(tmp_path, RIG).run("nvidia-smi", userspace="550.163.01")
    assert done.returncode == 18
    assert done.stdout == (
        "Failed to initialize NVML: Driver/library version mismatch\n"
        "NVML library version: 550.163\n"
    )


def test_no_such_card(tmp_path: Path) -> None:
    done = booted(tmp_path, RIG).run("nvidia-smi", "-i", "7")
    assert (done.returncode, done.stdout) == (6, "No devices were found\n")


def test_a_lost_card(tmp_path: Path) -> None:
    tree = booted(tmp_path, RIG)
    tree.set_rig(lost=["0000:42:00.0"])
    tree.rigsim("refresh")
    message = (
        "Unable to determine the device handle for GPU0000:42:00.0: GPU is lost."
        "  Reboot the system to recover this GPU\n"
    )
    for arguments in ([], ["-q"], ["-q", "-x"], ["-i", "1", "-pl", "200"]):
        done = tree.run("nvidia-smi", *arguments)
        assert (done.returncode, done.stdout) == (15, message), arguments
    rows = tree.run("nvidia-smi", "--query-gpu=index", "--format=csv,noheader").stdout
    assert rows == f"{message}0\n2\n"
    assert tree.smi("-i", "0", "-L").count("GPU 0:") == 1


def test_a_wedged_driver_ignores_being_asked_to_stop(tmp_path: Path) -> None:
    tree = booted(tmp_path, RIG, smi="wedged")
    with subprocess.Popen(
        [sys.executable, "-sE", str(SILICON / "bin/nvidia-smi")],
        env={"RIGSIM_ROOT": str(tree.root)},
    ) as process:
        status = Path(f"/proc/{process.pid}/status")
        ignored = f"{1 << (signal.SIGTERM - 1):x}"
        deadline = time.monotonic() + 60
        while not _ignores(status, ignored) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.terminate()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.2)
        process.kill()


def _ignores(status: Path, bits: str) -> bool:
    mask = next(line for line in status.read_text().splitlines() if line.startswith("SigIgn"))
    return bool(int(mask.split()[1], 16) & int(bits, 16))


@pytest.mark.parametrize("arguments", [["-zz"], ["topo"], ["topo", "-p2p", "z"], ["-pl"], ["-x"]])
def test_bad_arguments(tmp_path: Path, arguments: list[str]) -> None:
    assert booted(tmp_path, RIG).run("nvidia-smi", *arguments).returncode == 2
