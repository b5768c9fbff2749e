from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from rigops.probe.sections import dkms
from tests.unit.doctor import module_rigs as rigs
from tests.unit.probe.snippets import TOOLS, as_collected, called

if TYPE_CHECKING:
    from pathlib import Path

DIFFERS = "(WARNING! Diff between built and installed module!)"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "nvidia, 440.64.00, 5.4.0-42-generic, x86_64: installed",
            ("nvidia", "440.64.00", "5.4.0-42-generic", True),
        ),
        (
            "nvidia/535.104.05, 6.1.0-18-amd64, x86_64: installed",
            ("nvidia", "535.104.05", "6.1.0-18-amd64", True),
        ),
        (
            f"nvidia-current/535.261.03, 6.1.0-18-amd64, x86_64: installed {DIFFERS} {DIFFERS}",
            ("nvidia-current", "535.261.03", "6.1.0-18-amd64", True),
        ),
        (
            "nvidia/535.104.05, 6.1.0-18-amd64, x86_64: built",
            ("nvidia", "535.104.05", "6.1.0-18-amd64", False),
        ),
        (
            "nvidia/535.104.05, 6.1.0-18-amd64, x86_64: installed (ERROR) build failed",
            ("nvidia", "535.104.05", "6.1.0-18-amd64", False),
        ),
        (
            "nvidia/550.54.14, 5.14.0-427.el9.x86_64, x86_64: installed-weak from 5.14.0-362",
            ("nvidia", "550.54.14", "5.14.0-427.el9.x86_64", True),
        ),
        ("nvidia, 545.29.06: added", ("nvidia", "545.29.06", None, False)),
        ("nvidia/545.29.06: broken", ("nvidia", "545.29.06", None, False)),
    ],
)
def test_the_forms_of_dkms(line: str, expected: tuple[str, str, str | None, bool]) -> None:
    found = dkms.parse(f"{line}\r\n")

    (module,) = found.nvidia
    assert (module.name, module.version, module.kernel, module.is_installed) == expected
    assert module.line == line
    assert module.differs == ("Diff" in line)
    assert not found.unparsed


def test_modules_of_others_and_what_nvidia_builds_beside_the_driver() -> None:
    found = dkms.parse(
        "zfs/2.2.2, 6.1.0-18-amd64, x86_64: installed\n"
        "nvidia-fs/2.17.5, 6.1.0-18-amd64, x86_64: installed\n"
    )

    assert len(found.modules) == 2
    assert not found.nvidia


def test_errors_and_chatter() -> None:
    found = dkms.parse(
        "== dkms status\nDeprecated feature: REMAKE_INITRD (/var/lib/dkms/nvidia/1/dkms.conf)\n"
        "Error! nvidia/535.104.05: Missing the module source directory\n"
        "Manual intervention is required!\n"
        "what is this\n"
    )

    assert found.errors == ("Error! nvidia/535.104.05: Missing the module source directory",)
    assert found.unparsed == ("what is this",)


def test_the_headers_and_a_host_without_dkms() -> None:
    found = dkms.parse(f"== ls -d /lib/modules/*/build\n/lib/modules/{rigs.KERNEL}/build\n")

    assert found.buildable == (rigs.KERNEL,)
    assert not found.modules
    assert dkms.parse(rigs.dkms(rigs.KERNEL)).buildable == (rigs.KERNEL, rigs.NEXT)
    assert dkms.parse("nvidia, 545.29.06: added\n").buildable is None


@pytest.mark.parametrize("lost", range(1, 10))
def test_a_line_that_was_cut_short_is_not_installed(lost: int) -> None:
    line = "nvidia/535.104.05, 6.1.0-18-amd64, x86_64: installed"

    assert not any(module.is_installed for module in dkms.parse(line[:-lost]).modules)


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_the_question_to_a_host(tmp_path: Path, shell: str) -> None:
    program = tmp_path / "dkms"
    program.write_text("#!/bin/sh\necho 'nvidia/545.29.06: added'; echo 'Error! no' >&2; exit 3\n")
    program.chmod(0o755)
    (tmp_path / "6.1/build").mkdir(parents=True)
    (tmp_path / "6.2").mkdir()
    (tmp_path / "6.2/build").symlink_to("/nowhere")
    snippet = dkms.SECTION.snippet.replace("in /lib/modules", f"in {tmp_path}")

    done = subprocess.run(
        [shell, "-c", f"{TOOLS}\n{called(snippet)}"],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
    )

    assert as_collected(done.stdout).splitlines() == [
        "== ls -d /lib/modules/*/build",
        f"{tmp_path}/6.1/build",
        "== dkms status",
        "nvidia/545.29.06: added",
        "Error! no",
    ]
