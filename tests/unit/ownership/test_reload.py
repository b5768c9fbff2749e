"""Which changes of units wait for a reload of systemd, on a folder that plays the host's root."""

from __future__ import annotations

import os
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rigops.ownership.file_work import RELOADING, Effect, FileWork, script
from rigops.ownership.ownership import Ownership, WantedFile, reconcile
from rigops.probe.sections.rigops_state import RECORD, RELOAD, Present
from rigops.probe.sections.units import SYSTEM_UNITS

if TYPE_CHECKING:
    from collections.abc import Mapping

SERVICE, TIMER = "rigops-a.service", "rigops-a.timer"
BOTH = {SERVICE: b"[Service]\n", TIMER: b"[Timer]\n"}
RELOAD_ALONE = f"set -eu\n{RELOADING}reload\n"


class Machine:
    """Its systemctl writes down what it is told; `loaded`: what systemd has read."""

    def __init__(self, root: Path, *loaded: str) -> None:
        self.root = root
        self._told, self._loaded = root / "told", root / "loaded"
        (root / "run/systemd/system").mkdir(parents=True)
        self.load(*(f"{unit} loaded active running" for unit in loaded))
        self.commands("")

    def commands(self, more: str) -> None:
        """`more`: shell that the program begins with."""
        program = self.root / "bin/systemctl"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"""\
#!/bin/sh
echo "$*" >>"{self._told}"
{more}
[ "$1" = list-units ] || exit 0
for pattern; do
    while read -r unit rest; do
        case $unit in $pattern) echo "$unit $rest" ;; esac
    done <"{self._loaded}"
done
""")
        program.chmod(0o755)

    def load(self, *lines: str) -> None:
        self._loaded.write_text("".join(f"{line}\n" for line in lines))

    def at(self, path: str) -> Path:
        return self.root / path[1:]

    @property
    def told(self) -> list[str]:
        lines = self._told.read_text().splitlines() if self._told.exists() else []
        self._told.write_text("")
        return [line for line in lines if not line.startswith("list-units")]

    @property
    def note(self) -> list[str]:
        path = self.at(RELOAD)
        return path.read_text().splitlines() if path.exists() else []

    def ownership(self) -> Ownership:
        record = self.at(RECORD)
        return Ownership.parse(record.read_text()) if record.exists() else Ownership()

    def work(self, contents: Mapping[str, bytes], *, started: str = TIMER) -> FileWork:
        """`contents`: by the name of the unit's file; what else is owned goes."""
        files = {SYSTEM_UNITS + name: text for name, text in contents.items()}
        owned = self.ownership()
        wanted = {
            path: WantedFile("a", sha256(text).hexdigest(), 0o644) for path, text in files.items()
        }
        there = {path: self._present(path) for path in {*files, *owned.files}}
        steps = reconcile(owned, wanted, there, selected={"a"})
        effects = {path: Effect(unit=started) for path in there if path.endswith(started)}
        return FileWork(owned, tuple(steps), files, effects)

    def _present(self, path: str) -> Present | None:
        file = self.at(path)
        if not file.exists():
            return None
        mode = file.stat().st_mode & 0o7777
        return Present(sha256(file.read_bytes()).hexdigest(), mode)

    def run(self, text: str) -> subprocess.CompletedProcess[str]:
        for folder in ("/etc/", "/run/", "/var/lib/rigops"):
            text = text.replace(folder, f"{self.root}{folder}")
        path = f"{self.root}/bin:{os.environ['PATH']}"
        return subprocess.run(
            ["sh"], input=text, capture_output=True, text=True, check=False, env={"PATH": path}
        )

    def have(self, contents: Mapping[str, bytes], *, started: str = TIMER) -> None:
        done = self.run(script(self.work(contents, started=started)))
        assert done.returncode == 0, done.stderr

    def reload(self) -> None:
        done = self.run(RELOAD_ALONE)
        assert done.returncode == 0, done.stderr


ENABLED = f"enable --quiet --no-reload {TIMER}"
STARTED = f"restart {TIMER}"
NEWER = {SERVICE: b"[Service]\nNice=1\n", TIMER: b"[Timer]\nPersistent=yes\n"}


def test_new_units_are_enabled_and_started_without_a_reload(tmp_path: Path) -> None:
    machine = Machine(tmp_path)

    machine.have(BOTH)
    assert machine.told == [ENABLED, STARTED]
    machine.reload()
    assert (machine.told, machine.at(RELOAD).exists()) == ([], False)


