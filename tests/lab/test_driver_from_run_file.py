"""A .run file of NVIDIA's in a folder of the controller: the source of a driver like any other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.probe.package_names import RUN_FILE
from tests.lab import run_file, run_package
from tests.lab.applying import INVENTORY, QUIETLY, only
from tests.lab.driver_rig import (
    ALL,
    AUTO,
    GOOD,
    MODPROBE,
    NEVER,
    OLD,
    PIN,
    Rig,
    stages,
    subjects,
    tended,
)
from tests.lab.sshd import until
from tests.lab.vault_rig import FIRST, PURGE, SECOND, VAULT, VaultRig
from tests.shards import LAB_DRIVER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RIG = "threadripper-3x3090"
UNINSTALLER = "/usr/bin/nvidia-uninstall"
MARK = "/var/lib/rigops/run-file"
UNIT = "/etc/systemd/system/nvidia-persistenced.service"
DRIVER = "driver of NVIDIA's own installer"
OPENGL = "/usr/share/glvnd/egl_vendor.d/10_nvidia.json"
FAILS = "/etc/rigsim/run-file-fails"
STARTED = "systemctl is-system-running --wait"

pytestmark = pytest.mark.shard(LAB_DRIVER)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As somebody has it on the laptop: two versions, and what is none."""
    found = tmp_path_factory.mktemp("drivers")
    run_package.built(found, GOOD)
    run_package.built(found, run_file.VERSION)
    (found / "cuda_12.2.2_535.104.05_linux.run").write_text("#!/bin/sh\n")
    return found


def built_for(rig: Rig) -> set[str]:
    """The versions of the modules, by kernel, as modprobe would find them."""
    said = rig.does(
        "for one in /boot/vmlinuz-*; do modinfo -k ${one##*/vmlinuz-} -F version nvidia; done"
    )
    return set(said.split())


# ---- beside a driver that is loaded, which older installers do not even begin with


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with tended(tmp_path_factory, f"{RIG}=run-source") as rig:
        assert (rig.drivers(), rig.runs) == ({OLD}, OLD)
        yield rig


def test_the_plan_shows_it_and_touches_nothing(rig: Rig, folder: Path) -> None:
    rig.declare(driver="535", driver_source=f"dir:{folder}")
    before = rig.does("cat /var/lib/dpkg/status | sha256sum")

    host = only(rig.laptop.rigops("plan", "--json", *INVENTORY))

    (change,) = (one for one in host["changes"] if one["subject"] == DRIVER)
    # The host has the packages of a desktop.
    assert change["after"] == f"{GOOD}, proprietary modules, desktop\n"
    assert f"driver {GOOD} (proprietary modules) from {folder} on this machine" in str(
        host["notices"]
    )
    gone = {one["name"] for one in host["packages"]["remove"]}
    assert {"libcuda1", "nvidia-kernel-dkms", "nvidia-persistenced"} <= gone
    assert rig.does("cat /var/lib/dpkg/status | sha256sum") == before


def test_one_apply_and_one_reboot_bring_it(rig: Rig, folder: Path) -> None:
    host = rig.apply(0, *AUTO, driver="535", driver_source=f"dir:{folder}")

    assert (host["outcome"], stages(host).count("reboot")) == ("changed", 1)
    assert (rig.versions(), rig.loaded, rig.runs) == ({}, GOOD, GOOD)
    assert rig.there(UNINSTALLER, MARK, *ALL) == sorted((UNINSTALLER, MARK, *ALL))
    assert built_for(rig) == {GOOD}
    assert rig.holds() == set()
    assert rig.there(f"{VAULT}/work.*", OPENGL) == [OPENGL]


def test_another_apply_changes_nothing(rig: Rig, folder: Path) -> None:
    host = rig.apply(0, *AUTO, driver="535", driver_source=f"dir:{folder}")

    assert (host["outcome"], host["changes"]) == ("converged", [])


def test_doctor_says_where_it_is_from_and_has_nothing_against_it(rig: Rig) -> None:
    seen = rig.laptop.doctor(*INVENTORY).seen()

    found = seen.one("pkg.sources")
    assert found["status"] == "ok"
    assert f"driver {GOOD} came from NVIDIA's installer (.run), and rigops keeps it" in str(found)
    assert seen.one("drv.pin")["status"] == "ok"
    assert seen.ids("fail") == set()


def test_persistence_is_on_after_the_reboot(rig: Rig) -> None:
    assert rig.does("systemctl is-active nvidia-persistenced") == "active"
    assert rig.there(UNIT) == [UNIT]
    said = rig.does("nvidia-smi --query-gpu=persistence_mode --format=csv,noheader")
    assert set(said.splitlines()) == {"Enabled"}


