"""The stand-in for NVIDIA's .run file: what of the real one's ways tests of the product lean on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.lab import machine, run_package
from tests.lab.driver_rig import GOOD, NEWEST, Rig, tended
from tests.lab.nvidia_installer import FAILS, INSTALLED, KEPT, LOG
from tests.lab.sshd import until
from tests.lab.tree import Tree
from tests.shards import LAB_DRIVER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from subprocess import CompletedProcess

AT = "/root/driver.run"
BESIDE = (
    "--silent --no-kernel-module --no-kernel-module-source --no-nouveau-check --no-x-check "
    "--no-check-for-alternate-installs"
)
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
BROUGHT = [
    "/usr/bin/nvidia-installer",
    "/usr/bin/nvidia-persistenced",
    "/usr/bin/nvidia-smi",
    "/usr/bin/nvidia-uninstall",
    f"{LIBRARIES}/libcuda.so.1",
    f"{LIBRARIES}/libnvidia-cfg.so.1",
    f"{LIBRARIES}/libnvidia-ml.so.1",
    "/usr/share/doc/NVIDIA_GLX-1.0/README.txt",
    "/usr/share/glvnd/egl_vendor.d/10_nvidia.json",
]
THEIRS = "/usr/share/glvnd/egl_vendor.d/10_nvidia.json"
THEIR_LINK = "/usr/bin/nvidia-smi"
THEIR_LIBRARY = f"{LIBRARIES}/libcuda.so.1.1"
NO_NOUVEAU = [
    f"{top}/modprobe.d/nvidia-installer-disable-nouveau.conf" for top in ("/etc", "/usr/lib")
]
ALTERNATIVE = "/usr/lib/nvidia/alternate-install-present"
CACHES = {"/etc/ld.so.cache", "/var/cache/ldconfig/aux-cache"}

pytestmark = pytest.mark.shard(LAB_DRIVER)


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with tended(tmp_path_factory, "threadripper-3x3090=run-package", "driver=none") as rig:
        yield rig


@pytest.fixture
def clean(rig: Rig, tmp_path: Path) -> Iterator[Rig]:
    """With the file there, and nothing of what it holds."""
    bring(rig, run_package.built(tmp_path, GOOD).read_bytes())
    yield rig
    bring(rig, run_package.built(tmp_path, GOOD).read_bytes())
    rig.does(f"sh {AT} --uninstall --silent")
    others = (THEIRS, THEIR_LINK, THEIR_LIBRARY, ALTERNATIVE, *NO_NOUVEAU, str(FAILS))
    rig.does(f"rm -rf {' '.join(others)} /root/NVIDIA-*")
    assert rig.there(*BROUGHT, str(KEPT)) == []


def bring(rig: Rig, content: bytes) -> None:
    (Path(f"/proc/{machine.leader(rig.host.record)}/root{AT}")).write_bytes(content)


def runs(rig: Rig, options: str) -> CompletedProcess[str]:
    return rig.host.run(f"cd /root && sh {AT} {options}")


def log(rig: Rig) -> str:
    return rig.does(f"cat {INSTALLED}")


def test_the_same_version_is_the_same_file(tmp_path: Path) -> None:
    path = run_package.built(tmp_path, GOOD)
    run_package.inside.cache_clear()
    run_package._bytes.cache_clear()
    first = path.read_bytes()

    assert run_package.built(tmp_path, GOOD).read_bytes() == first
    assert path.name == f"NVIDIA-Linux-x86_64-{GOOD}.run"
    assert f"\nversion_string={GOOD}\n".encode() in first[:4096]


def test_open_modules_are_in_it_since_there_are_some() -> None:
    assert "kernel-open/nvidia.ko.in" in run_package.inside("515.43.04")
    assert "kernel-open/nvidia.ko.in" not in run_package.inside("470.256.02")


def test_a_damaged_or_short_file_does_nothing(clean: Rig, tmp_path: Path) -> None:
    whole = run_package.built(tmp_path, GOOD).read_bytes()
    before = Tree(clean.host)
    for damaged in (whole[:-1], whole[:-9] + b"x" + whole[-8:]):
        bring(clean, damaged)
        for options in (BESIDE, "--extract-only"):
            said = runs(clean, options)

            assert said.returncode == 1
            assert "is not whole" in said.stderr
    assert clean.changed_since(before) == {AT}


def test_extracting_is_all_that_it_does_when_only_that_is_asked_for(clean: Rig) -> None:
    before = Tree(clean.host)

    assert runs(clean, "--extract-only").returncode == 0

    folder = f"/root/NVIDIA-Linux-x86_64-{GOOD}"
    assert all(path.startswith(folder) for path in clean.changed_since(before))
    assert "__DKMS_MODULES" in clean.does(f"cat {folder}/kernel-open/dkms.conf")
    assert clean.does(f"cd {folder} && ls -d kernel/*/") != ""
    again = runs(clean, "-x")
    assert again.returncode == 1
    assert "already exists" in again.stderr


def test_dkms_builds_what_it_extracts(clean: Rig) -> None:
    runs(clean, "--extract-only")
    folder = f"/usr/src/nvidia-{GOOD}"
    clean.does(f"cp -r /root/NVIDIA-Linux-x86_64-{GOOD}/kernel-open {folder}")

    said = clean.does(f"cd {folder} && mkdir /root/new && ./build $(uname -r) /root/new && "
                      "modinfo -F license /root/new/nvidia.ko; ls /root/new")  # fmt: skip

    clean.does(f"rm -r {folder} /root/new")
    assert said.splitlines()[0] == "Dual MIT/GPL"
    assert "nvidia-uvm.ko" in said


def test_its_uninstaller_takes_away_all_that_it_brought(clean: Rig) -> None:
    clean.does(f"mkdir -p {Path(THEIRS).parent} && echo theirs >{THEIRS}")
    clean.does(f"echo an old one >{THEIR_LIBRARY} && chmod 640 {THEIR_LIBRARY}")
    clean.does(f"ln -s /etc/alternatives/nvidia-smi {THEIR_LINK}")
    before = Tree(clean.host)

    said = runs(clean, BESIDE)

    assert said.returncode == 0, said.stderr
    assert clean.there(*BROUGHT) == BROUGHT
    assert clean.there(THEIR_LIBRARY, "/usr/src/nvidia*") == []
    assert clean.does(f"stat -c %a {KEPT} {LOG}") == "700\n600"
    assert clean.does(f"head -n 2 {LOG}").splitlines() == [
        f"1.0-{GOOD.replace('.', '')} ({GOOD})",
        "NVIDIA Accelerated Graphics Driver for Linux-x86_64",
    ]
    assert GOOD in clean.does("ldconfig -p | grep -q libnvidia-ml && cat /usr/bin/nvidia-smi")
    assert clean.loaded == ""
    clean.does("/usr/bin/nvidia-uninstall -s")
    assert clean.changed_since(before) <= CACHES


def test_without_opengl_it_brings_less(clean: Rig) -> None:
    assert runs(clean, f"{BESIDE} --no-opengl-files").returncode == 0
    assert set(BROUGHT) - set(clean.there(*BROUGHT)) == {THEIRS}


def test_another_version_takes_the_first_away(clean: Rig, tmp_path: Path) -> None:
    assert runs(clean, BESIDE).returncode == 0
    bring(clean, run_package.built(tmp_path, NEWEST).read_bytes())

    assert runs(clean, BESIDE).returncode == 0

    assert clean.there(f"{LIBRARIES}/libcuda.so.*.*") == [f"{LIBRARIES}/libcuda.so.{NEWEST}"]
    assert f"({NEWEST})" in clean.does(f"head -n 1 {LOG}")
    assert "100: " not in clean.does(f"cat {LOG}")


def test_it_fails_in_the_middle_and_ends_whole_the_next_time(clean: Rig) -> None:
    before = Tree(clean.host)
    clean.does(f"mkdir -p {FAILS.parent} && touch {FAILS}")

    said = runs(clean, BESIDE)

    assert said.returncode == 1
    assert "ERROR: this one was asked to fail" in said.stderr
    assert f"ERROR: Installation has failed.  Please see the file '{INSTALLED}'" in said.stderr
    assert "ERROR: this one was asked to fail" in log(clean)
    there = clean.there(*BROUGHT)
    assert there
    assert "/usr/bin/nvidia-uninstall" not in there
    assert all(path in clean.does(f"cat {LOG}") for path in there)
    clean.does(f"rm {FAILS}")
    assert runs(clean, BESIDE).returncode == 0
    assert clean.there(*BROUGHT) == BROUGHT
    clean.does("nvidia-uninstall -s")
    assert clean.changed_since(before) <= CACHES


def test_cut_off_in_the_middle_it_ends_whole_the_next_time(clean: Rig) -> None:
    clean.does(f"mkdir -p {FAILS.parent} && echo reboot >{FAILS}")
    leader = machine.leader(clean.host.record)

    runs(clean, BESIDE)

    until(lambda: machine.leader(clean.host.record) != leader, "the host's end")
    until(lambda: clean.host.answers, "the host's next boot")
    assert clean.does("systemctl is-system-running --wait") == "running"
    assert 0 < len(clean.there(*BROUGHT)) < len(BROUGHT)
    clean.does(f"rm {FAILS}")
    assert runs(clean, BESIDE).returncode == 0
    assert clean.there(*BROUGHT) == BROUGHT
    assert "100: " not in clean.does(f"cat {LOG}")


@pytest.mark.parametrize("wrong", ["--no-such-thing", "nothing", "--no-rebuild-initramfs"])
def test_it_does_nothing_with_an_option_that_this_version_lacks(clean: Rig, wrong: str) -> None:
    said = runs(clean, f"{BESIDE} {wrong}")

    assert said.returncode == 1
    assert f'unrecognized option: "{wrong}"' in said.stderr
    assert "ERROR: Invalid commandline" in said.stderr


def test_later_versions_have_more_options(clean: Rig, tmp_path: Path) -> None:
    bring(clean, run_package.built(tmp_path, NEWEST).read_bytes())
    assert runs(clean, f"{BESIDE} --no-rebuild-initramfs").returncode == 0


def test_a_package_of_the_distribution_ends_it(clean: Rig) -> None:
    clean.does(f"mkdir -p {Path(ALTERNATIVE).parent} && touch {ALTERNATIVE}")

    said = runs(clean, BESIDE.replace("--no-check-for-alternate-installs", ""))

    assert said.returncode == 1
    assert "presence of an alternate driver installation" in said.stderr
    assert "Installation has failed" not in said.stderr


def test_nouveau_ends_it(clean: Rig, tmp_path: Path) -> None:
    assert clean.drives() == {"nouveau"}
    clean.does("mkdir -p /usr/lib/modprobe.d")
    options = BESIDE.replace("--no-nouveau-check", "")

    said = runs(clean, options)

    assert said.returncode == 1
    assert "ERROR: The Nouveau kernel driver is currently in use" in said.stderr
    assert clean.there(*NO_NOUVEAU) == []

    bring(clean, run_package.built(tmp_path, NEWEST).read_bytes())
    later = runs(clean, options)

    assert later.returncode == 1
    assert "WARNING: The Nouveau kernel driver is currently in use" in later.stderr
    assert clean.there(*NO_NOUVEAU) == NO_NOUVEAU


@pytest.mark.parametrize("version", [GOOD, NEWEST])
def test_with_modules_it_fails_beside_a_loaded_one(
    clean: Rig, tmp_path: Path, version: str
) -> None:
    bring(clean, run_package.built(tmp_path, version).read_bytes())
    clean.does(f"/usr/lib/rigsim/bin/rigsim driver load {GOOD}")

    said = runs(clean, "--silent --no-nouveau-check")
    beside = runs(clean, BESIDE)

    assert said.returncode == 1
    assert "An NVIDIA kernel module 'nvidia_uvm' appears to" in said.stderr
    assert (beside.returncode, clean.loaded) == (0, GOOD)
    clean.does("modprobe -r nvidia")
    assert "builds no modules" in runs(clean, "--silent --no-nouveau-check").stderr
