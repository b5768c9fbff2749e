"""Files of this machine on their way to a host's pool, in pieces, and how far they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyinfra.api.command import QuoteString

from rigops.operations.telling import Saying
from rigops.vault.kept import POOL

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from rigops.vault.directory import Directory
    from rigops.vault.kept import KeptPackage
    from rigops.vault.store import Store

_PIECE: Final = 8 * 1024 * 1024
_TOLD: Final = 8  # times: pieces are many, and lines of them need not be

_RECEIVE: Final = f"""\
set -eu
umask 022
mkdir -p {POOL}
[ "$2" != first ] || rm -f "{POOL}/$1.rigops-new"
cat >>"{POOL}/$1.rigops-new"
"""


def sent(packages: Collection[KeptPackage], copies: Store | Directory) -> Iterator[Saying]:
    """What is not looked at yet has a name of its own there."""
    progress = _Progress(sum(one.size for one in packages))
    for one in packages:
        held = bytearray()
        when = "first"
        for piece in copies.pieces(one.sha256):
            held += piece
            if len(held) >= _PIECE:
                yield _piece(one, bytes(held), when, progress)
                held.clear()
                when = "more"
        yield _piece(one, bytes(held), when, progress)


def megabytes(size: int) -> str:
    return f"{size / 10**6:,.0f} MB"


@dataclass
class _Progress:
    whole: int
    sent: int = 0

    def after(self, size: int) -> str:
        before, self.sent = self.sent, self.sent + size
        if self.whole <= _PIECE or before * _TOLD // self.whole == self.sent * _TOLD // self.whole:
            return ""
        return f"sending the driver: {megabytes(before)} of {megabytes(self.whole)}"


def _piece(one: KeptPackage, data: bytes, when: str, progress: _Progress) -> Saying:
    words = (QuoteString(_RECEIVE), "rigops", QuoteString(one.file), when)
    return Saying("sh", "-c", *words, says=progress.after(len(data)), stdin=data)
