"""The vault: what was proven is kept, comes back without any source, and only the lock vouches."""

from __future__ import annotations

import json
import shutil
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from tests.lab import signed
from tests.lab.applying import INVENTORY, only
from tests.lab.driver_rig import PIN, stages, tended
from tests.lab.kept import AUTO, FIRST, PURGE, SECOND, SOURCE, VAULT, Kept
from tests.lab.packages import source
from tests.lab.packages.archive import COMPONENTS
from tests.lab.tree import Tree
from tests.own_catalogue import verdict_against
from tests.tiers import LAB_DRIVER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.shard(LAB_DRIVER)

VERDICT = verdict_against(SECOND)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    with tended(tmp_path_factory, "threadripper-3x3090=vault", f"driver={FIRST}") as rig:
        yield Kept(rig)


def test_a_proven_apply_keeps_the_exact_packages_here_and_there(kept: Kept) -> None:
    host = kept.applied(driver=FIRST)

    (one,) = kept.sets()
    files = {its["file"]: its["sha256"] for its in one["packages"]}
    assert kept.pool() == files
    versions = {its["name"]: its["version"] for its in one["packages"]}
    assert kept.rig.versions().items() <= versions.items()
    assert {"dkms", "nvidia-support", "glx-alternative-nvidia"} <= versions.keys()
    assert kept.locked["packages"] == [one]
    assert kept.locked["driver"] == {"version": FIRST, "flavour": "proprietary"}
    assert {pair["verdict"] for pair in kept.locked["p2p"]} == {"not_granted"}
    for its in one["packages"]:
        copy = kept.copy(its["sha256"])
        assert sha256(copy.read_bytes()).hexdigest() == its["sha256"]
        assert copy.stat().st_mode & 0o022 == 0
    assert host["vault"]["host_bytes"] == sum(its["size"] for its in one["packages"])
    assert "fetched to" in " ".join(host["story"])
    assert kept.rig.does(f"find {VAULT} ! -user root -o -perm /022") == ""


def test_what_is_kept_is_left_alone_and_the_lock_with_it(kept: Kept) -> None:
    tree, lock = Tree(kept.rig.host), kept.lock.stat()

    host = kept.applied(driver=FIRST)

    assert (host["outcome"], host["vault"]) == ("converged", None)
    assert kept.rig.changed_since(tree) == set()
    assert kept.lock.stat().st_mtime_ns == lock.st_mtime_ns


def test_with_nothing_earlier_a_rollback_says_what_there_is(kept: Kept) -> None:
    tree = Tree(kept.rig.host)

    host = kept.rolled_back(1)

    assert host["outcome"] == "refused"
    assert f"there is only {FIRST}, proven" in host["blocked"][0]["reason"]
    assert kept.rig.changed_since(tree) == set()


def test_a_controller_that_lost_its_copies_gets_them_again(kept: Kept) -> None:
    (one,) = kept.sets()
    for its in one["packages"]:
        kept.copy(its["sha256"]).unlink()

    host = kept.applied(driver=FIRST)

    assert host["vault"]["fetched_bytes"] == host["vault"]["host_bytes"]
    assert all(kept.copy(its["sha256"]).is_file() for its in one["packages"])


def test_what_archives_signed_is_kept_and_holds(kept: Kept, tmp_path: Path) -> None:
    signed.archive(kept.rig.host, tmp_path / "key", "debian", ("bookworm",))
    kept.rig.has_sources(signed.source("bookworm", " ".join(COMPONENTS["debian"])))
    kept.rig.does(f"rm -rf {VAULT}")

    host = kept.applied(driver=FIRST)

    (one,) = kept.sets()
    assert (host["vault"]["unsigned"], host["vault"]["doubts"]) == ([], [])
    document = f"{VAULT}/{one['index'][:12]}.signatures"
    told = json.loads(kept.rig.does(f"cat {document}"))
    assert told["schema"] == "rigops.signatures/1"
    assert {its["signer"] for its in told["packages"]} == {signed.KEYRING}
    (release,) = told["releases"]
    assert release["source"] == f"file:{signed.AT}/ bookworm"
    assert any("Good signature" in text for text in release["said"])
    kept.rig.does(f"gpgv --keyring {signed.KEYRING} {VAULT}/lists/{release['text']}")
    files = {release["text"], *(its["file"] for its in told["indexes"])}
    assert set(kept.rig.does(f"ls {VAULT}/lists").split()) == files
    for file in files:
        assert sha256(kept.copy(file).read_bytes()).hexdigest() == file
    assert kept.nothing_is_left_of_the_source()


