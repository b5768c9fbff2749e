"""A stranger follows docs/symptoms: on a rig with that fault a page names it, and mends it.

Typed is what the page says, as it says it. What takes hands at the machine the lab does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests import symptoms
from tests.lab import containers, test_preflight_in_container
from tests.lab.engines import does
from tests.lab.laptop import Laptop
from tests.lab.tended import Tended
from tests.lab.terminal import Person
from tests.lab.test_doctor_on_rigs import OTHER_LIBRARIES
from tests.lab.test_secure_boot import ENROL, MAKE
from tests.shards import LAB_SYMPTOMS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.lab.conftest import Lab
    from tests.lab.laptop import Said

pytestmark = pytest.mark.shard(LAB_SYMPTOMS)

TRANSLATED: Final = ("driver=535.261.03", "p2p=granted", "iommu=translated")
RIGS: Final[Mapping[str, tuple[str, ...]]] = {
    "bad-driver": ("threadripper-3x3090",),
    "mirrors": ("threadripper-3x3090", *TRANSLATED),
    "serves": ("threadripper-3x3090", *TRANSLATED, "containers=on"),
    "locked": ("threadripper-3x3090", "secure_boot=on"),
    "eight": ("epyc-8x4090",),
    "steps": ("t180-4xv100",),
    "bridged": ("nvlink-2x3090",),
    "desktop": ("desktop-3060-1060",),
    "fresh": ("fresh-install",),
}
STOPPED: Final = (
    "nvidia 0000:0a:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0011 address=0xf1c00000"
    " flags=0x0030]"
)
LOGS: Final = f"""
python3 -c 'import sys; sys.path.insert(0, "/usr/lib/rigsim")
from rigsim import kernel_log
kernel_log.add("{STOPPED}")
kernel_log.import_new()'
"""
# The one that an upgrade brought boots next.
ANOTHER_KERNEL: Final = """
apt-get -q -y install linux-image-6.1.0-47-amd64 2>&1
mkdir /boot/before && mv /boot/*-$(uname -r) /boot/before && update-grub 2>&1
"""
# What apt says of it, and what is held in part.
UNMET: Final = "! apt-get -s install nvidia-driver=535.183.01-1 2>&1"


@dataclass(frozen=True)
class Fault:
    rig: str
    settings: tuple[str, ...] = ()
    begins: str = ""  # on the host
    reboots: bool = False
    seen_by: str = ""  # prints there what people paste
    hands: tuple[str, ...] = ()  # settings
    hands_do: str = ""
    proves: bool = False


FAULTS: Final[Mapping[str, Fault]] = {
    "training-hangs": Fault("bad-driver", proves=True),
    "wrong-data": Fault("mirrors", proves=True),
    "io-page-fault": Fault("serves", begins=LOGS, seen_by="journalctl -k"),
    "unmet-dependencies": Fault("serves", begins="apt-mark hold libcuda1", seen_by=UNMET),
    "key-was-rejected": Fault("locked", hands_do=f"{MAKE} && {ENROL}"),
    "p2p-refused": Fault("eight", seen_by="nvidia-smi topo -p2p r"),
    "pcie-bus-error": Fault("eight", ("aer=0000:20:01.1+2500000",), hands=("aer=",)),
    "power-limit": Fault("eight", begins="nvidia-smi -pl 285", reboots=True),
    "fallen-off-the-bus": Fault(
        "steps", ("load=step",), seen_by="journalctl -k; nvidia-smi", hands=("load=idle",)
    ),
    "could-not-communicate": Fault("bridged", begins="modprobe -r nvidia", seen_by="nvidia-smi"),
    "version-mismatch": Fault("bridged", begins=OTHER_LIBRARIES, seen_by="nvidia-smi"),
    "kernel-update": Fault("bridged", begins=ANOTHER_KERNEL),
    "narrow-link": Fault("desktop"),
    "nvidia-smi-hangs": Fault("desktop", ("smi=wedged",), hands=("smi=ok",)),
    "too-hot": Fault("desktop", ("heat=0000:26:00.0+95",)),
    "nouveau": Fault("fresh"),
}


@dataclass(frozen=True)
class Reader(Tended):
    """Of one host's inventory, in which the lines of each page are added."""

    declared: dict[str, Any] = field(default_factory=dict)

    def follow(self, page: symptoms.Symptom, fault: Fault) -> dict[str, list[Said]]:
        """What rigops answered, by its command."""
        said: dict[str, list[Said]] = {}
        hands_are_due = True
        for step in page.steps():
            looks = isinstance(step, str) and step.startswith(("rigops doctor", "rigops preflight"))
            if "doctor" in said and not looks and hands_are_due:
                self.by_hand(fault)
                hands_are_due = False
            if not isinstance(step, str):
                self.declared.update(step)
                self.declare(**self.declared)
            elif step.startswith("rigops "):
                command = step.split()[1:]
                said.setdefault(command[0], []).append(self.rigops(command))
            elif step == "sudo reboot":
                self.reboot()
            else:
                self.does(step)
        if hands_are_due:
            self.by_hand(fault)
        return said

    def rigops(self, command: list[str]) -> Said:
        words = [self.host.name if word == symptoms.HOST else word for word in command]
        question = {"apply": "[N]o", "preflight": "[y/N]"}.get(command[0])
        person = Person({question: "y"} if question else {}, sees_all=True, columns=100)
        return person.rigops(self.laptop, words, timeout=300)

    def by_hand(self, fault: Fault) -> None:
        if fault.hands:
            self.host.set(*fault.hands)
        if fault.hands_do:
            self.does(fault.hands_do)

    def ids_of_paste(self, text: str) -> set[str]:
        (self.laptop.folder / "post.txt").write_text(text)
        return self.laptop.doctor("--from", "post.txt").seen().ids("fail", "warn", "info")


@pytest.fixture(scope="module")
def readers(module_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Reader]:
    return {
        name: Reader(Laptop(tmp_path_factory.mktemp(name)), module_lab.one(*words))
        for name, words in RIGS.items()
    }


@pytest.mark.parametrize("name", FAULTS)
def test_a_page_names_the_fault_and_its_commands_mend_it(
    name: str, readers: dict[str, Reader]
) -> None:
    page, fault = symptoms.read(name), FAULTS[name]
    reader = readers[fault.rig]
    reader.declare(**reader.declared)
    if fault.settings:
        reader.host.set(*fault.settings)
    if fault.begins:
        reader.does(fault.begins)
    if fault.reboots:
        reader.reboot()
    if fault.seen_by:
        text = reader.host.run(fault.seen_by).stdout
        assert page.pasted & reader.ids_of_paste(text), text

    said = reader.follow(page, fault)

    first = said["doctor"][0]
    assert [one for one in page.on_the_host if one not in first.err] == [], first.err
    assert [one.err for one in said.get("apply", ()) if one.code != 0] == []
    if fault.proves:
        assert [one.code for one in said["preflight"]] == [1, 0], said["preflight"][-1].err
    now = reader.laptop.doctor("-i", "inventory.py").seen()
    assert bool(page.on_the_host & now.ids("fail", "warn", "unknown")) is (name == "narrow-link")


def test_the_command_that_doctor_prints_gives_a_container_its_cards_back(
    readers: dict[str, Reader],
) -> None:
    page, reader = symptoms.read("nvml-unknown-error"), readers["serves"]
    reader.declare()
    vllm = containers.start(reader.host, "vllm")
    containers.reload(reader.host)
    assert not vllm.may_open()

    (doctor,) = reader.follow(page, Fault("serves"))["doctor"]

    assert page.on_the_host == {"container.cut"}
    assert "container.cut" in doctor.err
    (cut,) = reader.laptop.doctor("-i", "inventory.py").seen().of("container.cut")
    (command,) = re.findall(r"`sudo (systemctl set-property [^`]*)`", cut["remedy"]["text"])
    reader.does(command)
    assert vllm.may_open()
    assert (
        reader.laptop.doctor("-i", "inventory.py").seen().of("container.cut")[0]["status"] == "ok"
    )
    vllm.remove()


def test_preflight_says_that_a_container_has_too_little_shared_memory(
    readers: dict[str, Reader],
) -> None:
    page, reader = symptoms.read("no-space-in-shm"), readers["serves"]
    reader.declare()
    for options, is_small in (((), True), (("--shm-size=8g",), False)):
        test_preflight_in_container.start(reader.host, "vllm", *options)

        (preflight,) = reader.follow(page, Fault("serves"))["preflight"]

        assert ("64 MiB of /dev/shm" in preflight.err) is is_small, preflight.err
        does(reader.host, "docker rm --force vllm")
