"""The lab's packages under real apt and dpkg, with the surprises that the real ones have."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.lab import image, namespace
from tests.lab.packages import AT, source
from tests.lab.packages.recipe import machine_kernel
from tests.shards import LAB_ITSELF

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.shard(LAB_ITSELF)

CHECKOUT = Path(__file__).resolve().parents[2]
KERNEL = machine_kernel(os.uname().release)
LISTS = "etc/apt/sources.list.d"

_INSTALL = """
import json, sys, types
from pathlib import Path
from tests.lab.packages import install
install(Path(sys.argv[1]), types.SimpleNamespace(**json.loads(sys.argv[2])))
"""


@dataclass(frozen=True)
class Done:
    status: int
    said: str

    def inst(self) -> dict[str, str]:
        """What a simulation would install: package and version."""
        lines = [line.split() for line in self.said.splitlines() if line.startswith("Inst ")]
        return {
            words[1]: next(w for w in words if w.startswith("(")).lstrip("(") for words in lines
        }


@dataclass
class Tree:
    """A Debian that is nobody's host: mounted only for as long as a command runs in it."""

    folder: Path
    repository: Path
    lower: tuple[Path, ...]
    upper: Path = field(init=False)

    def __post_init__(self) -> None:
        self.upper = self.folder / "upper"
        for name in ("upper", "work", "root"):
            (self.folder / name).mkdir(parents=True)

    def write(self, name: str, text: str) -> None:
        path = self.upper / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def become(self, **rig: object) -> None:
        normal = {
            "os": "debian", "suite": "bookworm", "driver": None, "held": False,
            "persistence": False, "pocket": None,
            "components": ["main", "contrib", "non-free", "non-free-firmware"],
            "open_modules": False,
        }  # fmt: skip
        self._enter(sys.executable, "-c", _INSTALL, str(self._root), json.dumps({**normal, **rig}))

    def tries(self, command: str) -> Done:
        done = self._run(
            "chroot", str(self._root), "env", "-i", "LC_ALL=C.UTF-8",
            "DEBIAN_FRONTEND=noninteractive", "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
            "sh", "-euc", command,
        )  # fmt: skip
        return Done(done.returncode, done.stdout)

    def does(self, command: str) -> str:
        done = self.tries(command)
        assert done.status == 0, done.said
        return done.said

    def simulates(self, command: str) -> dict[str, str]:
        done = self.tries(f"apt-get -s {command}")
        assert done.status == 0, done.said
        return done.inst()

    @property
    def _root(self) -> Path:
        return self.folder / "root"

    def _enter(self, *command: str) -> None:
        done = self._run(*command)
        assert done.returncode == 0, done.stdout

    def _run(self, *command: str) -> subprocess.CompletedProcess[str]:
        root = self._root
        layers = ":".join(str(path) for path in self.lower)
        options = f"lowerdir={layers},upperdir={self.upper},workdir={self.folder / 'work'}"
        steps = [
            shlex.join(["mount", "-t", "overlay", "-o", options, "lab-packages", str(root)]),
            f"mount -t proc proc {root}/proc",
            f"mount --rbind /dev {root}/dev",
            f"mount --bind -o ro {self.repository} {root}{AT}",
            f"exec {shlex.join(command)}",
        ]
        return subprocess.run(
            namespace.enter(steps), cwd=CHECKOUT, check=False, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path, repository: Path) -> Tree:
    return Tree(tmp_path / "tree", repository, (image.base(),))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Tree:
    """A rig with 535.261.03, held, persistence on."""
    tree = Tree(tmp_path_factory.mktemp("rig") / "tree", repository, (image.base(),))
    tree.become(driver="535.261.03", held=True, persistence=True)
    return tree


@pytest.fixture
def rig(tmp_path: Path, installed: Tree) -> Tree:
    return Tree(tmp_path / "tree", installed.repository, (installed.upper, *installed.lower))


@pytest.fixture
def ubuntu(tree: Tree) -> Callable[[str], Tree]:
    def with_pocket(pocket: str) -> Tree:
        tree.become(os="ubuntu", pocket=pocket)
        return tree

    return with_pocket


def pins(*stanzas: tuple[str, str, int]) -> str:
    return "\n".join(
        f"Package: {names}\nPin: version {version}\nPin-Priority: {priority}\n"
        for names, version, priority in stanzas
    )


