"""The script is really run, on a folder that plays the host's root."""

from __future__ import annotations

import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

from rigops.ownership.file_work import FileWork, script
from rigops.ownership.ownership import PREVIOUS_FOLDER, Ownership, WantedFile, reconcile
from rigops.probe.sections.rigops_state import RECORD, Present


class Machine:
    """A folder as a host: the paths of scripts and records are put below it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = f"{root}/etc/thing.conf"

    def _below(self, text: str) -> str:
        return text.replace("/var/lib/rigops", f"{self.root}/var/lib/rigops")

    def ownership(self) -> Ownership:
        record = Path(self._below(RECORD))
        return Ownership.parse(record.read_text()) if record.exists() else Ownership()

    def present(self) -> Present | None:
        path = Path(self.path)
        if not path.exists():
            return None
        digest = sha256(path.read_bytes()).hexdigest()
        return Present(digest, path.stat().st_mode & 0o7777)

    def script(self, content: bytes | None) -> str:
        wanted = {}
        if content is not None:
            wanted[self.path] = WantedFile("thing", sha256(content).hexdigest(), 0o640)
        steps = reconcile(self.ownership(), wanted, {self.path: self.present()}, selected={"thing"})
        work = FileWork(self.ownership(), tuple(steps), {self.path: content or b""})
        return self._below(script(work))

    def run(self, text: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["sh"], input=text, capture_output=True, text=True, check=False)

    def take(self, content: bytes | None) -> None:
        done = self.run(self.script(content))
        assert done.returncode == 0, done.stderr

    def stray(self) -> list[Path]:
        return [path for path in self.root.rglob("*") if path.name.endswith(".rigops-new")]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (tmp_path / "etc").mkdir()
    return Machine(tmp_path)


def test_a_new_file_is_written_with_its_mode_and_recorded(machine: Machine) -> None:
    machine.take(b"a = 1\n'quotes' $HOME `x`\0\xff\n")

    assert Path(machine.path).read_bytes() == b"a = 1\n'quotes' $HOME `x`\0\xff\n"
    assert machine.present() == Present(
        sha256(b"a = 1\n'quotes' $HOME `x`\0\xff\n").hexdigest(), 0o640
    )
    assert list(machine.ownership().files) == [machine.path]
    assert machine.stray() == []


def test_a_second_time_there_is_nothing_to_do(machine: Machine) -> None:
    machine.take(b"a")

    assert machine.script(b"a") == ""


def test_what_was_there_before_comes_back_when_it_is_no_longer_wanted(machine: Machine) -> None:
    Path(machine.path).write_bytes(b"somebody's")
    Path(machine.path).chmod(0o600)

    machine.take(b"ours")
    machine.take(b"ours, newer")
    machine.take(None)

    assert Path(machine.path).read_bytes() == b"somebody's"
    assert Path(machine.path).stat().st_mode & 0o7777 == 0o600
    assert machine.ownership() == Ownership()


@pytest.mark.parametrize("damage", ["cut", "lost", "a folder"])
def test_what_was_there_before_does_not_come_back_damaged(machine: Machine, damage: str) -> None:
    Path(machine.path).write_bytes(b"somebody's")
    machine.take(b"ours")
    (copy,) = (machine.root / PREVIOUS_FOLDER[1:]).iterdir()
    text, record = machine.script(None), machine.ownership()
    if damage == "cut":
        copy.write_bytes(b"some")
    else:
        copy.unlink()
    if damage == "a folder":
        copy.mkdir()

    done = machine.run(text)

    assert done.returncode == 1
    assert f"{copy}, which was there before rigops, is damaged or lost" in done.stderr
    assert Path(machine.path).read_bytes() == b"ours"
    assert machine.ownership() == record
    assert copy.exists() == (damage != "lost")


def test_a_file_that_was_not_there_before_is_gone_again(machine: Machine) -> None:
    machine.take(b"ours")
    machine.take(None)

    assert not Path(machine.path).exists()


def test_a_file_that_changed_since_it_was_looked_at_is_left_alone(machine: Machine) -> None:
    Path(machine.path).write_bytes(b"somebody's")
    text = machine.script(b"ours")
    Path(machine.path).write_bytes(b"somebody's, newer")

    done = machine.run(text)

    assert done.returncode == 1
    assert "changed meanwhile" in done.stderr
    assert Path(machine.path).read_bytes() == b"somebody's, newer"
    assert machine.ownership() == Ownership()


def test_a_script_that_arrives_in_part_does_nothing(machine: Machine) -> None:
    Path(machine.path).write_bytes(b"somebody's")
    text = machine.script(b"ours")
    begin = text.index("main() {")

    for end in range(begin, len(text.rstrip()), 7):
        machine.run(text[:end])

    assert Path(machine.path).read_bytes() == b"somebody's"
    assert machine.ownership() == Ownership()


@pytest.mark.parametrize("command", range(1, 21))
def test_a_script_that_is_killed_anywhere_is_finished_by_the_next(
    command: int, machine: Machine
) -> None:
    Path(machine.path).write_bytes(b"somebody's")
    machine.run(_killed_before(command, machine.script(b"ours")))

    assert Path(machine.path).read_bytes() in {b"somebody's", b"ours"}
    machine.take(b"ours")
    assert Path(machine.path).read_bytes() == b"ours"
    machine.take(None)
    assert Path(machine.path).read_bytes() == b"somebody's"
    assert machine.stray() == []


def _killed_before(command: int, text: str) -> str:
    """The script with a shell that dies before its Nth simple command."""
    counter = f'n=0\ntick() {{ n=$((n + 1)); [ "$n" -lt {command} ] || kill -KILL $$; }}\n'
    tools = ("mkdir", "chmod", "base64", "sync", "mv", "cp", "sha256sum")
    hooks = "".join(f'{tool}() {{ tick; command {tool} "$@"; }}\n' for tool in tools)
    return counter + hooks + text


def test_earlier_content_is_kept_where_only_root_may_look(machine: Machine) -> None:
    Path(machine.path).write_bytes(b"somebody's secret")

    machine.take(b"ours")

    folder = Path(machine.root / PREVIOUS_FOLDER.lstrip("/"))
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_note_alone_is_work_and_stands_there_whole(machine: Machine) -> None:
    path = f"{machine.root}/var/lib/rigops/kernel_args.json"
    work = FileWork(Ownership(), notes={path: b'{"schema": "rigops.kernel_args/1"}\n'})

    done = machine.run(script(work).replace(PREVIOUS_FOLDER, f"{machine.root}{PREVIOUS_FOLDER}"))

    assert work
    assert done.returncode == 0, done.stderr
    assert Path(path).read_text() == '{"schema": "rigops.kernel_args/1"}\n'
    assert machine.stray() == []
