"""From what is declared and what a host has to what is in the way, and what to know. Pure."""

from __future__ import annotations

import base64
import json
import posixpath
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from rigops.backup.host.server_access import (
    SERVER_PROGRAM,
    append_line,
    snapshots_key_line,
)
from rigops.backup.host.snapshot_names import STORE
from rigops.backup.host.snapshot_settings import SnapshotSettings
from rigops.backup.retention import keep_text
from rigops.dataclass import dataclass
from rigops.probe.mounts import is_within, mount_over

if TYPE_CHECKING:
    from rigops.concerns.snapshots.file_systems import FileSystem, OtherMount, SnapshotsHost
    from rigops.concerns.snapshots.record import SnapshotsState
    from rigops.inventory.spec.model import Snapshots

UNIT: Final = "rigops-snapshots"
SCRUB_UNIT: Final = "rigops-scrub"
KNOWN_HOSTS: Final = "/etc/rigops/snapshots_known_hosts"
SETUP_OPTION: Final = "--target-setup"
_PYTHON: Final = (3, 8)
_AUTOMOUNT: Final = "autofs"
_DOCKER: Final = "btrfs/subvolumes/"
_SHOWN: Final = 3
_KEEP: Final = "24h 7d 4w 6m"
_MADE_BY_PROGRAMS = re.compile(r"/(\.snapshots|btrfs/subvolumes|var/lib/(machines|portables))/")
_FOR_COPIES = re.compile(r"^/(mnt|media|run/media)/|backup|copies", re.IGNORECASE)


@dataclass(frozen=True)
class Located:
    """Where a declared path lies. `subvolume`: from the top level, which itself is empty."""

    file_system: FileSystem
    subvolume: str


def suggest(found: SnapshotsHost) -> Mapping[str, object] | None:
    """The value of `snapshots` where one btrfs disk can take the copies of the only other one.

    None too where another tool takes snapshots, or which disk is whose copy is not clear.
    """
    ranked = sorted(
        ((_rank(paths), uuid, paths) for uuid, paths in _subvolumes(found).items()), reverse=True
    )
    if not ranked or found.others or (len(ranked) > 1 and ranked[0][0] == ranked[1][0]):
        return None
    _, own, paths = ranked[0]
    others = (found.disks | {uuid for _, uuid, _ in ranked}) - {own}
    if len(others) != 1:
        return None
    return {"subvolumes": paths, "keep": _KEEP, "send_to": next(iter(others))}


def _subvolumes(found: SnapshotsHost) -> dict[str, list[str]]:
    """Paths of those that are mounted, or lie in one, by the file system's UUID."""
    paths: dict[str, list[str]] = {}
    seen: set[tuple[str, str]] = set()
    for mount in found.mounts:
        located = locate(mount.target, found)
        if located is None:
            continue
        known = paths.setdefault(located.file_system.uuid, [])
        inside = [one for one in nested(located) if not _MADE_BY_PROGRAMS.search(f"/{one}/")]
        for path, subvolume in (
            (mount.target, located.subvolume),
            *(
                (posixpath.join(mount.target, one), posixpath.join(located.subvolume, one))
                for one in inside
            ),
        ):
            is_one = not subvolume or subvolume in located.file_system.subvolumes
            if is_one and (located.file_system.uuid, subvolume) not in seen:
                seen.add((located.file_system.uuid, subvolume))
                known.append(path)
    return paths


def _rank(paths: Sequence[str]) -> tuple[bool, bool, bool, int]:
    """How sure it is that people work there, and that it holds no copies."""
    is_copy = any(_FOR_COPIES.search(path) for path in paths)
    return "/" in paths, "/home" in paths, not is_copy, len(paths)


def is_remote(send_to: str | None) -> bool:
    return send_to is not None and ":" in send_to


def locate(path: str, found: SnapshotsHost) -> Located | None:
    """None: it is on no btrfs. It may be a folder in a subvolume all the same."""
    mount = mount_over(path, found.mounts)
    if mount is None:
        return None
    file_system = found.file_systems.get(mount.device)
    if file_system is None:
        return None
    inside = posixpath.relpath(path, mount.target)
    place = mount.root if inside == "." else posixpath.join(mount.root, inside)
    return Located(file_system, place.strip("/"))


