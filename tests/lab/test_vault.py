"""The vault: proven drivers are stored, installed without any source, by the lockfile's digests."""

from __future__ import annotations

import shutil
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from tests.lab.applying import INVENTORY, only
from tests.lab.driver_rig import PIN, stages, tended
from tests.lab.tree import Tree
from tests.lab.vault_rig import AUTO, FIRST, PURGE, SECOND, SOURCE, VAULT, VaultRig
from tests.own_catalog import verdict_against
from tests.shards import LAB_DRIVER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.shard(LAB_DRIVER)

VERDICT = verdict_against(SECOND)


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VaultRig]:
    with tended(tmp_path_factory, "threadripper-3x3090=vault", f"driver={FIRST}") as rig:
        yield VaultRig(rig)


def test_a_proven_apply_stores_the_exact_packages_on_both_sides(vault: VaultRig) -> None:
    host = vault.applied(driver=FIRST)

    (one,) = vault.sets()
    files = {its["file"]: its["sha256"] for its in one["packages"]}
    assert vault.pool() == files
    versions = {its["name"]: its["version"] for its in one["packages"]}
    assert vault.rig.versions().items() <= versions.items()
    assert {"dkms", "nvidia-support", "glx-alternative-nvidia"} <= versions.keys()
    assert vault.locked["packages"] == [one]
    assert vault.locked["driver"] == {"version": FIRST, "flavour": "proprietary"}
    assert {pair["verdict"] for pair in vault.locked["p2p"]} == {"not_granted"}
    for its in one["packages"]:
        copy = vault.stored(its["sha256"])
        assert sha256(copy.read_bytes()).hexdigest() == its["sha256"]
        assert copy.stat().st_mode & 0o022 == 0
    assert host["vault"]["host_bytes"] == sum(its["size"] for its in one["packages"])
    assert "fetched to" in " ".join(host["story"])
    assert vault.rig.does(f"find {VAULT} ! -user root -o -perm /022") == ""


def test_a_full_vault_and_its_lockfile_are_left_alone(vault: VaultRig) -> None:
    tree, lock = Tree(vault.rig.host), vault.lock.stat()

    host = vault.applied(driver=FIRST)

    assert (host["outcome"], host["vault"]) == ("converged", None)
    assert vault.rig.changed_since(tree) == set()
    assert vault.lock.stat().st_mtime_ns == lock.st_mtime_ns


def test_with_nothing_earlier_a_rollback_says_what_there_is(vault: VaultRig) -> None:
    tree = Tree(vault.rig.host)

    host = vault.rolled_back(1)

    assert host["outcome"] == "refused"
    assert f"it has only {FIRST}, proven" in host["blocked"][0]["reason"]
    assert vault.rig.changed_since(tree) == set()


def test_a_controller_that_lost_its_files_fetches_them_again(vault: VaultRig) -> None:
    (one,) = vault.sets()
    for its in one["packages"]:
        vault.stored(its["sha256"]).unlink()

    host = vault.applied(driver=FIRST)

    assert host["vault"]["fetched_bytes"] == host["vault"]["host_bytes"]
    assert all(vault.stored(its["sha256"]).is_file() for its in one["packages"])


def test_a_verdict_of_the_users_own_refuses_a_driver(vault: VaultRig) -> None:
    (vault.rig.laptop.folder / "own.toml").write_text(VERDICT)
    vault.rig.declare(driver=SECOND, catalog="own.toml")
    tree = Tree(vault.rig.host)

    said = vault.rig.laptop.rigops("plan", "--json", *INVENTORY)

    (blocked,) = only(said)["blocked"]
    assert (said.code, blocked["concern"]) == (1, "nvidia_driver")
    assert "our lab book" in blocked["reason"]
    assert vault.rig.changed_since(tree) == set()


def test_a_rollback_needs_no_source(vault: VaultRig) -> None:
    host = vault.applied(driver=SECOND)
    assert [one["version"] for one in vault.sets()] == [SECOND, FIRST]
    vault.without_sources()

    host = vault.rolled_back()

    assert (host["outcome"], vault.rig.drivers(), vault.rig.runs) == ("changed", {FIRST}, FIRST)
    assert stages(host).count("reboot") == 1
    assert f'write "driver": "{FIRST}"' in " ".join(host["story"])
    assert f"Pin: version {FIRST}-1" in vault.rig.does(f"cat {PIN}")
    assert vault.rig.holds() == set(vault.rig.versions())
    assert vault.nothing_is_left_of_the_source()
    assert vault.locked["driver"]["version"] == FIRST
    assert [one["version"] for one in vault.sets()] == [FIRST, SECOND]


def test_after_a_rollback_a_declared_branch_keeps_the_earlier_driver(vault: VaultRig) -> None:
    host = vault.applied(driver="535")

    assert not any(host["packages"].values())
    assert vault.rig.drivers() == {FIRST}


