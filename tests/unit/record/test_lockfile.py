from __future__ import annotations

import json
from dataclasses import replace
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from rigops.errors import UsageError
from rigops.record import Bios, Driver, Pair, Proven, ProvenGpu, lockfile
from rigops.record.lockfile import Lockfile, locked, path_of, read, update
from tests.unit.record.damages import DAMAGES
from tests.unit.vault.pinned_sets import pinned_set

if TYPE_CHECKING:
    from pathlib import Path

OLD, NOW = pinned_set("535.183.01"), pinned_set("535.261.03")
PROVEN = Proven(
    host="rig",
    at="2026-11-22T08:00:00Z",
    rigops="0.1",
    inventory_digest="d",
    driver=Driver("535.261.03", "proprietary"),
    packages={},
    kernel="6.1.0-47-amd64",
    command_line=("iommu=pt",),
    bios=Bios("G", "F2"),
    gpus=(ProvenGpu("GPU-1", "0000:0a:00.0", "RTX 3090", None),),
    level="L1",
    pairs=(Pair("0000:0a:00.0", "0000:42:00.0", "ok", 12.5),),
)
HOST = locked(PROVEN, (NOW, OLD))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return path_of(tmp_path / "inventory.py")


def test_it_lies_beside_the_inventory(path: Path) -> None:
    assert path.name == "inventory.lock.json"
    assert read(path).hosts == {}


def test_it_is_read_as_it_was_written(path: Path) -> None:
    assert update(path, {"rig": HOST})

    assert read(path).hosts == {"rig": HOST}
    assert json.loads(path.read_text())["schema"] == "rigops.lock/1"


def test_it_is_written_only_when_something_changes(path: Path) -> None:
    update(path, {"rig": HOST})
    before = path.stat().st_ino
    faster = replace(
        PROVEN, at="2026-12-01T00:00:00Z", pairs=(replace(PROVEN.pairs[0], gb_per_s=9.0),)
    )

    assert not update(path, {"rig": locked(faster, (NOW, OLD))})
    assert path.stat().st_ino == before


def test_another_kernel_is_written_with_its_time(path: Path) -> None:
    update(path, {"rig": HOST})
    later = replace(PROVEN, at="2026-12-01T00:00:00Z", kernel="6.12.48")

    assert update(path, {"rig": locked(later, (NOW, OLD))})
    assert (read(path).hosts["rig"].at, read(path).hosts["rig"].kernel) == (later.at, "6.12.48")


def test_only_the_hosts_that_were_proven_are_rewritten_in_a_stable_order(path: Path) -> None:
    update(path, {"b": HOST, "c": HOST})
    newer = replace(HOST, kernel="6.12.48")

    update(path, {"a": newer, "c": newer})

    found = read(path).hosts
    assert (found["a"], found["b"], found["c"]) == (newer, HOST, newer)
    assert [one["host"] for one in json.loads(path.read_text())["hosts"]] == ["a", "b", "c"]


def test_two_runs_that_end_together_lose_no_host(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Thread(target=update, args=(path, {"b": HOST}))

    def read_while_the_other_run_ends(path: Path) -> Lockfile:
        found = read(path)
        if other.ident is None:
            other.start()
            other.join(0.2)
        return found

    monkeypatch.setattr(lockfile, "read", read_while_the_other_run_ends)
    update(path, {"a": HOST})
    other.join()

    assert set(read(path).hosts) == {"a", "b"}


def test_digests_stay_known_while_the_packages_could_not_be_kept(path: Path) -> None:
    update(path, {"rig": HOST})

    assert not update(path, {"rig": replace(HOST, sets=())})
    assert read(path).hosts["rig"].sets == (NOW, OLD)


def test_a_reinstalled_host_does_not_lose_what_was_before(path: Path) -> None:
    update(path, {"rig": HOST})
    newer = pinned_set("580.178.04")

    update(path, {"rig": replace(HOST, sets=(newer,))})

    assert read(path).hosts["rig"].sets == (newer, NOW)


@pytest.mark.parametrize(
    "text", ["", "{", '{"schema": "rigops.lock/1"}', '{"schema": "x", "hosts": []}']
)
def test_a_damaged_one_is_an_error_and_no_empty_one(path: Path, text: str) -> None:
    path.write_text(text)

    with pytest.raises(UsageError, match=r"inventory\.lock\.json"):
        read(path)


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_an_error_that_says_where_the_lockfile_comes_from(
    path: Path, damage: str
) -> None:
    update(path, {"rig": HOST})
    DAMAGES[damage](path)

    for use in (lambda: read(path), lambda: update(path, {"rig": HOST})):
        with pytest.raises(UsageError, match=r"inventory\.lock\.json") as raised:
            use()
        assert "restore it from git" in raised.value.problems[0].fix


def test_one_of_a_newer_rigops_is_left_alone(path: Path) -> None:
    path.write_text('{"schema": "rigops.lock/2", "hosts": []}')

    with pytest.raises(UsageError, match="newer rigops"):
        update(path, {"rig": HOST})
    assert "rigops.lock/2" in path.read_text()