def nested(located: Located) -> tuple[str, ...]:
    """Writable subvolumes inside, by their paths below it, without those of rigops' own."""
    start = f"{located.subvolume}/" if located.subvolume else ""
    writable = located.file_system.subvolumes - located.file_system.read_only
    return tuple(
        sorted(
            one[len(start) :]
            for one in writable
            if one.startswith(start) and not one.startswith(f"{STORE}/")
        )
    )


def settings(host: str, declared: Snapshots) -> str:
    """The file that the program on the host reads."""
    return f"{json.dumps(read_back(host, declared)._asdict(), indent=2)}\n"


def read_back(host: str, declared: Snapshots) -> SnapshotSettings:
    """The settings as the program has them then."""
    keep = keep_text(declared.keep)
    return SnapshotSettings(host, declared.subvolumes, keep, declared.send_to or "")


def blockers(declared: Snapshots, found: SnapshotsHost) -> Iterator[str]:
    if found.python is None:
        yield "snapshots need /usr/bin/python3. fix: sudo apt install python3"
    elif found.python < _PYTHON:
        version = ".".join(map(str, found.python))
        yield f"snapshots need Python 3.8, and /usr/bin/python3 is {version}. fix: update it"
    if is_remote(declared.send_to) and not {"ssh", "ssh-keygen"} <= found.tools:
        yield "send_to needs ssh and ssh-keygen. fix: sudo apt install openssh-client"
    others = {path: other for path in declared.subvolumes if (other := _other_mount(path, found))}
    for path, other in others.items():
        what, fix = on_no_btrfs(path, other.kind, other.target)
        yield f"{what}. fix: {fix}"
    left = [path for path in declared.subvolumes if path not in others]
    if left and "btrfs" not in found.tools:
        yield "snapshots need btrfs-progs. fix: sudo apt install btrfs-progs"
        return
    places = {path: locate(path, found) for path in left}
    for path, located in places.items():
        yield from _unfit(path, located)
    yield from _overlaps(declared.subvolumes, [one for one in places.values() if one])
    own = {one.file_system.uuid: path for path, one in places.items() if one}
    if declared.send_to in own:
        yield (
            f"send_to is the file system of {own[declared.send_to]} itself: a copy there is lost "
            "with it. fix: declare the UUID of another disk (`sudo blkid`)"
        )


def _other_mount(path: str, found: SnapshotsHost) -> OtherMount | None:
    """Where another file system is what has the path. What an idle automount has is not known."""
    btrfs = {one.target for one in found.mounts}
    others = {one.target: one for one in found.other_mounts if one.target not in btrfs}
    above = [one for one in (*btrfs, *others) if is_within(path, one)]
    innermost = others.get(max(above, key=len)) if above else None
    return None if innermost is None or innermost.kind == _AUTOMOUNT else innermost


def on_no_btrfs(path: str, kind: str, mounted_at: str) -> tuple[str, str]:
    """And what to do about it: a path that is no mount point may have a disk that is missing."""
    mount = "" if mounted_at == path else "mount the btrfs that has it, or "
    return (
        f"{path} is on {kind}, and only btrfs has snapshots",
        f"{mount}remove it from subvolumes; `borg` backs up any file system",
    )


def _unfit(path: str, located: Located | None) -> Iterator[str]:
    if located is None:
        yield (
            f"{path} is on no mounted btrfs file system. fix: mount it, or remove it from "
            "subvolumes"
        )
        return
    known = located.file_system.subvolumes
    if located.subvolume and located.subvolume not in known:
        inside = [one for one in known if located.subvolume.startswith(f"{one}/")]
        of = f", in the subvolume {max(inside, key=len)}" if inside else ""
        yield (
            f"{path} is no subvolume{of}. fix: declare the path of a subvolume "
            f"(`sudo btrfs subvolume show {path}`)"
        )
    elif located.subvolume in located.file_system.read_only:
        yield f"{path} is a read-only snapshot itself. fix: remove it from subvolumes"


def _overlaps(paths: Sequence[str], places: Sequence[Located]) -> Iterator[str]:
    for path, count in Counter(posixpath.normpath(one) for one in paths).items():
        if count > 1:
            yield f"{path} is declared {count} times. fix: declare it once"
            return
    same = Counter((one.file_system.uuid, one.subvolume) for one in places)
    for (uuid, subvolume), count in same.items():
        if count > 1:
            yield (
                f"{count} of the declared paths are the subvolume {subvolume or '(top level)'} of "
                f"{uuid}. fix: declare one of them"
            )


