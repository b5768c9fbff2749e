"""From what is declared and what a host has to what is in the way, and what to know. Pure."""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Final

from rigops.backup.ages import DEFAULT_SCHEDULE, age_limits
from rigops.backup.borg_host import CREDENTIAL, CREDENTIAL_NAME, PASSPHRASE, RUN, credential
from rigops.backup.host.server_access import AUTHORIZED_KEYS
from rigops.backup.pruning import CLOCK_STEP
from rigops.backup.retention import keep_text
from rigops.concerns.borg.host.borg_server import let_key_in, split_repository
from rigops.concerns.borg.host.borg_settings import BorgSettings
from rigops.concerns.borg.state import Watched, is_place
from rigops.probe.mounts import is_within, mount_over

if TYPE_CHECKING:
    from rigops.concerns.borg.facts import BorgHost
    from rigops.concerns.borg.record import BorgState
    from rigops.inventory.spec.model import Borg
    from rigops.probe.sections.backups import Backups

UNIT: Final = "rigops-borg"
DRILL_UNIT: Final = "rigops-borg-drill"
SETTINGS: Final = "/etc/rigops/borg.json"
WATCHED: Final = "/etc/rigops/borg_watched"
KNOWN_HOSTS: Final = "/etc/rigops/borg_known_hosts"
SCHEDULE: Final = DEFAULT_SCHEDULE
CHECK_EVERY_DAYS: Final = 30
# Large data that can be fetched or built again: of people and of containers.
EXCLUDED: Final = (
    "sh:**/.cache",
    "sh:**/__pycache__",
    "sh:**/.local/share/Trash",
    "sh:**/.local/share/containers/storage",
    "sh:var/lib/docker",
    "sh:var/lib/containers/storage",
    "sh:var/cache",
    "sh:var/tmp",
    "sh:tmp",
)

_PYTHON: Final = (3, 8)
_OLDEST: Final = (1, 2, 0)
_FIRST_OTHER: Final = (2, 0, 0)
_CREDENTIALS_SINCE: Final = 247  # of systemd: LoadCredential
_ENCRYPTED_SINCE: Final = 250  # LoadCredentialEncrypted
_OTHERS_S: Final = tuple(int(one.total_seconds()) for one in (-CLOCK_STEP, *age_limits()))
# As judge_watched judges, on hosts that have no program of borg's.
_WATCH_CHECK: Final = (
    f"unit=$(sed -n 's/^unit //p' {WATCHED})",
    f"newest=$(sed -n 's/^newest //p' {WATCHED})",
    'show() { TZ=UTC systemctl show -p "$1" -- "${unit%.*}.service" | sed -n "s/^$1=//p"; }',
    "load=$(show LoadState) result=$(show Result) at=$(show ExecMainExitTimestamp)",
    'case $at in ""|n/a) at=$(show ExecMainStartTimestamp) ;; esac',  # while it runs
    'what="the last run" unknown="when it ran last is unknown: not since the boot"',
    '[ -z "$newest" ] || at=$(timeout 10 sh -c "$newest" 2>/dev/null </dev/null | tail -n 1)',
    '[ -z "$newest" ] || what="the newest backup" unknown="the command newest printed no time"',
    'case $at in ""|*[!0-9]*) at=$(date -d "${at:-never}" +%s 2>/dev/null) ;; esac',
    "age=$(( $(date +%s) - ${at:-0} ))",
    'status=ok text="$what is $((age / 86400)) days old"',
    f'[ "$age" -le {_OTHERS_S[1]} ] || status=warn',
    f'[ "$age" -le {_OTHERS_S[2]} ] || status=fail',
    f'[ "$age" -ge {_OTHERS_S[0]} ] || status=warn text="$what is in the future: a clock is wrong"',
    '[ -n "$at" ] || status=unknown text=$unknown',
    "read -r up _ </proc/uptime",
    f'[ -n "$at$newest" ] || [ "${{up%%.*}}" -gt {_OTHERS_S[1]} ] || status=ok',
    '[ "${result:-success}" = success ] || status=fail text="the last run failed: $result"',
    'case $load in not-found|masked) status=fail text="the declared unit is $load" ;; esac',
    r'printf "finding\t%s\tborg.age\t%s\t%s\n" "$status" "$unit" "$text"',
)
_SCHEDULE = re.compile(r"[A-Za-z0-9*:/,.~ _+-]+")


def is_remote(repository: str) -> bool:
    return not repository.startswith("/")


