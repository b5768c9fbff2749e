"""A tree of kernel modules on the controller: a folder, a git checkout or a .tar.gz.

Of a git checkout it is the files of HEAD, read as git stores them: no filter, hook or script of it
runs here. Its digest is of paths, modes and contents, so that the three forms of one tree agree.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import subprocess
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import IO, Final

from rigops import regular_file
from rigops.catalog.versions import is_spelled
from rigops.concerns.driver_modules import NAME
from rigops.dataclass import dataclass
from rigops.errors import Problem, RigopsError

MOST_FILES: Final = 20_000  # real ones have a quarter of both
MOST_BYTES: Final = 512 * 1024 * 1024
_GIT_S: Final = 120
# A git of this user's own settings, without what a checkout could make it run.
_GIT: Final = ("git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
_LEFT_OUT = re.compile(
    r"(?:.*/)?(?:\.git|_out)(?:/.*)?|.*\.(?:o|ko|o_binary|mod|mod\.c|cmd)"
    r"|(?:.*/)?(?:Module\.symvers|modules\.order)"
)
_NAME = re.compile(r"[A-Za-z0-9._+,@=~/-]+")
_VERSION: Final = "version.mk"
_SAY_IT: Final[Mapping[str, re.Pattern[bytes]]] = {
    _VERSION: re.compile(rb"^NVIDIA_VERSION\s*[:?]?=\s*(\S+)", re.MULTILINE),
    "kernel-open/Kbuild": re.compile(rb'-DNV_VERSION_STRING=\\?"([^"\\]+)'),
    "src/common/inc/nvUnixVersion.h": re.compile(
        rb'^#\s*define\s+NV_VERSION_STRING\s+"([^"]+)"', re.MULTILINE
    ),
}
_WHOLE: Final = (
    "check out a whole tree of NVIDIA's open kernel modules, with version.mk, kernel-open and src"
)


@dataclass(frozen=True)
class Tree:
    """`archive`: a .tar.gz of it, with nothing but its files. `commit`: of git's HEAD, or "".

    `has_changes`: of the checkout, that are not committed and so not in it.
    """

    path: str
    version: str
    digest: str
    archive: bytes
    commit: str = ""
    has_changes: bool = False


@dataclass(frozen=True)
class _File:
    path: str
    content: bytes
    is_program: bool


@cache
def read(declared: str) -> Tree:
    """Once in a run, for all hosts that declare it. RigopsError where it is no usable tree."""
    path = Path(declared).expanduser()
    commit, has_changes = "", False
    try:
        if path.is_dir() and (path / ".git").exists():
            commit = _git(path, "rev-parse", "--verify", "HEAD^{commit}").decode().strip()
            has_changes = bool(_git(path, "status", "--porcelain", "--untracked-files=no"))
            files = list(_bounded(_of_commit(path, commit), path))
        elif path.is_dir():
            files = list(_bounded(_of_folder(path), path))
        elif path.is_file():
            files = list(_bounded(_of_archive(path), path))
        else:
            raise _problem(path, "is no folder, git checkout or .tar.gz on this machine")
    except (OSError, EOFError, tarfile.TarError, gzip.BadGzipFile) as error:
        raise _problem(path, f"cannot be read: {error}") from error
    files.sort(key=lambda one: one.path)
    return Tree(
        path=str(path),
        version=_version(path, {one.path: one.content for one in files}),
        digest=_digest(files),
        archive=_packed(files),
        commit=commit,
        has_changes=has_changes,
    )


def _version(path: Path, contents: Mapping[str, bytes]) -> str:
    """The one that all three places name."""
    found: dict[str, str] = {}
    for place, shape in _SAY_IT.items():
        if place not in contents:
            raise _problem(path, f"has no {place}", _WHOLE)
        said = {one.decode("ascii", "replace") for one in shape.findall(contents[place])}
        if len(said) != 1 or not is_spelled(next(iter(said))):
            raise _problem(path, f"names no version of NVIDIA's in {place}", _WHOLE)
        found[place] = said.pop()
    if len(set(found.values())) > 1:
        named = ", ".join(f"{version} in {place}" for place, version in found.items())
        raise _problem(
            path,
            f"is of two versions ({named})",
            "check out one release, and put the changes on that",
        )
    return found[_VERSION]


def _digest(files: Iterable[_File]) -> str:
    whole = sha256()
    for one in files:
        mode = "755" if one.is_program else "644"
        whole.update(f"{one.path}\0{mode}\0{sha256(one.content).hexdigest()}\n".encode())
    return whole.hexdigest()


def _packed(files: Iterable[_File]) -> bytes:
    """The same bytes for the same files: no times, owners or folders of this machine."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=1, mtime=0, filename="") as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as tar,
    ):
        for one in files:
            header = tarfile.TarInfo(one.path)
            header.size, header.mode = len(one.content), 0o755 if one.is_program else 0o644
            tar.addfile(header, io.BytesIO(one.content))
    return packed.getvalue()