def notices(
    declared: Snapshots, found: SnapshotsHost, state: SnapshotsState | None
) -> Iterator[str]:
    """Notes on the snapshots that will be taken, and on those that will not."""
    for path in declared.subvolumes:
        if (located := locate(path, found)) and (inside := nested(located)):
            yield nested_text(path, inside)
    if declared.keep is None:
        yield "keep is not declared: no snapshot is ever removed, and the disk fills up"
    for tool, place in found.others:
        yield f"{tool} takes snapshots too: {place}; rigops leaves those alone"
    target = declared.send_to
    if target and not is_remote(target) and target not in found.disks:
        known = state.target.seen_at if state and state.target else None
        since = f" (last seen {known[:10]})" if known else ""
        yield f"the disk {target} is absent{since}: snapshots are sent when it is there"
    for timer in found.scrub_timers[:1]:
        yield f"{timer} is enabled: rigops schedules no scrub beside it"


def nested_text(path: str, inside: Sequence[str]) -> str:
    named = ", ".join(inside[:_SHOWN])
    more = f" and {len(inside) - _SHOWN} more" if len(inside) > _SHOWN else ""
    if any(_DOCKER in f"{one}/" for one in inside):
        what = "those of docker's btrfs driver (images and containers) cannot be restored from it"
    else:
        what = "declare those that are to be taken"
    return f"a snapshot of {path} has no content of the subvolumes inside: {named}{more}; {what}"


def server_path(send_to: str) -> tuple[str, str]:
    """The login and the folder of user@host:path."""
    login, _, path = send_to.partition(":")
    return login, path


def setup_notice(host: str, send_to: str, public_key: str) -> str:
    """How the key of the host gets access to the server; empty where the key is not made yet."""
    login, path = server_path(send_to)
    do = f"`rigops snapshots {host} {SETUP_OPTION} | ssh {login} sh`"
    if not public_key:
        return f"send_to: apply makes an ssh key on the host; then {do} lets it in on {login}"
    by_hand = append_line(login, snapshots_key_line(path, public_key))
    return f"send_to: {do} installs the program on {login} and lets the key in. By hand: {by_hand}"


def target_setup(public_key: str, path: str, program_text: str) -> str:
    """A script for the server, run by the login of send_to: the program, and the key's access."""
    blob = public_key.split()[1]
    program = base64.encodebytes(program_text.encode()).decode()
    return f"""\
set -eu
umask 022
fail() {{ echo "Error: $1. fix: $2" >&2; exit 1; }}
main() {{
    path={shlex.quote(path)}
    [ "$(id -u)" = 0 ] || fail "receiving btrfs snapshots needs root" "declare root@… in send_to"
    [ -x /usr/bin/python3 ] || fail "no /usr/bin/python3" "install python3"
    command -v btrfs >/dev/null || fail "no btrfs tool" "install btrfs-progs"
    mkdir -p "$path"
    [ "$(stat -f -c %T "$path")" = btrfs ] ||
        fail "$path is on no btrfs file system" "declare a folder on one in send_to"
    mkdir -p {posixpath.dirname(SERVER_PROGRAM)}
    base64 -d >{SERVER_PROGRAM}.rigops-new <<'PROGRAM'
{program}PROGRAM
    chmod 0755 {SERVER_PROGRAM}.rigops-new
    mv -f {SERVER_PROGRAM}.rigops-new {SERVER_PROGRAM}
    keys=$HOME/.ssh/authorized_keys
    mkdir -p -m 0700 "$HOME/.ssh"
    (
        umask 077
        {{
            [ ! -f "$keys" ] || grep -v -F {shlex.quote(blob)} "$keys" || :
            printf '%s\\n' {shlex.quote(snapshots_key_line(path, public_key))}
        }} >"$keys.rigops-new"
    )
    [ ! -f "$keys" ] || chmod --reference="$keys" "$keys.rigops-new"
    mv -f "$keys.rigops-new" "$keys"
    echo "snapshots may be sent to $path"
}}
main
"""


def undone_notice(paths: Sequence[str]) -> str:
    of = f" of {', '.join(paths)}" if paths else ""
    return (
        f"the snapshots{of} stay, in {STORE} at the top level of each file system; `sudo btrfs "
        "subvolume list -r /` lists those of the root, `sudo btrfs subvolume delete` removes one"
    )
