"""What a host keeps of its driver, brought to the copies of this machine."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rigops.converge import signing
from rigops.converge.troubles import DeployError
from rigops.errors import RigopsError
from rigops.vault import index
from rigops.vault.kept import POOL
from rigops.vault.signatures import document

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from rigops.converge.connector import Seat
    from rigops.vault.directory import Directory
    from rigops.vault.kept import KeptPackage, KeptSet
    from rigops.vault.signatures import Signatures
    from rigops.vault.store import Store

_DEADLINE_S: Final = 120.0
_AT_ONCE_MB: Final = 16  # read by one exec
_TOLD_EVERY_S: Final = 2.0


@dataclass(frozen=True)
class Fetching:
    """`near`: the declared folder of this machine, from which the host may have had them."""

    seat: Seat
    own: Store
    near: Directory | None = None

    def packages(self, one: KeptSet) -> Iterator[int]:
        """The bytes of each file that was not here yet."""
        if self.own.text(one.index) is None:
            self.own.put(one.index, [self._read(one.index_file, 0)])
        lacking = [its for its in one.packages if not self.own.has(its.sha256, its.size)]
        far = [its for its in lacking if not self._is_taken_from_near(its)]
        yield from (its.size for its in lacking if its not in far)
        come = _Come(self.seat, sum(its.size for its in far))
        for its in far:
            self.own.put(its.sha256, self._pieces(its, come))
            yield its.size

    def lists(self, one: KeptSet, signed: Signatures) -> Iterator[int]:
        """Likewise, of what says who signed them."""
        text = document(signed, one.packages)
        self.own.put(index.digest(text), [text.encode()])
        yield from signing.fetched(signed, self.own, self._read, _AT_ONCE_MB << 20)

    def _is_taken_from_near(self, one: KeptPackage) -> bool:
        """A folder that cannot be read any more is no trouble: the host has it too."""
        with suppress(RigopsError, OSError):
            if self.near and any(its.sha256 == one.sha256 for its in self.near.packages):
                self.own.put(one.sha256, self.near.pieces(one.sha256))
                return True
        return False

    def _pieces(self, one: KeptPackage, come: _Come) -> Iterator[bytes]:
        for number in range(-(-one.size // (_AT_ONCE_MB << 20)) or 1):
            come.tell()
            piece = self._read(f"{POOL}/{one.file}", number)
            come.size += len(piece)
            yield piece

    def _read(self, path: str, number: int) -> bytes:
        words = ("bs=1048576", f"skip={number * _AT_ONCE_MB}", f"count={_AT_ONCE_MB}")
        done = self.seat.run(["dd", f"if={path}", *words], b"", _DEADLINE_S)
        if done.exit_code != 0 or done.stdout_dropped:
            said = " ".join(done.stderr.decode(errors="replace").split())
            raise DeployError(f"{path} could not be read: {said}")
        return done.stdout


class _Come:
    """How far it is, told from time to time."""

    def __init__(self, seat: Seat, whole: int) -> None:
        self.size = 0
        self._seat = seat
        self._whole = whole
        self._told_at = time.monotonic()

    def tell(self) -> None:
        if time.monotonic() - self._told_at > _TOLD_EVERY_S:
            self._told_at = time.monotonic()
            self._seat.tell(f"vault: {amount(self.size)} of {amount(self._whole)} fetched")


def is_fetched(packages: Collection[KeptPackage], own: Store) -> bool:
    return all(own.has(its.sha256, its.size) for its in packages)


def amount(size: int) -> str:
    return f"{size / 10**6:,.0f} MB" if size >= 10**6 else f"{size / 1000:,.0f} kB"