def local_path(repository: str) -> str | None:
    """None: it is on a server."""
    return None if is_remote(repository) else repository


def is_encrypted(found: BorgHost) -> bool:
    """Whether the host can keep the passphrase encrypted with a key of its own."""
    return (found.systemd or 0) >= _ENCRYPTED_SINCE and "systemd-creds" in found.tools


def has_passphrase(found: BorgHost) -> bool:
    """As one file alone, which only root may read, and which can be read."""
    wanted = (CREDENTIAL, "600") if is_encrypted(found) else (PASSPHRASE, "400")
    return found.secrets == {wanted}


def settings(host: str, declared: Borg) -> str:
    """The file that the program on the host reads."""
    return f"{json.dumps(read_back(host, declared)._asdict(), indent=2)}\n"


def read_back(host: str, declared: Borg) -> BorgSettings:
    """The settings as the program has them then."""
    return BorgSettings(
        host=host,
        repository=declared.repository or "",
        paths=declared.paths,
        exclude=declared.exclude or EXCLUDED,
        keep=keep_text(declared.keep),
        schedule=declared.schedule or SCHEDULE,
        check_every_days=declared.check_every_days or CHECK_EVERY_DAYS,
        host_keys=declared.host_keys,
        checkpoints=dict(declared.checkpoints),
    )


def watch_check() -> tuple[str, ...]:
    """The self-check of an unmanaged backup: its own file says which, since others read this."""
    return "sh", "-c", "; ".join(_WATCH_CHECK)


def find_watched(declared: Borg, found: Backups) -> Watched:
    unit = found.unit_of(declared.unit or "")
    ran = (unit.finished or unit.started) if unit else None
    at = found.newest if declared.newest else ran
    return Watched(
        unit=declared.unit or "",
        load=(unit.load or "") if unit else "not-found",
        result=(unit.result or "") if unit else "",
        at=None if at is None else datetime.fromtimestamp(at, timezone.utc),
        has_command=bool(declared.newest),
        is_running=not declared.newest and unit is not None and unit.finished is None,
    )


def watched(declared: Borg) -> str:
    """The file that the probe reads: a word and its value, a line each."""
    newest = f"newest {declared.newest}\n" if declared.newest else ""
    return f"unit {declared.unit}\n{newest}"


def blockers(declared: Borg, found: BorgHost) -> Iterator[str]:
    if found.python is None:
        yield "borg's program needs /usr/bin/python3. fix: sudo apt install python3"
    elif found.python < _PYTHON:
        version = ".".join(map(str, found.python))
        yield f"borg's program needs Python 3.8, and /usr/bin/python3 is {version}. fix: update it"
    yield from _no_borg(found)
    if found.systemd is None or "systemd-run" not in found.tools:
        yield "backups need systemd, which starts them. fix: use a host that runs systemd"
    elif found.systemd < _CREDENTIALS_SINCE:
        yield (
            f"systemd is {found.systemd}, and LoadCredential came with {_CREDENTIALS_SINCE}. fix: "
            "update the system"
        )
    if not declared.passphrase_command:
        yield (
            "passphrase_command is not declared. fix: declare a command that prints it here, such "
            'as "pass show rig"'
        )
    repository = declared.repository or ""
    if is_remote(repository):
        yield from _no_server(repository, found)
    for path in declared.paths:
        inside = local_path(repository)
        if inside and is_within(inside, path):
            yield (
                f"the repository {inside} lies in {path}, which is backed up into it. fix: move "
                "the repository to another disk, and declare it there"
            )
    if declared.schedule and not _SCHEDULE.fullmatch(declared.schedule):
        yield (
            f"schedule {declared.schedule!r} is no calendar event. fix: write one such as "
            '"daily" or "*-*-* 03:00" (`systemd-analyze calendar` shows what it means)'
        )


def _no_borg(found: BorgHost) -> Iterator[str]:
    install = "fix: sudo apt install borgbackup"
    if found.borg is None and found.borg_answer:
        yield f"borg answers {found.borg_answer!r}, no version. {install}"
    elif found.borg is None and "borg2" in found.tools:
        yield f"only borg 2 is installed, which is a beta: it is not for backups. {install}"
    elif found.borg is None:
        yield f"borg is not installed. {install}"
    elif found.borg >= _FIRST_OTHER:
        yield (
            f"borg is {_version(found)}: borg 2 is a beta, and reads no repository of borg 1. "
            f"{install}"
        )
    elif found.borg < _OLDEST:
        yield f"borg is {_version(found)}, and 1.2 is the oldest that can compact. fix: update it"


