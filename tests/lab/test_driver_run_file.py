"""A driver from NVIDIA's own installer: refused, and with consent taken away for packages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lab import run_file
from tests.lab.applying import INVENTORY, QUIETLY, only
from tests.lab.driver_rig import (
    ALL,
    AUTO,
    GOOD,
    MODPROBE,
    NEVER,
    THE_535,
    Rig,
    stages,
    subjects,
    tended,
)
from tests.lab.sshd import until
from tests.shards import LAB_DRIVER

if TYPE_CHECKING:
    from collections.abc import Iterator

RIG = "threadripper-3x3090"
AGREED = ("--remove-foreign-driver", *AUTO)
STARTED = "systemctl is-system-running --wait"
HOOK = "/usr/lib/nvidia/post-uninstall"  # the uninstaller's last act
DRIVER = "driver of NVIDIA's own installer"
# By the same names, of the packages.
PACKAGES_HAVE_THEM = {
    "/usr/bin/nvidia-smi",
    "/usr/lib/x86_64-linux-gnu/libnvidia-cfg.so.1",
    "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
}

pytestmark = pytest.mark.shard(LAB_DRIVER)


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with tended(tmp_path_factory, f"{RIG}=run-file", "driver=none") as rig:
        yield rig


@pytest.fixture(scope="module")
def brought(rig: Rig) -> tuple[str, ...]:
    """By the installer; what it brought runs."""
    found = run_file.install(rig.host)
    rig.reboot()
    assert (rig.loaded, rig.runs) == (run_file.VERSION, run_file.VERSION)
    return found


def test_doctor_says_where_the_driver_is_from(rig: Rig, brought: tuple[str, ...]) -> None:
    rig.declare(**THE_535)
    found = rig.laptop.doctor(*INVENTORY).seen().one("pkg.sources")

    assert "NVIDIA's installer (.run), not from packages" in found["summary"]
    assert run_file.UNINSTALLER in brought


def test_it_is_refused_with_what_would_take_it_away(rig: Rig, brought: tuple[str, ...]) -> None:
    reason = rig.refusal(**THE_535)

    assert f"NVIDIA's own installer put driver {run_file.VERSION} here" in reason
    assert "`rigops apply --remove-foreign-driver`" in reason
    assert rig.runs == run_file.VERSION
    assert rig.there(*brought) == sorted(brought)


def test_its_modules_can_be_given_options_without_a_declared_driver(
    rig: Rig, brought: tuple[str, ...]
) -> None:
    rig.apply(0, *NEVER, module_options={"nvidia": {"NVreg_EnableResizableBar": 1}})

    assert "options nvidia NVreg_EnableResizableBar=1" in rig.does(f"cat {MODPROBE}")
    assert rig.there(*brought) == sorted(brought)
    rig.apply(0, "--prune", *NEVER)
    assert rig.there(MODPROBE) == []


def test_an_uninstaller_that_does_nothing_and_says_so_to_nobody(
    rig: Rig, brought: tuple[str, ...]
) -> None:
    rig.does("chmod 755 /var/lib/nvidia")

    host = rig.apply(1, *AGREED, **THE_535)

    assert host["outcome"] == "failed"
    said = str(host)
    assert "see /var/log/nvidia-uninstall.log" in said
    assert "ERROR: Uninstallation failed." in said
    assert rig.versions() == {}
    assert rig.there(*brought) == sorted(brought)
    assert rig.runs == run_file.VERSION


def test_what_somebody_changed_since_is_left_and_named(rig: Rig, brought: tuple[str, ...]) -> None:
    rig.does(f"chmod 700 /var/lib/nvidia && echo patched >>{run_file.LIBRARY}")

    host = rig.apply(1, *AGREED, **THE_535)

    assert host["outcome"] == "failed"
    assert run_file.LIBRARY in str(host)
    # ldconfig leads to a library that is left.
    assert rig.there(*brought) == [run_file.LINK_TO_IT, run_file.LIBRARY]
    assert rig.versions() == {}


def test_once_that_is_away_apply_goes_on_without_consent(
    rig: Rig, brought: tuple[str, ...]
) -> None:
    rig.does(f"rm {run_file.LIBRARY} {run_file.LINK_TO_IT}")

    host = rig.apply(0, *AUTO, **THE_535)

    assert stages(host).count("reboot") == 1
    assert (rig.drivers(), rig.loaded, rig.runs) == ({GOOD}, GOOD, GOOD)
    assert set(rig.there(*brought)) <= PACKAGES_HAVE_THEM


def test_installed_over_packages_it_is_told_and_left_alone(rig: Rig) -> None:
    run_file.install(rig.host)
    before = rig.versions()

    rig.declare(**THE_535)
    host = only(rig.laptop.rigops("apply", *AGREED, *QUIETLY, "--json"))

    assert f"put driver {run_file.VERSION} here beside packages" in str(host["notices"])
    assert rig.versions() == before
    assert rig.there(run_file.UNINSTALLER) == [run_file.UNINSTALLER]


# ---- an uninstaller that works


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with tended(tmp_path_factory, f"{RIG}=run-file-clean", "driver=none") as rig:
        yield rig


def test_with_consent_packages_take_its_place_in_one_apply_with_one_reboot(clean: Rig) -> None:
    brought = run_file.install(clean.host)
    clean.reboot()

    host = clean.apply(0, *AGREED, **THE_535)

    assert host["outcome"] == "changed"
    assert DRIVER in subjects(host, "module")
    assert stages(host).count("reboot") == 1
    assert (clean.drivers(), clean.loaded, clean.runs) == ({GOOD}, GOOD, GOOD)
    assert set(clean.there(*brought, "/var/lib/nvidia")) <= PACKAGES_HAVE_THEM
    assert clean.does(f"cat {run_file.IN_ITS_WAY}") == "theirs"
    assert clean.there(*ALL) == sorted(ALL)


def test_what_others_say_of_module_options_is_heard(clean: Rig) -> None:
    wanted = {**THE_535, "module_options": {"nvidia": {"NVreg_EnableResizableBar": 1}}}
    clean.does("echo 'options nvidia NVreg_EnableResizableBar=0' >/etc/modprobe.d/zz-mine.conf")

    reason = clean.refusal(**wanted)

    assert "/etc/modprobe.d/zz-mine.conf says `options nvidia NVreg_EnableResizableBar=0`" in reason
    assert "override the declared nvidia-current NVreg_EnableResizableBar=1" in reason


def test_an_option_that_somebody_sets_already_is_not_doubled(clean: Rig) -> None:
    wanted = {**THE_535, "module_options": {"nvidia": {"NVreg_EnableResizableBar": 1}}}
    clean.does(
        "echo 'options nvidia-current NVreg_EnableResizableBar=1' >/etc/modprobe.d/zz-mine.conf"
    )

    clean.apply(0, *AUTO, **wanted)

    assert "NVreg" not in clean.does(f"cat {MODPROBE}")
    assert clean.apply(0, *AUTO, **wanted)["changes"] == []


def test_a_blacklist_would_leave_the_next_boot_without_a_driver(clean: Rig) -> None:
    clean.does("echo 'blacklist nvidia' >/etc/modprobe.d/zz-mine.conf && modprobe -r nvidia")

    reason = clean.refusal(**THE_535)

    assert "/etc/modprobe.d/zz-mine.conf says `blacklist nvidia`, so NVIDIA" in reason


# ---- a host that is cut off between the two


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """As soon as the uninstaller is done, and before anything else."""
    with tended(tmp_path_factory, f"{RIG}=run-file-cut", "driver=none") as rig:
        run_file.install(rig.host)
        rig.does(
            f"mkdir -p /usr/lib/nvidia && printf '#!/bin/sh\\nsync\\nreboot -ff\\n' >{HOOK} && "
            f"chmod 755 {HOOK}"
        )
        rig.declare(**THE_535)
        said = rig.laptop.rigops("apply", "--remove-foreign-driver", *NEVER, *QUIETLY, "--json")
        assert said.code != 0, said.out
        until(lambda: rig.host.answers, "the host's next boot")
        assert rig.does(STARTED) == "running"
        rig.does(f"rm {HOOK}")
        yield rig


def test_doctor_says_of_a_host_between_the_two_that_it_has_no_driver(cut: Rig) -> None:
    said = cut.laptop.doctor(*INVENTORY)

    assert said.code == 1
    assert "no driver" in str(said.seen().of("drv.loaded")) or said.seen().ids("fail")
    assert cut.there(run_file.UNINSTALLER) == []


def test_the_next_apply_goes_on_from_there_without_consent(cut: Rig) -> None:
    host = cut.apply(0, *AUTO, **THE_535)

    assert DRIVER not in subjects(host, "module")
    assert (cut.drivers(), cut.loaded, cut.runs) == ({GOOD}, GOOD, GOOD)