def candidate(tree: Tree, package: str) -> str:
    policy = tree.does(f"apt-cache policy {package}")
    return next(line.split()[1] for line in policy.splitlines() if "Candidate:" in line)


SOURCE = "src:nvidia-graphics-drivers"
GLOB = "*nvidia*-535* src:nvidia-graphics-drivers-535"


def test_535_of_ubuntu_brings_580(ubuntu: Callable[[str], Tree]) -> None:
    host = ubuntu("on")

    host.does("apt-get -y install nvidia-driver-535")

    assert "RIGSIM_USERSPACE=580.178.04 " in host.does("cat /usr/bin/nvidia-smi")
    assert host.does("dkms status") == f"nvidia/580.178.04, {KERNEL}, x86_64: installed\n"
    assert 'ID="ubuntu"' in host.does("cat /etc/os-release")
    assert "[Install]" not in host.does("cat /lib/systemd/system/nvidia-persistenced.service")


def test_a_version_alone_does_not_get_the_real_535_and_a_pin_does(
    ubuntu: Callable[[str], Tree],
) -> None:
    host = ubuntu("on")
    alone = host.tries("apt-get -s install nvidia-driver-535=535.171.04-0ubuntu2")
    host.write(
        "etc/apt/preferences.d/pin",
        pins((GLOB, "535.171.04*", 1001), ("*nvidia*-535*", "*", -1)),
    )
    pinned = host.simulates("install nvidia-driver-535")

    assert alone.status != 0
    assert "held broken packages" in alone.said
    assert {v for name, v in pinned.items() if "nvidia" in name} == {"535.171.04-0ubuntu2"}
    assert candidate(host, "linux-modules-nvidia-535-generic") == "(none)"
    assert candidate(host, "nvidia-driver-580") == "580.178.04-0ubuntu0.24.04.1"


def test_a_pin_that_matches_nothing_fails_open_unless_a_second_stanza_shuts_it(
    ubuntu: Callable[[str], Tree],
) -> None:
    host = ubuntu("off")
    found = []
    for stanzas in (
        [("*nvidia*-535*", "535.129.03*", 1001)],
        [("*nvidia*-535*", "535.129.03*", 1001), ("*nvidia*-535*", "*", -1)],
        [("*nvidia*-535*", "*", -1), ("*nvidia*-535*", "535.309.01*", 1001)],
    ):
        host.write("etc/apt/preferences.d/pin", pins(*stanzas))
        found.append(candidate(host, "nvidia-driver-535"))

    assert found == ["535.309.01-0ubuntu0.24.04.2", "(none)", "(none)"]


def test_a_newer_suite_takes_over_unless_the_source_is_pinned(tree: Tree) -> None:
    tree.become()
    before = tree.simulates("install nvidia-driver")
    tree.write(f"{LISTS}/newer.sources", source("debian", "newer"))
    tree.does("apt-get -q update")
    unpinned = tree.simulates("install nvidia-driver")
    by_version = tree.tries("apt-get -s install nvidia-driver=535.261.03-1")
    tree.write("etc/apt/preferences.d/pin", pins((SOURCE, "535.261.03*", 1001), (SOURCE, "*", -1)))
    pinned = tree.simulates("install nvidia-driver")

    assert before["libnvidia-ml1"] == "535.261.03-1"
    assert unpinned["libnvidia-ml1"] == "550.163.01-2"
    assert by_version.status != 0
    assert "held broken packages" in by_version.said
    assert pinned["nvidia-driver"] == pinned["libnvidia-ml1"] == "535.261.03-1"
    assert pinned["nvidia-persistenced"] == "550.163.01-1"


def test_a_fresh_install_knows_no_driver(tree: Tree) -> None:
    tree.become(components=["main"])

    assert (
        "Unable to locate package nvidia-driver"
        in tree.tries("apt-get -s install nvidia-driver").said
    )
    assert not tree.does("dpkg-query -W -f '${Package}\\n' | grep nvidia || true")


