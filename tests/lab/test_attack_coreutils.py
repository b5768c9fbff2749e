"""A host whose coreutils are those written in Rust, as in Ubuntu since 25.10.

They are a newer Debian's, with the libraries that they came with.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.lab import accounts, hosts, machine
from tests.lab.applying import DROP_IN, INVENTORY, MENU
from tests.lab.driver_rig import AUTO, GOOD, Rig
from tests.lab.laptop import Laptop
from tests.lab.tree import Tree
from tests.shards import ATTACK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.lab.laptop import Seen

pytestmark = pytest.mark.shard(ATTACK)

LIBRARIES = (
    "ld-linux-x86-64.so.2", "libc.so.6", "libm.so.6", "libgcc_s.so.1", "libselinux.so.1",
    "libpcre2-8.so.0",
)  # fmt: skip
HERE = "/opt/uutils"
PROGRAM = f"{HERE}/ld-linux-x86-64.so.2 --library-path {HERE} --argv0"
TAKE_OVER = f"""
for one in {HERE}/names/*; do
    name=${{one##*/}}
    printf '#!/bin/sh\\nexec {PROGRAM} %s {HERE}/coreutils "$@"\\n' "$name" >/usr/bin/"$name".new
    chmod 755 /usr/bin/"$name".new
done
for one in {HERE}/names/*; do mv -f /usr/bin/"${{one##*/}}".new /usr/bin/"${{one##*/}}"; done
"""
DECLARED: Mapping[str, object] = {
    "driver": "535",
    "kernel_args": ["lab.uutils=1"],
    "kernel_trial": "off",
    "nccl": {"NCCL_P2P_LEVEL": "SYS"},
    "limits": {"memlock": "4M"},
    "module_options": {"nvidia": {"NVreg_EnableResizableBar": 1}},
}


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with hosts.running(["threadripper-3x3090=uutils"]) as (host,):
        host.run("update-grub")
        yield Rig(Laptop(tmp_path_factory.mktemp("laptop")), host)


@pytest.fixture(scope="module")
def with_gnu(rig: Rig) -> Seen:
    rig.declare()
    return rig.laptop.doctor(*INVENTORY).seen()


@pytest.fixture(scope="module")
def before(rig: Rig, with_gnu: Seen) -> Tree:
    """From here on it has no others."""
    assert with_gnu.verdicts()
    tree = accounts.base()
    inside = Path(f"/proc/{machine.leader(rig.host.record)}/root{HERE}")
    (inside / "names").mkdir(parents=True)
    shutil.copy(tree / "usr/bin/coreutils", inside)
    for library in LIBRARIES:
        shutil.copy(tree / "usr/lib/x86_64-linux-gnu" / library, inside)
    for name in (tree / "usr/lib/cargo/bin/coreutils").iterdir():
        (inside / "names" / name.name).touch()
    rig.does(TAKE_OVER)
    assert "GNU" not in rig.does("sha256sum --version; stat --version")
    return Tree(rig.host)


def test_doctor_finds_the_same(rig: Rig, before: Tree, with_gnu: Seen) -> None:
    assert before.at("usr/bin/stat")
    rig.declare()

    assert rig.laptop.doctor(*INVENTORY).seen().verdicts() == with_gnu.verdicts()


def test_everything_is_applied_once_and_stays(rig: Rig, before: Tree) -> None:
    assert before.at("usr/bin/stat")
    first = rig.apply(0, *AUTO, **DECLARED)
    again = rig.apply(0, *AUTO, **DECLARED)

    assert (first["outcome"], again["outcome"]) == ("changed", "converged")
    assert rig.runs == GOOD
    assert "lab.uutils=1" in rig.does("cat /proc/cmdline")


def test_it_is_released_to_what_it_was_but_for_the_packages(rig: Rig, before: Tree) -> None:
    rig.does("sed -i 's/^NCCL_P2P_LEVEL.*/NCCL_P2P_LEVEL=PHB/' /etc/nccl.conf")
    rig.apply(0, *AUTO, **DECLARED)

    said = rig.laptop.rigops("release", rig.host.name, "--yes", "--reboot", "auto", *INVENTORY)

    assert said.code == 0, said.out + said.err
    left = rig.changed_since(before)
    assert {path for path in left if "rigops" in path} == set()
    assert left & {"/etc/nccl.conf", DROP_IN, MENU} == set()
