"""What is sent to have NVIDIA's own installer at work, run in the shells that hosts have."""

from __future__ import annotations

import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Final

import pytest

from rigops.concerns.nvidia_driver.resolver.machine import Machine, RunFile
from rigops.concerns.nvidia_driver.resolver.request import Resolution
from rigops.concerns.nvidia_driver.run_file import (
    INSTALL,
    TAKE_AWAY,
    UNINSTALL,
    is_in_place,
    replaced_run_file,
)
from rigops.probe.package_names import RUN_FILE
from tests.unit import programs
from tests.unit.programs import SHELLS

VERSION: Final = "535.261.03"
CONF: Final = """\
PACKAGE_VERSION="__VERSION_STRING"
MAKE[0]="'make' -j__JOBS NV_EXCLUDE_BUILD_MODULES='__EXCLUDE_MODULES' modules"
__DKMS_MODULES
"""
# What it does when all goes well.
GOOD: Final = f"""\
echo "$@" >ROOT/asked
mkdir -p ROOT/var/lib/nvidia
echo '1.0-5352610 ({VERSION})' >ROOT/var/lib/nvidia/log
"""


class Host:
    """A root of its own, in which the file is one whose extraction lays down `driver`."""

    def __init__(self, root: Path, shell: str) -> None:
        self.root, self._shell = root, shell
        for folder in ("bin", "usr/src", "var/lib/rigops/vault/pool"):
            (root / folder).mkdir(parents=True)
        self.driver = root / "driver"
        for module in ("nvidia", "nvidia-uvm"):
            (self.driver / "kernel" / module).mkdir(parents=True)
        (self.driver / "kernel/dkms.conf").write_text(CONF)
        self.file = root / "installer.run"
        name = f"NVIDIA-Linux-x86_64-{VERSION}"
        self.file.write_text(
            f'#!/bin/sh\n[ "$*" = --extract-only ] && cp -R {self.driver} {name}\n'
        )
        self.has("dkms", f'echo "$@" >>{root}/dkms')
        self.does(GOOD)

    def has(self, name: str, does: str) -> None:
        program = self.root / "bin" / name
        program.write_text(f"#!/bin/sh\n{does}\n")
        program.chmod(0o755)

    def does(self, text: str) -> None:
        program = self.driver / "nvidia-installer"
        program.write_text(f"#!/bin/sh\n{text}".replace("ROOT", str(self.root)))
        program.chmod(0o755)

    def at(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    @property
    def mark(self) -> str:
        path = self.at("/var/lib/rigops/run-file")
        return path.read_text().strip() if path.exists() else ""

    def installs(self, flavor: str = "proprietary") -> subprocess.CompletedProcess[str]:
        return self._run(INSTALL, f"put_in_place {self.file} {VERSION} {flavor} compute --option")

    def takes_away(self, program: str) -> subprocess.CompletedProcess[str]:
        return self._run(f"{UNINSTALL}{TAKE_AWAY}", f"take_away {VERSION} {program}")

    def _run(self, text: str, call: str) -> subprocess.CompletedProcess[str]:
        for folder in ("/var/lib/", "/usr/src/"):
            text = text.replace(folder, f"{self.root}{folder}")
        text = text.replace("PATH=", f"PATH={self.root}/bin:")
        return subprocess.run(
            [*programs.shell(self._shell), "-s"],
            input=f"{text}{call}\n",
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
        )


@pytest.fixture(params=SHELLS)
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Host:
    return Host(tmp_path, request.param)


def test_it_is_asked_for_all_but_the_modules_and_dkms_for_those(host: Host) -> None:
    done = host.installs()

    assert (done.returncode, done.stderr) == (0, "")
    assert host.at("/asked").read_text() == "--silent --option\n"
    conf = host.at(f"/usr/src/nvidia-{VERSION}/dkms.conf").read_text()
    assert f'PACKAGE_VERSION="{VERSION}"' in conf
    assert 'BUILT_MODULE_NAME[0]="nvidia"\n' in conf
    assert 'BUILT_MODULE_NAME[1]="nvidia-uvm"\n' in conf
    assert "__" not in conf
    assert f"add -m nvidia -v {VERSION}" in host.at("/dkms").read_text()


def test_the_mark_has_the_digest_of_its_log(host: Host) -> None:
    host.installs()

    digest = sha256(host.at("/var/lib/nvidia/log").read_bytes()).hexdigest()
    assert host.mark == f"whole {VERSION} proprietary compute {digest}"
    assert list(host.at("/var/lib/rigops/vault").glob("work.*")) == []


@pytest.mark.parametrize(
    "does",
    ["echo 'ERROR: no' >&2; exit 1", "echo 'ERROR: no'; exit 0", f"{GOOD}echo 'ERROR: no'; exit 1"],
)
def test_what_it_did_not_bring_to_its_end_stays_marked_as_begun(host: Host, does: str) -> None:
    host.does(does)

    done = host.installs()

    assert done.returncode == 1
    assert f"did not put driver {VERSION} in place" in done.stderr
    assert "ERROR: no" in done.stderr
    assert host.mark == f"begun {VERSION} proprietary compute -"
    assert not host.at("/dkms").exists()


def test_a_file_that_cannot_be_unpacked_leaves_all_as_it_was(host: Host) -> None:
    host.file.write_text("echo damaged >&2; exit 1\n")

    done = host.installs()

    assert done.returncode == 1
    assert "could not be unpacked" in done.stderr
    assert "damaged" in done.stderr
    assert host.mark == ""


def test_modules_that_it_has_not_are_told_before_anything(host: Host) -> None:
    done = host.installs("open")

    assert done.returncode == 1
    assert "has no open modules in it" in done.stderr
    assert host.mark == ""


def test_a_disk_without_room_is_told_before_anything(host: Host) -> None:
    host.has("df", "echo head; echo '/dev/sda1 100 90 0 90% /'")

    done = host.installs()

    assert done.returncode == 1
    assert "MB free" in done.stderr
    assert host.mark == ""


def test_taken_away_nothing_of_it_is_left(host: Host) -> None:
    host.installs()
    host.has("uninstall", f"rm -r {host.root}/var/lib/nvidia")
    host.has("dkms", f'[ "$1" != status ] || echo "nvidia/{VERSION}: added"')

    done = host.takes_away(f"{host.root}/bin/uninstall")

    assert (done.returncode, done.stderr) == (0, "")
    assert host.mark == ""
    assert not host.at(f"/usr/src/nvidia-{VERSION}").exists()


def test_one_that_never_got_as_far_as_its_log_needs_no_uninstaller(host: Host) -> None:
    host.does("exit 1")
    host.installs()

    assert host.takes_away("/nowhere").returncode == 0
    assert host.mark == ""


def test_an_uninstaller_that_fails_keeps_the_mark(host: Host) -> None:
    host.installs()

    assert host.takes_away("/bin/false").returncode == 1
    assert host.mark.startswith("whole")


@pytest.mark.parametrize("text", [INSTALL, f"{UNINSTALL}{TAKE_AWAY}"], ids=["install", "away"])
def test_it_is_clean_shell(text: str) -> None:
    calls = "put_in_place a b c d\n" if text == INSTALL else "take_away a b\n"

    programs.assert_clean_shell(f"{text}{calls}")


# ---- which of them goes, and which is whole


def wanted(**changed: object) -> Resolution:
    fields = {"version": VERSION, "packages": {RUN_FILE: VERSION}, **changed}
    return Resolution(flavor="proprietary", asked=(), **fields)  # type: ignore[arg-type]  # by name


@pytest.mark.parametrize(
    ("found", "resolution", "stays", "goes"),
    [
        (None, wanted(), False, False),
        (RunFile("x", VERSION, "whole"), wanted(), True, False),
        (RunFile("x", VERSION, "whole", "open"), wanted(), False, True),
        (RunFile("x", VERSION, "whole", set_="desktop"), wanted(), False, True),
        (RunFile("x", "535.183.01", "whole"), wanted(), False, True),
        (RunFile("x", VERSION, "whole"), wanted(packages={"libcuda1": "1"}), False, True),
        (RunFile("x", VERSION, "begun by rigops"), wanted(), False, False),
        (RunFile("", VERSION, "begun by rigops"), wanted(packages={"libcuda1": "1"}), False, True),
        (RunFile("x", VERSION), wanted(), False, False),
    ],
)
def test_of_two_drivers_one_goes(
    found: RunFile | None,
    resolution: Resolution,
    stays: bool,  # noqa: FBT001 - a table
    goes: bool,  # noqa: FBT001 - likewise
) -> None:
    seen = Machine("debian", "12", "apt", run_file=found)

    assert is_in_place(seen, resolution) is stays
    assert (replaced_run_file(seen, resolution) is not None) is goes
