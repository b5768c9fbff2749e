"""The sections that ask nvidia-smi, on hosts with one, with a broken one and with none."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from rigops.probe.registry import SECTIONS
from tests.unit import programs
from tests.unit.probe.snippets import called
from tests.unit.programs import SHELLS

if TYPE_CHECKING:
    from pathlib import Path

    from rigops.probe.section import Section

ASKS = {
    "nvidia-smi-xml": "-q -x",
    "nvidia-smi-topo": "topo -m",
    "nvidia-smi-p2p-read": "topo -p2p r",
    "nvidia-smi-p2p-write": "topo -p2p w",
    "nvidia-smi-p2p-nvlink": "topo -p2p n",
    "nvidia-smi-p2p-atomics": "topo -p2p a",
    "nvidia-smi-nvlink": "nvlink -s",
}
OWN = tuple(section for section in SECTIONS if section.name in ASKS)


def _run(section: Section[object], folder: Path, shell: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*programs.shell(shell), "-c", called(section.snippet)],
        env={"PATH": str(folder), "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def _nvidia_smi(folder: Path, program: str) -> None:
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{program}\n")
    path.chmod(0o755)


def test_all_seven_wait_for_the_driver_only_after_everything_else() -> None:
    assert {section.name for section in OWN} == set(ASKS)
    assert all(section.asks_driver for section in OWN)


@pytest.mark.parametrize("shell", SHELLS)
def test_without_nvidia_smi_there_is_nothing_to_say(shell: str, tmp_path: Path) -> None:
    for section in OWN:
        done = _run(section, tmp_path, shell)

        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), section.name


@pytest.mark.parametrize("shell", SHELLS)
def test_its_words_and_its_code_are_passed_on(shell: str, tmp_path: Path) -> None:
    _nvidia_smi(tmp_path, 'echo "asked $*"; echo failed >&2; exit 9')

    for section in OWN:
        done = _run(section, tmp_path, shell)

        assert (done.returncode, done.stderr) == (9, "")
        assert done.stdout == f"asked {ASKS[section.name]}\nfailed\n"


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(("link", "asked"), [("25.781 GB/s", "-s-e"), ("<inactive>", "-s")])
def test_errors_of_nvlinks_are_asked_for_where_one_is_up(
    shell: str, link: str, asked: str, tmp_path: Path
) -> None:
    _nvidia_smi(tmp_path, f'printf %s "$2" >>{tmp_path}/asked; echo "Link 0: {link}"')
    (section,) = (one for one in OWN if one.name == "nvidia-smi-nvlink")

    _run(section, tmp_path, shell)

    assert (tmp_path / "asked").read_text() == asked
