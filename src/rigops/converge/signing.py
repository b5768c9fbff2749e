"""Who signed the kept packages: asked of the host, fetched, and looked at here.

It decides over nothing: what is installed from the vault is believed by the lock's digests. So
whatever goes wrong here is told beside what was kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rigops.converge.troubles import DeployError
from rigops.vault import signing
from rigops.vault.chain import faults
from rigops.vault.signatures import LISTS, Signatures, chosen

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from rigops.converge.connector import Seat
    from rigops.vault.filling import Filled
    from rigops.vault.kept import KeptPackage
    from rigops.vault.store import Store

_SIGN_S: Final = 600.0
_LARGEST: Final = 64 * 1024 * 1024  # of a file as it is kept


@dataclass(frozen=True)
class Asked:
    signatures: Signatures
    trouble: str


def asked(seat: Seat, found: Filled) -> Asked:
    """What was kept before counts on: archives sign anew, and forget."""
    told = tuple(found.signatures.values())
    lacking = [
        one
        for one in found.packages
        if not any(its.has_signer(one.sha256, found.lists) for its in told)
    ]
    new, trouble, there = Signatures(), "", found.lists
    if lacking:
        done = seat.run(seat.wrap(["sh", "-s"]), signing.script(lacking).encode(), _SIGN_S)
        new, troubles = signing.parse(done.stdout.decode(errors="replace"))
        trouble = "; ".join(troubles)
        there = there.union(new.files)
        if done.exit_code != 0:
            said = " ".join(done.stderr.decode(errors="replace").split())
            trouble = f"who signed the packages could not be kept: {said or 'nobody said why'}"
    return Asked(chosen(found.packages, (*told, new), there), trouble)


def fetched(
    signatures: Signatures, own: Store, read: Callable[[str, int], bytes], at_once: int
) -> Iterator[int]:
    """The bytes of each file that was not here yet. `read`: the piece of a file of this number."""
    for file in dict.fromkeys(signatures.files):
        if own.data(file) is None:
            path = f"{LISTS}/{file}"
            own.put(file, _pieces(path, read, at_once))
            yield own.place(file).stat().st_size


def unsigned(signatures: Signatures, packages: Collection[KeptPackage]) -> tuple[str, ...]:
    """Packages that nobody signed, or nobody whose key the host has."""
    signers = ((one.file, signatures.signer_of(one.sha256)) for one in packages)
    return tuple(file for file, signer in signers if signer is None or not signer.keyring)


def doubts(
    signatures: Signatures, packages: Collection[KeptPackage], own: Store
) -> tuple[str, ...]:
    """Packages of which the archive signed something else, or that cannot be looked at."""
    return tuple(f"{file}: {why}" for file, why in faults(signatures, packages, own.data).items())


def _pieces(path: str, read: Callable[[str, int], bytes], at_once: int) -> Iterator[bytes]:
    for number in range(-(-_LARGEST // at_once)):
        piece = read(path, number)
        yield piece
        if len(piece) < at_once:
            return
    raise DeployError(f"{path} is larger than any list that is kept")
