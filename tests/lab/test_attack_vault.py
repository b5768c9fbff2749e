"""Somebody changes the vaults before a rollback: what was proven is installed, or nothing.

A row is a damage to files of the earlier driver, and whether the rollback is refused for it.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.lab.driver_rig import tended
from tests.lab.vault_rig import FIRST, SECOND, VAULT, VaultRig
from tests.shards import ATTACK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.shard(ATTACK)

MINE, THEIRS = "nvidia-smi", "libcuda1"
FLIPPED = "printf '\\377' | dd of={0} bs=1 seek=200 conv=notrunc status=none"
LIAR = """#!/bin/sh
case "$*" in *%s*/vault/pool/*) echo 999999999999999 ;; *) exec /usr/bin/stat.real "$@" ;; esac
"""
PROVEN_COPY = "rm -rf /root/vault; cp -a {0} /root/vault"
RESTORED = "rm -rf {0}; cp -a /root/vault {0}"


@pytest.fixture(scope="module")
def proven(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VaultRig]:
    """With the second driver, which the first was proven before; no source has either."""
    with tended(tmp_path_factory, "threadripper-3x3090=attack-vault", f"driver={FIRST}") as rig:
        vault = VaultRig(rig)
        vault.applied(driver=FIRST)
        vault.applied(driver=SECOND)
        vault.without_sources()
        rig.does(PROVEN_COPY.format(VAULT))
        shutil.copytree(data(vault), data(vault).with_name("proven"))
        yield vault


@pytest.fixture
def vault(proven: VaultRig) -> Iterator[VaultRig]:
    yield proven
    proven.rig.does(RESTORED.format(VAULT))
    shutil.rmtree(data(proven), ignore_errors=True)
    shutil.copytree(data(proven).with_name("proven"), data(proven))


def data(vault: VaultRig) -> Path:
    return vault.rig.laptop.folder / "data"


def on_host(vault: VaultRig, name: str) -> str:
    return f"{VAULT}/{vault.package(name, FIRST)['file']}"


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(FLIPPED, id="a byte is another"),
        pytest.param("echo >>{0}", id="a byte more"),
        pytest.param(": >{0}", id="empty"),
        pytest.param("mv {0} {0}.x; mv {1} {0}; mv {0}.x {1}", id="two are swapped"),
        pytest.param("cp {1} {0}", id="another package under its name"),
        pytest.param(
            "d=$(sha256sum <{0}); " + FLIPPED + "; n=$(sha256sum <{0}); "
            'sed -i "s/${{d%% *}}/${{n%% *}}/" ' + f"{VAULT}/vault.json {VAULT}/*.packages",
            id="a byte is another and the manifest says so",
        ),
    ],
)
def test_a_changed_package_ends_the_rollback_before_anything_is_changed(
    vault: VaultRig, damage: str
) -> None:
    mine, theirs = on_host(vault, MINE), on_host(vault, THEIRS)
    vault.rig.does(damage.format(mine, theirs))

    host = vault.rolled_back(1)

    assert host["outcome"] == "refused"
    assert "the lockfile is" in host["blocked"][0]["reason"]
    assert vault.rig.drivers() == {SECOND}
    assert vault.nothing_is_left_of_the_source()


def _flipped(vault: VaultRig) -> None:
    copy = vault.stored(vault.package(MINE, FIRST)["sha256"])
    copy.write_bytes(copy.read_bytes()[:-1] + b"\xff")


def _linked(vault: VaultRig) -> None:
    copy = vault.stored(vault.package(MINE, FIRST)["sha256"])
    size = copy.stat().st_size
    other = copy.with_name("other")
    other.write_bytes(b"x" * size)
    copy.unlink()
    copy.symlink_to(other)


@pytest.mark.parametrize("damage", [_flipped, _linked])
def test_what_this_machine_sends_is_compared_on_the_host(
    vault: VaultRig, damage: Callable[[VaultRig], None]
) -> None:
    digest = vault.package(MINE, FIRST)["sha256"]
    vault.rig.does(f"rm {on_host(vault, MINE)}")
    damage(vault)

    host = vault.rolled_back(1)

    assert f"is not what was proven: expected {digest}" in host["error"]["message"]
    assert vault.rig.drivers() == {SECOND}


def test_sizes_that_the_host_invents_fetch_nothing_and_leave_the_lockfile(vault: VaultRig) -> None:
    before = vault.locked["packages"]
    shutil.rmtree(data(vault))
    place = "/usr/bin/stat"
    planted = f"mv {place} {place}.real; cat >{place}; chmod 755 {place}"
    assert vault.rig.host.run(planted, given=LIAR).returncode == 0
    try:
        host = vault.applied(driver=SECOND)
    finally:
        vault.rig.does(f"mv {place}.real {place}")

    assert "at most 4,000 MB are fetched" in host["vault"]["trouble"]
    assert vault.locked["packages"] == before
    assert not list(data(vault).rglob("sha256/*/*"))


def test_missing_linked_and_extra_files_do_no_harm(vault: VaultRig) -> None:
    mine, theirs = on_host(vault, MINE), on_host(vault, THEIRS)
    digests = {
        its["file"]: its["sha256"] for one in vault.locked["packages"] for its in one["packages"]
    }
    vault.rig.does(
        f"mv {mine} /root/elsewhere; echo >>/root/elsewhere; ln -s /root/elsewhere {mine}; "
        f"rm {theirs}; cp /root/elsewhere {VAULT}/pool/nvidia-smi_999-1_amd64.deb; "
        f"printf 'Package: nvidia-smi\\nVersion: 999-1\\nArchitecture: amd64\\n' >{VAULT}/Packages"
    )

    host = vault.rolled_back()

    assert (host["outcome"], vault.rig.drivers(), vault.rig.runs) == ("changed", {FIRST}, FIRST)
    assert vault.pool() == digests
    assert vault.rig.does("test -f /root/elsewhere; find /var/lib/rigops/vault -type l") == ""
    assert vault.nothing_is_left_of_the_source()
