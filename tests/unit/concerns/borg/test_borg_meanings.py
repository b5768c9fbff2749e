from __future__ import annotations

import pytest

from rigops.backup.host.errors import HostError
from rigops.concerns.borg.host.beginning import spare_bytes
from rigops.concerns.borg.host.borg_meanings import (
    LOCKED,
    TO_BE_HEALED,
    BorgError,
    BorgMessage,
    is_warning,
)
from rigops.concerns.borg.host.borg_versions import (
    BorgVersion,
    demand_usable,
    needs_tam_check,
    parse_borg_version,
)

# As borg 1.2.4 and 1.4.0 print them.
RENAMED = BorgMessage(
    "ERROR", "ArchiveTAMInvalid", "Data integrity error: Archive authentication did not verify"
)
LOCK = BorgMessage("ERROR", "LockTimeout", "Failed to create/acquire the lock /r (timeout).")
MISMATCH = BorgMessage(
    "ERROR", "", "Data integrity error: Segment entry checksum mismatch [segment 2, offset 439]"
)


SSH = "ssh://rig@nas:2222/backups/data3"
KEY = "ssh-ed25519 AAAAC3Nz rigops@data3"
LINE = f'restrict,command="borg serve --restrict-to-repository /backups/data3" {KEY}'
# What a server prints that may not make the folder, and then of itself (borg 1.2.4).
TRACEBACK = """Traceback (most recent call last):

  File "/usr/lib/python3/dist-packages/borg/repository.py", line 279, in create
    os.mkdir(path)

{}
"""
OF_ITSELF = BorgMessage(
    "ERROR", "", "Borg server: Platform: Linux own4 6.18\nBorg server: PID: 1\n"
)


def fell_over(line: str, msgid: str) -> list[BorgMessage]:
    return [BorgMessage("ERROR", msgid, TRACEBACK.format(line)), OF_ITSELF]


def test_a_folder_that_cannot_be_made_on_the_server_is_named_with_its_fix() -> None:
    denied = "PermissionError: [Errno 13] Permission denied: '/backups/data3'"
    without_parent = BorgMessage("ERROR", "Repository.ParentPathDoesNotExist", "The parent …")

    error = BorgError(SSH, fell_over(denied, "PermissionError"), 2, KEY)

    assert error.message == (
        f"{SSH}: no access to its folder ([Errno 13] Permission denied: '/backups/data3')"
    )
    assert error.fix == (
        "on nas, as root: `install -d -o rig /backups/data3`, and let rig into the folders above it"
    )
    assert BorgError(SSH, [without_parent], 2, KEY).fix == error.fix
    assert BorgError("/mnt/b", [without_parent], 2, KEY).fix == "mount its disk"
    local = BorgError("/mnt/b", fell_over(denied, "PermissionError"), 2)
    assert local.fix == "see its owner and mode"


def test_a_server_that_falls_over_otherwise_is_named_by_the_end_of_its_traceback() -> None:
    error = BorgError(SSH, fell_over("OSError: [Errno 5] no idea: '/x'", "OSError"), 2)

    assert error.message == f"{SSH}: OSError: [Errno 5] no idea: '/x'"
    assert BorgError(SSH, [OF_ITSELF], 2).message == f"{SSH}: borg ended with 2"


def test_a_server_that_is_lost_in_the_middle_is_named_and_no_line_of_the_traceback() -> None:
    lines = (
        "BrokenPipeError: [Errno 32] Broken pipe",
        "",
        "Platform: Linux rig",
        "sys.argv: ['borg'",
    )
    text = TRACEBACK.format("\n".join(lines))

    error = BorgError(SSH, [BorgMessage("ERROR", "", text)], 2)
    other = BorgError(SSH, [BorgMessage("ERROR", "", text.replace("Broken pipe", "No idea"))], 2)

    assert (error.state, error.message) == ("unreachable", f"{SSH}: the connection was lost")
    assert other.message == f"{SSH}: BrokenPipeError: [Errno 32] No idea"


def test_a_disk_that_does_not_answer_is_named_and_not_its_lock() -> None:
    text = "Failed to create/acquire the lock /r/lock.exclusive ([Errno 5] Input/output error)."

    error = BorgError("/r", [BorgMessage("ERROR", "LockFailed", text)], 2)

    assert error.message == "/r: the disk does not read or write"


def test_a_server_that_prints_something_else_is_no_borg() -> None:
    text = "Got unexpected RPC data format from server:\ny\ny\n"

    error = BorgError(SSH, [BorgMessage("ERROR", "UnexpectedRPCDataFormatFromServer", text)], 2)

    assert error.message == f"{SSH}: something else than borg answers"
    assert error.fix


def test_an_automount_without_its_disk_is_an_absent_repository() -> None:
    text = TRACEBACK.format("OSError: [Errno 19] No such device: '/mnt/usb/borg'")

    assert BorgError("/mnt/usb/borg", [BorgMessage("ERROR", "", text)], 2).state == "absent"


