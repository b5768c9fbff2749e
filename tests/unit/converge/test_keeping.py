"""What the lock is told after a proof, by what the host's records and the lock said before."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from rigops.converge.keeping import VaultKept, as_kept, is_whole, keep, shelf
from rigops.converge.wanted import Wanted
from rigops.probe.sections.rigops_state import RigopsState
from rigops.record import driver as driver_record
from rigops.record.driver import PinnedDriver
from rigops.record.lock import LockedHost, locked
from rigops.spec import RigSpec
from rigops.transport import Result, Target
from rigops.vault.copies import Copied, Reference
from rigops.vault.kept import RECORD, KeptSet, document
from rigops.vault.signatures import read
from rigops.vault.store import Store
from tests.unit.record.test_lock import PROVEN
from tests.unit.vault.making import index_of, kept_set, records
from tests.unit.vault.signed import Archive, index_text

if TYPE_CHECKING:
    from pathlib import Path

    from rigops.converge.connector import Seat
    from rigops.converge.seeing import Sight

OLD, NOW = kept_set("535.183.01"), kept_set("535.261.03")
PINNED = PinnedDriver(
    version=NOW.version,
    flavour="proprietary",
    declared="",
    packages={one.name: one.version for one in NOW.packages},
)


class FakeSeat:
    """Answers the filling with these packages of the set, and every reading with their files."""

    def __init__(
        self,
        *,
        lost: tuple[str, ...] = (),
        free: bool = True,
        archive: Archive | None = None,
        sign_fails: bool = False,
    ) -> None:
        self.ran: list[str] = []
        self._lost = lost
        self._free = free
        self._archive = archive
        self._sign_fails = sign_fails

    def tell(self, _: str) -> None:
        pass

    def wrap(self, argv: list[str]) -> list[str]:
        return argv

    def run(self, argv: list[str], stdin: bytes, _: float) -> Result:
        self.ran.append(stdin.decode())
        text = self._filled() if b"fill </dev/null" in stdin else b""
        if b"sign </dev/null" in stdin:
            if self._sign_fails:
                return Result(exit_code=1, stdout=b"", stderr=b"no room")
            text = self._signed()
        if argv[0] == "dd":
            text = self._file(argv[1].removeprefix("if="))
        return Result(exit_code=0, stdout=text, stderr=b"")

    def _filled(self) -> bytes:
        if not self._free:
            return b"== trouble\nit needs 5 MB and 4 MB are free\n"
        every = [one for one in records(NOW.version) if one[0].name not in self._lost]
        rows = (
            f"{one.name} {one.version} {one.architecture} {one.sha256} {one.size}"
            for one, _ in every
        )
        told = ("".join(f"{name}: {value}\n" for name, value in said.items()) for _, said in every)
        return "\n".join(["== kept", *rows, "== control", "\n".join(told)]).encode()

    def _signed(self) -> bytes:
        if self._archive is None:
            return b""
        signatures = self._archive.signatures()
        (release,), (index,) = signatures.releases, signatures.indexes
        rows = (f"{package} {file}" for package, file in signatures.packages.items())
        return "\n".join(
            [
                f"== release {release.text}",
                f"source {release.source}",
                f"keyring {release.keyring}",
                f"== index {index.file}",
                f"path {index.path}",
                f"sha256 {index.sha256}",
                f"size {index.size}",
                f"release {index.release}",
                "== packages",
                *rows,
            ]
        ).encode()

    def _file(self, path: str) -> bytes:
        if "/lists/" in path:
            assert self._archive
            return self._archive.files[path.rpartition("/")[2]]
        if path.endswith(".packages"):
            return index_of(NOW.version).encode()
        (one,) = (its for its in NOW.packages if path.endswith(its.file))
        return f"{one.name} {one.version}".encode()


def state(*sets: KeptSet, pinned: PinnedDriver | None = PINNED) -> RigopsState:
    found = {RECORD: document(sets)} if sets else {}
    if pinned:
        found[driver_record.PATH] = driver_record.document(pinned)
    return RigopsState(records=found)


def seen(*sets: KeptSet) -> Sight:
    class Seen:
        state: RigopsState

    found = Seen()
    found.state = state(*sets)
    return cast("Sight", found)


def wanted(folder: Path, before: LockedHost | None = None) -> Wanted:
    return Wanted("rig", Target(name="rig"), {}, RigSpec(rigops_vault=str(folder)), locked=before)


def seat(**how: Any) -> Seat:
    return cast("Seat", FakeSeat(**how))


def test_what_was_proven_is_kept_fetched_and_locked(tmp_path: Path) -> None:
    found = keep(seat(), seen(OLD), PROVEN, wanted(tmp_path))

    assert [one.version for one in found.lock.sets] == [NOW.version, OLD.version]
    assert found.lock.sets[0].packages == tuple(sorted(NOW.packages, key=lambda one: one.file))
    assert found.vault == VaultKept(
        host_bytes=NOW.size,
        fetched_bytes=NOW.size,
        folder=str(tmp_path),
        unsigned=tuple(one.file for one in found.lock.sets[0].packages),
    )
    store = Store(tmp_path)
    assert all(store.has(one.sha256, one.size) for one in NOW.packages)
    assert store.text(found.lock.sets[0].index) == index_of(NOW.version)


def test_what_is_here_already_is_not_fetched_again(tmp_path: Path) -> None:
    keep(seat(), seen(OLD), PROVEN, wanted(tmp_path))

    again = keep(seat(), seen(OLD), PROVEN, wanted(tmp_path))

    assert again.vault
    assert (again.vault.fetched_bytes, again.vault.trouble) == (0, "")


def test_what_an_archive_signed_is_kept_with_the_packages(tmp_path: Path) -> None:
    archive = Archive(NOW.packages[1:])
    there = FakeSeat(archive=archive)

    found = keep(cast("Seat", there), seen(), PROVEN, wanted(tmp_path))

    assert found.vault
    assert (found.vault.unsigned, found.vault.doubts) == ((NOW.packages[0].file,), ())
    assert f"not signed by anybody that the host knows: {NOW.packages[0].file}" in str(found.vault)
    store, signatures = Store(tmp_path), archive.signatures()
    assert all(store.data(file) == archive.files[file] for file in signatures.files)
    (copied,) = Reference(store, "rig", None).read().sets
    text = store.text(copied.signatures)
    assert text
    (release,) = signatures.releases
    assert read(text).packages == signatures.packages
    assert read(text).releases[0].keyring == release.keyring
    assert b64encode(text.encode()).decode() in there.ran[2]


def test_a_chain_that_does_not_hold_is_told_and_the_package_is_kept(tmp_path: Path) -> None:
    first, *rest = NOW.packages
    archive = Archive(NOW.packages)
    wrong = archive.signatures(index_text((replace(first, version="1"), *rest)))
    archive.signatures = lambda: wrong  # type: ignore[method-assign, misc, assignment]

    found = keep(seat(archive=archive), seen(), PROVEN, wanted(tmp_path))

    assert found.vault
    (doubt,) = found.vault.doubts
    assert doubt.startswith(f"{first.file}: the signed index has no such package")
    assert doubt in str(found.vault)
    assert Store(tmp_path).has(first.sha256, first.size)
    assert found.lock.sets[0].version == NOW.version


def test_that_nobody_could_look_who_signed_fails_nothing(tmp_path: Path) -> None:
    found = keep(seat(sign_fails=True), seen(), PROVEN, wanted(tmp_path))

    assert found.vault
    assert found.vault.trouble == ""
    assert found.vault.doubts == ("who signed the packages could not be kept: no room",)
    assert found.vault.fetched_bytes == NOW.size


def test_a_list_that_does_not_come_whole_is_told_and_fails_nothing(tmp_path: Path) -> None:
    archive = Archive(NOW.packages)
    told = archive.signatures()
    file = told.indexes[0].file
    archive.signatures = lambda: told  # type: ignore[method-assign, misc, assignment]
    archive.files[file] = b"another"

    found = keep(seat(archive=archive), seen(), PROVEN, wanted(tmp_path))

    assert found.vault
    (doubt,) = found.vault.doubts
    assert f"what came for {file} is" in doubt
    assert (found.vault.trouble, found.vault.fetched_bytes > NOW.size) == ("", False)
    assert all(Store(tmp_path).has(one.sha256, one.size) for one in NOW.packages)


def test_copies_that_no_host_refers_to_any_more_are_freed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    new = kept_set("580.178.04")
    for one in (OLD, new):
        for its in one.packages:
            store.put(its.sha256, [f"{its.name} {its.version}".encode()])
    Reference(store, "rig", None).claim((Copied.of(OLD),))
    Reference(store, "other", None).claim((Copied.of(new),))
    before = locked(PROVEN, (OLD,))

    kept_too = keep(seat(), seen(), PROVEN, wanted(tmp_path, before))
    freed = keep(seat(), seen(), PROVEN, wanted(tmp_path, locked(PROVEN, (NOW,))))

    assert kept_too.vault
    assert freed.vault
    assert (kept_too.vault.freed_bytes, freed.vault.freed_bytes) == (0, OLD.size)
    assert "that no host needs any more were freed" in str(freed.vault)
    assert not any(store.has(one.sha256, one.size) for one in OLD.packages)
    assert all(store.has(one.sha256, one.size) for one in (*NOW.packages, *new.packages))


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"lost": ("libcuda1",)}, "libcuda1 535.261.03-1 could not be kept: no package source"),
        ({"free": False}, "it needs 5 MB and 4 MB are free"),
    ],
)
def test_a_vault_that_is_not_whole_is_told_and_fails_nothing(
    tmp_path: Path, how: dict[str, Any], says: str
) -> None:
    found = keep(seat(**how), seen(OLD), PROVEN, wanted(tmp_path))

    assert found.vault
    assert says in str(found.vault)
    assert "the next apply tries again" in str(found.vault)
    assert found.lock.version == NOW.version
    assert found.lock.sets == ()


def test_a_controller_without_room_still_locks_the_digests(tmp_path: Path) -> None:
    (tmp_path / "vault").write_text("no folder")

    found = keep(seat(), seen(), PROVEN, wanted(tmp_path / "vault"))

    assert found.vault
    assert "packages cannot be kept in" in found.vault.trouble
    assert found.lock.sets[0].version == NOW.version


def test_the_host_does_not_tell_the_lock_of_digests_that_it_knows(tmp_path: Path) -> None:
    first, *rest = OLD.packages
    changed = replace(OLD, packages=(replace(first, sha256="0" * 64), *rest))
    before = locked(PROVEN, (NOW, OLD))

    found = keep(seat(), seen(changed), PROVEN, wanted(tmp_path, before))
    untouched = as_kept(seen(changed), PROVEN, wanted(tmp_path, before))

    assert changed not in found.lock.sets
    assert untouched.lock.sets == (NOW, OLD)


def test_the_lock_tells_the_host_which_digests_count(tmp_path: Path) -> None:
    first, *rest = NOW.packages
    changed = replace(NOW, packages=(replace(first, sha256="0" * 64), *rest))
    there = FakeSeat()

    keep(cast("Seat", there), seen(changed), PROVEN, wanted(tmp_path, locked(PROVEN, (NOW,))))

    assert f"{first.name} {first.version} {first.sha256}" in there.ran[0]
    assert "0" * 64 not in there.ran[0]


def test_it_is_whole_when_record_and_copies_are(tmp_path: Path) -> None:
    store = Store(tmp_path)
    other = replace(PINNED, version="580.1", packages={"libcuda1": "580.1-1"})
    assert not is_whole(state(), store)
    assert not is_whole(state(NOW), store)

    keep(seat(), seen(), PROVEN, wanted(tmp_path))

    assert is_whole(state(NOW), store)
    assert not is_whole(state(NOW, pinned=other), store)
    assert is_whole(state(pinned=None), store)


def test_a_run_may_take_what_the_lock_vouches_for(tmp_path: Path) -> None:
    known = shelf(wanted(tmp_path, locked(PROVEN, (NOW, OLD))))
    nothing = shelf(wanted(tmp_path))

    assert (known.sets, known.locked, known.back) == ((NOW, OLD), NOW.version, False)
    assert (nothing.sets, nothing.locked) == ((), "")
