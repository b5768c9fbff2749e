"""What rigops does not own stays byte for byte as it is, and what it owns goes only with consent.

Compared is every file that anything in the host has written, whoever did.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.lab import hosts
from tests.lab.laptop import Laptop
from tests.lab.tree import Tree
from tests.shards import LAB_CONCERNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

pytestmark = pytest.mark.shard(LAB_CONCERNS)

NAME = "leaves-the-rest"
APPLY = ("apply", "--yes", "--reboot", "auto", "--preflight", "never", "--json")
LIMITS = {"shm": "1G", "memlock": "4M", "nofile": 8192, "removeipc": False}
NCCL = {"NCCL_P2P_LEVEL": "SYS"}
DECLARED = {"kernel_args": ["iommu=pt"], "limits": LIMITS, "nccl": NCCL}

# A slash at the end: with everything in it.
OWN_STATE = "/var/lib/rigops/"
ALWAYS_CHANGES = (
    "/var/log/",  # the system's journal, and who logged in
    "/var/tmp/",  # systemd's folders for units that have a /tmp of their own, new at each boot
)
# While something is declared.
MADE_FROM_WHAT_IS_OWNED = (
    "/boot/grub/grub.cfg",  # grub-mkconfig makes it from our drop-in
    "/etc/systemd/system/sysinit.target.wants/rigops-shm.service",  # our unit is enabled
    "/etc/nccl.conf",  # has our lines among others, which are looked at by themselves
)
# GRUB's own, which it rewrites when it follows the order for one boot. No rig of the lab has one.
GRUBS_OWN = "/boot/grub/grubenv"
# No package has these folders. They stay, empty, as they would after `apt purge`.
FOLDERS_FOR_DROP_INS = ("/etc/systemd/system.conf.d", "/etc/systemd/logind.conf.d")
AFTER_A_TRIAL = (GRUBS_OWN, "/usr/local/libexec")

THEIRS = {
    "etc/nccl.conf": "# mine\nNCCL_SOCKET_IFNAME = eno1",
    "etc/default/grub.d/50-mine.cfg": 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX quiet"\n',
    "etc/security/limits.d/50-mine.conf": "@video - nice -5\n",
}


class Rig:
    def __init__(self, laptop: Laptop, host: hosts.Host) -> None:
        self.laptop = laptop
        self.host = host
        for path, text in THEIRS.items():
            host.run(f"cat >/{path}", given=text)
        host.run("update-grub")
        self.fresh = Tree(host)

    @property
    def group(self) -> Path:
        return self.laptop.folder / "group_data/rigs.py"

    def declare(self, data: Mapping[str, object]) -> None:
        """For the group that the host is in."""
        self.laptop.declare({NAME: {}})
        self.group.parent.mkdir(exist_ok=True)
        self.group.write_text("".join(f"{key} = {value!r}\n" for key, value in data.items()))

    def apply(self, *options: str, code: int = 0) -> Mapping[str, Any]:
        said = self.laptop.rigops(*APPLY, *options, "-i", "inventory.py")
        assert said.code == code, said.out + said.err
        (host,) = said.json()["hosts"]
        found: Mapping[str, Any] = host
        return found

    def owned(self) -> tuple[str, ...]:
        record = json.loads((self.host.root / "var/lib/rigops/owned.json").read_text())
        return tuple(file["path"] for file in record["files"])

    def changed_since(self, earlier: Tree, *, but: tuple[str, ...] = ()) -> set[str]:
        return {
            path
            for path in earlier.differences(Tree(self.host))
            if not any(_is_in(path, one) for one in (*ALWAYS_CHANGES, *but))
        }


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with hosts.running([f"threadripper-3x3090={NAME}"]) as (host,):
        yield Rig(Laptop(tmp_path_factory.mktemp("laptop")), host)


def test_apply_writes_what_it_owns_and_nothing_else(rig: Rig) -> None:
    rig.declare(DECLARED)
    host = rig.apply()

    assert host["outcome"] == "changed"
    owned = rig.owned()
    assert len(owned) > 5
    known = (*owned, *MADE_FROM_WHAT_IS_OWNED, *FOLDERS_FOR_DROP_INS, OWN_STATE, *AFTER_A_TRIAL)
    assert rig.changed_since(rig.fresh, but=known) == set()
    assert rig.changed_since(rig.fresh).issuperset({*owned, *MADE_FROM_WHAT_IS_OWNED})
    assert (rig.host.root / "etc/nccl.conf").read_text().endswith(THEIRS["etc/nccl.conf"])
    assert rig.host.run("cat /proc/cmdline").stdout.count("iommu=pt") == 1


def test_a_second_apply_writes_nothing_at_all(rig: Rig) -> None:
    before = Tree(rig.host)

    host = rig.apply()

    assert (host["outcome"], host["changes"]) == ("converged", [])
    assert rig.changed_since(before) == set()


def test_a_group_file_that_was_lost_undoes_nothing(rig: Rig) -> None:
    before = Tree(rig.host)

    rig.group.unlink()
    host = rig.apply(code=1)

    withheld = {one["concern"]: set(one["subjects"]) for one in host["withheld"]}
    assert withheld.keys() == {"kernel_args", "base"}
    companion = "/var/lib/rigops/lines/etc-nccl.conf"  # people know it by the file it stands for
    known_as = {companion: "/etc/nccl.conf"}
    assert set().union(*withheld.values()) == {known_as.get(path, path) for path in rig.owned()}
    assert host["changes"] == []
    assert rig.changed_since(before) == set()


def test_a_concern_that_is_gone_keeps_nothing_else_from_being_done(rig: Rig) -> None:
    rig.declare({"limits": {**LIMITS, "shm": "2G"}, "nccl": NCCL})
    host = rig.apply(code=1)

    assert [one["concern"] for one in host["withheld"]] == ["kernel_args"]
    assert {change["concern"] for change in host["changes"]} == {"base"}
    for path in ("/boot/grub/grub.cfg", "/proc/cmdline"):
        assert "iommu=pt" in rig.host.run(f"cat {path}").stdout
    assert rig.host.run("findmnt -n -o SIZE /dev/shm").stdout.strip() == "2G"


def test_an_emptied_declaration_needs_no_consent_of_its_own(rig: Rig) -> None:
    rig.declare({**DECLARED, "limits": {}, "nccl": {}})
    host = rig.apply()

    assert (host["outcome"], host["withheld"]) == ("changed", [])
    assert rig.owned() == ("/etc/default/grub.d/99-rigops.cfg",)
    assert (rig.host.root / "etc/nccl.conf").read_text() == THEIRS["etc/nccl.conf"]


def test_with_consent_everything_is_as_it_was_before_the_first_apply(rig: Rig) -> None:
    rig.declare({})
    host = rig.apply("--prune")

    assert (host["outcome"], host["withheld"]) == ("changed", [])
    assert rig.owned() == ()
    assert "iommu=pt" not in rig.host.run("cat /proc/cmdline").stdout
    assert rig.changed_since(rig.fresh, but=(OWN_STATE, *AFTER_A_TRIAL)) <= set(
        FOLDERS_FOR_DROP_INS
    )
    assert not any(any((rig.host.root / name[1:]).iterdir()) for name in FOLDERS_FOR_DROP_INS)
    assert not list(rig.host.root.rglob("*.rigops-new"))


def _is_in(path: str, known: str) -> bool:
    return path == known.rstrip("/") or (known.endswith("/") and path.startswith(known))
