"""The program that looks whether a new kernel has the pinned module, with a tree of its own."""

from __future__ import annotations

import fcntl
import json
import os
import select
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from rigops.concerns.nvidia_driver.record import PATH, PinnedDriver, document
from tests.unit.hostside.small_host import SmallHost
from tests.unit.hostside.waiting import PATIENCE_S, until
from tests.unit.programs import SHELLS, SHELLS_WHERE_SLOW

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

NEW: Final = "6.1.0-50-amd64"
PINNED: Final = "535.261.03"
DKMS: Final = f"lib/modules/{NEW}/updates/dkms"
QUICKLY: Final = {"settle_s": 0}
LOCK: Final = "var/lib/dpkg/lock-frontend"


class Rig(SmallHost):
    """A host with a new kernel. `modinfo` says of a module what stands in its file."""

    def __init__(self, root: Path, shell_name: str) -> None:
        super().__init__(root, shell_name)
        self.locks = self.write("proc/locks", "")
        for tool in ("uname", "modinfo"):
            self.tool(tool, {"uname": "echo 6.1.0-49-amd64", "modinfo": 'cat "$3"'}[tool])
        self.program("notify", f'echo "== $1" >>"{root}/told"; cat >>"{root}/told"')
        self.write(f"boot/vmlinuz-{NEW}", "")
        self.write(LOCK, "")
        self.pin({"nvidia-kernel-dkms": "535.261.03-1"})

    def program(self, name: str, text: str) -> None:
        path = self.write(f"usr/local/libexec/rigops/{name}", f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def pin(self, packages: Mapping[str, str]) -> None:
        record = PinnedDriver(
            version=PINNED, flavor="proprietary", declared="535", packages=packages
        )
        self.write(PATH.lstrip("/"), document(record))

    def has(self, file: str, version: str = PINNED) -> None:
        self.write(file, version)

    def judge(self, release: str = NEW, **limits: int) -> str:
        """What was told of it."""
        done = self.run(self.text("kernel_hook", {**QUICKLY, **limits}), "judge", release)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        return self.told

    @property
    def told(self) -> str:
        file = self.root / "told"
        return file.read_text() if file.exists() else ""

    def naps(self, does: str = "") -> None:
        """Sleeps without waiting. `does`: with the number of the nap as $nap."""
        self.tool("sleep", f'echo >>"{self.root}/naps"; nap=$(wc -l <"{self.root}/naps"); {does}')

    @property
    def napped(self) -> int:
        return len((self.root / "naps").read_text())

    @contextmanager
    def package_work(self) -> Iterator[None]:
        """As dpkg does: another program's lock, of which it sees what the kernel says."""
        with (self.root / LOCK).open("w") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            inode = f":{os.fstat(lock.fileno()).st_ino} "

            def what_the_kernel_says() -> str:
                lines = Path("/proc/locks").read_text().splitlines(keepends=True)
                return "".join(line for line in lines if inode in line)

            # It can be missed while others come and go.
            until(lambda: self.locks.write_text(what_the_kernel_says()))
            yield


@pytest.fixture(params=SHELLS)
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Rig:
    return Rig(tmp_path / "host", request.param)


IN_TURN: Final = pytest.mark.parametrize("rig", SHELLS_WHERE_SLOW, indirect=True)


@IN_TURN
@pytest.mark.parametrize(
    "file",
    [
        f"{DKMS}/nvidia-current.ko",
        f"{DKMS}/nvidia-current-open.ko.xz",
        f"{DKMS}/nvidia.ko",
        f"lib/modules/{NEW}/kernel/nvidia-535/nvidia.ko.zst",
    ],
)
def test_a_kernel_with_the_pinned_module_is_nothing_to_tell(rig: Rig, file: str) -> None:
    rig.has(file)

    assert rig.judge() == ""
    assert rig.journal == ""


def test_a_kernel_without_a_module_is_told_with_the_headers_that_it_lacks(rig: Rig) -> None:
    told = rig.judge()

    assert told.startswith(f"== kernel {NEW} has no NVIDIA module {PINNED}\n")
    assert "the machine would boot without its cards" in told
    assert f"sudo apt install linux-headers-{NEW}" in told
    assert "boot the old kernel: 6.1.0-49-amd64" in told


def test_a_module_that_did_not_build_is_told_with_the_command_that_shows_why(rig: Rig) -> None:
    rig.write(f"lib/modules/{NEW}/build/include/generated/utsrelease.h", "")
    told = rig.judge()

    assert f"sudo dkms autoinstall -k {NEW}" in told
    assert "linux-headers" not in told


def test_another_version_of_the_module_is_named(rig: Rig) -> None:
    rig.has(f"{DKMS}/nvidia-current.ko", "550.163.01")

    assert "It has 550.163.01 instead of the pinned one." in rig.judge()


@IN_TURN
@pytest.mark.parametrize("name", ["nvidia-current-uvm", "nvidia-drm", "nvidia-current-modeset"])
def test_a_part_of_the_driver_is_not_its_module(rig: Rig, name: str) -> None:
    rig.has(f"{DKMS}/{name}.ko")

    assert "has no NVIDIA module" in rig.judge()


@IN_TURN
@pytest.mark.parametrize(
    ("package", "branch"),
    [
        ("linux-modules-nvidia-535-generic-hwe-22.04", "535"),
        ("linux-modules-nvidia-535-server-generic", "535-server"),
        ("linux-modules-nvidia-570-server-open-generic", "570-server-open"),
    ],
)
def test_modules_that_come_as_packages_are_named_as_packages(
    rig: Rig, package: str, branch: str
) -> None:
    rig.pin({"nvidia-utils-535": "1", package: "6.8.0-49.49"})

    assert f"sudo apt install linux-modules-nvidia-{branch}-{NEW}" in rig.judge()


@IN_TURN
@pytest.mark.parametrize(
    ("status", "is_there"),
    [
        (f"nvidia-current/{PINNED}, {NEW}, x86_64: installed", True),
        (f"nvidia, {PINNED}, {NEW}, x86_64: installed (original_module exists)", True),
        (f"nvidia-current/{PINNED}, {NEW}, x86_64: built", False),
        (f"nvidia-current/{PINNED}, 6.1.0-49-amd64, x86_64: installed", False),
        (f"nvidia-current/550.163.01, {NEW}, x86_64: installed", False),
        (f"zfs/{PINNED}, {NEW}, x86_64: installed", False),
    ],
)
def test_without_modinfo_dkms_is_asked(rig: Rig, status: str, *, is_there: bool) -> None:
    (rig.bin / "modinfo").unlink()
    rig.tool("dkms", f'echo "{status}"')

    assert (rig.judge() == "") is is_there


def test_nothing_is_told_where_no_driver_is_pinned(rig: Rig) -> None:
    (rig.root / PATH.lstrip("/")).unlink()

    assert rig.judge() == ""


def test_headers_alone_and_a_kernel_that_has_gone_are_nothing_to_tell(rig: Rig) -> None:
    (rig.root / f"boot/vmlinuz-{NEW}").unlink()
    rig.write(f"lib/modules/{NEW}/build/include/generated/utsrelease.h", "")

    assert rig.judge() == ""


def test_without_the_program_that_tells_the_journal_has_it(rig: Rig) -> None:
    (rig.root / "usr/local/libexec/rigops/notify").unlink()

    assert rig.judge() == ""
    assert f"Kernel {NEW} was installed, and has no NVIDIA module {PINNED}" in rig.journal


def test_it_judges_only_once_nobody_works_on_packages_any_more(rig: Rig) -> None:
    built = rig.root / DKMS / "nvidia-current.ko"
    built.parent.mkdir(parents=True)
    rig.naps(f'[ $nap != 3 ] || {{ : >"{rig.locks}"; echo {PINNED} >"{built}"; }}')
    with rig.package_work():
        assert rig.judge(settle_s=2) == ""
    assert rig.napped == 3 + 2


def test_package_work_that_does_not_end_is_judged_all_the_same(rig: Rig) -> None:
    rig.naps()
    with rig.package_work():
        assert "has no NVIDIA module" in rig.judge(settle_s=1, wait_s=3)
    assert rig.napped == 3


def test_a_shutdown_does_not_wait_for_package_work(rig: Rig) -> None:
    rig.naps("kill $PPID")
    with rig.package_work():
        assert "has no NVIDIA module" in rig.judge(settle_s=1)
    assert rig.napped == 1


def test_installed_starts_a_judge_apart_and_waits_for_nothing(rig: Rig) -> None:
    begun, go = rig.root / "begun", rig.root / "go"
    os.mkfifo(go)
    rig.program("kernel_hook", f'read -r _ <"{go}"; echo "$*" >>"{begun}"')
    done = rig.run(rig.text("kernel_hook", {}), "installed", NEW)

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert not begun.exists()
    go.write_text("\n")
    until(lambda: begun.exists() and begun.read_text())
    assert begun.read_text() == f"judge {NEW}\n"


@pytest.mark.parametrize(("runs", "begun"), [(True, ""), (False, f"judge {NEW}\n")])
def test_with_systemd_a_kernel_has_one_judge(rig: Rig, *, runs: bool, begun: str) -> None:
    (rig.root / "run/systemd/system").mkdir(parents=True)
    rig.tool("systemd-run", f'echo "$*" >"{rig.root}/asked"; exit 1')
    rig.tool("systemctl", f"exit {0 if runs else 3}")
    rig.tool("setsid", f'shift; echo "$*" >"{rig.root}/begun"')
    reading, writing = os.pipe()
    kept = fcntl.fcntl(writing, fcntl.F_DUPFD, 20)  # the program closes the first ones
    os.close(writing)
    rig.run(rig.text("kernel_hook", {}), "installed", NEW, pass_fds=(kept,))
    os.close(kept)
    assert select.select([reading], [], [], PATIENCE_S)[0]  # all that it started has ended
    os.close(reading)

    asked = (rig.root / "asked").read_text()
    assert f"--unit=rigops-kernel-hook-{NEW}.service" in asked
    assert asked.endswith(f"/kernel_hook judge {NEW}\n")
    file = rig.root / "begun"
    assert (file.read_text() if file.exists() else "") == begun


@IN_TURN
@pytest.mark.parametrize("release", ["", "$(reboot)", "../../x", "a b"])
def test_what_is_no_release_of_a_kernel_is_left_alone(rig: Rig, release: str) -> None:
    rig.tool("setsid", f'echo "$*" >"{rig.root}/begun"')
    done = rig.run(rig.text("kernel_hook", {}), "installed", release)

    assert done.returncode == 0
    assert rig.judge(release) == ""
    assert not (rig.root / "begun").exists()


def test_the_record_is_read_as_rigops_writes_it(rig: Rig) -> None:
    """A package's version is none of the driver's, whatever the package is called."""
    assert json.loads((rig.root / PATH.lstrip("/")).read_text())["version"] == PINNED
    rig.pin({"version": "1-1", "nvidia-driver": "2"})

    assert f"has no NVIDIA module {PINNED}\n" in rig.judge()


def test_modules_of_the_owners_own_are_built_and_only_a_failure_is_told(rig: Rig) -> None:
    rig.has(f"{DKMS}/nvidia-current.ko")
    rig.program("own_modules", f'echo building; echo "$*" >"{rig.root}/built"')
    assert rig.judge() == ""
    assert not (rig.root / "built").exists()  # without a tree

    rig.write(f"var/lib/rigops/driver-modules/{'a' * 64}.tar.gz", "")
    assert rig.judge() == ""
    assert (rig.root / "built").read_text() == f"build {NEW}\n"

    rig.program("own_modules", "echo building; echo 'os.c:7: error: too few' >&2; exit 1")
    told = rig.judge()
    assert told.startswith(f"== kernel {NEW} has none of your own NVIDIA modules\n")
    assert "\nos.c:7: error: too few\nIt boots with the stock modules" in told


def test_of_a_program_that_arrives_in_part_nothing_runs(rig: Rig) -> None:
    *before, last = rig.text("kernel_hook", QUICKLY).splitlines()
    assert last == 'kernel_hook "$@"'
    rig.run("\n".join(before), "judge", NEW)

    assert rig.told == ""


def checked(rig: Rig) -> tuple[str, str]:
    done = rig.run(rig.text("kernel_hook", {}), "check")
    assert (done.returncode, done.stderr) == (0, b"")
    what, status, name, subject, summary = done.stdout.decode().rstrip("\n").split("\t")
    assert (what, name, subject) == ("finding", "drv.dkms", "host")
    return status, summary


def test_a_check_looks_for_the_module_of_the_newest_kernel(rig: Rig) -> None:
    rig.write("boot/vmlinuz-6.1.0-9-amd64", "")
    rig.has(f"{DKMS}/nvidia-current.ko")

    assert checked(rig) == (
        "ok", f"kernel {NEW}, the newest, has the NVIDIA module {PINNED}"
    )  # fmt: skip

    rig.has(f"{DKMS}/nvidia-current.ko", "545.29.06")
    assert checked(rig) == (
        "fail", f"kernel {NEW} has no NVIDIA module {PINNED}, but 545.29.06"
    )  # fmt: skip


def test_a_check_looks_at_the_running_kernel_as_well(rig: Rig) -> None:
    rig.has(f"{DKMS}/nvidia-current.ko")
    (rig.root / "lib/modules/6.1.0-49-amd64").mkdir()

    assert checked(rig) == ("fail", f"kernel 6.1.0-49-amd64 has no NVIDIA module {PINNED}")


def test_a_check_without_a_pin_or_a_kernel_is_unknown(rig: Rig) -> None:
    (rig.root / f"boot/vmlinuz-{NEW}").unlink()
    assert checked(rig) == ("unknown", "no kernel was found in /boot")

    (rig.root / PATH.lstrip("/")).unlink()
    assert checked(rig) == ("unknown", "no driver is pinned")