def test_loaded_units_wait_for_one_reload_after_which_those_that_were_started_are_restarted(
    tmp_path: Path,
) -> None:
    machine = Machine(tmp_path, SERVICE, TIMER)

    machine.have(BOTH)
    assert machine.told == [ENABLED]
    assert SERVICE in " ".join(machine.note)
    machine.reload()
    assert machine.told == ["daemon-reload", STARTED]
    machine.reload()
    assert machine.told == []


def test_a_unit_that_others_only_name_is_not_loaded(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.load(f"{TIMER} not-found inactive dead {TIMER}")

    machine.have(BOTH)

    assert machine.told == [ENABLED, STARTED]
    assert machine.note == []


@pytest.mark.parametrize(
    ("file", "asked"),
    [
        ("rigops-a.service", "rigops-a.service"),
        ("theirs.service.d/rigops.conf", "theirs.service"),
        ("rigops-a@.service", "rigops-a@*.service"),
    ],
)
def test_systemd_is_asked_for_the_unit_that_a_file_changes(
    tmp_path: Path, file: str, asked: str
) -> None:
    machine = Machine(tmp_path)

    text = script(machine.work({file: b"[Unit]\n"}))

    assert f"\nunread reread '{asked}'\n".replace("'", "") in text.replace("'", "")
    assert text.index("\nunread ") < text.index("\nsettle /etc")


def test_a_file_that_is_no_unit_asks_for_nothing() -> None:
    digest = sha256(b"a").hexdigest()
    path = "/etc/systemd/system.conf.d/90-rigops.conf"
    steps = reconcile(
        Ownership(), {path: WantedFile("a", digest, 0o644)}, {path: None}, selected={"a"}
    )

    assert "\nunread " not in script(FileWork(Ownership(), tuple(steps), {path: b"a"}))


def test_where_systemd_does_not_answer_nothing_is_written(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.commands("exit 1")

    assert machine.run(script(machine.work(BOTH))).returncode != 0
    assert not machine.at(SYSTEM_UNITS + SERVICE).exists()


@pytest.mark.parametrize("command", ["enable", "daemon-reload", "restart"])
def test_a_run_that_was_killed_is_finished_by_the_next(tmp_path: Path, command: str) -> None:
    machine = Machine(tmp_path, SERVICE, TIMER)
    machine.commands(f'[ "$1" != {command} ] || kill -KILL "$PPID"')
    if machine.run(script(machine.work(NEWER))).returncode == 0:
        machine.run(RELOAD_ALONE)
    assert machine.note

    machine.commands("")
    assert machine.told
    machine.reload()

    assert machine.told == ["daemon-reload", STARTED]
    assert machine.note == []


def test_a_unit_that_does_not_start_is_an_error_and_no_reason_to_reload_again(
    tmp_path: Path,
) -> None:
    machine = Machine(tmp_path, TIMER)
    machine.have(BOTH)
    machine.commands('[ "$1" != restart ] || { echo "Job for it failed" >&2; exit 1; }')

    done = machine.run(RELOAD_ALONE)

    assert (done.returncode, done.stderr) == (1, "Job for it failed\n")
    assert machine.note == []


def test_units_that_are_undone_need_no_reload(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.have(BOTH)
    machine.load(*(f"{unit} loaded active running" for unit in (SERVICE, TIMER)))
    assert machine.told

    machine.have({})
    assert machine.told == [
        f"stop {TIMER}", f"disable --quiet --no-reload {TIMER}", f"reset-failed {TIMER}",
    ]  # fmt: skip
    assert machine.note == []


def test_what_waits_and_is_undone_is_not_started(tmp_path: Path) -> None:
    machine = Machine(tmp_path, TIMER)
    machine.have(BOTH)
    machine.have({})
    assert machine.told

    machine.reload()

    assert machine.told == ["daemon-reload"]


def test_a_loaded_unit_that_comes_back_as_it_was_before_rigops_is_reread(tmp_path: Path) -> None:
    machine = Machine(tmp_path, TIMER)
    theirs = machine.at(SYSTEM_UNITS + TIMER)
    theirs.parent.mkdir(parents=True)
    theirs.write_text("[Timer]\n# theirs\n")
    machine.have({TIMER: b"[Timer]\n"})
    machine.reload()
    assert machine.told

    machine.have({})
    machine.reload()

    assert theirs.read_text() == "[Timer]\n# theirs\n"
    assert "daemon-reload" in machine.told


def test_a_script_that_no_other_follows_reloads_at_its_end(tmp_path: Path) -> None:
    machine = Machine(tmp_path, TIMER)

    done = machine.run(script(machine.work(BOTH), reloads=True))

    assert done.returncode == 0, done.stderr
    assert machine.told == [ENABLED, "daemon-reload", STARTED]
    assert machine.note == []
