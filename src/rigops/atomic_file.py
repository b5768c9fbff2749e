"""Atomic replacement of files: `replace` on this machine, the functions of `SHELL` on a host."""

from __future__ import annotations

import errno
import os
import shlex
import stat
import tempfile
from base64 import b64encode
from pathlib import Path
from typing import Final

from rigops import regular_file

_MOST_LINKS: Final = 40

# Files left behind by a crash end in .rigops-new.
SHELL_SETTLE: Final = """\
settle() { # PATH...: what is beside them takes their places
    for path; do
        # mv would put it inside.
        [ ! -d "$path" ] || {
            echo "$path is a folder" >&2
            return 1
        }
        set -- "$@" "$path.rigops-new"
        shift
    done
    sync "$@"
    for path; do mv -f "$path" "${path%.rigops-new}"; done
}
"""
SHELL: Final = f"""\
aside() {{ # PATH MODE: its input is written beside the path
    mkdir -p "${{1%/*}}"
    rm -f "$1.rigops-new"
    (umask 077 && base64 -d >"$1.rigops-new") || {{
        rm -f "$1.rigops-new"
        echo "$1 could not be written" >&2
        exit 1
    }}
    chmod "$2" "$1.rigops-new"
}}
{SHELL_SETTLE}"""


def replace(path: Path, content: bytes | str, mode: int) -> None:
    target = Path(os.path.realpath(path))  # a symlink stays, and what it points to is replaced
    _replace(target, content.encode() if isinstance(content, str) else content, mode)


def replace_own(path: Path, content: bytes, *, was: bytes) -> None:
    """Replace a file that this user may write, with its mode and owner.

    Raises OSError where it is something else than `was`, and for a link of another user, who could
    have this one write to any file.
    """
    target = _follow_own_links(path)
    if regular_file.read_end(target, most=len(was) + 1, follows_links=False) != was:
        raise OSError(errno.EBUSY, "it was changed meanwhile")
    status = target.stat(follow_symlinks=False)
    if not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    owner = (status.st_uid, status.st_gid)
    _replace(target, content, stat.S_IMODE(status.st_mode), owner)


def _follow_own_links(path: Path) -> Path:
    place = Path(os.path.abspath(path))  # noqa: PTH100 - with the links
    for _ in range(_MOST_LINKS):
        links = [one for one in (*reversed(place.parents), place) if one.is_symlink()]
        if not links:
            return place
        link = links[0]
        if link.lstat().st_uid not in {0, os.geteuid()}:
            raise OSError(errno.EPERM, f"{link} is a link of another user")
        rest = place.relative_to(link)
        place = Path(os.path.normpath(link.parent / link.readlink() / rest))
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _replace(target: Path, data: bytes, mode: int, owner: tuple[int, int] | None = None) -> None:
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    aside = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if owner and owner != (os.geteuid(), os.getegid()):
                os.fchown(descriptor, *owner)
            os.fchmod(descriptor, mode)  # before the content: a secret is never open to others
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        aside.replace(target)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def shell_aside(path: str, mode: int, content: bytes) -> str:
    # base64 has no character that ends the here-document or means something to the shell.
    text = b64encode(content).decode()
    return f"{shlex.join(('aside', path, f'{mode:04o}'))} <<'RIGOPS_END'\n{text}\nRIGOPS_END"


def shell_replace(path: str, mode: int, content: bytes) -> str:
    return f"{shell_aside(path, mode, content)}\n{shlex.join(('settle', path))}"


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
