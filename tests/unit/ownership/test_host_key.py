"""A key that a host makes for itself: in the record before it is there, and until it has gone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rigops.ownership.file_work import Effect, FileWork, script
from rigops.ownership.owned_files import key_made
from rigops.ownership.ownership import MADE, Make, OwnedFile, Ownership, Show, reconcile
from rigops.probe.sections.rigops_state import RECORD, Present
from tests.unit.programs import needed

if TYPE_CHECKING:
    from rigops.ownership.ownership import Step


class Rig:
    """A folder as a host."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.key = root / "etc/borg_key"
        self.public = root / "etc/borg_key.pub"
        self.owned = OwnedFile(path=str(self.key), concern="borg", digest=MADE, mode=0o600)

    def recorded(self) -> Ownership:
        record = Path(f"{self.root}{RECORD}")
        return Ownership.parse(record.read_text()) if record.exists() else Ownership()

    def does(self, *steps: Step, tools: Path | None = None) -> int:
        made = key_made(str(self.key), "rig").replace("chown 0:0", "chown $(id -u):$(id -g)")
        effects = {one.record.path: Effect(made) for one in steps if isinstance(one, Make)}
        work = FileWork(self.recorded(), steps, effects=effects)
        text = script(work).replace("/var/lib/rigops", f"{self.root}/var/lib/rigops")
        path = f"{tools or ''}:{os.environ['PATH']}"
        done = subprocess.run(
            ["sh"], input=text, text=True, check=False, capture_output=True, env={"PATH": path}
        )
        return done.returncode

    def undoing(self) -> list[Step]:
        found = Present("0" * 64, 0o600) if self.key.exists() else None
        return reconcile(self.recorded(), {}, {str(self.key): found}, selected={"borg"})


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def test_it_is_recorded_before_it_is_made(rig: Rig) -> None:
    tools = rig.root / "tools"
    tools.mkdir()
    keygen = tools / "ssh-keygen"
    keygen.write_text("#!/bin/sh\nkill -9 $PPID\n")
    keygen.chmod(0o755)

    assert rig.does(Make(rig.owned), tools=tools) != 0

    assert not rig.key.exists()
    assert rig.recorded().files == {str(rig.key): rig.owned}


def test_it_is_made_once_and_its_public_half_again(rig: Rig) -> None:
    needed("ssh-keygen")

    def make() -> str:
        assert rig.does(Make(rig.owned)) == 0
        assert rig.key.stat().st_mode & 0o777 == 0o600
        return " ".join(rig.public.read_text().split()[:2])

    first = make()
    rig.public.unlink()
    rig.key.chmod(0o644)

    assert make() == first
    assert first.startswith("ssh-ed25519 ")
    assert sorted(one.name for one in rig.key.parent.iterdir()) == ["borg_key", "borg_key.pub"]


def test_it_goes_with_its_record_whatever_is_in_it(rig: Rig) -> None:
    rig.key.parent.mkdir()
    rig.key.write_text("made here")
    rig.does(Make(rig.owned))

    assert rig.does(*rig.undoing()) == 0

    assert not rig.key.exists()
    assert rig.recorded().files == {}


def test_a_folder_in_its_place_is_left_alone(rig: Rig) -> None:
    owned = Ownership({str(rig.key): rig.owned})
    found = Present("", 0o755, kind="a directory")

    (step,) = reconcile(owned, {}, {str(rig.key): found}, selected={"borg"})

    assert isinstance(step, Show)