def _no_server(repository: str, found: BorgHost) -> Iterator[str]:
    if "://" in repository and not repository.startswith("ssh://"):
        scheme = repository.partition("://")[0]
        yield (
            f"borg 1 reaches no repository by {scheme}://. fix: declare ssh://user@server/path or "
            "/path"
        )
    elif not {"ssh", "ssh-keygen"} <= found.tools:
        yield "the repository needs ssh and ssh-keygen. fix: sudo apt install openssh-client"


def warnings(declared: Borg, found: BorgHost) -> Iterator[str]:
    """Weaknesses of a backup."""
    here = local_path(declared.repository or "")
    mount = mount_over(here, found.mounts) if here else None
    shared = [
        path
        for path in declared.paths
        if mount and (other := mount_over(path, found.mounts)) and other.device == mount.device
    ]
    if shared:
        yield (
            f"the repository {here} is on the same file system as {', '.join(shared)}: one broken "
            "disk takes both. Mount another disk there, or declare a server"
        )


def notices(declared: Borg, found: BorgHost, state: BorgState | None) -> Iterator[str]:
    """Notes on the paths that will be backed up, and on those that will not."""
    if declared.keep is None:
        yield "keep is not declared: no archive is ever removed, and the repository fills up"
    if not declared.exclude:
        yield (
            "exclude is not declared: caches, trash and layers of containers are left out. "
            f"{SETTINGS} lists the patterns; those that you declare replace them"
        )
    if not is_encrypted(found):
        yield (
            f"systemd is {found.systemd}, before {_ENCRYPTED_SINCE}: the passphrase lies in "
            f"{PASSPHRASE}, unencrypted, for root alone to read"
        )
    for place in found.others:
        yield f"borgmatic is set up too: {place}; rigops leaves it alone"
    known = state.repository if state else None
    if state and known and known.error and is_place(known.location, declared.repository):
        # How a key is let in is said in the step for that.
        is_said = AUTHORIZED_KEYS in known.fix
        fix = f". fix: {known.fix}" if known.fix and not is_said else ""
        yield f"at {state.at} the repository could not be used: {known.error}{fix}"


def is_initialized(declared: Borg, state: BorgState | None) -> bool:
    return bool(was_tried(declared, state) and state and state.repository.id)


def was_tried(declared: Borg, state: BorgState | None) -> bool:
    """A server may refuse the host's key until a person lets it in: then a backup makes it."""
    return bool(state and is_place(state.repository.location, declared.repository))


def access_step(host: str, repository: str, public_key: str) -> str:
    """How the key of the host gets access to the server."""
    if not public_key:
        login, _ = split_repository(repository)
        return f"repository: apply makes an ssh key on the host, which {login} has to let in"
    return (
        f"repository: `rigops backup {host}` makes it and the first backup, and exports its key "
        "to this machine (a backup by the timer exports none), once the key of this host is let "
        f"in: {let_key_in(repository, public_key)}"
    )


def undone_notice(repository: str) -> str:
    which = f"the repository {repository}" if repository else "the repository"
    return f"{which} stays as it is; its key is in the vault, and its passphrase where you have it"


def passphrase_written(*, encrypted: bool, program: str = "") -> str:
    """Shell that stores the line that it reads; the host's key, since a TPM forgets with a BIOS.

    `program`: of the host, which tries it on the repository; one that does not open it is not
    stored.
    """
    path, other = (CREDENTIAL, PASSPHRASE) if encrypted else (PASSPHRASE, CREDENTIAL)
    encrypt = f"systemd-creds encrypt --with-key=host --name={CREDENTIAL_NAME} - -"
    make = encrypt if encrypted else "cat"
    new = f"{path}.rigops-new"
    load = shlex.quote(f"--property={credential(is_encrypted=encrypted, path=new)}")
    tried = f"{RUN} {load} {shlex.quote(program)} prove </dev/null >&2" if program else ":"
    return f"""\
set -eu
umask 077
mkdir -p -m 0755 {posixpath.dirname(path)}
new={new}
trap 'rm -f "$new"' EXIT
tr -d '\\n' | {make} >"$new"
[ -s "$new" ]
chmod {"0600" if encrypted else "0400"} "$new"
{tried}
sync -f "$new" 2>/dev/null || sync
mv -f "$new" {path}
rm -f {other}"""


def _version(found: BorgHost) -> str:
    return ".".join(map(str, found.borg or ()))