def test_what_nobody_signed_is_kept_and_told(kept: Kept) -> None:
    kept.rig.has_sources(source("debian", "bookworm"))
    kept.rig.does(f"rm -rf {VAULT}")

    host = kept.applied(driver=FIRST)

    (one,) = kept.sets()
    names = [its["file"].removeprefix("pool/") for its in one["packages"]]
    assert (host["vault"]["unsigned"], host["vault"]["doubts"]) == (names, [])
    assert "not signed by anybody" in " ".join(host["story"])


def test_a_verdict_of_the_users_own_refuses_a_driver(kept: Kept) -> None:
    (kept.rig.laptop.folder / "own.toml").write_text(VERDICT)
    kept.rig.declare(driver=SECOND, catalog="own.toml")
    tree = Tree(kept.rig.host)

    said = kept.rig.laptop.rigops("plan", "--json", *INVENTORY)

    (blocked,) = only(said)["blocked"]
    assert (said.code, blocked["concern"]) == (1, "nvidia_driver")
    assert "our lab book" in blocked["reason"]
    assert kept.rig.changed_since(tree) == set()


def test_a_rollback_needs_no_source(kept: Kept) -> None:
    host = kept.applied(driver=SECOND)
    assert [one["version"] for one in kept.sets()] == [SECOND, FIRST]
    kept.without_sources()

    host = kept.rolled_back()

    assert (host["outcome"], kept.rig.drivers(), kept.rig.runs) == ("changed", {FIRST}, FIRST)
    assert stages(host).count("reboot") == 1
    assert f'write driver = "{FIRST}" there' in " ".join(host["story"])
    assert f"Pin: version {FIRST}-1" in kept.rig.does(f"cat {PIN}")
    assert kept.rig.holds() == set(kept.rig.versions())
    assert kept.nothing_is_left_of_the_source()
    assert kept.locked["driver"]["version"] == FIRST
    assert [one["version"] for one in kept.sets()] == [FIRST, SECOND]


def test_after_a_rollback_a_declared_branch_keeps_the_earlier_driver(kept: Kept) -> None:
    host = kept.applied(driver="535")

    assert not any(host["packages"].values())
    assert kept.rig.drivers() == {FIRST}


def test_what_was_proven_is_the_source_where_no_other_has_it(kept: Kept) -> None:
    host = kept.applied(driver=SECOND)

    assert (kept.rig.drivers(), kept.rig.runs) == ({SECOND}, SECOND)
    assert any("comes from the vault" in text for text in host["notices"])
    assert kept.nothing_is_left_of_the_source()


def test_a_second_controller_takes_what_the_host_keeps_by_the_lock(kept: Kept) -> None:
    shutil.rmtree(kept.rig.laptop.folder / "data")
    kept.rig.does("dpkg --purge --force-all libcuda1")

    host = kept.applied(driver="535")

    assert (kept.rig.drivers(), kept.rig.runs) == ({SECOND}, SECOND)
    assert host["vault"]["fetched_bytes"] > host["vault"]["host_bytes"]
    assert all(kept.copy(its["sha256"]).is_file() for one in kept.sets() for its in one["packages"])


def test_a_reinstalled_host_gets_the_locked_driver_from_the_controller(kept: Kept) -> None:
    before = kept.rig.versions()
    kept.rig.does(PURGE)
    kept.without_sources()
    assert kept.rig.versions() == {}

    host = kept.applied(driver="535")

    assert host["outcome"] == "changed"
    assert (kept.rig.versions(), kept.rig.runs) == (before, SECOND)
    assert any("are sent from" in text for text in host["notices"])
    assert kept.nothing_is_left_of_the_source()