def test_apt_brings_no_packages_of_a_driver_beside_it(rig: Rig) -> None:
    rig.has_suites("bookworm", "newer")

    for name in ("nvidia-driver", "libcuda1", "nvidia-kernel-dkms"):
        said = rig.host.run(f"DEBIAN_FRONTEND=noninteractive apt-get -y install {name} 2>&1")
        assert said.returncode != 0, said.stdout
    rig.does("DEBIAN_FRONTEND=noninteractive apt-get -y full-upgrade")
    assert (rig.versions(), rig.runs) == ({}, GOOD)


def test_it_stays_when_the_folder_is_not_declared_any_more(rig: Rig) -> None:
    """The sources have packages of this very version: it is what is there that stays."""
    host = rig.apply(0, *AUTO, driver="535")

    assert not any(host["packages"].values())
    assert DRIVER not in subjects(host, "module")
    assert (rig.versions(), rig.runs) == ({}, GOOD)


def test_a_driver_that_somebody_put_over_it_is_not_taken_for_it(rig: Rig, folder: Path) -> None:
    rig.does(f"cp {MARK} /root/mark && echo x >>/var/lib/nvidia/log")

    reason = rig.refusal(driver="535", driver_source=f"dir:{folder}")

    assert f"NVIDIA's own installer put driver {GOOD} here" in reason
    rig.does("sed -i '$d' /var/lib/nvidia/log")


def test_packages_take_its_place_without_further_consent(rig: Rig) -> None:
    host = rig.apply(0, *AUTO, driver=FIRST)

    assert DRIVER in subjects(host, "module")
    assert stages(host).count("reboot") == 1
    assert (rig.drivers(), rig.loaded, rig.runs) == ({FIRST}, FIRST, FIRST)
    assert rig.there(UNINSTALLER, MARK, UNIT, "/var/lib/nvidia", f"/usr/src/nvidia-{GOOD}") == []


def test_undeclared_it_stays_and_what_kept_it_goes(rig: Rig, folder: Path) -> None:
    rig.apply(0, *AUTO, driver="535.261.03", driver_source=f"dir:{folder}")

    rig.apply(0, "--prune", *AUTO)

    assert rig.there(UNINSTALLER) == [UNINSTALLER]
    assert rig.there(*ALL, UNIT) == []
    assert rig.runs == GOOD
    assert rig.apply(0, *AUTO, driver="535")["outcome"] == "changed"
    assert (rig.versions(), rig.there(PIN, MODPROBE)) == ({}, [PIN, MODPROBE])


# ---- what is wrong with a folder, or with a run of the installer


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with tended(tmp_path_factory, f"{RIG}=run-bare", "driver=none") as rig:
        yield rig


def test_a_page_that_was_saved_as_one_is_refused_by_name(bare: Rig, tmp_path: Path) -> None:
    page = tmp_path / f"NVIDIA-Linux-x86_64-{GOOD}.run"
    page.write_text("<html>404</html>\n")

    reason = bare.refusal(driver="535", driver_source=f"dir:{tmp_path}")

    assert f"{page} does not begin like NVIDIA's installer of driver {GOOD}" in reason


def test_a_version_that_is_not_there_is_refused(bare: Rig, folder: Path) -> None:
    reason = bare.refusal(driver="580", driver_source=f"dir:{folder}")

    assert f"of {folder}" in reason


def test_one_that_is_damaged_changes_no_driver(bare: Rig, tmp_path: Path) -> None:
    file = run_package.built(tmp_path, GOOD)
    file.write_bytes(file.read_bytes()[:-100])

    host = bare.apply(1, *NEVER, driver="535", driver_source=f"dir:{tmp_path}")

    assert host["outcome"] == "failed"
    assert f"NVIDIA-Linux-x86_64-{GOOD}.run could not be unpacked" in str(host)
    assert bare.there(UNINSTALLER, MARK, f"{VAULT}/work.*") == []


def test_one_that_fails_half_way_is_told_in_its_own_words(bare: Rig, folder: Path) -> None:
    bare.does(f"mkdir -p /etc/rigsim && touch {FAILS} && rm -rf {VAULT}")

    host = bare.apply(1, *NEVER, driver="535", driver_source=f"dir:{folder}")

    assert host["outcome"] == "failed"
    assert "see /var/log/nvidia-installer.log" in str(host)
    assert "ERROR: this one was asked to fail" in str(host)
    assert bare.does(f"cut -d ' ' -f 1-2 {MARK}") == f"begun {GOOD}"


def test_the_next_apply_does_it_once_more_and_whole(bare: Rig, folder: Path) -> None:
    bare.does(f"rm {FAILS}")

    host = bare.apply(0, *AUTO, driver="535", driver_source=f"dir:{folder}")

    assert stages(host).count("reboot") == 1
    assert (bare.loaded, bare.runs, built_for(bare)) == (GOOD, GOOD, {GOOD})
    assert bare.there(OPENGL) == []


