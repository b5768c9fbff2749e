"""Operations that make apt install packages of the vault, or of a folder of this machine."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Generator, Iterator
from typing import Final

from pyinfra.api.command import QuoteString, StringCommand
from pyinfra.api.operation import operation
from pyinfra.context import host

from rigops.atomic_file import SHELL, shell_replace
from rigops.concerns.nvidia_driver import NAME as CONCERN
from rigops.concerns.nvidia_driver.facts import VaultPool
from rigops.concerns.nvidia_driver.resolver.vault_sets import AvailableSet, Pool
from rigops.dataclass import dataclass
from rigops.ownership.owned_files import owned_file
from rigops.plan.change import LaterChange
from rigops.plan.commands import ReportedCommand
from rigops.plan.context import announce_later, housekeeping, notice, wanted_paths
from rigops.vault.directory import Directory
from rigops.vault.pinned_set import FOLDER, POOL, SOURCE, PinnedPackage
from rigops.vault.store import Store, amount

SOURCE_TEXT: Final = (
    "# Made by rigops for as long as it installs from here, and taken away again.\n"
    f"deb [trusted=yes] file:{FOLDER} ./\n"
)
_PACKAGES: Final = f"{FOLDER}/Packages"
_UPDATE: Final = f"""\
apt-get -q update -o Dir::Etc::sourcelist={SOURCE} -o Dir::Etc::sourceparts=- \
-o APT::Get::List-Cleanup=0 >/dev/null"""
_LISTS: Final = f"/var/lib/apt/lists/{FOLDER.replace('/', '_')}_._"
REMOVED: Final = f"rm -f {_PACKAGES} {_LISTS}*"

_PIECE: Final = 8 * 1024 * 1024
_REPORTS: Final = 8  # of progress, while all is sent
_RECEIVE: Final = f"""\
set -eu
umask 022
mkdir -p {POOL}
[ "$2" != first ] || rm -f "{POOL}/$1.rigops-new"
cat >>"{POOL}/$1.rigops-new"
"""
# Files that were sent are compared like those that were there. A wrong one is named with both
# digests.
_CHECK: Final = f"""\
set -eu
umask 022
cd {POOL}
enter() {{
    for new in *.rigops-new; do
        [ -f "$new" ] || continue
        settle "${{new%.rigops-new}}"
    done
}}
expect() {{
    found=absent
    if [ -f "$1" ]; then found=$(sha256sum <"$1"); found=${{found%% *}}; fi
    [ "$found" = "$2" ] || {{
        echo "{POOL}/$1 is not what was proven: expected $2, found $found" >&2
        exit 1
    }}
}}
{SHELL}"""


def source_opened(taken: AvailableSet) -> None:
    """For the rest of this deploy apt knows the packages of this set."""
    _delivered(name="Packages of the vault", taken=taken)
    owned_file(name=SOURCE, concern=CONCERN, path=SOURCE, content=SOURCE_TEXT, effect=_UPDATE)
    announce_later(host, LaterChange(CONCERN, "file", SOURCE, when="after the packages"))


def source_closed() -> None:
    """The undo at the end of the deploy removes this source too."""
    wanted_paths(host, CONCERN).discard(SOURCE)


@operation()
def _delivered(*, taken: AvailableSet) -> Generator[StringCommand, None, None]:
    pool: Pool = host.get_fact(VaultPool)
    lacking = [one for one in taken.packages if pool.digests.get(one.file) != one.sha256]
    notice(host, CONCERN, _delivery(taken, lacking))
    housekeeping(host, CONCERN, f"the packages in {POOL}")
    yield from sent(lacking, taken.origin)
    files = "\n".join(shlex.join(("expect", one.file, one.sha256)) for one in taken.packages)
    body = f"enter\n{files}\n{shell_replace(_PACKAGES, 0o644, taken.index.encode())}"
    check = f"{_CHECK}main() {{\n{body}\n}}\nmain\n"
    yield StringCommand("sh", "-s", _stdin=check)


def _delivery(taken: AvailableSet, lacking: list[PinnedPackage]) -> str:
    size, more = (amount(sum(one.size for one in its)) for its in (taken.packages, lacking))
    if isinstance(taken.origin, Store):
        text = f"driver {taken.version} comes from the vault ({size})"
        return f"{text}; {more} of it are sent from {taken.origin.folder}" if lacking else text
    if lacking:
        return f"driver {taken.version} ({size}): {more} of it are sent from {taken.origin.folder}"
    return f"driver {taken.version} ({size}) of {taken.origin.folder} is on the host already"


def sent(
    packages: Collection[PinnedPackage], origin: Store | Directory
) -> Iterator[ReportedCommand]:
    """Until it is compared, a file has another name there."""
    progress = _Progress(sum(one.size for one in packages))
    for one in packages:
        held = bytearray()
        when = "first"
        for piece in origin.pieces(one.sha256):
            held += piece
            if len(held) >= _PIECE:
                yield _piece(one, bytes(held), when, progress)
                held.clear()
                when = "more"
        yield _piece(one, bytes(held), when, progress)


@dataclass
class _Progress:
    whole: int
    sent: int = 0

    def after(self, size: int) -> str:
        before, self.sent = self.sent, self.sent + size
        is_short = self.whole <= _PIECE
        if is_short or before * _REPORTS // self.whole == self.sent * _REPORTS // self.whole:
            return ""
        return f"sending the driver: {amount(before)} of {amount(self.whole)}"


def _piece(one: PinnedPackage, data: bytes, when: str, progress: _Progress) -> ReportedCommand:
    words = (QuoteString(_RECEIVE), "rigops", QuoteString(one.file), when)
    return ReportedCommand("sh", "-c", *words, progress=progress.after(len(data)), stdin=data)