def test_a_tampered_package_is_refused_with_its_name_and_both_digests(kept: Kept) -> None:
    libcuda = kept.package("libcuda1", SECOND)
    kept.rig.does(f"echo x >>{VAULT}/{libcuda['file']}")
    found = kept.pool()[libcuda["file"]]
    kept.rig.does("dpkg --purge --force-all libcuda1")
    tree = Tree(kept.rig.host)

    host = kept.applied(1, driver=SECOND)

    (blocked,) = host["blocked"]
    assert host["outcome"] == "refused"
    for word in (libcuda["file"], libcuda["sha256"], found):
        assert word in blocked["reason"]
    assert kept.rig.changed_since(tree) == set()


def test_what_stands_beside_the_packages_vouches_for_nothing(kept: Kept) -> None:
    """Who can change a package there can change the record, too."""
    libcuda = kept.package("libcuda1", SECOND)
    found = kept.pool()[libcuda["file"]]
    kept.rig.does(f"sed -i s/{libcuda['sha256']}/{found}/ {VAULT}/vault.json {VAULT}/*.packages")

    host = kept.applied(1, driver=SECOND)

    assert libcuda["sha256"] in host["blocked"][0]["reason"]


def test_a_copy_that_is_damaged_is_not_installed(kept: Kept) -> None:
    libcuda = kept.package("libcuda1", SECOND)
    copy = kept.copy(libcuda["sha256"])
    good = copy.read_bytes()
    copy.write_bytes(good[:-1] + b"x")
    kept.rig.does(f"rm {VAULT}/{libcuda['file']}")

    host = kept.applied(1, driver=SECOND)

    assert libcuda["sha256"] in host["error"]["message"]
    assert "libcuda1" not in kept.rig.versions()
    copy.write_bytes(good)
    kept.rig.does(f"rm -f {VAULT}/{libcuda['file']}")
    assert kept.applied(driver=SECOND)["outcome"] == "changed"
    assert kept.rig.runs == SECOND
    assert kept.package("libcuda1", SECOND) == libcuda
    assert kept.sets()[0] == kept.locked["packages"][0]


def test_what_an_interrupted_run_left_of_the_source_is_taken_away(kept: Kept) -> None:
    kept.applied(driver=FIRST)  # from the vault, as nothing else has it
    running = kept.rig.laptop.start("rollback", kept.rig.host.name, *AUTO)
    kept.rig.does(f"for i in $(seq 600); do [ ! -e {SOURCE} ] || exit 0; sleep 0.05; done; exit 1")
    running.end()
    kept.rig.does("while pgrep -x apt-get || pgrep -x dpkg; do sleep 0.1; done; sleep 1")
    assert kept.rig.there(SOURCE)

    host = kept.applied(driver="535")

    assert host["outcome"] == "changed"
    assert kept.nothing_is_left_of_the_source()
    assert kept.rig.drivers() in ({FIRST}, {SECOND})


def test_a_folder_of_this_machine_is_a_source(kept: Kept, tmp_path: Path) -> None:
    (one,) = (its for its in kept.locked["packages"] if its["version"] == SECOND)
    for its in one["packages"]:
        (tmp_path / its["file"].replace("pool/", "")).write_bytes(
            kept.copy(its["sha256"]).read_bytes()
        )
    kept.rig.does(PURGE)
    kept.lock.unlink()
    assert kept.rig.versions() == {}

    host = kept.applied(driver="535", driver_source=f"dir:{tmp_path}")

    assert (kept.rig.drivers(), kept.rig.runs) == ({SECOND}, SECOND)
    assert any(f"sent from {tmp_path}" in text for text in host["notices"])
    assert kept.nothing_is_left_of_the_source()
    assert kept.sets()[0]["version"] == SECOND
