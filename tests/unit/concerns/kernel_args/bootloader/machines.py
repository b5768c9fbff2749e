"""Machines with their bootloader's files in tests/fixtures, asked by the real snippet."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from rigops.probe.sections.bootloader import SECTION, Bootloader
from tests.unit import programs
from tests.unit.probe.snippets import TOOLS, as_collected, hidden

FOLDER: Final = Path(__file__).parents[4] / "fixtures/bootloaders"
NAMES: Final = sorted(path.name for path in FOLDER.iterdir())
EACH = pytest.mark.parametrize("name", NAMES)

_PATHS = re.compile(r"(?<![\w.{}/*$])/(?=(?:etc|boot|efi|usr/lib|lib|proc|sys|ostree|run|var)\b)")
_VENDOR = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
_PROGRAMS = ("awk", "sed", "cat", "sha256sum", "ls", "grep", "tail", "tr")


@dataclass(frozen=True)
class Machine:
    name: str
    facts: dict[str, Any]

    @property
    def arguments(self) -> list[str]:
        return list(self.facts["arguments"])

    def lay_out(self, root: Path) -> None:
        shutil.copytree(FOLDER / self.name / "tree", root, dirs_exist_ok=True)
        for variable, key in (("LoaderInfo", "loader"), ("LoaderEntrySelected", "selected")):
            path = root / f"sys/firmware/efi/efivars/{variable}-{_VENDOR}"
            if self.facts.get(key):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(b"\6\0\0\0" + f"{self.facts[key]}\0".encode("utf-16-le"))
        tools = root / "tools"
        tools.mkdir()
        for tool in self.facts["tools"]:
            reads = "/etc/default/grub.d/*.cfg" if self.facts["drop_ins"] else ""
            (tools / tool).write_text(f"#!/bin/sh\n# {reads}\n")
            (tools / tool).chmod(0o755)

    def ask(self, root: Path, shell: str = "sh") -> str:
        """What the probe says of the files below this folder."""
        folder = root / "programs"
        if not folder.is_dir():
            folder.mkdir()
            for one in _PROGRAMS:
                (folder / one).symlink_to(programs.needed(one))
        done = subprocess.run(
            [*programs.shell(shell), "-c", f"{TOOLS}\n{hidden(below(root))}"],
            env={"PATH": f"{root}/tools:{folder}", "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=20,
        )
        assert not done.stderr
        assert done.returncode == 0
        return as_collected(done.stdout.decode()).replace(str(root), "")

    def look(self, root: Path) -> Bootloader:
        return SECTION.parse(self.ask(root))


def machine(name: str) -> Machine:
    return Machine(name, json.loads((FOLDER / name / "machine.json").read_text()))


def probed(name: str, root: Path) -> Bootloader:
    known = machine(name)
    known.lay_out(root)
    return known.look(root)


def below(root: Path, script: str = SECTION.snippet) -> str:
    return _PATHS.sub(f"{root}/", script)
