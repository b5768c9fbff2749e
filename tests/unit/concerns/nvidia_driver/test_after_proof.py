"""What is stored and locked after a proof, by the host's records and the lockfile of before."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from rigops.concerns.concern import HostRequest, Kept, ProvenHost
from rigops.concerns.nvidia_driver import record as driver_record
from rigops.concerns.nvidia_driver.after_proof import keep, vault_access
from rigops.concerns.nvidia_driver.record import PinnedDriver
from rigops.inventory.spec import RigSpec
from rigops.probe.sections.rigops_state import RigopsState
from rigops.record.lockfile import LockedHost, locked
from rigops.transport import Result, Target
from rigops.vault.pinned_set import RECORD, PinnedSet, document, index_text
from rigops.vault.store import References, Store, VaultResult
from tests.unit.record.test_lockfile import PROVEN
from tests.unit.vault.pinned_sets import index_of, pinned_set, records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path


OLD, NOW = pinned_set("535.183.01"), pinned_set("535.261.03")
PINNED = PinnedDriver(
    version=NOW.version,
    flavor="proprietary",
    declared="",
    packages={one.name: one.version for one in NOW.packages},
)


class FakeChannel:
    """Answers the fill with these packages of the set, and every read with their files."""

    def __init__(
        self,
        *,
        lost: tuple[str, ...] = (),
        free: bool = True,
        size: int | None = None,
        sends: Callable[[bytes], bytes] = bytes,
    ) -> None:
        self.ran: list[str] = []
        self._lost = lost
        self._free = free
        self._size = size
        self._sends = sends
        self.read: list[str] = []

    def tell(self, _: str) -> None:
        pass

    def wrap(self, argv: Sequence[str]) -> list[str]:
        return list(argv)

    @contextmanager
    def shell(self, _: str) -> Iterator[FakeChannel]:
        yield self

    def run(self, argv: Sequence[str], stdin: bytes, deadline_s: float) -> Result:
        self.ran.append(stdin.decode())
        text = self._filled() if b"fill </dev/null" in stdin else b""
        if argv[0] == "dd":
            self.read.append(argv[1])
            text = self._file(argv[1].removeprefix("if="))
        return Result(exit_code=0, stdout=text, stderr=b"")

    def _filled(self) -> bytes:
        if not self._free:
            return b"== trouble\nit needs 5 MB and 4 MB are free\n"
        every = [one for one in records(NOW.version) if one[0].name not in self._lost]
        rows = (
            f"{one.name} {one.version} {one.architecture} {one.sha256} {self._size or one.size}"
            for one, _ in every
        )
        told = ("".join(f"{name}: {value}\n" for name, value in said.items()) for _, said in every)
        return "\n".join(["== stored", *rows, "== control", "\n".join(told)]).encode()

    def _file(self, path: str) -> bytes:
        if path.endswith(".packages"):
            every = records(NOW.version)
            return index_text(
                (replace(one, size=self._size or one.size), said) for one, said in every
            ).encode()
        (one,) = (its for its in NOW.packages if path.endswith(its.file))
        return self._sends(f"{one.name} {one.version}".encode())


def state(*sets: PinnedSet, pinned: PinnedDriver | None = PINNED) -> RigopsState:
    found = {RECORD: document(sets)} if sets else {}
    if pinned:
        found[driver_record.PATH] = driver_record.document(pinned)
    return RigopsState(records=found)


def wanted(folder: Path, before: LockedHost | None = None) -> HostRequest:
    return HostRequest(
        "rig", Target(name="rig"), {}, RigSpec(rigops_vault=str(folder)), locked=before
    )


def kept(
    folder: Path,
    state: RigopsState,
    before: LockedHost | None = None,
    *,
    was_changed: bool = True,
    channel: FakeChannel | None = None,
) -> Kept:
    return keep(
        ProvenHost(
            request=wanted(folder, before),
            state=state,
            proven=PROVEN,
            was_changed=was_changed,
            shell=(channel or FakeChannel()).shell,
        )
    )


def stored(
    folder: Path, *sets: PinnedSet, before: LockedHost | None = None, **how: Any
) -> tuple[tuple[PinnedSet, ...], VaultResult]:
    """Once the vault was updated on a host with these sets."""
    found = kept(folder, state(*sets), before, channel=FakeChannel(**how))
    assert found.vault
    return found.sets, found.vault


def test_what_was_proven_is_stored_fetched_and_locked(tmp_path: Path) -> None:
    entry, found = stored(tmp_path, OLD)

    assert [one.version for one in entry] == [NOW.version, OLD.version]
    assert entry[0].packages == tuple(sorted(NOW.packages, key=lambda one: one.file))
    assert found == VaultResult(host_bytes=NOW.size, fetched_bytes=NOW.size, folder=str(tmp_path))
    store = Store(tmp_path)
    assert all(store.has(one.sha256, one.size) for one in NOW.packages)
    assert store.text(entry[0].index) == index_of(NOW.version)


def test_what_is_here_already_is_not_fetched_again(tmp_path: Path) -> None:
    stored(tmp_path, OLD)

    _, again = stored(tmp_path, OLD)

    assert (again.fetched_bytes, again.trouble) == (0, "")


def test_files_that_no_host_needs_any_more_are_removed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    new = pinned_set("580.178.04")
    for one in (OLD, new):
        for its in one.packages:
            store.put(its.sha256, [f"{its.name} {its.version}".encode()])
    References(store, "rig", None).add(OLD.digests)
    References(store, "other", None).add(new.digests)

    _, first = stored(tmp_path, before=locked(PROVEN, (OLD,)))
    _, second = stored(tmp_path, before=locked(PROVEN, (NOW,)))

    assert (first.freed_bytes, second.freed_bytes) == (0, OLD.size)
    assert "there that no host needs any more" in str(second)
    assert not any(store.has(one.sha256, one.size) for one in OLD.packages)
    assert all(store.has(one.sha256, one.size) for one in (*NOW.packages, *new.packages))


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"lost": ("libcuda1",)}, "cannot store libcuda1 535.261.03-1: in no package source"),
        ({"free": False}, "it needs 5 MB and 4 MB are free"),
    ],
)
def test_an_incomplete_vault_is_reported_and_fails_nothing(
    tmp_path: Path, how: dict[str, Any], says: str
) -> None:
    entry, found = stored(tmp_path, OLD, **how)

    assert says in str(found)
    assert "the next apply tries again" in str(found)
    assert entry == ()


@pytest.mark.parametrize("size", [10**9, 10**14, int("9" * 15)])
def test_sizes_that_no_driver_has_are_not_believed(tmp_path: Path, size: int) -> None:
    there = FakeChannel(size=size)

    found = kept(tmp_path, state(), channel=there)

    assert found.vault
    assert "by the host's word, at most 4,000 MB are fetched" in found.vault.trouble
    assert found.sets == ()
    assert there.read == []


def test_a_host_that_lies_of_sizes_takes_nothing_out_of_the_lockfile(tmp_path: Path) -> None:
    before = locked(PROVEN, (NOW, OLD))

    found = kept(tmp_path, state(NOW), before, channel=FakeChannel(size=10**9))

    assert found.sets == (NOW, OLD)


@pytest.mark.parametrize("sends", [lambda text: text + b"x", lambda text: text[:-1], lambda _: b""])
def test_a_file_of_another_size_than_was_named_is_cut_and_named(
    tmp_path: Path, sends: Callable[[bytes], bytes]
) -> None:
    Store(tmp_path).put(NOW.index, [index_of(NOW.version).encode()])

    found = kept(tmp_path, state(), channel=FakeChannel(sends=sends))

    assert found.vault
    first = min(NOW.packages, key=lambda one: one.file)
    text = f"pool/{first.file} on the host has not the {first.size} bytes that were named"
    assert text in found.vault.trouble
    assert Store(tmp_path).size() == len(index_of(NOW.version))


def test_a_host_that_sends_without_end_is_cut_where_the_size_is_reached(tmp_path: Path) -> None:
    there = FakeChannel(size=40 << 20, sends=lambda _: bytes(16 << 20))

    found = kept(tmp_path, state(), channel=there)

    assert found.vault
    assert "has not the 41943040 bytes" in found.vault.trouble
    assert sum("/pool/" in one for one in there.read) == 3


def test_without_room_on_this_machine_nothing_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = FakeChannel()
    Store(tmp_path).put(NOW.index, [index_of(NOW.version).encode()])
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=10**8))

    found = kept(tmp_path, state(), channel=there)

    assert found.vault
    assert f"are to be fetched to {tmp_path}, which has 100 MB free" in found.vault.trouble
    assert there.read == []
    assert found.sets[0].version == NOW.version


def test_a_controller_without_room_still_locks_the_digests(tmp_path: Path) -> None:
    (tmp_path / "vault").write_text("no folder")

    entry, found = stored(tmp_path / "vault")

    assert "cannot store packages in" in found.trouble
    assert entry[0].version == NOW.version


def test_another_driver_than_the_pinned_one_is_not_stored(tmp_path: Path) -> None:
    there = FakeChannel()
    pinned = replace(PINNED, version=OLD.version)

    assert kept(tmp_path, state(OLD, pinned=pinned), channel=there) == Kept()
    assert there.ran == []


def test_a_digest_that_the_lockfile_has_is_not_taken_from_the_host(tmp_path: Path) -> None:
    first, *rest = OLD.packages
    changed = replace(OLD, packages=(replace(first, sha256="0" * 64), *rest))
    before = locked(PROVEN, (NOW, OLD))

    entry, _ = stored(tmp_path, changed, before=before)
    untouched = kept(tmp_path, state(NOW, changed), before, was_changed=False)

    assert changed not in entry
    assert untouched == Kept((NOW, OLD))


def test_the_host_is_given_the_digests_of_the_lockfile(tmp_path: Path) -> None:
    first, *rest = NOW.packages
    changed = replace(NOW, packages=(replace(first, sha256="0" * 64), *rest))
    there = FakeChannel()

    kept(tmp_path, state(changed), locked(PROVEN, (NOW,)), channel=there)

    assert f"{first.name} {first.version} {first.sha256}" in there.ran[0]
    assert "0" * 64 not in there.ran[0]


def asks_the_host(folder: Path, state: RigopsState) -> bool:
    """Whether a run that changed nothing has something to store."""
    there = FakeChannel()
    kept(folder, state, was_changed=False, channel=there)
    return bool(there.ran)


def test_nothing_is_asked_when_both_vaults_have_the_pinned_driver(tmp_path: Path) -> None:
    proven = replace(PINNED, packages={**PINNED.packages, "libnew1": "1"})
    assert asks_the_host(tmp_path / "empty", state())
    assert asks_the_host(tmp_path / "other", state(NOW))

    stored(tmp_path)

    assert not asks_the_host(tmp_path, state(NOW))
    assert asks_the_host(tmp_path, state(NOW, pinned=proven))
    assert not asks_the_host(tmp_path, state(pinned=None))


def test_a_run_may_install_what_the_lockfile_has(tmp_path: Path) -> None:
    known = vault_access(wanted(tmp_path, locked(PROVEN, (NOW, OLD))))
    nothing = vault_access(wanted(tmp_path))

    assert (known.sets, known.locked, known.back) == ((NOW, OLD), NOW.version, False)
    assert (nothing.sets, nothing.locked) == ((), "")