def test_a_desktop_has_the_files_for_it_and_another_version_comes_in_its_place(
    bare: Rig, folder: Path
) -> None:
    bare.apply(
        0,
        *AUTO,
        driver="550",
        driver_set="desktop",
        driver_flavor="open",
        driver_source=f"dir:{folder}",
    )

    assert (bare.loaded, bare.runs) == (run_file.VERSION, run_file.VERSION)
    assert bare.there(OPENGL) == [OPENGL]
    kernel = bare.does("uname -r")
    assert "MIT" in bare.does(f"modinfo -k {kernel} -F license nvidia")
    assert bare.does("dkms status | cut -d , -f 1 | sort -u") == f"nvidia/{run_file.VERSION}"


def test_one_of_somebody_s_is_only_replaced_with_consent(bare: Rig, folder: Path) -> None:
    bare.does(f"{UNINSTALLER} --uninstall --silent && rm -rf {MARK} /usr/src/nvidia-*")
    run_file.install(bare.host)
    wanted = {"driver": "535", "driver_source": f"dir:{folder}"}
    assert "--remove-foreign-driver" in bare.refusal(**wanted)

    bare.apply(0, "--remove-foreign-driver", *AUTO, **wanted)

    assert (bare.loaded, bare.runs, built_for(bare)) == (GOOD, GOOD, {GOOD})


def test_a_pin_that_somebody_overrides_ends_it_before_anything_is_changed(
    bare: Rig, folder: Path
) -> None:
    bare.has_suites("bookworm")
    bare.does(
        "printf 'Package: libcuda1\\nPin: version *\\nPin-Priority: 1001\\n' "
        ">/etc/apt/preferences.d/00-mine.pref"
    )
    wanted = {"driver": "550", "driver_source": f"dir:{folder}"}

    host = bare.apply(1, *AUTO, **wanted)

    assert "in spite of the pin, apt would install packages of a driver: libcuda1" in str(host)
    assert (bare.versions(), bare.runs) == ({}, GOOD)
    bare.does("rm /etc/apt/preferences.d/00-mine.pref")


def test_the_installer_comes_to_its_end_without_its_controller(bare: Rig, folder: Path) -> None:
    bare.does(f"echo wait 5 >{FAILS}")
    bare.declare(driver="550", driver_source=f"dir:{folder}")
    running = bare.laptop.start("apply", "--yes", *NEVER, *QUIETLY)
    until(lambda: bare.host.run(f"grep -q '^begun' {MARK}").returncode == 0, "the installer")
    running.end()
    until(lambda: bare.host.run(f"grep -q '^whole' {MARK}").returncode == 0, "its end")
    bare.does(f"rm {FAILS}")

    host = bare.apply(0, *AUTO, driver="550", driver_source=f"dir:{folder}")

    assert DRIVER not in subjects(host, "module")
    assert (bare.loaded, bare.runs) == (run_file.VERSION, run_file.VERSION)
    assert bare.there(f"{VAULT}/work.*") == []


# ---- where the distribution's 535 is none


def test_beside_a_trap_with_nouveau_on_the_cards_it_is_the_real_one(
    tmp_path_factory: pytest.TempPathFactory, folder: Path
) -> None:
    with tended(tmp_path_factory, "ubuntu-trap=run-trap", "pocket=off") as trap:
        assert "installs nvidia-dkms-580" in trap.refusal(driver="535")

        host = trap.apply(0, *AUTO, driver="535", driver_source=f"dir:{folder}")

        assert stages(host).count("reboot") == 1
        assert (trap.versions(), trap.loaded, trap.runs) == ({}, GOOD, GOOD)
        assert trap.drives() == {"nvidia"}
        trap.does("DEBIAN_FRONTEND=noninteractive apt-get -y full-upgrade")
        assert (trap.versions(), trap.runs) == ({}, GOOD)


# ---- a host that goes down in the middle


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[Rig]:
    with tended(tmp_path_factory, f"{RIG}=run-cut") as rig:
        rig.does(f"mkdir -p /etc/rigsim && echo reboot >{FAILS}")
        rig.declare(driver="535", driver_source=f"dir:{folder}")
        said = rig.laptop.rigops("apply", *NEVER, *QUIETLY, "--json")
        assert said.code != 0, said.out
        until(lambda: rig.host.answers, "the host's next boot")
        assert rig.does(STARTED) == "running"
        rig.does(f"rm {FAILS}")
        yield rig


