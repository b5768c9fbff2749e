"""The meaning of borg's refusals: for people, and for the state of the repository. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from rigops.backup.host.errors import HostError
from rigops.concerns.borg.host.borg_server import let_key_in, let_key_in_instead, make_folder

OK, ABSENT, LOCKED, UNREACHABLE = "ok", "absent", "locked", "unreachable"
TO_BE_HEALED, FAILED = "to be healed", "failed"
NOT_TRIED = (ABSENT, LOCKED, UNREACHABLE)  # nothing is known of the archives then

_DAMAGED = (
    "copy the repository first, and do not repair it before that; see `borg check` in borg's docs"
)
_FULL_FIX = "remove files there, or keep less"


DOES_NOT_OPEN = "the passphrase does not open the repository"
NO_REPOSITORY = "what is there is no repository of borg 1, or only the beginning of one"
SOMETHING_THERE = "there is something already"
TO_REPLACE_IT = (
    "let passphrase_command print the repository's passphrase, remove the other one on the host "
    "(`sudo rm -f /etc/rigops/borg_passphrase*`), and run `rigops apply --only borg`"
)


class BorgMessage(NamedTuple):
    """A line of its log. `msgid`: of errors that borg names; empty for others."""

    level: str
    msgid: str
    text: str


class BorgMeaning(NamedTuple):
    """`shape`: a msgid, or a part of one, or of the text. `on_server`: what to do there instead."""

    shape: str
    state: str
    what: str
    fix: str
    on_server: str = ""


_LET_IN, _LET_IN_INSTEAD, _MAKE_FOLDER = "let in", "let in instead", "make folder"
_MAKE_KEY = "run `rigops apply`, which makes the host's key"


# The first that is found in any line decides; the more telling ones are before the general ones.
_BORG_MEANINGS = (
    BorgMeaning(
        "PassphraseWrong",
        FAILED,
        DOES_NOT_OPEN,
        TO_REPLACE_IT,
    ),
    BorgMeaning(
        "ArchiveTAM",
        TO_BE_HEALED,
        "an archive that an older borg renamed is not readable by this one; it is not lost",
        "heal it: `rigops backup HOST --heal`; run no `borg check --repair`, which deletes it",
    ),
    BorgMeaning(
        "Archive TAM",
        TO_BE_HEALED,
        "archives that an older borg renamed are not readable by this one; they are not lost",
        "heal them: `rigops backup HOST --heal`; run no `borg check --repair`, which deletes them",
    ),
    BorgMeaning(
        "TAMRequiredError",
        TO_BE_HEALED,
        "the repository was last written by a borg that signs nothing",
        "heal it: `rigops backup HOST --heal`",
    ),
    BorgMeaning("TAM", FAILED, "the repository was tampered with, or is damaged", _DAMAGED),
    BorgMeaning("LockTimeout", LOCKED, "the repository is locked", ""),
    BorgMeaning("Read-only file system", FAILED, "the disk is read-only", "see `dmesg`"),
    BorgMeaning("Input/output error", FAILED, "the disk does not read or write", "see `dmesg`"),
    BorgMeaning("LockFailed", FAILED, "the repository cannot be locked", "make it writable"),
    BorgMeaning("InsufficientFreeSpace", FAILED, "the repository's disk is full", _FULL_FIX),
    BorgMeaning("StorageQuotaExceeded", FAILED, "the repository's quota is used up", _FULL_FIX),
    BorgMeaning(
        "Repository.DoesNotExist", ABSENT, "there is no repository", "mount its disk, or check it"
    ),
    # An automount whose disk is absent.
    BorgMeaning("[Errno 19] No such device", ABSENT, "its disk is absent", "connect its disk"),
    BorgMeaning(
        "ParentPathDoesNotExist", ABSENT, "its folder is absent", "mount its disk", _MAKE_FOLDER
    ),
    *(
        BorgMeaning(
            shape, FAILED, "no access to its folder", "see its owner and mode", _MAKE_FOLDER
        )
        for shape in ("PathPermissionDenied", "PermissionError")
    ),
    BorgMeaning(
        "PathNotAllowed",
        FAILED,
        "the server lets this host's key into another folder alone",
        _MAKE_KEY,
        _LET_IN_INSTEAD,
    ),
    *(
        BorgMeaning(shape, FAILED, SOMETHING_THERE, "choose another place")
        for shape in ("Repository.AlreadyExists", "PathAlreadyExists")
    ),
    BorgMeaning(
        "InvalidRepository",
        FAILED,
        NO_REPOSITORY,
        "move it away, and run rigops apply",
    ),
    BorgMeaning(
        "RepositoryAccessAborted",
        FAILED,
        "the repository was at another place before",
        "mount it where it was; if you moved it for good, run `rigops backup HOST --moved` once",
    ),
    BorgMeaning(
        "RepositoryReplay",
        FAILED,
        "the repository is older than it was at the last run",
        "check whether an old copy of it was restored",
    ),
    BorgMeaning(
        "KeyNotFound",
        FAILED,
        "the repository has lost its key",
        "bring it back from the vault: `borg key import REPOSITORY FILE`",
    ),
    BorgMeaning(
        "NoManifestError",
        FAILED,
        "the repository is damaged: it has no list of its archives",
        _DAMAGED,
    ),
    BorgMeaning("ObjectNotFound", FAILED, "the repository is damaged: data is missing", _DAMAGED),
    BorgMeaning("IntegrityError", FAILED, "the repository is damaged", _DAMAGED),
    BorgMeaning("Data integrity error", FAILED, "the repository is damaged", _DAMAGED),
    BorgMeaning("CheckNeeded", FAILED, "the repository is damaged", _DAMAGED),
    BorgMeaning("errors found", FAILED, "the check found damage", _DAMAGED),
    BorgMeaning(
        "Host key verification failed",
        FAILED,
        "the server has another host key than at the first time",
        "find out why; then remove its line from /etc/rigops/borg_known_hosts, and apply",
    ),
    BorgMeaning(
        "Permission denied (",
        FAILED,
        "the server refuses this host's key",
        _MAKE_KEY,
        _LET_IN,
    ),
    *(
        BorgMeaning(shape, FAILED, "the server has no borg", "install borgbackup there")
        for shape in ("borg: command not found", "borg: not found")
    ),
    BorgMeaning(
        "unexpected RPC data format from server",
        FAILED,
        "something else than borg answers",
        "see this host's key in the server's authorized_keys, and what the shell there prints",
    ),
    BorgMeaning(
        "ConnectionClosed",
        UNREACHABLE,
        "the server does not answer",
        "see the network, and whether borg is installed there",
    ),
    BorgMeaning("ConnectionBroken", UNREACHABLE, "the server does not answer", "see the network"),
    BorgMeaning("Archive.DoesNotExist", FAILED, "the archive is gone", "list, and choose another"),
    BorgMeaning("Archive.AlreadyExists", FAILED, "the archive exists already", "run it again"),
    BorgMeaning("No space left on device", FAILED, "a disk is full", _FULL_FIX),
    BorgMeaning("Broken pipe", UNREACHABLE, "the connection was lost", "see the network"),
    BorgMeaning("never matched", FAILED, "nothing in the archive matches", "check the spelling"),
)
_TOO_LITTLE_ROOM = ("InsufficientFreeSpace", "No space left on device")


class BorgError(HostError):
    """`where`: the repository. `public_key`: of this host. `state`: of the repository."""

    def __init__(
        self, where: str, messages: list[BorgMessage], code: int, public_key: str = ""
    ) -> None:
        found = find_meaning(messages)
        what = found.what if found else _reason_of(messages) or f"borg ended with {code}"
        more = next((one for one in map(_detail_in, messages) if one), "")
        fix = _fix_of(found, where, public_key) if found else ""
        super().__init__(f"{where}: {what}{more}", fix)
        self.state = found.state if found else FAILED
        self.is_full = _has_any(messages, _TOO_LITTLE_ROOM)
        self.is_locked = self.state == LOCKED


# Space that borg needs and that is free: its own reserve makes a disk full that seems not to be.
# And what a server may not make or open.
_DETAIL = re.compile(r"required: [^,()]+, available: [^,()]+|(?<=PermissionError: ).{1,300}$")
_GRAVE = ("ERROR", "CRITICAL")
_OF_ITSELF = ("Platform: ", "Borg server: Platform: ")  # it and versions follow a traceback
_TRACEBACK = "Traceback "


def find_meaning(messages: list[BorgMessage]) -> BorgMeaning | None:
    return next((one for one in _BORG_MEANINGS if _has_any(messages, (one.shape,))), None)


def _has_any(messages: list[BorgMessage], shapes: tuple[str, ...]) -> bool:
    return any(shape in one.msgid or shape in one.text for one in messages for shape in shapes)


def _fix_of(found: BorgMeaning, repository: str, public_key: str) -> str:
    if found.on_server and not repository.startswith("/"):
        if found.on_server == _MAKE_FOLDER:
            return make_folder(repository)
        if public_key:
            let_in = let_key_in if found.on_server == _LET_IN else let_key_in_instead
            return let_in(repository, public_key)
    return found.fix


def _detail_in(message: BorgMessage) -> str:
    found = _DETAIL.search(message.text.strip())
    return f" ({found[0]})" if found else ""


def _reason_of(messages: list[BorgMessage]) -> str:
    """The last line of a traceback, or else the first of the last error."""
    for one in reversed(messages):
        lines = [line.strip() for line in one.text.splitlines() if line.strip()]
        while len(lines) > 1 and any(line.startswith(_OF_ITSELF) for line in lines[1:]):
            lines.pop()
        if lines and one.level in _GRAVE and not lines[0].startswith(_OF_ITSELF):
            return lines[-1 if lines[0].startswith(_TRACEBACK) else 0]
    return ""


def is_warning(code: int) -> bool:
    """1 of old; 100 to 127 are the warnings of borg 1.4."""
    return code == 1 or 100 <= code <= 127  # noqa: PLR2004 - of borg
