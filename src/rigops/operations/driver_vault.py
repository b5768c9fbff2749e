"""Packages of a driver that was proven before, from what the host keeps and the controller has.

They are believed by the digests of the inventory's lock alone. Plain pyinfra knows no lock, so that
there nothing of this is used.
"""

from __future__ import annotations

import shlex
from base64 import b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyinfra.api.command import StringCommand
from pyinfra.api.operation import operation
from pyinfra.context import host

from rigops.driver.request import Refusal
from rigops.facts.driver_vault import VaultPool
from rigops.facts.sections import RigopsState
from rigops.operations.change import notice, story
from rigops.operations.owned_files import owned_file
from rigops.operations.take_steps import digest, ownership
from rigops.operations.vault_sending import megabytes, sent
from rigops.probe.package_names import is_driver
from rigops.vault import index
from rigops.vault.kept import FOLDER, POOL, SOURCE
from rigops.vault.store import Store

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping

    from pyinfra.api.host import Host

    from rigops.facts.driver_vault import Pool
    from rigops.vault.directory import Directory
    from rigops.vault.kept import KeptPackage, KeptSet

_TEXT: Final = (
    "# Made by rigops for as long as it installs from here, and taken away again.\n"
    f"deb [trusted=yes] file:{FOLDER} ./\n"
)
_PACKAGES: Final = f"{FOLDER}/Packages"
_UPDATE: Final = f"""\
apt-get -q update -o Dir::Etc::sourcelist={SOURCE} -o Dir::Etc::sourceparts=- \
-o APT::Get::List-Cleanup=0 >/dev/null"""
_LISTS: Final = f"/var/lib/apt/lists/{FOLDER.replace('/', '_')}_._"
GONE: Final = f"rm -f {_PACKAGES} {_LISTS}*"

_SHELF: Final = "rigops_vault"
_BACK: Final = "rigops_back_to"
_SHORT: Final = 6

# What came is looked at like what was there; what is wrong is named with both digests.
_CHECK: Final = f"""\
set -eu
umask 022
cd {POOL}
entered() {{
    for new in *.rigops-new; do
        [ -f "$new" ] || continue
        sync "$new"
        mv -f "$new" "${{new%.rigops-new}}"
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
put() {{ base64 -d >"$1.rigops-new"; sync "$1.rigops-new"; mv -f "$1.rigops-new" "$1"; }}
"""


@dataclass(frozen=True, kw_only=True)
class Shelf:
    """What a run may take. `back`: to what was proven before, and from nowhere else."""

    sets: tuple[KeptSet, ...]
    locked: str  # the version that was proven last
    store: Store
    back: bool = False


@dataclass(frozen=True)
class Usable:
    """Packages that can be had, the text that tells apt of them, and where copies of them are."""

    version: str
    packages: tuple[KeptPackage, ...]
    index: str
    copies: Store | Directory


def let_take(host: Host, shelf: Shelf | None) -> None:
    host.connector_data[_SHELF] = shelf


def shelf_of(host: Host) -> Shelf | None:
    shelf: Shelf | None = host.connector_data.get(_SHELF)
    return shelf


def target(host: Host, shelf: Shelf, installed: Mapping[str, str]) -> KeptSet | None:
    """The last proven set that is not installed: chosen once in a run, which changes that."""
    chosen: KeptSet | None = host.connector_data.get(_BACK)
    if chosen is None:
        chosen = next((one for one in shelf.sets if not is_installed(one, installed)), None)
        host.connector_data[_BACK] = chosen
    return chosen


def is_installed(kept: KeptSet, installed: Mapping[str, str]) -> bool:
    """By what of it belongs to the driver."""
    return all(
        installed.get(one.name) == one.version for one in kept.packages if is_driver(one.name)
    )


def usable(host: Host, shelf: Shelf, sets: Iterable[KeptSet]) -> tuple[list[Usable], list[Refusal]]:
    """Those of these sets that can be had, and why others cannot."""
    pool = host.get_fact(VaultPool)
    found: list[Usable] = []
    refusals: list[Refusal] = []
    for one in sets:
        text = _index(shelf, one, pool)
        lost = [its for its in one.packages if not _is_to_be_had(its, shelf, pool)]
        if text is None or lost:
            refusals.append(_incomplete(one, lost, shelf))
        else:
            found.append(Usable(one.version, one.packages, text, shelf.store))
    return found, refusals