def test_an_installed_rig(installed: Tree) -> None:
    module = f"/lib/modules/{KERNEL}/updates/dkms/nvidia-current.ko"

    assert installed.does("dkms status") == (
        f"nvidia-current/535.261.03, {KERNEL}, x86_64: installed\n"
    )
    assert installed.does(f"modinfo -F version {module}") == "535.261.03\n"
    assert installed.does(f"modinfo -k {KERNEL} -F vermagic nvidia-current").startswith(
        f"{KERNEL} SMP"
    )
    assert installed.does("readlink /usr/lib/x86_64-linux-gnu/libcuda.so.1") == (
        "libcuda.so.535.261.03\n"
    )
    assert "libcuda.so.1" in installed.does("ldconfig -p")
    assert {"nvidia-driver", "libcuda1"} <= set(installed.does("apt-mark showhold").split())
    assert installed.does("systemctl is-enabled nvidia-persistenced") == "enabled\n"
    assert "blacklist nouveau" in installed.does(f"cat /boot/initrd.img-{KERNEL}")
    assert not installed.does("dpkg --audit")
    assert not installed.does("dpkg --verify nvidia-kernel-dkms libcuda1 | grep -v /doc/ || true")
    assert "tested up to Linux 6.15" in installed.does("apt-cache show nvidia-kernel-dkms")


def test_other_rigs_get_their_own_driver(tree: Tree) -> None:
    tree.become(driver="545.29.06")

    assert tree.does("dkms status").startswith("nvidia-current/545.29.06, ")
    assert tree.simulates("full-upgrade") == {}
    assert not tree.does("apt-mark showhold")
    assert tree.tries("systemctl is-enabled nvidia-persistenced").said == "disabled\n"


def test_a_new_kernel_gets_its_module_and_a_new_driver_only_reaches_some_kernels(
    rig: Tree,
) -> None:
    rig.does("apt-get -y install linux-image-amd64 linux-headers-amd64")
    both = rig.does("dkms status").splitlines()
    rig.does("apt-get -y install --allow-change-held-packages --allow-downgrades"
             " $(apt-mark showhold | grep -vE '^nvidia-(modprobe|persistenced|settings)$' |"
             " sed 's/$/=535.183.01-1/')")  # fmt: skip

    assert f"nvidia-current/535.261.03, {KERNEL}, x86_64: installed" in both
    assert "nvidia-current/535.261.03, 6.1.0-50-amd64, x86_64: installed" in both
    assert "menuentry 'Debian GNU/Linux, with Linux 6.1.0-50-amd64'" in rig.does(
        "cat /boot/grub/grub.cfg"
    )
    assert rig.does("dkms status") == f"nvidia-current/535.183.01, {KERNEL}, x86_64: installed\n"


def test_a_kernel_that_the_driver_does_not_know_fails_to_build(rig: Tree) -> None:
    rig.write(f"{LISTS}/backports.sources", source("debian", "backports"))
    rig.does("apt-get -q update")
    new = "6.16.3+deb13-amd64"

    done = rig.tries(f"apt-get -y install linux-headers-{new} linux-image-{new}")

    assert done.status != 0
    assert f"Error! Bad return status for module build on kernel: {new} (x86_64)" in done.said
    assert "exited with return code 11" in done.said
    assert new not in rig.does("dkms status")


def test_a_build_fails_where_a_test_wants_it_to(rig: Tree) -> None:
    rig.write("etc/rigsim/dkms-fails", "6.1.0-*\n")

    done = rig.tries("apt-get -y install linux-headers-6.1.0-50-amd64 linux-image-6.1.0-50-amd64")

    assert done.status != 0
    assert "this kernel was asked to fail" in rig.does("cat /var/lib/dkms/*/*/build/make.log")


def test_without_headers_nothing_is_built_and_nothing_fails(rig: Tree) -> None:
    said = rig.does("apt-get -y install linux-image-6.1.0-50-amd64")

    assert "autoinstall for kernel 6.1.0-50-amd64 was skipped since the kernel headers" in said
    assert "6.1.0-50-amd64" not in rig.does("dkms status")


def test_purging_leaves_nothing(rig: Tree) -> None:
    rig.does("apt-get -y --allow-change-held-packages purge '*nvidia*' libcuda1 dkms")

    assert not rig.does(
        "find / -xdev -name '*nvidia*' ! -path '/var/log/*' ! -path '/proc/*' ! -path '/srv/*'"
        " ! -path '/usr/share/bash-completion/*' ! -path '/usr/share/perl*'"
    )
    assert not rig.does("find /var/lib/dkms /lib/modules/*/updates 2>/dev/null || true")
    assert "nouveau" not in rig.does(f"cat /boot/initrd.img-{KERNEL}")
