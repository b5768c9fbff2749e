"""What is declared against what a host has: what is in the way, and what a person should know."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rigops.backup.borg_host import CREDENTIAL, PASSPHRASE
from rigops.concerns.borg import decide
from rigops.concerns.borg.facts import BorgHost, Mount
from rigops.concerns.borg.record import BorgState, RepositoryState
from rigops.concerns.registry import read
from tests.unit.concerns.borg.hosts import HOST, ID, PUBLIC_KEY, declare

if TYPE_CHECKING:
    from pathlib import Path

OLD = replace(HOST, systemd=249, secrets=frozenset())


def blocked(host: BorgHost = HOST, **more: object) -> list[str]:
    return list(decide.blockers(declare(**more), host))


def state(**more: object) -> BorgState:
    repository = {"id": ID, "location": "/b/rig", "state": "ok", **more}
    return BorgState(at="2026-11-25T06:00:00Z", repository=RepositoryState(**repository))  # type: ignore[arg-type]  # named by each test


def test_a_host_that_has_it_all_is_not_blocked() -> None:
    assert blocked() == []
    assert blocked(repository="ssh://me@nas/backups/rig") == []


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        (replace(HOST, python=None), "borg's program needs /usr/bin/python3"),
        (replace(HOST, python=(3, 7)), "needs Python 3.8, and /usr/bin/python3 is 3.7"),
        (replace(HOST, borg=None, borg_answer="", tools=HOST.tools - {"borg"}), "not installed"),
        (replace(HOST, borg=None, borg_answer="", tools=HOST.tools | {"borg2"}), "only borg 2"),
        (replace(HOST, borg=None, borg_answer="Traceback"), "borg answers 'Traceback', no version"),
        (replace(HOST, borg=(2, 0, 0)), "borg is 2.0.0: borg 2 is a beta"),
        (replace(HOST, borg=(1, 1, 16)), "1.2 is the oldest that can compact"),
        (replace(HOST, systemd=None), "backups need systemd"),
        (replace(HOST, systemd=245), "LoadCredential came with 247"),
    ],
)
def test_what_a_host_lacks_blocks_with_a_fix(host: BorgHost, reason: str) -> None:
    (found,) = blocked(host)

    assert reason in found
    assert "fix: " in found


@pytest.mark.parametrize(
    ("declared", "reason"),
    [
        ({"passphrase_command": ""}, "passphrase_command is not declared"),
        ({"repository": "sftp://nas/rig"}, "reaches no repository by sftp://"),
        ({"repository": "file:///b/rig"}, "reaches no repository by file://"),
        ({"repository": "/home/backup"}, "lies in /home, which is backed up into it"),
        ({"schedule": "daily; reboot"}, "is no calendar event"),
    ],
)
def test_what_cannot_be_declared_so_blocks_with_a_fix(
    declared: dict[str, object], reason: str
) -> None:
    (found,) = blocked(HOST, **declared)

    assert reason in found
    assert "fix: " in found


def test_a_server_needs_ssh() -> None:
    (found,) = blocked(replace(HOST, tools=HOST.tools - {"ssh"}), repository="me@nas:rig")

    assert found.endswith("fix: sudo apt install openssh-client")


def test_a_repository_on_the_same_file_system_is_a_warning() -> None:
    assert list(decide.warnings(declare(), HOST)) == []
    (found,) = decide.warnings(declare(repository="/srv/rig"), HOST)
    assert "on the same file system as /etc: one broken disk takes both" in found
    hidden = replace(HOST, mounts=(*HOST.mounts, Mount("/srv", "8:33")))
    assert list(decide.warnings(declare(repository="/srv/rig"), hidden)) == []


def test_what_nobody_declared_is_said_before_it_matters() -> None:
    said = " ".join(decide.notices(declare(keep=""), replace(HOST, others=("/etc/b.yaml",)), None))

    assert "keep is not declared" in said
    assert "exclude is not declared" in said
    assert "borgmatic is set up too: /etc/b.yaml" in said
    assert list(decide.notices(declare(exclude=["/home/x"]), HOST, None)) == []


def test_without_encrypted_credentials_it_is_said_where_the_passphrase_lies() -> None:
    (said,) = decide.notices(declare(exclude=["x"]), OLD, None)

    assert said.startswith(f"systemd is 249, before 250: the passphrase lies in {PASSPHRASE}")


def test_trouble_of_the_last_run_is_shown_for_this_repository_alone() -> None:
    known = state(state="locked", error="locked by nas for 9 days", fix="see who runs")

    assert "could not be used: locked by nas for 9 days. fix: see who runs" in " ".join(
        decide.notices(declare(), HOST, known)
    )
    other = declare(repository="/c/rig")
    assert "locked" not in " ".join(decide.notices(other, HOST, known))


def test_how_the_key_is_let_in_is_said_once_as_the_step_to_do() -> None:
    fix = "on me@nas, append this line to ~/.ssh/authorized_keys: restrict"
    known = state(state="unreachable", error="refused", fix=fix)

    assert "refused" in " ".join(decide.notices(declare(), HOST, known))
    assert fix not in " ".join(decide.notices(declare(), HOST, known))


def test_only_a_secret_that_root_alone_reads_and_that_can_be_read_counts() -> None:
    assert decide.has_passphrase(HOST)
    assert not decide.has_passphrase(replace(HOST, secrets=frozenset({(CREDENTIAL, "644")})))
    both = HOST.secrets | {(PASSPHRASE, "400")}
    assert not decide.has_passphrase(replace(HOST, secrets=both))
    assert not decide.has_passphrase(OLD)
    assert decide.has_passphrase(replace(OLD, secrets=frozenset({(PASSPHRASE, "400")})))
    assert not decide.has_passphrase(replace(HOST, systemd=249))


def test_the_settings_hold_what_the_program_reads_and_no_command_of_this_machine() -> None:
    found = json.loads(decide.settings("rig", declare(check_every="4w")))

    assert found == {
        "host": "rig",
        "repository": "/b/rig",
        "paths": ["/home", "/etc"],
        "exclude": list(decide.EXCLUDED),
        "keep": "7d 4w 6m",
        "schedule": "daily",
        "check_every_days": 28,
        "identity": True,
        "host_keys": False,
        "checkpoints": {},
    }
    assert json.loads(decide.settings("rig", declare(exclude=["/a"])))["exclude"] == ["/a"]
    assert json.loads(decide.settings("rig", declare(host_keys=True)))["host_keys"] is True
    checkpoints = {"/home/me/runs": 3, "/etc/x": 1}
    found = json.loads(decide.settings("rig", declare(checkpoints=checkpoints)))
    assert found["checkpoints"] == checkpoints


@pytest.mark.parametrize(
    ("repository", "login", "path"),
    [
        ("ssh://me@nas:2222/backups/rig", "me@nas", "/backups/rig"),
        ("ssh://nas/./rig", "root@nas", "rig"),
        ("me@nas:backups/rig", "me@nas", "backups/rig"),
    ],
)
def test_the_key_reaches_one_repository_and_nothing_else(
    repository: str, login: str, path: str
) -> None:
    said = decide.access_step("rig", repository, PUBLIC_KEY)
    assert "exports its key to this machine (a backup by the timer exports none)" in said

    assert f"on {login}, append this line to ~/.ssh/authorized_keys: restrict" in said
    serve = f"borg serve --restrict-to-repository {path}"
    assert said.endswith(f'restrict,command="{serve}" {PUBLIC_KEY}')
    assert "apply makes an ssh key" in decide.access_step("rig", repository, "")


def test_a_repository_counts_as_initialized_once_it_was_opened_at_this_place() -> None:
    assert decide.is_initialized(declare(), state())
    assert not decide.is_initialized(declare(), state(id=""))
    assert not decide.is_initialized(declare(repository="/c/rig"), state())
    assert not decide.is_initialized(declare(), None)
    assert decide.was_tried(declare(), state(id="", state="unreachable"))
    probed = state(location="ssh://***@nas:22/b")
    assert decide.is_initialized(declare(repository="ssh://me@nas:22/b"), probed)
    assert not decide.is_initialized(declare(repository="ssh://me@other:22/b"), probed)


@pytest.mark.parametrize("encrypted", [False, True])
def test_the_passphrase_is_written_for_root_alone_and_the_other_form_goes(
    tmp_path: Path, *, encrypted: bool
) -> None:
    creds = tmp_path / "systemd-creds"
    creds.write_text('#!/bin/sh\necho "$@" >args; tr a-z A-Z\n')
    creds.chmod(0o755)
    script = decide.passphrase_written(encrypted=encrypted).replace("/etc/rigops", ".")
    for one in ("borg_passphrase", "borg_passphrase.cred"):
        (tmp_path / one).write_text("old")

    subprocess.run(
        ["sh", "-c", script], cwd=tmp_path, input=b"geheim\n", check=True,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )  # fmt: skip

    kept, gone = ("borg_passphrase.cred", "borg_passphrase")[:: 1 if encrypted else -1]
    assert (tmp_path / kept).read_text() == ("GEHEIM" if encrypted else "geheim")
    assert (tmp_path / kept).stat().st_mode & 0o777 == (0o600 if encrypted else 0o400)
    assert not (tmp_path / gone).exists()
    assert not list(tmp_path.glob("*.rigops-new"))


def test_without_a_passphrase_nothing_is_replaced(tmp_path: Path) -> None:
    script = decide.passphrase_written(encrypted=False).replace("/etc/rigops", ".")
    (tmp_path / "borg_passphrase").write_text("old")

    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, input=b"\n", check=False)

    assert done.returncode != 0
    assert [one.name for one in tmp_path.iterdir()] == ["borg_passphrase"]
    assert (tmp_path / "borg_passphrase").read_text() == "old"


@pytest.mark.parametrize("code", [0, 1])
def test_a_passphrase_that_does_not_open_the_repository_is_not_stored(
    tmp_path: Path, code: int
) -> None:
    run = tmp_path / "systemd-run"
    run.write_text(f'#!/bin/sh\necho "$@" >args; cat ./borg_passphrase.rigops-new; exit {code}\n')
    run.chmod(0o755)
    script = decide.passphrase_written(encrypted=False, program="/x/borg")
    (tmp_path / "borg_passphrase").write_text("old")
    (tmp_path / "borg_passphrase.cred").write_text("older")

    done = subprocess.run(
        ["sh", "-c", script.replace("/etc/rigops", ".")], cwd=tmp_path, input=b"new\n", check=False,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"}, capture_output=True,
    )  # fmt: skip

    assert (done.returncode, done.stdout) == (code, b"")
    words = (tmp_path / "args").read_text().split()
    assert "--property=LoadCredential=passphrase:./borg_passphrase.rigops-new" in words
    assert words[-2:] == ["/x/borg", "prove"]
    assert (tmp_path / "borg_passphrase").read_text() == ("old" if code else "new")
    assert (tmp_path / "borg_passphrase.cred").exists() == bool(code)
    assert not list(tmp_path.glob("*.rigops-new"))


def test_of_an_unmanaged_backup_the_probe_gets_two_lines() -> None:
    unmanaged = {"managed": False, "unit": "restic.service"}
    named, timed = (
        read({"borg": {**unmanaged, **more}}).borg for more in ({}, {"newest": "restic-newest -q"})
    )

    assert named is not None
    assert timed is not None
    assert decide.watched(named) == "unit restic.service\n"
    assert decide.watched(timed) == "unit restic.service\nnewest restic-newest -q\n"