def tell_where(host: Host, concern: str) -> None:
    """What becomes of the packages that are about to come."""
    shelf = shelf_of(host)
    if shelf is not None:
        notice(
            host,
            concern,
            f"once proven, its packages are kept in {FOLDER} there, and in {shelf.store.folder} on "
            f"this machine, which has {megabytes(shelf.store.size())} now",
        )


def is_source_there(host: Host) -> bool:
    state = host.get_fact(RigopsState)
    there = state.present.get(SOURCE)
    is_ours = SOURCE in ownership(state).files
    return bool(is_ours and there and there.digest == digest(_TEXT.encode()))


def opened(*, concern: str, taken: Usable) -> None:
    """For the rest of this deploy apt knows the packages of this set."""
    _brought(name="Packages of the vault", concern=concern, taken=taken)
    owned_file(name=SOURCE, concern=concern, path=SOURCE, content=_TEXT, effect=_UPDATE)


def closed(*, concern: str) -> None:
    """What is taken back at the end of the deploy has this source among it."""
    story(host).kept.get(concern, set()).discard(SOURCE)


@operation()
def _brought(*, concern: str, taken: Usable) -> Generator[StringCommand, None, None]:
    pool: Pool = host.get_fact(VaultPool)
    lacking = [one for one in taken.packages if pool.digests.get(one.file) != one.sha256]
    notice(host, concern, _told(taken, lacking))
    yield from sent(lacking, taken.copies)
    yield StringCommand("sh", "-s", _stdin=_checked(taken))


def _told(taken: Usable, lacking: list[KeptPackage]) -> str:
    size, more = (megabytes(sum(one.size for one in its)) for its in (taken.packages, lacking))
    if isinstance(taken.copies, Store):
        text = f"driver {taken.version} comes from the vault ({size})"
        return f"{text}; {more} of it are sent from {taken.copies.folder}" if lacking else text
    if lacking:
        return f"driver {taken.version} ({size}): {more} of it are sent from {taken.copies.folder}"
    return f"driver {taken.version} ({size}) of {taken.copies.folder} is on the host already"


def _checked(taken: Usable) -> str:
    files = "\n".join(shlex.join(("expect", one.file, one.sha256)) for one in taken.packages)
    text = b64encode(taken.index.encode()).decode()
    body = f"entered\n{files}\nput {_PACKAGES} <<'RIGOPS_END'\n{text}\nRIGOPS_END"
    return f"{_CHECK}main() {{\n{body}\n}}\nmain\n"


def clash(host: Host, packages: Iterable[KeptPackage]) -> Refusal | None:
    """Where the vault has other packages of these very names and versions."""
    pool = host.get_fact(VaultPool)
    for one in packages:
        there = pool.digests.get(one.file)
        if there is not None and there != one.sha256:
            return Refusal(
                f"{POOL}/{one.file} is another build of {one.name} {one.version} than the one "
                f"that is declared: its digest is {there}, and that of the other is {one.sha256}",
                "take the one that is in the vault, or remove it there",
            )
    return None


def tampered(host: Host, sets: Iterable[KeptSet]) -> Refusal | None:
    """The first package there that is not the one of the lock."""
    pool = host.get_fact(VaultPool)
    for its in (its for one in sets for its in one.packages):
        there = pool.digests.get(its.file)
        if there is not None and there != its.sha256:
            return Refusal(
                f"{POOL}/{its.file} is not the package {its.name} {its.version} that was proven: "
                f"the lock has the digest {its.sha256}, and it is {there}",
                "find out who changed it; then remove it there, and the copy of this machine is "
                "sent instead",
            )
    return None


def _index(shelf: Shelf, one: KeptSet, pool: Pool) -> str | None:
    own = shelf.store.text(one.index)
    if own is not None:
        return own
    return next((text for text in pool.indexes if index.digest(text) == one.index), None)


def _is_to_be_had(one: KeptPackage, shelf: Shelf, pool: Pool) -> bool:
    return pool.digests.get(one.file) == one.sha256 or shelf.store.has(one.sha256, one.size)


def _incomplete(one: KeptSet, lost: list[KeptPackage], shelf: Shelf) -> Refusal:
    names = [its.file for its in lost]
    more = f" and {len(names) - _SHORT} more" if len(names) > _SHORT else ""
    what = f"{', '.join(names[:_SHORT])}{more}" if names else "what tells apt of its packages"
    return Refusal(
        f"driver {one.version} was proven here, but {what} is neither in {FOLDER} nor in "
        f"{shelf.store.folder}",
        "put the folder of another controller or of a backup in place (rigops_vault)",
    )
