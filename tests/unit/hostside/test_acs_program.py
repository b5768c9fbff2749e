"""The program that clears ACS redirection, on made-up machines whose ports lspci could read."""

from __future__ import annotations

import struct
import subprocess
from itertools import combinations
from typing import TYPE_CHECKING, Final

import pytest

from rigops.concerns.acs import operations
from rigops.concerns.acs.state import AcsPorts, judge_ports
from rigops.hostside.packing import pack
from tests.lab.silicon.rigsim import pci_config
from tests.lab.silicon.rigsim.pci_config import Identity, Link
from tests.unit.hostside.waiting import PATIENCE_S
from tests.unit.programs import SHELLS_WHERE_SLOW, shell

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TOOLS: Final = (
    "awk", "cat", "dd", "grep", "mkdir", "mv", "od", "printf", "rm", "sed", "sort", "tr", "wc",
)  # fmt: skip
SET: Final = 0x001D  # as Linux sets it where an IOMMU is
CLEARED: Final = 0x0011
WORD_AT: Final = 0x2A6
GEN4: Final = Link(4, 16, 4, 16)
BOOT: Final = "7b2f6d0e-54e1-4d3c-9a65-2f3f8d3e5b11"

ROOT_PORTS: Final = {
    "0000:0a:00.0": ("0000:00:03.1",),
    "0000:42:00.0": ("0000:40:01.3",),
    "0000:43:00.0": ("0000:40:03.1",),
}
ONE_SWITCH: Final = {
    "0000:04:00.0": ("0000:00:01.1", "0000:02:00.0", "0000:03:00.0"),
    "0000:05:00.0": ("0000:00:01.1", "0000:02:00.0", "0000:03:10.0"),
}
SWITCH_AND_ROOT_PORT: Final = {**ONE_SWITCH, "0000:41:00.0": ("0000:40:01.1",)}
TWO_SWITCHES: Final = {
    **ONE_SWITCH,
    "0000:44:00.0": ("0000:40:01.1", "0000:42:00.0", "0000:43:00.0"),
    "0000:45:00.0": ("0000:40:01.1", "0000:42:00.0", "0000:43:10.0"),
}
LAYOUTS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "root ports": ROOT_PORTS,
    "one switch": ONE_SWITCH,
    "switch and root port": SWITCH_AND_ROOT_PORT,
    "two switches": TWO_SWITCHES,
}