@pytest.mark.parametrize(
    ("repository", "login"),
    [(SSH, "rig@nas"), ("rig@nas:/backups/data3", "rig@nas"), ("nas:/backups/data3", "root@nas")],
)
def test_what_lets_the_key_in_is_printed_whole(repository: str, login: str) -> None:
    refused = BorgMessage("ERROR", "", "rig@nas: Permission denied (publickey).")
    elsewhere = BorgMessage("ERROR", "PathNotAllowed", "Repository path not allowed: /backups/x")

    assert BorgError(repository, [refused], 2, KEY).fix == (
        f"on {login}, append this line to ~/.ssh/authorized_keys: {LINE}"
    )
    assert BorgError(repository, [elsewhere], 2, KEY).fix == (
        f"on {login}, put this line in the place of this key's in ~/.ssh/authorized_keys: {LINE}"
    )
    assert "rigops apply" in BorgError(repository, [refused], 2).fix


@pytest.mark.parametrize(
    ("message", "state", "what"),
    [
        (RENAMED, TO_BE_HEALED, "not readable by this one"),
        (LOCK, LOCKED, "locked"),
        (MISMATCH, "failed", "damaged"),
        (BorgMessage("WARNING", "", "Remote: sh: 1: borg: not found"), "failed", "has no borg"),
        (BorgMessage("CRITICAL", "", "something\nnew"), "failed", "something"),
    ],
)
def test_a_refusal_is_named(message: BorgMessage, state: str, what: str) -> None:
    error = BorgError("/r", [BorgMessage("INFO", "", "hello"), message], 2)

    assert error.state == state
    assert what in error.message
    assert error.message.startswith("/r: ")


def test_what_the_server_says_decides_over_how_the_connection_ended() -> None:
    ended = BorgMessage("ERROR", "ConnectionClosedWithHint", "Connection closed by remote host.")
    said = BorgMessage("ERROR", "", "bash: line 1: borg: command not found")

    found = [BorgError("/r", messages, 2) for messages in ([ended], [said, ended], [ended, said])]

    assert [one.state for one in found] == ["unreachable", "failed", "failed"]


def test_a_full_disk_is_named_with_the_room_that_borg_wants() -> None:
    text = "Insufficient free space to complete transaction (required: 2.68 GB, available: 1.9 GB)."
    message = BorgMessage("ERROR", "Repository.InsufficientFreeSpaceError", text)

    error = BorgError("/r", [message], 2)

    full = "/r: the repository's disk is full (required: 2.68 GB, available: 1.9 GB)"
    assert (error.message, error.is_full) == (full, True)


@pytest.mark.parametrize(
    ("size", "free", "spare"),
    [
        (4 << 40, 3 << 40, 2 << 30),
        (50 << 30, 40 << 30, 1 << 30),
        (4 << 40, 1 << 30, (1 << 30) // 10),
    ],
)
def test_the_reserve_fits_the_disk_and_what_is_free_on_it(size: int, free: int, spare: int) -> None:
    assert spare_bytes(size, free) == spare


def test_an_archive_to_be_healed_is_not_called_damaged() -> None:
    assert "damaged" not in BorgError("/r", [RENAMED], 2).message


def test_an_end_without_a_word_names_its_code() -> None:
    assert BorgError("/r", [], -9).message == "/r: borg ended with -9"


def test_warnings_are_those_of_both_kinds_of_codes() -> None:
    found = [code for code in (0, 1, 2, 73, 100, 107, 127, 128, -9) if is_warning(code)]

    assert found == [1, 100, 107, 127]


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("borg 1.2.4\n", BorgVersion(1, 2, 4)),
        ("borg 1.4.0", BorgVersion(1, 4, 0)),
        ("borg 1.4.0a2.dev3", BorgVersion(1, 4, 0)),
        ("borg2 2.0.0b5", BorgVersion(2, 0, 0)),
        ("1.4.5", BorgVersion(1, 4, 5)),
        ("sh: borg: not found", None),
    ],
)
def test_versions_are_read(text: str, version: BorgVersion | None) -> None:
    assert parse_borg_version(text) == version


@pytest.mark.parametrize("text", ["borg 2.0.0b5", "borg 1.1.17", "nothing"])
def test_a_borg_that_cannot_do_it_is_refused_with_a_fix(text: str) -> None:
    with pytest.raises(HostError) as refused:
        demand_usable(text)

    assert "borgbackup" in refused.value.fix


@pytest.mark.parametrize(
    ("version", "last", "is_needed"),
    [
        (BorgVersion(1, 2, 4), "", False),
        (BorgVersion(1, 4, 0), "", True),
        (BorgVersion(1, 4, 0), "1.2.4", True),
        (BorgVersion(1, 4, 0), "1.4.0", False),
        (BorgVersion(1, 2, 8), "1.4.0", False),
    ],
)
def test_a_newer_borg_than_the_last_asks_for_signatures_first(
    version: BorgVersion, last: str, *, is_needed: bool
) -> None:
    assert needs_tam_check(version, last) is is_needed
