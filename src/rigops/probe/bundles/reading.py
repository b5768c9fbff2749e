"""Reads bundles back, whatever they are stored in, and outputs that were copied."""

from __future__ import annotations

import io
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from rigops import regular_file
from rigops.errors import Problem, UsageError, usage_error
from rigops.probe import reading
from rigops.probe.bundle import (
    META,
    MOST_CONTENT,
    Bundle,
    assemble,
    content_of,
    listed,
    section_of,
)
from rigops.probe.bundles import archive, bug_report
from rigops.probe.bundles.archive import BoundedReader, TooLongError
from rigops.probe.pastes import reading as pastes
from rigops.probe.registry import PASTED, SECTIONS
from rigops.probe.script import FORMAT

IsKnown = Callable[[Bundle], bool]

MOST_PASTED: Final = 64 * 1024 * 1024
MOST_LOG: Final = 8 * 1024 * 1024 * 1024  # it is read in pieces: this bounds the time

_BEGINNING: Final = 64 * 1024
_NEWER_PROBE: Final = re.compile(rb"^rigops-probe/([0-9]{1,9}) ", re.MULTILINE)
_KNOWN: Final = frozenset(section.name for section in (*SECTIONS, *PASTED))
_ENDINGS: Final = (".gz", ".tgz", ".tar", ".log", ".txt")
_CUT_SHORT: Final = "cut short or damaged; nothing in it can be read"
_NO_BUNDLE: Final = "not a bundle, and no output is recognized in it"
_OTHER_ARCHIVES: Final = {
    b"PK\x03\x04": "zip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ\0": "xz",
    b"BZh": "bzip2",
    b"7z\xbc\xaf\x27\x1c": "7-Zip",
    b"\x04\x22\x4d\x18": "lz4",
    b"\x1f\x9d": "compress",
}
_ACCEPTED: Final = "a bundle, an nvidia-bug-report.log, or text with output of nvidia-smi or dmesg"


def read_all(path: Path, *, is_known: IsKnown = lambda _: False) -> list[Bundle]:
    """All bundles in a directory, an archive, the probe's output, a bug report or copied text.

    `is_known`: whether a line of a paste says anything, where no output is recognized in it.
    """
    if path.is_dir():
        return _of_directory(path, is_known)
    if not path.is_file():
        problem = "not a file" if path.exists() else "no such file"
        raise usage_error(message=problem, file=str(path), accepted=_ACCEPTED)
    try:
        return _of_file(
            lambda: path.open("rb"), place=str(path), host=_stem(path), is_known=is_known
        )
    except OSError as error:
        message = f"cannot be read: {error.strerror}"
        raise usage_error(message=message, file=str(path)) from error


def read_content(
    content: bytes, *, place: str, host: str, is_known: IsKnown = lambda _: False
) -> list[Bundle]:
    """The same where it is no file."""

    def opened() -> io.BufferedReader:
        return io.BufferedReader(io.BytesIO(content))

    return _of_file(opened, place=place, host=host, is_known=is_known)


def _of_directory(path: Path, is_known: IsKnown) -> list[Bundle]:
    folders, names = listed(path)
    if _is_bundle(names):
        bundle = Bundle.read(path)
        return [bundle if META in names else _with_pastes(bundle, path, names)]
    found = []
    left = MOST_CONTENT
    for folder in (path / name for name in folders if not name.startswith(".")):
        if _is_bundle(listed(folder)[1]):
            files = content_of(folder, most=left)
            left -= sum(len(content) for _, content in files)
            found.append(assemble(files, host=folder.name, place=str(folder)))
    if found:
        return found
    pasted = pastes.read(_contents(path, names), host=path.resolve().name)
    if not (_is_recognized(pasted) or is_known(pasted)):
        problem = "no file in it is named like a section, and in none is an output recognized"
        raise _none(str(path), problem)
    return [pasted]


def _with_pastes(bundle: Bundle, path: Path, names: Iterable[str]) -> Bundle:
    """A folder that was put together by hand may have files that are not named like a section."""
    others = [name for name in names if section_of(name) not in _KNOWN]
    pasted = pastes.read(_contents(path, others), host=bundle.host)
    if not _is_recognized(pasted):
        return bundle
    return replace(bundle, sections={**pasted.sections, **bundle.sections}, paste=pasted.paste)


