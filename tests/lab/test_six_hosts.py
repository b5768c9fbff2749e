"""The owner of six hosts types what the screens say, mistakes included, until all is as declared.

One host wants a password for sudo, one is off, and the first that is rebooted gets wrong data.
"""

from __future__ import annotations

import getpass
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pytest

from tests import first_hour
from tests.lab import clients, hosts, users
from tests.lab.terminal import Person
from tests.shards import LAB_FLEET

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.lab.hosts import Host
    from tests.lab.laptop import Laptop

pytestmark = pytest.mark.shard(LAB_FLEET)

WRONG: Final = "wrong data on 6 of 6 pairs"
BOOT: Final = "cat /proc/sys/kernel/random/boot_id"
SUDO: Final = {"sudo password": users.PASSWORD}
_ROW: Final = re.compile(r"^(\S+(?:, \S+)*(?: and \d+ more)?) {2,}(.*(?:\n .*)*)", re.MULTILINE)
INVENTORY: Final = """\
train = [
    ("rig1", {"kernel_args": ["iommu=pt"], "gpu_power_limit": {"3080": 285}}),
    ("rig2", {"gpu_power_limit": {"3090": 300}}),
    ("rig3", {"kernel_args": ["iommu=pt"], "gpu_power_limit": {"3090": 285}}),
]
desks = [
    ("rig4", {"gpu_power_limit": {"3060": 150}}),
    ("rig5", {"gpu_power_limit": {"3080": 285}}),
    ("rig6", {"gpu_persistence": True}),
]
"""
SSH: Final = f"""\
Host rig4
    User asks
Host rig6
    HostName 127.0.0.1
    Port 1
Host *
    Include {clients.config()}
"""


@dataclass(frozen=True)
class Screen:
    code: int
    text: str
    by_host: Mapping[str, str] = field(default_factory=dict)  # rows of the closing table

    def next(self, host: str) -> list[str]:
        """What is to be typed for it, as words of rigops."""
        return self.by_host[host].partition(" rigops ")[2].split()


@dataclass(frozen=True)
class Owner:
    laptop: Laptop

    def types(self, *words: str, answers: Mapping[str, str] | None = None) -> Screen:
        said = Person(answers or {}, sees_all=True, columns=100).rigops(
            self.laptop, words, timeout=300
        )
        text = first_hour.seen(said)
        table = text.rpartition("\nhost  ")[2].partition("\n")[2]
        rows = _ROW.findall(table)
        by_host = {host: " ".join(row.split()) for names, row in rows for host in names.split(", ")}
        return Screen(said.code, " ".join(text.split()), by_host)

    def edits(self, before: str, after: str) -> None:
        file = self.laptop.folder / "inventory.py"
        text = file.read_text()
        assert before in text
        file.write_text(text.replace(before, after, 1))

    def declares(self, host: str, line: str) -> None:
        self.edits(f'"{host}", {{', f'"{host}", {{{line}, ')


@pytest.fixture(scope="module")
def rigs() -> Iterator[Mapping[str, Host]]:
    boxes = ("threadripper-3x3090=rig1", "threadripper-3x3090=rig3", "driver=535.261.03")
    others = ("nvlink-2x3090=rig2", "desktop-3060-1060=rig4", "desktop-5090=rig5")
    with hosts.running(boxes) as first, hosts.running(others) as rest:
        rigs = {host.name: host for host in (*first, *rest)}
        rigs["rig1"].set("p2p=wrong")
        made = rigs["rig4"].run(users.added("asks") + users.ASKS)
        assert made.returncode == 0, made.stderr
        yield rigs


@pytest.fixture(scope="module")
def owner(rigs: Mapping[str, Host], tmp_path_factory: pytest.TempPathFactory) -> Owner:
    assert rigs
    laptop = first_hour.laptop(tmp_path_factory.mktemp("laptop"))
    assert laptop.ssh
    (laptop.ssh / "config").write_text(SSH)
    (laptop.folder / "inventory.py").write_text(INVENTORY)
    return Owner(laptop)


