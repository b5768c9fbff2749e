"""The owner's modules on a host whose systemd, kernel headers, compiler, DKMS and apt are real."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Final

import pytest

from rigops.concerns.nvidia_driver.record import PATH, PinnedDriver, document
from rigops.hostside.packing import installed_at, pack
from rigops.rendering import render
from tests import own_tree
from tests.lab import hosts, real_kernel
from tests.lab.real_kernel import LONGEST_S
from tests.shards import REAL_DRIVER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.lab.hosts import Host

pytestmark = pytest.mark.shard(REAL_DRIVER)

VERSION: Final = "535.309.01"
FOLDER: Final = "/var/lib/rigops/driver-modules"
TREE: Final = own_tree.files(VERSION, 1)
PROGRAM: Final = installed_at("own_modules")
HOOKS: Final = ("/etc/kernel/postinst.d/00-rigops-nvidia",)


@pytest.fixture(scope="module")
def rig() -> Iterator[Host]:
    with hosts.running(("threadripper-3x3090=own-modules", "driver=none")) as (host,):
        real_kernel.install(host, "dkms", "build-essential")
        for name in ("own_modules", "kernel_hook"):
            write(host, installed_at(name), pack(name).text, 0o755)
        hook = render("kernel-hook.sh.j2", program=installed_at("kernel_hook"))
        write(host, HOOKS[0], hook, 0o755)
        write(
            host,
            PATH,
            document(PinnedDriver(version=VERSION, flavor="open", declared=VERSION)),
            0o644,
        )
        yield host


def does(rig: Host, command: str, given: str = "") -> str:
    done = rig.run(f"set -eu\n{command}", given=given, timeout=LONGEST_S)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout.strip()


def write(rig: Host, path: str, text: str, mode: int) -> None:
    folder = path.rpartition("/")[0]
    does(rig, f"mkdir -p {folder}; cat >{path}; chmod {mode:o} {path}", given=text)


def send(rig: Host, tree: Mapping[str, str]) -> None:
    path = f"{FOLDER}/{own_tree.digest(tree)}.tar.gz"
    text = b64encode(own_tree.archive(tree)).decode()
    does(rig, f"mkdir -p {FOLDER}; base64 -d >{path}; chmod 600 {path}", given=text)


def traces(rig: Host) -> str:
    """Of the modules in the places of others: DKMS, modprobe and temporary files."""
    return does(
        rig,
        "find /usr/src /var/lib/dkms /lib/modules /tmp /var/tmp -name '*rigops*' "
        "-o -path '*/updates/*nvidia*'; dkms status; systemctl --no-legend --failed",
    )


def test_real_dkms_builds_the_set_and_nothing_is_installed(rig: Host) -> None:
    kernel = does(rig, "ls /lib/modules")
    send(rig, TREE)
    said = does(rig, f"{PROGRAM} build {kernel}")

    assert said.splitlines()[-1] == f"modules of your own {VERSION} for Linux {kernel}: built"
    at = f"{FOLDER}/{kernel}"
    listed = does(rig, f"cat {at}/set").splitlines()
    assert listed[:2] == [f"digest {own_tree.digest(TREE)}", f"version {VERSION}"]
    for name in own_tree.MODULES:
        assert does(rig, f"modinfo -F version {at}/{name}.ko") == VERSION
        assert does(rig, f"modinfo -F vermagic {at}/{name}.ko").split()[0] == kernel
        (found,) = (line for line in listed if line.startswith(f"build-id {name} "))
        assert found.split()[2] in does(rig, f"readelf -n {at}/{name}.ko")
    # Signed by DKMS, with the key that it signs all it builds with.
    signed = does(rig, f"modinfo -F sig_key {at}/nvidia.ko").replace(":", "")
    key = does(rig, "openssl x509 -inform DER -in /var/lib/dkms/mok.pub -noout -serial")
    assert key == f"serial={signed}"
    assert traces(rig) == ""
    assert does(rig, f"find {FOLDER} -not -user root -o -perm /022 -not -type l") == ""


def test_a_kernel_that_the_tree_does_not_build_for_leaves_apt_whole_and_is_told(rig: Host) -> None:
    kernel = does(rig, "ls /lib/modules")
    module = "kernel-open/nvidia-uvm/module.c"
    broken = {**TREE, module: f"{TREE[module]}\n#error this kernel is too new\n"}
    send(rig, broken)
    before = does(rig, f"cat {FOLDER}/{kernel}/set")
    does(
        rig,
        f"DEBIAN_FRONTEND=noninteractive apt-get -q -y install --reinstall linux-image-{kernel}",
    )
    does(
        rig,
        "while systemctl list-units --plain --no-legend 'rigops-kernel-hook-*' | grep -q .\n"
        "do sleep 1; done",
    )

    assert does(rig, "dpkg --audit") == ""
    told = does(rig, "journalctl -t rigops -o cat")
    assert f"Kernel {kernel} was installed, and your own NVIDIA modules were not built" in told
    assert "error: #error this kernel is too new" in told
    assert does(rig, f"cat {FOLDER}/{kernel}/set") == before
    assert traces(rig) == ""


def test_what_make_files_do_elsewhere_is_refused(rig: Host) -> None:
    """By systemd: they have no network and can write to no other folder."""
    kernel = does(rig, "ls /lib/modules")
    core = "src/nvidia/Makefile"
    reach = "$(shell touch /usr/src/reached /var/lib/reached /root/reached; ip link >&2)\n"
    send(
        rig,
        {
            **TREE,
            core: reach + TREE[core],
            "kernel-open/Makefile": reach + TREE["kernel-open/Makefile"],
        },
    )
    does(rig, f"{PROGRAM} build {kernel}")

    assert does(rig, "ls /usr/src/reached /var/lib/reached /root/reached 2>/dev/null || :") == ""


def test_removed_it_leaves_nothing(rig: Host) -> None:
    does(rig, f"{PROGRAM} remove")

    assert does(rig, f"ls -d {FOLDER} 2>/dev/null || :") == ""
    assert traces(rig) == ""
