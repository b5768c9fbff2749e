"""What installers get, whole: to be read by a person when it changes.

To write the files anew: python -m tests.unit.autoinstall.test_rendered_files
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rigops.autoinstall import preseed, render
from rigops.autoinstall.installation import decide
from rigops.catalog import load
from tests.unit.autoinstall.captured import BIOS, DEBIAN, RIG, STATIC, UBUNTU, WIFI, WIRED

if TYPE_CHECKING:
    from rigops.autoinstall.installation import Choices, Installation
    from rigops.capture.document import Capture, Interface

FILES = Path(__file__).parents[2] / "fixtures" / "autoinstall"
AS_ROOT = replace(RIG, users=())


def _with(capture: Capture, *interfaces: Interface) -> Capture:
    return replace(capture, network=replace(capture.network, interfaces=interfaces))


CASES: dict[str, tuple[Capture, Choices]] = {
    "ubuntu-24.04-btrfs-uefi": (RIG, replace(UBUNTU, release="24.04")),
    "ubuntu-24.04-ext4-bios-static": (
        _with(BIOS, STATIC),
        replace(UBUNTU, release="24.04", root="ext4"),
    ),
    "ubuntu-26.04-btrfs-bios-wifi": (
        _with(BIOS, WIRED, WIFI),
        replace(UBUNTU, release="26.04", wifi_secret='correct "horse" \\ battery'),
    ),
    "debian-12-btrfs-bios": (BIOS, DEBIAN),
    "debian-12-ext4-uefi-wifi": (
        _with(RIG, WIFI),
        replace(DEBIAN, release="12", root="ext4", wifi_secret="it's a 'secret' $HOME `id`"),
    ),
    "debian-13-btrfs-uefi-static-root": (
        _with(AS_ROOT, STATIC),
        replace(DEBIAN, release="13"),
    ),
}


def installation(name: str) -> Installation:
    capture, choices = CASES[name]
    return decide(capture, choices, load())


def rendered(name: str) -> tuple[render.RenderedFile, ...]:
    return render.files(installation(name), CASES[name][0].disks)


def paths(name: str) -> list[tuple[Path, render.RenderedFile]]:
    return [(FILES / f"{name}.{file.name}", file) for file in rendered(name)]


@pytest.mark.parametrize("name", CASES)
def test_the_files_are_these(name: str) -> None:
    for path, file in paths(name):
        assert file.text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", CASES)
def test_a_file_with_the_secret_is_for_its_owner_alone(name: str) -> None:
    modes = {file.name: file.mode for file in rendered(name)}
    main = modes["user-data" if "ubuntu" in name else "preseed.cfg"]
    assert main == (0o600 if "wifi" in name else 0o644)


@pytest.mark.skipif(not shutil.which("debconf-set-selections"), reason="no debconf")
@pytest.mark.parametrize("name", [name for name in CASES if "debian" in name])
def test_debian_reads_the_preseed(name: str) -> None:
    (file,) = rendered(name)
    done = subprocess.run(
        ["debconf-set-selections", "--checkonly"],
        input=file.text,
        text=True,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", CASES)
def test_a_shell_reads_the_commands(name: str) -> None:
    if "ubuntu" in name:
        commands = render.late_commands(installation(name))
    else:
        text = rendered(name)[0].text
        questions = ("partman/early_command", "preseed/late_command")
        commands = [preseed.answer_of(text, question) for question in questions]
    for command in commands:
        subprocess.run(["sh", "-n", "-c", command], check=True)


def test_the_secret_and_the_key_come_out_of_the_file_as_they_went_in() -> None:
    capture, choices = CASES["ubuntu-26.04-btrfs-bios-wifi"]
    text = rendered("ubuntu-26.04-btrfs-bios-wifi")[0].text
    assert f"          {json.dumps(WIFI.wifi_ssid)}:\n            password: " in text
    (password,) = re.findall(r'password: (".*")', text)
    assert json.loads(password) == choices.wifi_secret
    (key,) = re.findall(r'ssh_authorized_keys:\n +- (".*")', text)
    assert json.loads(key) == choices.keys[0]
    assert f"\n        uid: {capture.users[0].uid}\n" in text


def test_no_driver_is_installed() -> None:
    for name in CASES:
        text = rendered(name)[0].text
        installed = preseed.answer_of(text, "pkgsel/include") if "debian" in name else ""
        assert "nvidia" not in installed
        assert "51no-driver-upgrades" in text


if __name__ == "__main__":
    for one in CASES:
        for where, what in paths(one):
            where.write_text(what.text, encoding="utf-8")