def test_a_host_cut_off_in_the_middle_is_told_to_have_no_driver(cut: Rig) -> None:
    said = cut.laptop.doctor(*INVENTORY)

    assert said.code == 1
    assert "no driver" in str(said.seen().of("drv.loaded")) or said.seen().ids("fail")
    assert cut.does(f"cut -d ' ' -f 1 {MARK}") == "begun"


def test_even_with_packages_declared_the_next_apply_puts_it_right(cut: Rig) -> None:
    """What was begun by rigops is taken away, though its uninstaller had not come yet."""
    cut.apply(0, *AUTO, driver=FIRST)

    assert (cut.drivers(), cut.loaded, cut.runs) == ({FIRST}, FIRST, FIRST)
    assert cut.there(MARK, UNINSTALLER, "/var/lib/nvidia", f"{VAULT}/work.*") == []


# ---- in the vault, and back from there


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VaultRig]:
    with tended(tmp_path_factory, f"{RIG}=run-kept", f"driver={FIRST}") as rig:
        yield VaultRig(rig)


def test_once_proven_the_file_is_in_both_vaults(vault: VaultRig, folder: Path) -> None:
    vault.applied(driver=FIRST)

    vault.applied(driver=SECOND, driver_source=f"dir:{folder}")

    assert vault.rig.runs == SECOND
    name = f"NVIDIA-Linux-x86_64-{SECOND}.run"
    one, before = vault.sets()
    (its,) = (its for its in one["packages"] if its["file"] == f"pool/{name}")
    assert vault.pool()[its["file"]] == its["sha256"]
    assert vault.stored(its["sha256"]).read_bytes() == (folder / name).read_bytes()
    assert "dkms" in {its["name"] for its in one["packages"]}
    assert vault.locked["packages"] == [one, before]


def test_apt_learns_of_the_packages_of_the_vault_and_of_no_file(vault: VaultRig) -> None:
    told = vault.rig.does(f"""
        mkdir -p /root/told/lists/partial && cd /root/told
        cp $(grep -l {RUN_FILE} {VAULT}/*.packages) Packages
        echo 'deb [trusted=yes] file:/root/told ./' >only.list
        only='-o Dir::Etc::sourcelist=/root/told/only.list -o Dir::Etc::sourceparts=-'
        only="$only -o Dir::State::lists=/root/told/lists -o Dir::Cache=/root/told"
        apt-get -q $only update >/dev/null
        apt-cache $only madison dkms {RUN_FILE}
    """)

    assert "dkms | 3.0.10" in told
    assert RUN_FILE not in told


def test_a_rollback_to_packages_and_forth_to_it_needs_neither_source_nor_folder(
    vault: VaultRig,
) -> None:
    vault.without_sources()

    vault.rolled_back()
    assert (vault.rig.drivers(), vault.rig.runs) == ({FIRST}, FIRST)
    assert vault.rig.there(UNINSTALLER, MARK) == []

    host = vault.rolled_back()
    assert (vault.rig.versions(), vault.rig.runs) == ({}, SECOND)
    assert stages(host).count("reboot") == 1
    assert vault.nothing_is_left_of_the_source()


def test_its_other_modules_come_from_the_file_in_the_vault(vault: VaultRig) -> None:
    """Whose digest is looked at once more: it is run again."""
    host = vault.applied(driver=SECOND, driver_flavor="open")

    assert DRIVER in subjects(host, "module")
    assert any("comes from the vault" in text for text in host["notices"])
    assert "MIT" in vault.rig.does("modinfo -k $(uname -r) -F license nvidia")
    assert (vault.rig.versions(), vault.rig.runs) == ({}, SECOND)


def test_a_reinstalled_host_gets_it_from_the_controller(vault: VaultRig) -> None:
    vault.rig.does(f"{UNINSTALLER} --uninstall --silent; rm -rf /usr/src/nvidia-*; true")
    vault.rig.does(PURGE.replace("$(dpkg-query", "dkms $(dpkg-query"))
    vault.rig.reboot()

    host = vault.applied(driver="535")

    assert (vault.rig.versions(), vault.rig.runs) == ({}, SECOND)
    assert any("are sent from" in text for text in host["notices"])


def test_one_that_was_tampered_with_there_is_refused_with_both_digests(vault: VaultRig) -> None:
    (one,) = (its for its in vault.locked["packages"][0]["packages"] if ".run" in its["file"])
    vault.rig.does(f"echo x >>{VAULT}/{one['file']} && rm {MARK}")
    found = vault.pool()[one["file"]]
    vault.rig.does(f"{UNINSTALLER} --uninstall --silent")

    host = vault.applied(1, driver=SECOND)

    reason = host["blocked"][0]["reason"]
    assert all(word in reason for word in (one["file"], one["sha256"], found))
    assert vault.rig.there(UNINSTALLER) == []