def test_what_was_proven_is_the_source_where_no_other_has_it(vault: VaultRig) -> None:
    host = vault.applied(driver=SECOND)

    assert (vault.rig.drivers(), vault.rig.runs) == ({SECOND}, SECOND)
    assert any("comes from the vault" in text for text in host["notices"])
    assert vault.nothing_is_left_of_the_source()


def test_a_second_controller_fetches_what_the_host_has_by_the_lockfile(vault: VaultRig) -> None:
    shutil.rmtree(vault.rig.laptop.folder / "data")
    vault.rig.does("dpkg --purge --force-all libcuda1")

    host = vault.applied(driver="535")

    assert (vault.rig.drivers(), vault.rig.runs) == ({SECOND}, SECOND)
    assert host["vault"]["fetched_bytes"] > host["vault"]["host_bytes"]
    assert all(
        vault.stored(its["sha256"]).is_file() for one in vault.sets() for its in one["packages"]
    )


def test_a_reinstalled_host_gets_the_locked_driver_from_the_controller(vault: VaultRig) -> None:
    before = vault.rig.versions()
    vault.rig.does(PURGE)
    vault.without_sources()
    assert vault.rig.versions() == {}

    host = vault.applied(driver="535")

    assert host["outcome"] == "changed"
    assert (vault.rig.versions(), vault.rig.runs) == (before, SECOND)
    assert any("are sent from" in text for text in host["notices"])
    assert vault.nothing_is_left_of_the_source()


def test_a_tampered_package_is_refused_with_its_name_and_both_digests(vault: VaultRig) -> None:
    libcuda = vault.package("libcuda1", SECOND)
    vault.rig.does(f"echo x >>{VAULT}/{libcuda['file']}")
    found = vault.pool()[libcuda["file"]]
    vault.rig.does("dpkg --purge --force-all libcuda1")
    tree = Tree(vault.rig.host)

    host = vault.applied(1, driver=SECOND)

    (blocked,) = host["blocked"]
    assert host["outcome"] == "refused"
    for word in (libcuda["file"], libcuda["sha256"], found):
        assert word in blocked["reason"]
    assert vault.rig.changed_since(tree) == set()


def test_the_record_beside_the_packages_is_not_trusted(vault: VaultRig) -> None:
    """Who can change a package there can change the record, too."""
    libcuda = vault.package("libcuda1", SECOND)
    found = vault.pool()[libcuda["file"]]
    vault.rig.does(f"sed -i s/{libcuda['sha256']}/{found}/ {VAULT}/vault.json {VAULT}/*.packages")

    host = vault.applied(1, driver=SECOND)

    assert libcuda["sha256"] in host["blocked"][0]["reason"]


def test_a_damaged_file_of_the_controller_is_not_installed(vault: VaultRig) -> None:
    libcuda = vault.package("libcuda1", SECOND)
    copy = vault.stored(libcuda["sha256"])
    good = copy.read_bytes()
    copy.write_bytes(good[:-1] + b"x")
    vault.rig.does(f"rm {VAULT}/{libcuda['file']}")

    host = vault.applied(1, driver=SECOND)

    assert libcuda["sha256"] in host["error"]["message"]
    assert "libcuda1" not in vault.rig.versions()
    copy.write_bytes(good)
    vault.rig.does(f"rm -f {VAULT}/{libcuda['file']}")
    assert vault.applied(driver=SECOND)["outcome"] == "changed"
    assert vault.rig.runs == SECOND
    assert vault.package("libcuda1", SECOND) == libcuda
    assert vault.sets()[0] == vault.locked["packages"][0]


def test_what_an_interrupted_run_left_of_the_source_is_taken_away(vault: VaultRig) -> None:
    vault.applied(driver=FIRST)  # from the vault, as nothing else has it
    running = vault.rig.laptop.start("rollback", vault.rig.host.name, *AUTO)
    vault.rig.does(f"for i in $(seq 600); do [ ! -e {SOURCE} ] || exit 0; sleep 0.05; done; exit 1")
    running.end()
    vault.rig.does("while pgrep -x apt-get || pgrep -x dpkg; do sleep 0.1; done; sleep 1")
    assert vault.rig.there(SOURCE)

    host = vault.applied(driver="535")

    assert host["outcome"] == "changed"
    assert vault.nothing_is_left_of_the_source()
    assert vault.rig.drivers() in ({FIRST}, {SECOND})


def test_a_folder_of_this_machine_is_a_source(vault: VaultRig, tmp_path: Path) -> None:
    (one,) = (its for its in vault.locked["packages"] if its["version"] == SECOND)
    for its in one["packages"]:
        (tmp_path / its["file"].replace("pool/", "")).write_bytes(
            vault.stored(its["sha256"]).read_bytes()
        )
    vault.rig.does(PURGE)
    vault.lock.unlink()
    assert vault.rig.versions() == {}

    host = vault.applied(driver="535", driver_source=f"dir:{tmp_path}")

    assert (vault.rig.drivers(), vault.rig.runs) == ({SECOND}, SECOND)
    assert any(f"sent from {tmp_path}" in text for text in host["notices"])
    assert vault.nothing_is_left_of_the_source()
    assert vault.sets()[0]["version"] == SECOND