def test_a_plan_of_six_says_what_is_mistaken_and_what_to_type_for_each(owner: Owner) -> None:
    some = owner.types("plan", "rig1", "rig5")
    assert some.code == 1
    for host, card in (("rig1", "3090"), ("rig5", "5090")):
        assert f'fix: write "{card}"' in some.by_host[host]
    misspelt = owner.types("plan", "rg2")
    assert (misspelt.code, "did you mean 'rig2'?" in misspelt.text) == (2, True)
    owner.edits('{"3080": 285}', '{"3090": 285}')
    owner.edits('{"3080": 285}', '{"5090": 285}')

    plan = owner.types("plan")

    assert plan.code == 1
    assert "rig1, rig3 (same on 2 hosts) kernel argument iommu=pt" in plan.text
    assert plan.text.count("should that boot hang") == 1
    assert "accepts 400 to 600 W" in plan.by_host["rig5"]
    assert plan.next("rig2") == ["apply", "rig2"]
    assert plan.next("rig4") == ["plan", "--ask-sudo-password", "rig4"]
    owner.edits('{"5090": 285}', '{"5090": 450}')
    asked = owner.types(*plan.next("rig4"), answers=SUDO)
    assert (asked.code, "power limit 170 W -> 150 W" in asked.text) == (0, True)
    assert asked.text.endswith("Next: rigops apply --ask-sudo-password rig4")
    off = owner.types(*plan.next("rig6"))
    assert (off.code, "fix: check that the host is on" in off.text) == (3, True)


def test_a_failed_proof_is_the_headline_and_leads_to_hosts_that_are_all_as_declared(
    owner: Owner, rigs: Mapping[str, Host]
) -> None:
    boots = {name: host.run(BOOT).stdout for name, host in rigs.items()}
    failed = owner.types("apply", answers={"[N]o": "y"})

    assert failed.code == 1
    assert f"rig1 FAILED its proof: {WRONG}" in failed.text
    assert WRONG in failed.by_host["rig1"]
    assert "waits not rebooted: rig1" in failed.by_host["rig3"]
    assert {boots[name] == rigs[name].run(BOOT).stdout for name in ("rig2", "rig3", "rig5")} == {
        True
    }
    assert "changed proven L5" in failed.by_host["rig2"]
    assert "changed 1 GPU: nothing to prove" in failed.by_host["rig5"]

    changed = owner.types(*failed.next("rig4"), answers={**SUDO, "[N]o": "y"})
    assert (changed.code, "rig4 changed, now as declared" in changed.text) == (0, True)
    doctor = owner.types(*failed.next("rig1"))
    assert WRONG in doctor.text
    off_by = re.search(r'declare ("nccl": \{.*?\})', failed.text)
    assert off_by
    assert off_by[1] in doctor.text
    owner.declares("rig1", off_by[1])
    again = owner.types("apply", answers={"[N]o": "y"})  # as the headline says

    assert again.code == 1
    assert "changed no pair has peer access" in again.by_host["rig3"]
    assert f"rig1 FAILED its proof: {WRONG}" in again.text
    accepted = re.search(r'declare ("p2p": "skip")', again.text)
    assert accepted
    assert accepted[1] in owner.types(*again.next("rig1")).text
    owner.declares("rig1", accepted[1])
    last = owner.types("apply", "--ask-sudo-password", answers=SUDO)

    assert last.code == 3
    assert "5 as declared" in last.text
    assert "not reached Connection refused" in last.by_host["rig6"]


def test_history_doctor_and_release_of_six_hosts_fit_a_screen(owner: Owner) -> None:
    history = owner.types("history")
    assert history.code == 3
    assert f"by {getpass.getuser()}@" in history.text
    assert "power limit: 350 W -> 285 W (3 GPUs)" in history.text
    assert f"why: P2P: {WRONG}" in history.text

    doctor = owner.types("doctor", "train")
    assert (doctor.code, "3 hosts: " in doctor.text) == (0, True)

    undone = owner.types("release", "--dry-run", "rig5", "rig3")
    assert undone.code == 0
    assert "power limit 450 W -> 575 W" in undone.text
    assert "Nothing was touched." in undone.text
    assert owner.types("plan", "desks", answers={}).by_host["rig5"] == "as declared -"
