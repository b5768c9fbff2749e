"""The program by which modprobe loads NVIDIA's modules, with a tree and a kmod of its own."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Final

import pytest

from tests.own_tree import MODULES
from tests.unit.hostside.small_host import SmallHost
from tests.unit.programs import SHELLS

if TYPE_CHECKING:
    from pathlib import Path

KERNEL: Final = "6.1.0-50-amd64"
VERSION: Final = "535.309.01"
DIGEST: Final = "d" * 64
OWN: Final = f"var/lib/rigops/driver-modules/{KERNEL}"
RECORD: Final = "run/rigops/nvidia-modules"
OPTIONS: Final = 'NVreg_RegistryDwords="A=1;B=2" NVreg_X=3'


class Rig(SmallHost):
    """A boot with the argument, and a whole set for its kernel. `done`: what kmod was asked."""

    def __init__(self, root: Path, shell_name: str) -> None:
        super().__init__(root, shell_name)
        for name in ("flock", "sha256sum"):
            self.real(name)
        self.write("proc/cmdline", "root=/dev/sda1 rigops.nvidia=own quiet\n")
        self.write("proc/sys/kernel/osrelease", f"{KERNEL}\n")
        self.write("dev/kmsg", "")
        self.write(f"lib/firmware/nvidia/{VERSION}/gsp_tu10x.bin", "")
        lines = [f"digest {DIGEST}", f"version {VERSION}"]
        for name in MODULES:
            self.write(f"{OWN}/{name}.ko", name)
            lines.append(f"sha256 {name} {sha256(name.encode()).hexdigest()}")
        lines.append("depends nvidia drm_kms_helper,video")
        lines.append("depends nvidia-modeset nvidia,video")
        self.write(f"{OWN}/set", "\n".join(lines) + "\n")
        self.has_stock(VERSION)
        self.loads()

    def has_stock(self, version: str) -> None:
        self.tool("modinfo", f"echo {version}")

    def loads(self, *, refused: str = "no-module") -> None:
        """A module is in /sys after insmod, but for the refused one; modprobe only says so."""
        loaded = (
            f'name=${{1##*/}}; name=${{name%.ko}}; echo "insmod $*" >>"{self.root}/log"\n'
            f'[ "$name" != "{refused}" ] || {{ echo "insmod: Key was rejected" >&2; exit 1; }}\n'
            f'mkdir -p "{self.root}/sys/module/$(echo "$name" | tr - _)"'
        )
        self.tool("insmod", loaded)
        config = "options nvidia_current NVreg_Y=4\noptions nvidia_current_uvm uvm_z=5\n"
        self.write("config", config)
        self.tool(
            "modprobe",
            f'[ "$1" != -c ] || exec cat "{self.root}/config"\n'
            f'echo "modprobe $*" >>"{self.root}/log"',
        )

    def load(self, module: str, stock: str = "", options: str = OPTIONS) -> int:
        words = (module, stock or module, options)
        return self.run(self.text("nvidia_modules", {}), *words).returncode

    @property
    def done(self) -> list[str]:
        return (self.root / "log").read_text().replace(f"{self.root}/{OWN}/", "").splitlines()

    @property
    def chosen(self) -> str:
        return (self.root / RECORD).read_text()

    @property
    def log(self) -> str:
        return (self.root / "dev/kmsg").read_text()


@pytest.fixture(params=SHELLS)
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Rig:
    return Rig(tmp_path / "host", request.param)


def test_the_owners_set_is_loaded_with_what_it_needs_and_all_options(rig: Rig) -> None:
    assert rig.load("nvidia", "nvidia-current") == 0
    assert rig.load("nvidia-modeset", "nvidia-current-modeset", "") == 0

    assert rig.done == [
        "modprobe -q drm_kms_helper",
        "modprobe -q video",
        f"insmod nvidia.ko NVreg_Y=4 {OPTIONS}",
        "modprobe nvidia",
        "modprobe -q video",
        "insmod nvidia-modeset.ko",
    ]
    assert rig.chosen == f"own {DIGEST}\n"
    assert rig.log == ""


def test_without_the_argument_the_stock_set_is_loaded_and_nobody_hears_of_it(rig: Rig) -> None:
    rig.write("proc/cmdline", "quiet xrigops.nvidia=own\n")
    rig.load("nvidia", "nvidia-current")
    rig.load("nvidia-uvm", "nvidia-current-uvm", "")

    assert rig.done == [
        f"modprobe -i nvidia-current {OPTIONS}",
        "modprobe nvidia",
        "modprobe -i nvidia-current-uvm",
    ]
    assert rig.chosen == "stock not-asked\n"
    assert rig.log == ""


def lose_var(rig: Rig) -> None:
    (rig.root / "var").rename(rig.root / "elsewhere")


def lose_set(rig: Rig) -> None:
    (rig.root / OWN / "set").unlink()


def damage(rig: Rig) -> None:
    (rig.root / OWN / "nvidia-uvm.ko").write_text("half")


def lose_a_line(rig: Rig) -> None:
    path = rig.root / OWN / "set"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-3]))


def lose_firmware(rig: Rig) -> None:
    (rig.root / "lib/firmware").rename(rig.root / "lib/elsewhere")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lose_var, "not-mounted"),
        (lose_set, "not-built"),
        (damage, "damaged"),
        (lose_a_line, "damaged"),
        (lambda rig: rig.has_stock("535.309.02"), "other-version"),
        (lose_firmware, "no-firmware"),
        (lambda rig: rig.loads(refused="nvidia"), "refused"),
    ],
)
@pytest.mark.parametrize("rig", ["dash"], indirect=True)
def test_whatever_is_not_as_it_has_to_be_all_of_the_stock_set_is_loaded(
    rig: Rig, change: object, why: str
) -> None:
    assert callable(change)
    change(rig)
    rig.load("nvidia")
    rig.load("nvidia-modeset")

    assert rig.chosen == f"stock {why}\n"
    assert f"the stock nvidia modules are loaded, not the owner's: {why}\n" in rig.log
    assert rig.done[-3:] == [
        f"modprobe -i nvidia {OPTIONS}",
        "modprobe nvidia",
        f"modprobe -i nvidia-modeset {OPTIONS}",
    ]


def test_where_no_stock_module_was_built_its_version_is_no_obstacle(rig: Rig) -> None:
    rig.tool("modinfo", "echo modinfo: ERROR: Module nvidia not found. >&2; exit 1")
    rig.load("nvidia")

    assert rig.chosen == f"own {DIGEST}\n"


def test_the_kernels_refusal_is_in_its_log(rig: Rig) -> None:
    rig.loads(refused="nvidia")
    rig.load("nvidia")

    assert rig.log.startswith("<4>rigops: insmod: Key was rejected\n")


def test_no_stock_module_is_ever_loaded_beside_the_owners(rig: Rig) -> None:
    rig.load("nvidia")
    rig.loads(refused="nvidia-uvm")

    assert rig.load("nvidia-uvm") == 1
    assert not [line for line in rig.done if line.startswith("modprobe -i")]


def test_a_module_that_another_one_has_loaded_meanwhile_is_left_alone(rig: Rig) -> None:
    (rig.root / "sys/module/nvidia").mkdir(parents=True)
    assert rig.load("nvidia") == 0

    assert not (rig.root / "log").exists()
    assert not (rig.root / RECORD).exists()


def test_of_a_program_that_arrives_in_part_nothing_runs(rig: Rig) -> None:
    *before, last = rig.text("nvidia_modules", {}).splitlines()
    assert last == 'nvidia_modules "$@"'
    rig.run("\n".join(before), "nvidia", "nvidia", "")

    assert not (rig.root / "log").exists()
