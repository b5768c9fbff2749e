"""Another key for one host in known_hosts files; every other line stays byte for byte."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rigops import atomic_file
from rigops.dataclass import dataclass
from rigops.errors import Problem, RigopsError
from rigops.transport.key_files import KnownKey, hashed_name, is_named, open_locked, parse_line
from rigops.transport.route import Server

_MODE: Final = 0o600
_PATTERN: Final = b"*?!"


@dataclass(frozen=True)
class HostKey:
    """As a server shows it. `address`: where it was reached, if that was from here."""

    key_type: str
    blob: bytes
    address: str = ""

    @property
    def words(self) -> bytes:
        return f"{self.key_type} {base64.b64encode(self.blob).decode()}".encode()


def replace_key(server: Server, key: HostKey) -> list[str]:
    """From now on this server has this key and no other. Returns where an old one is left.

    Each file is replaced whole; the one that gets a new line first.
    """
    first, *others = server.known_hosts or (None,)
    if first is None:
        raise RigopsError(
            Problem(
                message="no known_hosts file is configured, so the key could not be stored",
                host=server.name,
                fix="remove UserKnownHostsFile none from the ssh configuration",
            )
        )
    name = server.lookup.lower().encode()
    old = frozenset(one.blob for file in server.known_hosts for one in _plain(_read(file), name))
    rewriting = Rewriting(name, tuple(_other_names(server, key)), old, key)
    with _locked(first):
        before = _read(first)
        after = rewriting.replaced(before)
        if rewriting.name not in rewriting.written:
            shown = hashed_name(server.lookup) if server.hash_known_hosts else server.lookup
            after = _with_line(after, shown.encode() + b" " + key.words)
            rewriting.written.add(name)
        if after != before:
            _write(first, after)
    left = []
    for file in others:
        before = _read(file)
        after = rewriting.replaced(before)
        if after != before:
            try:
                with _locked(file):
                    _write(file, after)
            except RigopsError:
                left += [f"{file}:{one.line}" for one in _plain(before, name, file)]
    return left


@dataclass
class Rewriting:
    """`others`: further names of this host, in lines that have one of the `old` keys."""

    name: bytes
    others: tuple[bytes, ...]
    old: frozenset[bytes]
    key: HostKey

    def __post_init__(self) -> None:
        self.written: set[bytes] = set()  # names that have a line with the key

    def replaced(self, content: bytes) -> bytes:
        lines = content.split(b"\n")
        for line in lines:
            if self._blob(line) == self.key.blob:
                self.written.update(self._own(line))
        return b"\n".join(new for line in lines for new in self._replaced(line))

    def _replaced(self, line: bytes) -> Iterator[bytes]:
        own = self._own(line)
        if not own or self._blob(line) == self.key.blob:
            yield line
            return
        field = line.split(None, 1)[0]
        if not field.startswith(b"|"):
            foreign = [one for one in field.split(b",") if one and one.lower() not in own]
            if foreign:
                at = line.index(field)
                yield line[:at] + b",".join(foreign) + line[at + len(field) :]
            shown = [one for one in field.split(b",") if one.lower() in own]
            field = b",".join(one for one in shown if one.lower() not in self.written)
        elif own <= self.written:
            return
        if field:
            self.written.update(own)
            yield field + b" " + self.key.words + (b"\r" if line.endswith(b"\r") else b"")

    def _own(self, line: bytes) -> set[bytes]:
        """Names of this host that the line has; none where its names are patterns."""
        blob, field = self._blob(line), b"".join(line.split(None, 1)[:1])
        if blob is None or (not field.startswith(b"|") and any(one in field for one in _PATTERN)):
            return set()
        own = {self.name} if is_named(field, self.name) else set()
        if blob in self.old or blob == self.key.blob:
            own.update(one for one in self.others if is_named(field, one))
        return own

    def _blob(self, line: bytes) -> bytes | None:
        for name in (self.name, *self.others):
            found = parse_line(line, [name], Path(), 0)
            if found is not None and not found.marker:
                return found.blob
        return None


def _other_names(server: Server, key: HostKey) -> Iterator[bytes]:
    if server.known_as:
        return
    for one in dict.fromkeys((server.alias, server.hostname, key.address)):
        if one:
            named = server.lookup_of(one).encode()
            if named != server.lookup.encode():
                yield named


def _plain(content: bytes, name: bytes, file: Path = Path()) -> Iterator[KnownKey]:
    for number, line in enumerate(content.split(b"\n"), 1):
        found = parse_line(line, [name], file, number)
        field = b"".join(line.split(None, 1)[:1])
        if found is None or found.marker:
            continue
        if field.startswith(b"|") or not any(one in field for one in _PATTERN):
            yield found


def _with_line(content: bytes, line: bytes) -> bytes:
    gap = b"\n" if content and not content.endswith(b"\n") else b""
    return content + gap + line + b"\n"


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes() if file.is_file() else b""
    except OSError as error:
        raise _unusable(file, "read", error) from error


def _write(file: Path, content: bytes) -> None:
    try:
        mode = file.stat().st_mode & 0o777 if file.exists() else _MODE
        atomic_file.replace(file, content, mode)
    except OSError as error:
        raise _unusable(file, "written", error) from error


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """No other rigops adds a line meanwhile."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = open_locked(file)
    except OSError as error:
        raise _unusable(file, "written", error) from error
    try:
        yield
    finally:
        os.close(descriptor)


def _unusable(file: Path, what: str, error: OSError) -> RigopsError:
    return RigopsError(
        Problem(
            message=f"cannot be {what}: {error.strerror or error}",
            file=str(file),
            fix="make it a file of yours",
        )
    )
