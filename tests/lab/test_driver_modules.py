"""The owner's own kernel modules on a simulated rig: what plan refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.lab.applying import INVENTORY
from tests.lab.driver_rig import GOOD, Rig, tended
from tests.own_tree import files
from tests.shards import LAB_DRIVER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.shard(LAB_DRIVER)

MODPROBE = "/etc/modprobe.d/00-rigops-nvidia-modules.conf"


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with tended(tmp_path_factory, "threadripper-3x3090=own-modules") as rig:
        yield rig


def _tree(folder: Path, version: str) -> str:
    for name, text in files(version, 7).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return str(folder)


def _reasons(host: Any) -> dict[str, str]:
    return {one["concern"]: one["reason"] for one in host["blocked"]}


# A kernel that boots next, as far as plan asks: nothing is built for it or boots with it here.
NEXT = "6.1.0-42-amd64"
NEXT_KERNEL = f"touch /boot/vmlinuz-{NEXT}; mkdir -p /lib/modules/{NEXT}/build"
# Which the lab's archive lacks.
TOOLS = """
set -eu
for name in g++ make; do
    mkdir -p /tmp/tool/DEBIAN
    printf 'Package: %s\\nVersion: 1\\nArchitecture: all\\nMaintainer: a\\nDescription: a\\n' \
        "$name" >/tmp/tool/DEBIAN/control
    dpkg-deb -b /tmp/tool /tmp/tool.deb
    dpkg -i /tmp/tool.deb
done
"""


def test_a_container_without_a_kernel_of_its_own_is_refused_before_anything_changes(
    rig: Rig, tmp_path: Path
) -> None:
    host = rig.plan(1, driver="535", driver_modules=_tree(tmp_path, GOOD))

    assert "it runs with that of the machine around it" in _reasons(host)["driver_modules"]
    assert not rig.there(MODPROBE, "/var/lib/rigops/driver-modules")


def test_a_tree_of_no_offered_version_is_refused_before_anything_changes(
    rig: Rig, tmp_path: Path
) -> None:
    tree = _tree(tmp_path, "595.71.05")

    other = _reasons(rig.plan(1, driver="595.71.05", driver_modules=tree))
    excluded = _reasons(rig.plan(1, driver="535", driver_modules=tree))

    assert set(other) == set(excluded) == {"nvidia_driver", "driver_modules"}
    assert "check out a tree of 535.261.03, which they have, or put" in other["nvidia_driver"]
    assert '"driver": "535" excludes 595.71.05' in excluded["driver_modules"]
    assert not rig.there(MODPROBE, "/var/lib/rigops/driver-modules")


def test_on_a_host_with_a_kernel_of_its_own_plan_shows_all_that_comes_and_what_it_takes(
    rig: Rig, tmp_path: Path
) -> None:
    tree = _tree(tmp_path, GOOD)
    rig.does(TOOLS + NEXT_KERNEL)
    declared: dict[str, Any] = {"driver": "535", "p2p": "required", "driver_modules": tree}
    try:
        host = rig.plan(**declared)
        hindered = rig.laptop.doctor(*INVENTORY).seen(rig.host.name).of("bar1.size")
        stock = rig.plan(driver="535", p2p="required")
    finally:
        rig.does(f"rm -rf /boot/vmlinuz-{NEXT} /lib/modules/{NEXT}")

    coming = [one["subject"] for one in host["changes"] if one["concern"] == "driver_modules"]
    assert coming[-2:] == [f"modules of your own for Linux {NEXT}", MODPROBE]
    notices = "\n".join(host["notices"])
    assert "nobody but you has checked or signed them, and 1 kernel to build for take" in notices
    assert 'only with an option: declare "module_options"' in notices
    assert [one["status"] for one in hindered] == ["fail"] * 3
    lines = "\n".join(stock["notices"])
    assert "they grant GeForce RTX 3090 none over PCIe" in lines
    assert not rig.there(MODPROBE, "/var/lib/rigops/driver-modules")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        pytest.param(
            ("t180-4xv100=own-v100",),
            "drive Turing and newer cards only, and this machine has Tesla V100-SXM2-16GB. "
            "fix: leave driver_modules out here",
            id="V100",
        ),
        pytest.param(
            ("desktop-3060-1060=own-mixed",),
            "drive Turing and newer cards only, and this machine has GeForce GTX 1060. fix: ",
            id="mixed generations",
        ),
        pytest.param(
            ("threadripper-3x3090=own-signed", "secure_boot=on"),
            "Secure Boot is on, and the key that signs modules built here",
            id="Secure Boot",
        ),
    ],
)
def test_a_rig_that_cannot_run_them_is_refused_before_anything_changes(
    words: tuple[str, ...],
    reason: str,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with tended(tmp_path_factory, *words) as rig:
        rig.does(NEXT_KERNEL)
        host = rig.plan(1, driver=GOOD, driver_modules=_tree(tmp_path, GOOD))

        assert reason in _reasons(host)["driver_modules"]
        assert not rig.there(MODPROBE, "/var/lib/rigops/driver-modules")