class Machine:
    """Cards by address, each with the ports above it, the root port first."""

    def __init__(
        self, root: Path, shell_name: str, cards: Mapping[str, tuple[str, ...]] = ROOT_PORTS
    ) -> None:
        self.root = root
        self.shell = shell(shell_name)
        self.bin = root / "bin"
        for folder in (self.bin, root / "proc/sys/kernel/random", root / "sys/bus/pci/devices"):
            folder.mkdir(parents=True)
        self.boot(BOOT)
        for tool in TOOLS if shell_name == "busybox" else ():
            self.tool(tool, f'exec {self.shell[0]} {tool} "$@"')
        for card, ports in cards.items():
            self.card(card, ports)

    def boot(self, boot_id: str) -> None:
        (self.root / "proc/sys/kernel/random/boot_id").write_text(f"{boot_id}\n")

    def tool(self, name: str, text: str) -> None:
        """Never a link: what is written to one is written to the machine's own program."""
        path = self.bin / name
        assert not path.is_symlink()
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def card(self, address: str, ports: tuple[str, ...], *, vendor: int = 0x10DE) -> None:
        folder = self.root / f"sys/devices/pci{ports[0].rpartition(':')[0]}"
        for port in ports:
            folder /= port
            identity = Identity(0x1022, 0x1483, 0x060400, 0)
            buses = (0, 1, 2)
            config = pci_config.bridge(identity, "root", buses, GEN4, redirect=True)
            self._function(folder, identity, config)
        identity = Identity(vendor, 0x2204, 0x030000, 0xA1)
        self._function(folder / address, identity, pci_config.endpoint(identity, (), GEN4))

    def _function(self, folder: Path, identity: Identity, config: bytes) -> None:
        if folder.exists():
            return
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(f"0x{identity.vendor:04x}\n")
        (folder / "class").write_text(f"0x{identity.pci_class:06x}\n")
        (folder / "config").write_bytes(config)
        (self.root / "sys/bus/pci/devices" / folder.name).symlink_to(folder)

    def config(self, address: str) -> Path:
        return self.root / "sys/bus/pci/devices" / address / "config"

    def word(self, address: str) -> int:
        return int(struct.unpack_from("<H", self.config(address).read_bytes(), WORD_AT)[0])

    def set_word(self, address: str, word: int) -> None:
        data = bytearray(self.config(address).read_bytes())
        struct.pack_into("<H", data, WORD_AT, word)
        self.config(address).write_bytes(data)

    def words(self) -> dict[str, int]:
        devices = (self.root / "sys/bus/pci/devices").iterdir()
        ports = [one.name for one in devices if (one / "class").read_text().startswith("0x0604")]
        return {port: self.word(port) for port in ports}

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.shell, "-c", pack("acs").text, "acs", command, str(self.root)],
            env={"PATH": f"{self.bin}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )

    def does(self, command: str) -> None:
        done = self.run(command)
        assert (done.returncode, done.stderr) == (0, "")

    def shown(self) -> AcsPorts:
        done = self.run("show")
        assert (done.returncode, done.stderr) == (0, "")
        return operations.parse(done.stdout)


@pytest.fixture(params=SHELLS_WHERE_SLOW)
def machine(tmp_path: Path, request: pytest.FixtureRequest) -> Machine:
    return Machine(tmp_path / "host", request.param)


def between(cards: Mapping[str, tuple[str, ...]]) -> set[str]:
    """Pair by pair, as one would do it by hand."""
    pairs = combinations(cards.values(), 2)
    return {port for one, other in pairs for port in set(one) ^ set(other)}


@pytest.mark.parametrize("shell_name", SHELLS_WHERE_SLOW)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_of_the_ports_between_the_cards_only_what_redirects_is_cleared(
    tmp_path: Path, shell_name: str, layout: str
) -> None:
    cards = LAYOUTS[layout]
    machine = Machine(tmp_path / "host", shell_name, cards)
    before = {port: machine.config(port).read_bytes() for port in machine.words()}
    machine.does("off")

    cleared = between(cards)
    assert machine.words() == {port: CLEARED if port in cleared else SET for port in before}
    for port, config in before.items():
        now = machine.config(port).read_bytes()
        assert now[:WORD_AT] + now[WORD_AT + 2 :] == config[:WORD_AT] + config[WORD_AT + 2 :]


def test_what_no_nvidia_card_is_below_is_left_alone(machine: Machine) -> None:
    machine.card("0000:05:00.0", ("0000:00:01.1",), vendor=0x1002)
    machine.does("off")

    assert machine.word("0000:00:01.1") == SET
    assert machine.word("0000:00:03.1") == CLEARED


@pytest.mark.parametrize("shell_name", SHELLS_WHERE_SLOW)
def test_a_card_alone_has_nothing_between(tmp_path: Path, shell_name: str) -> None:
    machine = Machine(tmp_path / "host", shell_name, {"0000:0a:00.0": ("0000:00:03.1",)})
    machine.does("off")

    assert machine.words() == {"0000:00:03.1": SET}
    assert (machine.shown().gpus, machine.shown().ports) == (1, ())
    assert not (machine.root / "var").exists()


@pytest.mark.parametrize("shell_name", SHELLS_WHERE_SLOW)
def test_a_machine_without_cards_is_no_fault(tmp_path: Path, shell_name: str) -> None:
    machine = Machine(tmp_path / "host", shell_name, {})
    machine.does("off")

    assert machine.shown().gpus == 0


def test_bits_that_mean_something_else_survive(machine: Machine) -> None:
    for port, word in (("0000:00:03.1", 0x007F), ("0000:40:01.3", 0x0053)):
        machine.set_word(port, word)
    machine.does("off")

    assert machine.word("0000:00:03.1") == 0x0053
    assert machine.word("0000:40:01.3") == 0x0053


def test_taking_it_back_sets_exactly_what_was_cleared(machine: Machine) -> None:
    machine.set_word("0000:00:03.1", 0x0025)
    machine.set_word("0000:40:01.3", 0x0011)
    machine.does("off")
    machine.does("off")
    machine.set_word("0000:40:03.1", 0x0051)  # somebody sets another bit meanwhile
    machine.does("back")

    assert machine.words() == {
        "0000:00:03.1": 0x0025,
        "0000:40:01.3": 0x0011,
        "0000:40:03.1": 0x005D,
    }
    assert list((machine.root / "var/lib/rigops").iterdir()) == []


def test_what_was_set_again_by_hand_does_not_become_the_earlier_word(machine: Machine) -> None:
    machine.does("off")
    machine.set_word("0000:00:03.1", 0x003D)
    machine.does("off")
    machine.does("back")

    assert machine.word("0000:00:03.1") == SET


def test_what_is_no_bridge_is_not_written_whatever_the_record_says(machine: Machine) -> None:
    card = "0000:0a:00.0"
    machine.config(card).write_bytes(machine.config("0000:00:03.1").read_bytes())
    machine.does("off")
    record = machine.root / "var/lib/rigops/acs.json"
    record.write_text(
        record.read_text().replace("0000:00:03.1", card).replace(f"{SET:04x}", "007f")
    )
    done = machine.run("back")

    assert machine.word(card) == SET
    assert (done.returncode, machine.word("0000:40:01.3")) == (1, 0x003D)


def test_words_of_an_earlier_boot_are_not_put_back(machine: Machine) -> None:
    machine.does("off")
    machine.boot("00000000-0000-4000-8000-000000000000")
    machine.does("back")

    assert machine.word("0000:00:03.1") == CLEARED
    assert not judge_ports("keep", machine.shown(), "")


def test_a_port_that_does_not_take_it_is_named_and_the_others_are_cleared(
    machine: Machine,
) -> None:
    swallow = "for word; do case $word in of=*40:01.3*) exec cat >/dev/null ;; esac; done"
    machine.tool("dd", f'PATH=/usr/bin:/bin\n{swallow}\nexec dd "$@"')
    done = machine.run("off")

    assert done.returncode == 1
    assert done.stderr == (
        "0000:40:01.3: ACSCtl stays 001d instead of 0011, the port does not take it\n"
    )
    assert machine.word("0000:40:03.1") == CLEARED


def test_a_locked_down_kernel_is_named_as_the_reason(machine: Machine) -> None:
    security = machine.root / "sys/kernel/security"
    security.mkdir(parents=True)
    (security / "lockdown").write_text("none [integrity] confidentiality\n")
    refuse = "for word; do case $word in of=*) exit 1 ;; esac; done"
    machine.tool("dd", f'PATH=/usr/bin:/bin\n{refuse}\nexec dd "$@"')

    assert "since the kernel is locked down" in machine.run("off").stderr
    assert machine.shown().is_locked_down
    (security / "lockdown").write_text("[none] integrity confidentiality\n")
    assert not machine.shown().is_locked_down


def test_nothing_is_cleared_that_could_not_be_undone(machine: Machine) -> None:
    (machine.root / "var").write_text("no folder\n")
    done = machine.run("off")

    assert done.returncode == 1
    assert "cannot be written" in done.stderr
    assert set(machine.words().values()) == {SET}


def test_ports_without_acs_or_that_cannot_be_read_are_told_apart(machine: Machine) -> None:
    without = bytearray(machine.config("0000:00:03.1").read_bytes())
    struct.pack_into("<I", without, 0x2A0, 0x0003 | 1 << 16)
    machine.config("0000:00:03.1").write_bytes(without)
    machine.config("0000:40:01.3").write_bytes(without[:256])
    found = {one.address: one for one in machine.shown().ports}

    assert (found["0000:00:03.1"].word, found["0000:00:03.1"].is_readable) == (None, True)
    assert not found["0000:40:01.3"].is_readable
    done = machine.run("off")
    assert (done.returncode, done.stderr) == (1, "0000:40:01.3: its ACSCtl cannot be read\n")
    assert machine.word("0000:40:03.1") == CLEARED


def test_a_port_that_answers_nothing_any_more_has_no_acs(machine: Machine) -> None:
    machine.config("0000:00:03.1").write_bytes(pci_config.gone())
    (found,) = [one for one in machine.shown().ports if one.address == "0000:00:03.1"]

    assert (found.word, found.is_readable) == (None, True)


def test_a_list_of_capabilities_that_goes_in_a_circle_comes_to_an_end(machine: Machine) -> None:
    circle = bytearray(machine.config("0000:00:03.1").read_bytes())
    struct.pack_into("<I", circle, 0x100, 0x0001 | 1 << 16 | 0x100 << 20)
    machine.config("0000:00:03.1").write_bytes(circle)

    assert {one.word for one in machine.shown().ports} == {None, SET}


def test_it_says_what_it_did_and_shows_the_words_from_before(machine: Machine) -> None:
    assert "0000:00:03.1: ACSCtl 001d -> 0011\n" in machine.run("off").stdout
    shown = machine.shown()

    assert shown.gpus == 3
    assert [one.address for one in shown.ports] == sorted(between(ROOT_PORTS))
    assert {(one.word, one.earlier, one.is_between) for one in shown.ports} == {
        (CLEARED, SET, True)
    }
    assert not any(one.redirects for one in shown.between)
    assert len(judge_ports("keep", shown, "")) == 3


def test_a_port_whose_pair_has_gone_can_still_be_put_back(machine: Machine) -> None:
    machine.does("off")
    for card in ("0000:42:00.0", "0000:43:00.0"):
        (machine.root / "sys/bus/pci/devices" / card).unlink()
    shown = machine.shown()

    assert (shown.gpus, shown.between) == (1, ())
    assert len(judge_ports("keep", shown, "")) == 3
    machine.does("back")
    assert set(machine.words().values()) == {SET}
