from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from rigops import __version__
from rigops.cli.main import COMMANDS
from tests.unit.forks import forked

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.conftest import Rigops

HEAVY = {"pyinfra", "pyinfra_cli", "gevent", "paramiko", "jinja2", "libcst", "packaging", "rich"}


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (["--help"], {}),
        (["--version"], {}),
        ([], {"_RIGOPS_COMPLETE": "bash_complete", "COMP_WORDS": "rigops d", "COMP_CWORD": "1"}),
        ([], {"_RIGOPS_COMPLETE": "zsh_source"}),
    ],
    ids=["help", "version", "completing", "completion script"],
)
def test_help_version_and_completion_import_nothing_heavy(
    arguments: list[str], environment: dict[str, str]
) -> None:
    run = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "rigops", *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )

    assert run.stdout
    imported = {line.rpartition("|")[2].strip().split(".")[0] for line in run.stderr.splitlines()}
    assert "click" in imported
    assert not imported & HEAVY


# Imported in one process one after the other.
REACHES = ("doctor", "rigops.hosts.probing")
JUDGES = ("examiner",)
OTHERS = ("drivers", "init", "history", "preflight")


@pytest.fixture(scope="module")
def loaded() -> list[set[str]]:
    """The modules that are there after each of these."""
    code = "import sys\n"
    for names in (REACHES, JUDGES, OTHERS):
        modules = (name if "." in name else f"rigops.cli.{name}" for name in names)
        code += f"import {', '.join(modules)}\nprint(*sys.modules)\n"
    said = subprocess.check_output([sys.executable, "-c", code], text=True)
    return [set(line.split()) for line in said.splitlines()]


def test_commands_that_change_no_host_do_not_import_pyinfra(loaded: list[set[str]]) -> None:
    assert loaded[-1] >= {"rigops.cli.doctor", *(f"rigops.cli.{name}" for name in OTHERS)}
    assert not {"pyinfra", "gevent", "http.client", "libcst"} & loaded[-1]


def test_doctor_reaches_hosts_before_it_imports_what_judges_them(loaded: list[set[str]]) -> None:
    assert "rigops.transport" in loaded[0]
    late = {"rigops.catalog", "rigops.doctor.registry", "rigops.probe.registry", "paramiko"}
    assert not late & loaded[0]


# Prints each module of rigops that a thread begins to import in the middle of another's import.
# rigops.transport imports nothing of what is above it: threads in there wait for each other only.
CROSSING = """
import sys, time

def counts(name):
    return name.startswith("rigops.") and not name.startswith("rigops.transport")

def is_importing(frame):
    while frame:
        if frame.f_code.co_name == "_find_and_load" and counts(frame.f_locals["name"]):
            return True
        frame = frame.f_back
    return False

class Watch:
    def find_spec(self, name, path=None, target=None):
        if counts(name):
            time.sleep(0.002)
            if sum(map(is_importing, sys._current_frames().values())) > 1:
                print("crossing", name)

from rigops.cli.main import main
sys.meta_path.insert(0, Watch())
sys.argv = ["rigops", "doctor", *(f"rig@127.0.0.1:{port}" for port in (1, 2, 3))]
main()
"""


@pytest.mark.parametrize("path", ["", "/nowhere"], ids=["with ssh", "without a program"])
def test_doctor_imports_in_one_thread_at_a_time(tmp_path: Path, path: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", CROSSING],
        cwd=tmp_path,
        env={**os.environ, "PATH": path or os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.stdout.count("refused") >= 3, run.stdout + run.stderr
    assert [line for line in run.stdout.splitlines() if line.startswith("crossing")] == []


def test_doctor_of_hosts_imports_nothing_that_reads_pastes_or_removes_names(
    loaded: list[set[str]],
) -> None:
    needless = ("rigops.probe.pastes", "rigops.probe.bundles")
    assert "rigops.doctor.registry" in loaded[1]
    assert not [name for name in loaded[1] if name.startswith(needless)]


def test_commands_that_change_hosts_import_no_more_of_paramiko_than_they_use() -> None:
    modules = forked("import sys; print(*sys.modules)").out.split()

    assert "paramiko" in modules
    assert "invoke" not in modules


def test_completion_offers_the_commands() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "rigops"],
        capture_output=True,
        text=True,
        check=True,
        env={
            **os.environ,
            "_RIGOPS_COMPLETE": "bash_complete",
            "COMP_WORDS": "rigops ss",
            "COMP_CWORD": "1",
        },
    )

    assert run.stdout.split() == ["plain,ssh-config"]


def test_the_version_is_the_packages(rigops: Rigops) -> None:
    assert rigops("--version").out == f"rigops {__version__}\n"


# In a process of its own: some commands patch the one that they run in.
HELP = """
from rigops.cli.main import COMMANDS, main
for command in ("", *COMMANDS):
    try:
        main([*command.split(), "--help"])
    except SystemExit as left:
        assert not left.code, command
"""


def test_the_help_lists_every_command_and_each_has_an_example() -> None:
    helped = forked(HELP).out

    overview, *each = helped.split("Usage: ")[1:]
    for command, text in zip(COMMANDS, each, strict=True):
        assert f"  {command} " in overview
        assert f"    rigops {command}" in text


def test_commands_are_grouped_by_job_each_with_an_example(rigops: Rigops) -> None:
    lines = rigops("--help").out.splitlines()

    jobs = [line for line in lines if "for example `rigops " in line]
    assert [line.partition(",")[0] for line in jobs] == ["Look", "Change", "Prove", "Keep"]
    examples = [line.partition("`")[2].rstrip("`:").split()[1] for line in jobs]
    assert set(examples) <= set(COMMANDS)
    change = lines.index(jobs[1])
    assert [line.split()[0] for line in lines[change + 1 : change + 5]] == [
        "init",
        "fix",
        "plan",
        "apply",
    ]
    assert max(map(len, lines)) <= 80


def test_a_misspelled_command_gets_a_suggestion(rigops: Rigops) -> None:
    said = rigops("drvers")

    assert said.code == 2
    assert "did you mean 'drivers'?" in said.err


def test_a_misspelled_option_gets_a_suggestion(rigops: Rigops) -> None:
    said = rigops("ssh-config", "--shfs", "x")

    assert said.code == 2
    assert "--sshfs" in said.err
    assert "see rigops ssh-config --help" in said.err


def test_a_wrong_option_is_a_document_when_json_was_asked_for(rigops: Rigops) -> None:
    said = rigops("ssh-config", "--nonsense", "--json")

    assert said.code == 2
    assert said.json()["schema"] == "rigops.error/1"
    assert "--nonsense" in said.json()["errors"][0]["message"]


def test_no_command_at_all_shows_the_help(rigops: Rigops) -> None:
    said = rigops()

    assert said.code == 2
    assert "Look, for example" in said.err
    assert "Error" not in said.err


def test_an_interrupted_command_exits_with_130(
    rigops: Rigops, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rigops.cli.ssh_config.read_inventory", interrupt)

    assert rigops("ssh-config").code == 130


def test_a_fault_of_rigops_is_said_in_one_line_and_with_v_in_full(
    rigops: Rigops, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("no rigs")

    monkeypatch.setattr("rigops.cli.ssh_config.read_inventory", fail)

    said = rigops("ssh-config")
    assert said.code == 1
    assert "ZeroDivisionError: no rigs" in said.err
    assert "Traceback" not in said.err
    assert "Traceback" in rigops("ssh-config", "-v").err


def test_a_reader_that_stops_early_is_no_error() -> None:
    run = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m rigops --help | head -c 1"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert run.stderr == ""