def _contents(path: Path, names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    left = MOST_PASTED
    for name in names:
        try:
            content = regular_file.read(path / name, most=left, follows_links=False)
        except OSError as error:
            message = f"cannot be read: {error.strerror}"
            raise usage_error(message=message, file=str(path / name)) from error
        left -= len(content)
        yield name, content


def _of_file(
    opened: Callable[[], io.BufferedReader], *, place: str, host: str, is_known: IsKnown
) -> list[Bundle]:
    with opened() as file:
        reader = BoundedReader(file, most=MOST_LOG)
        beginning = reader.read(_BEGINNING)
    if bug_report.begins(beginning):
        with opened() as file:
            reader = BoundedReader(file, most=MOST_LOG)
            return [bug_report.read(_until_too_long(reader), host=host)]
    if reader.damaged:
        raise _damaged(place)
    is_incomplete = reader.is_incomplete or not beginning
    with opened() as file:
        reader = BoundedReader(file, most=MOST_CONTENT)
        try:
            if reading.BEGINNING.search(beginning):
                bundle = reading.read(b"".join(reader.pieces()))
                if bundle is None or not bundle.sections:
                    raise _none(place, "the output of the probe ends before its first section")
                return [bundle]
            if archive.begins(beginning):
                return _of_archive(reader, place=place, host=host)
        except TooLongError as error:
            message = f"unpacks to more than {MOST_CONTENT >> 20} MiB"
            problem = Problem(message=message, file=place, fix="Take the bundle again.")
            raise UsageError(problem) from error
    _refuse_what_is_known(beginning, place)
    with opened() as file:
        pasted = _content_of_paste(BoundedReader(file, most=MOST_PASTED), place)
    found = pastes.read_apart(pasted, host=host, is_known=is_known)
    if not any(_is_recognized(one) or is_known(one) for one in found):
        raise _none(place, _CUT_SHORT if is_incomplete else _NO_BUNDLE)
    return found


def _refuse_what_is_known(beginning: bytes, place: str) -> None:
    if newer := _NEWER_PROBE.search(beginning):
        message = f"written by a newer rigops (rigops-probe/{newer[1].decode()})"
        fix = "Upgrade rigops on this machine."
        raise usage_error(message=message, file=place, accepted=FORMAT, fix=fix)
    for magic, kind in _OTHER_ARCHIVES.items():
        if beginning.startswith(magic):
            message = f"packed with {kind}, which is not read"
            fix = "Unpack it into a directory of its own, and give that."
            raise usage_error(message=message, file=place, fix=fix)


def _content_of_paste(reader: BoundedReader, place: str) -> bytes:
    try:
        return b"".join(reader.pieces())
    except TooLongError as error:
        message = f"longer than {MOST_PASTED >> 20} MiB"
        fix = "Keep the part that matters, such as the end of a log."
        raise usage_error(message=message, file=place, fix=fix) from error


def _until_too_long(reader: BoundedReader) -> Iterator[bytes]:
    """A log that is too long counts as incomplete: its beginning is still good."""
    with suppress(TooLongError):
        yield from reader.pieces()


def _of_archive(reader: BoundedReader, *, place: str, host: str) -> list[Bundle]:
    files: dict[tuple[str, ...], list[tuple[str, bytes]]] = defaultdict(list)
    incomplete_paths: set[tuple[str, ...]] = set()
    for member in archive.members(reader, place):
        folder, name = member.path[:-1], "".join(member.path[-1:])
        if member.is_incomplete:
            incomplete_paths.add(member.path)
        if not (member.is_incomplete and name == META):
            files[folder].append((name, member.content))
    for _ in reader.pieces():  # to the end, where the checksum is
        pass
    if reader.damaged:
        raise _damaged(place)
    found = []
    for folder, inside in sorted(files.items()):
        names = {name for name, _ in inside}
        if _is_bundle(names):
            # meta.json, which has how each section ended, may be in the part that is missing.
            lost = reader.is_incomplete and META not in names
            incomplete = {name for name in names if lost or (*folder, name) in incomplete_paths}
            inner = "/".join((place, *folder))
            named = folder[-1] if folder else host
            found.append(assemble(inside, host=named, place=inner, incomplete=incomplete))
    if not found:
        raise _none(place, _CUT_SHORT if reader.is_incomplete else _NO_BUNDLE)
    return found


def _is_bundle(names: Collection[str]) -> bool:
    return META in names or any(section_of(name) in _KNOWN for name in names)


def _stem(path: Path) -> str:
    name = path.name
    while ending := next((one for one in _ENDINGS if name.endswith(one) and name != one), None):
        name = name.removesuffix(ending)
    return name


def _damaged(place: str) -> UsageError:
    message = "damaged: its checksum is wrong"
    return usage_error(message=message, file=place, fix="Copy it again.")


def _is_recognized(pasted: Bundle) -> bool:
    return pasted.paste is not None and bool(pasted.paste.recognized)


def _none(place: str, message: str) -> UsageError:
    return usage_error(message=message, file=place, accepted=_ACCEPTED, fix=f"Give {_ACCEPTED}.")
