"""Why ssh does not come to the server of a repository."""

from __future__ import annotations

import pytest

from rigops.concerns.borg.host.ssh_refusal import ask_ssh, ssh_destination


@pytest.mark.parametrize(
    ("repository", "words"),
    [
        ("ssh://backup@nas/backups/rig", ["backup@nas"]),
        ("ssh://backup@nas:2222/./rig", ["-p", "2222", "backup@nas"]),
        ("ssh://nas/backups/rig", ["nas"]),
        ("ssh://backup@[fd00::1]:2222/rig", ["-p", "2222", "backup@fd00::1"]),
        ("backup@nas:backups/rig", ["backup@nas"]),
        ("/mnt/backup/rig", []),
        ("/mnt/a:b", []),
    ],
)
def test_the_words_for_ssh_are_those_of_the_repository(repository: str, words: list[str]) -> None:
    assert ssh_destination(repository) == words


def test_what_ssh_says_is_read_where_it_fails() -> None:
    ssh = ["sh", "-c", 'echo "$1: Permission denied (publickey)." >&2; exit 255', "ssh"]

    assert ask_ssh(ssh, "backup@nas:rig") == ["backup@nas: Permission denied (publickey)."]


def test_a_server_without_borg_says_so() -> None:
    ssh = ["sh", "-c", 'shift; exec env PATH=/nowhere /bin/sh -c "$*"', "ssh"]

    said = ask_ssh(ssh, "backup@nas:rig")

    assert [line for line in said if "borg: not found" in line or "command not found" in line]


def test_a_server_that_answers_says_nothing() -> None:
    ssh = ["sh", "-c", "echo this is no shell >&2; exit 1", "ssh"]

    assert ask_ssh(ssh, "backup@nas:rig") == []


def test_without_ssh_nothing_is_said() -> None:
    assert ask_ssh(["/nowhere/ssh"], "backup@nas:rig") == []