def _bounded(files: Iterable[_File], path: Path) -> Iterator[_File]:
    size = 0
    for count, one in enumerate(files, 1):
        size += len(one.content)
        if count > MOST_FILES or size > MOST_BYTES:
            raise _problem(
                path, f"has more than {MOST_FILES} files or {MOST_BYTES >> 20} MiB", _WHOLE
            )
        yield one


def _is_part(path: Path, name: str, *, is_regular: bool) -> bool:
    """Whether it is sent; what a build left behind is not."""
    if _LEFT_OUT.fullmatch(name):
        return False
    if not is_regular:
        raise _problem(path, f"has {name}, which is no regular file", "put the file itself there")
    if not _NAME.fullmatch(name) or ".." in name.split("/") or name.startswith("/"):
        raise _problem(path, f"has a file with an unusual name: {name!r}", "rename or remove it")
    return True


def _of_folder(path: Path) -> Iterator[_File]:
    def fail(error: OSError) -> None:
        raise error

    for above, folders, names in os.walk(path, onerror=fail):
        inside = Path(above).relative_to(path)
        folders[:] = [one for one in folders if not _LEFT_OUT.fullmatch(one)]
        links = [one for one in folders if (Path(above) / one).is_symlink()]
        for name in (*links, *names):
            file, named = Path(above) / name, (inside / name).as_posix()
            if _is_part(path, named, is_regular=file.is_file() and not file.is_symlink()):
                content = regular_file.read(file, most=MOST_BYTES, follows_links=False)
                yield _File(named, content, bool(file.stat().st_mode & 0o100))


def _of_commit(path: Path, commit: str) -> Iterator[_File]:
    wanted = []
    for entry in filter(None, _git(path, "ls-tree", "-r", "-z", commit).split(b"\0")):
        about, _, name = entry.decode("utf-8", "surrogateescape").partition("\t")
        mode, _, digest = about.split()
        if _is_part(path, name, is_regular=mode.startswith("100")):
            wanted.append((name, digest, mode == "100755"))
    asked = "".join(f"{digest}\n" for _, digest, _ in wanted).encode()
    stream = io.BytesIO(_git(path, "cat-file", "--batch", given=asked))
    for name, _, is_program in wanted:
        head = stream.readline().split()
        if head[1:2] != [b"blob"]:
            raise _problem(path, f"lacks {name} of its commit {commit[:12]}", "git fsck")
        content = stream.read(int(head[2]))
        stream.read(1)  # the line end behind it
        yield _File(name, content, is_program)


def _of_archive(path: Path) -> Iterator[_File]:
    """Names begin below the folder that version.mk is in, which most archives have around all."""
    with tarfile.open(path, "r:gz") as tar:
        members, size = [], 0
        for one in tar:
            members.append(one)
            size += one.size
            if len(members) > MOST_FILES or size > MOST_BYTES:
                break  # which the bound on what is read reports
        names = [one.name.removeprefix("./") for one in members]
        top = min((one for one in names if one.split("/")[-1] == _VERSION), key=len, default="")
        top = top.removesuffix(_VERSION)
        for one, name in zip(members, names, strict=True):
            if one.isdir() or not name.startswith(top):
                continue
            if _is_part(path, name.removeprefix(top), is_regular=one.isfile()):
                file: IO[bytes] | None = tar.extractfile(one)
                content = file.read(MOST_BYTES + 1) if file else b""
                yield _File(name.removeprefix(top), content, bool(one.mode & 0o100))


def _git(path: Path, *words: str, given: bytes = b"") -> bytes:
    try:
        done = subprocess.run(
            [*_GIT, "-C", str(path), *words],
            input=given,
            capture_output=True,
            timeout=_GIT_S,
            check=False,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1"},
        )
    except FileNotFoundError:
        raise _problem(path, "is a git checkout, and git is not installed here") from None
    except subprocess.TimeoutExpired:
        raise _problem(path, f"takes git more than {_GIT_S} s") from None
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise _problem(path, f"is no usable git checkout: {said[-1] if said else words[0]}")
    return done.stdout


def _problem(path: Path, what: str, fix: str = "") -> RigopsError:
    return RigopsError(
        Problem(
            message=f"{path} {what}",
            key=NAME,
            value=str(path),
            fix=fix or "declare the folder with version.mk in it, its git checkout or a .tar.gz",
        )
    )
