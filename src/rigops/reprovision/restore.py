"""Stage restore: what was on the wiped disk, from the newest archive or copy that has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from rigops.backup.answer_shape import ProgramResult
from rigops.backup.engine import RestoreRequest
from rigops.backup.engines import Engines, exactly
from rigops.backup.host.snapshot_names import STORE
from rigops.capture.document import Capture
from rigops.dataclass import dataclass
from rigops.errors import rigops_error
from rigops.inventory.spec import RigSpec
from rigops.reprovision.root_shell import RunAsRoot
from rigops.reprovision.state import restored_key
from rigops.transport.errors import clean

_RUN_S: Final = 600.0
_HEAL: Final = "--heal"
_SHOWN: Final = 3
# apply makes these again; of an archive they come back by hand, file by file.
_OF_THE_SYSTEM: Final = frozenset({"/", "/etc", "/var/lib/rigops"})

_MACHINE: Final = "cat /etc/machine-id"
# Newer than any archive is what reprovision itself writes, and what every login leaves.
LOOK: Final = r"""
find /dev/null -newermt "$2" >/dev/null || exit
findmnt -rno UUID -T "$1" || echo
[ -e "$1" ] || exit 0
find "$1" -xdev -type f -newermt "$2" ! -path '*/.ssh/*' ! -path '*/.cache/*' \
    ! -name .bash_history ! -name .sudo_as_admin_successful -print | head -n 4
"""
# A subvolume that was in use when it was replaced is still mounted. It is as old as the new system,
# so nobody needs it; who has it open sees it until his end.
SHOW: Final = r"""
case $(findmnt -nro FSROOT -M "$1") in "/$2/"*) ;; *) exit 0 ;; esac
findmnt -s -M "$1" >/dev/null || { echo "/etc/fstab does not have it" >&2; exit 1; }
umount -l "$1" && mount "$1" && echo shown
"""


@dataclass(frozen=True, kw_only=True)
class PlannedRestore:
    """`newer`: some files there that are newer than what would come back."""

    path: str
    request: RestoreRequest
    engine: str
    at: str
    bytes: int
    newer: tuple[str, ...] = ()

    @property
    def newer_text(self) -> str:
        more = " and more" if len(self.newer) > _SHOWN else ""
        return f"{', '.join(self.newer[:_SHOWN])}{more}"


@dataclass(frozen=True)
class NotRestored:
    path: str
    why: str


def machine_id(run: RunAsRoot) -> str:
    return run(["sh", "-c", _MACHINE], _RUN_S).stdout.decode(errors="replace").strip()


def plan_restores(
    capture: Capture,
    engines: Engines,
    run: RunAsRoot,
    restored: Mapping[str, str],
    *,
    of: str = "",
) -> Iterator[PlannedRestore | NotRestored]:
    """One for each path that was backed up. `restored`: paths of this machine that came back.

    `of`: the host whose archives these are, if it is another one.
    """
    machine = machine_id(run)
    for path in dict.fromkeys(one.path for one in capture.backed_up):
        if path in _OF_THE_SYSTEM:
            continue
        show_restored(path, run)  # an earlier run was interrupted before it did
        if came_from := restored.get(restored_key(machine, path)):
            yield NotRestored(path, f"came back before, from {came_from}")
            continue
        if is_still_there(capture, path, run):
            yield NotRestored(path, "is on a disk that was not wiped")
            continue
        request = RestoreRequest(path=path, in_place=True, of=of)
        planned = engines.restore(request, dry_run=True)
        at = str(planned.get("at") or "")
        yield PlannedRestore(
            path=path,
            request=exactly(request, planned),
            engine=str(planned["engine"]),
            at=at,
            bytes=int(planned.get("bytes") or 0),
            newer=newer_files(path, at, run),
        )


def left_to_its_tool(spec: RigSpec) -> str | None:
    """The steps for a backup that rigops does not manage."""
    declared = spec.borg
    if declared is None or declared.managed:
        return None
    return (
        f"what {declared.unit} has backed up was not restored: install its tool and its settings "
        "again, then restore with it"
    )


def restore_planned(planned: PlannedRestore, engines: Engines) -> ProgramResult:
    engine = next(one for one in engines.every if one.name == planned.engine)
    return engine.restore(planned.request, dry_run=False)


def show_restored(path: str, run: RunAsRoot) -> bool:
    """Whether it had to be mounted again: the machine still showed the former one."""
    answer = run(["sh", "-c", SHOW, "rigops", path, STORE], _RUN_S)
    if answer.exit_code != 0:
        raise rigops_error(
            message=f"{path} shows what was there before its restore: {clean(answer.stderr)}",
            fix="reboot the host, and run this again",
        )
    return bool(answer.stdout.strip())


def is_to_be_healed(fix: str) -> bool:
    """By the fix of an error."""
    return _HEAL in fix


def is_still_there(capture: Capture, path: str, run: RunAsRoot) -> bool:
    """Whether it is on the same file system as then."""
    before = _file_system_of(capture, path)
    return before is not None and before == _look(path, "", run)[0]


def newer_files(path: str, at: str, run: RunAsRoot) -> tuple[str, ...]:
    return tuple(_look(path, at, run)[1:]) if at else ()


def _look(path: str, at: str, run: RunAsRoot) -> list[str]:
    answer = run(["sh", "-c", LOOK, "rigops", path, at or "now"], _RUN_S)
    if answer.exit_code != 0:
        raise rigops_error(
            message=f"what is at {path} could not be read: {clean(answer.stderr)}",
            fix="see findmnt and find there",
        )
    return answer.stdout.decode(errors="replace").split("\n")[:-1] or [""]


def _file_system_of(capture: Capture, path: str) -> str | None:
    """The UUID of the one that is mounted nearest above the path."""
    mounts = [
        (mount.at, one.uuid)
        for one in capture.file_systems
        for mount in one.mounts
        if mount.at in {"/", path} or path.startswith(f"{mount.at}/")
    ]
    return max(mounts, key=lambda one: len(one[0]), default=("", None))[1]
