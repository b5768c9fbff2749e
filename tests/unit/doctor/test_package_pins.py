from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.doctor import package_rig as rig
from tests.unit.doctor.examining import checks_of, spec

CHECKS = checks_of("pkg.hold", "pkg.unattended")
HOLD = "pkg.hold"
UNATTENDED = "pkg.unattended"
LOOSE = rig.installed(status="ii")
EXACT = """\
== /etc/apt/preferences.d/nvidia.pref
Package: *nvidia*-535*
Pin: version 535.183.01*
Pin-Priority: 1001

"""
CLOSED = "Package: *nvidia*-535*\nPin: version *\nPin-Priority: -1\n\n"


def test_held_packages_are_well() -> None:
    found = rig.look(HOLD)

    assert (found.status, found.summary) == (
        "ok",
        "every package of the NVIDIA driver (9) is held or pinned",
    )
    assert found.fix is None


def test_the_list_of_apt_mark_counts_as_well_as_dpkgs_own_mark() -> None:
    assert rig.look(HOLD, packages=LOOSE).status == "ok"
    assert rig.look(HOLD, package_holds=rig.holds()).status == "ok"


def test_the_tools_of_a_declared_driver_have_to_be_held_too() -> None:
    found = rig.look(HOLD, spec(driver="535"))

    assert (found.status, found.data["packages"]) == ("warn", ["nvidia-settings"])


def test_packages_that_nothing_keeps_are_named_with_the_command_that_would() -> None:
    found = rig.look(HOLD, packages=LOOSE, package_holds=rig.holds())

    assert found.status == "warn"
    assert "9 packages of the NVIDIA driver" in found.summary
    named = found.data["packages"]
    assert isinstance(named, list)
    assert "libnvidia-cfg1-535" in named
    assert found.fix is not None
    assert (found.fix.kind, found.fix.concern) == ("apply", "nvidia_driver")
    assert found.fix.declare == {"driver": "535"}
    assert found.fix.by_hand == "apt-mark hold " + " ".join(rig.DRIVER)


def test_a_held_metapackage_holds_no_library() -> None:
    only_meta = {name: "hi" if name == "nvidia-driver-535" else "ii" for name in rig.DRIVER}

    found = rig.look(
        HOLD,
        packages=rig.installed(only_meta),
        package_holds=rig.holds("nvidia-driver-535"),
    )

    assert found.status == "warn"
    assert "8 of 9 packages" in found.summary
    assert "nvidia-driver-535" not in found.data["packages"]  # type: ignore[operator]  # a list
    assert "libraries" in found.why


def test_toolkits_and_the_container_toolkit_are_not_the_driver() -> None:
    found = rig.look(HOLD, packages=LOOSE, package_holds=rig.holds())

    assert found.data["packages"] == list(rig.DRIVER)


@pytest.mark.parametrize(
    ("pins", "status"),
    [
        (EXACT, "ok"),
        (EXACT + CLOSED, "ok"),
        (EXACT.replace("535.183.01*", rig.PACKAGE_VERSION), "ok"),
        (EXACT.replace("*nvidia*-535*", "src:nvidia-graphics-drivers-535"), "ok"),
        (EXACT.replace("*nvidia*-535*", "/nvidia.*-535/"), "ok"),
        (EXACT.partition("Package")[0] + CLOSED, "ok"),
        (EXACT.replace("535.183.01*", "535.*"), "warn"),
        (EXACT.replace("535.183.01*", "535.171.04*"), "warn"),
        (EXACT.replace("1001", "500"), "warn"),
        (EXACT.replace("nvidia.pref", "nvidia.bak"), "warn"),
        (EXACT.replace("*nvidia*-535*", "nvidia-driver-535"), "warn"),
        (EXACT.replace("*nvidia*-535*", "*nvidia*-580*"), "warn"),
        (EXACT.replace("*nvidia*-535*", "*"), "warn"),
        (EXACT.replace("version 535.183.01*", "release o=Ubuntu"), "warn"),
    ],
)
def test_a_pin_counts_where_no_other_version_can_come(pins: str, status: str) -> None:
    found = rig.look(HOLD, packages=LOOSE, package_holds=rig.holds(pins=pins))

    assert found.status == status


def test_the_first_stanza_decides() -> None:
    other = EXACT.replace("535.183.01*", "535.171.04*").replace("1001", "700")

    found = rig.look(HOLD, packages=LOOSE, package_holds=rig.holds(pins=other + "\n" + CLOSED))

    assert found.status == "warn"


def test_a_hold_of_another_architecture_is_another_hold() -> None:
    twin = "libnvidia-compute-535\t535.183.01-0ubuntu0.22.04.1\ti386\tii \tx\n"

    found = rig.look(HOLD, packages=rig.installed() + twin)

    assert found.status == "warn"
    assert found.data["packages"] == ["libnvidia-compute-535:i386"]
    held = rig.holds(*rig.DRIVER, "libnvidia-compute-535:i386")
    assert rig.look(HOLD, packages=rig.installed() + twin, package_holds=held).status == ("ok")


@pytest.mark.parametrize(("declared", "status"), [({}, "ok"), ({"kernel_hold": True}, "warn")])
def test_the_kernel_is_held_where_it_is_declared(declared: dict[str, object], status: str) -> None:
    found = rig.look(HOLD, spec(**declared))

    assert found.status == status
    if status == "warn":
        assert found.data["packages"] == ["linux-image-generic"]
        assert found.fix is not None
        assert found.fix.text == "apt-mark hold linux-image-generic"


def test_a_driver_that_is_known_to_be_bad_is_not_to_be_kept_but_replaced() -> None:
    bad = "545.29.06-0ubuntu0.22.04.2"

    found = rig.look(
        HOLD,
        packages=rig.installed(status="ii", version=bad),
        package_holds=rig.holds(),
        nvidia_version=None,
    )

    assert found.status == "warn"
    assert found.fix is not None
    assert (found.fix.kind, found.fix.declare) == ("apply+reboot", {"driver": "580"})


def test_what_is_declared_is_what_is_kept() -> None:
    found = rig.look(HOLD, spec(driver="535.183.01"), packages=LOOSE, package_holds=rig.holds())

    assert found.fix is not None
    assert found.fix.declare == {"driver": "535.183.01"}


@pytest.mark.parametrize("check", [HOLD, UNATTENDED])
@pytest.mark.parametrize(
    ("packages", "status"),
    [
        (rig.installed(()), "skipped"),
        ("== pacman -Q\nnvidia-utils 580.95.05-1\nlinux-lts 6.12.1-1\n", "skipped"),
        ("== rpm -qa --qf\nnvidia-driver\t580.95.05-1.fc42\tx86_64\n", "skipped"),
        ("", "skipped"),
        (None, "unknown"),
        ("== dpkg-query -W\nnvidia-driver-535\t535.1", "unknown"),
    ],
)
def test_hosts_where_there_is_nothing_to_judge(
    check: str, packages: str | None, status: str
) -> None:
    assert rig.look(check, packages=packages).status == status


@pytest.mark.parametrize("check", [HOLD, UNATTENDED])
def test_holds_that_were_not_read(check: str) -> None:
    assert rig.look(check, packages=LOOSE, package_holds=None).status == "unknown"
    assert rig.look(check, package_holds="== ls /usr/bin/nvidia-uninstall\n").status == ("unknown")


@pytest.mark.parametrize(
    ("blacklist", "daily", "status"),
    [
        ([], "1", "warn"),
        (["nvidia"], "1", "warn"),
        ([".*nvidia"], "1", "ok"),
        (["nvidia-", "libnvidia-", "xserver-xorg-video-nvidia"], "1", "ok"),
        (["nvidia-", "libnvidia-", "video-nvidia"], "1", "warn"),
        (["(", "[", "(.*)*nvidia"], "1", "warn"),
        ([], "0", "ok"),
    ],
)
def test_the_blacklist_is_matched_from_the_beginning_of_a_name(
    blacklist: list[str], daily: str, status: str
) -> None:
    found = rig.look(
        UNATTENDED,
        packages=LOOSE,
        package_holds=rig.holds(blacklist=blacklist, daily=daily),
    )

    assert found.status == status


def test_held_packages_are_left_alone_by_unattended_upgrades() -> None:
    assert rig.look(UNATTENDED).status == "ok"


def test_the_packages_that_the_blacklist_misses_are_named() -> None:
    found = rig.look(UNATTENDED, packages=LOOSE, package_holds=rig.holds(blacklist=["nvidia"]))

    assert "4 packages" in found.summary
    named = found.data["packages"]
    assert isinstance(named, list)
    assert "libnvidia-compute-535" in named
    assert "nvidia-utils-535" not in named
    assert any('Package-Blacklist:: "nvidia";' in one.line for one in found.evidence)


@pytest.mark.parametrize(
    ("enabled", "active", "status"),
    [
        ("disabled", "inactive", "ok"),
        ("masked", "inactive", "ok"),
        ("disabled", "active", "warn"),
        ("enabled", "inactive", "warn"),
    ],
)
def test_a_timer_that_sleeps_upgrades_nothing(enabled: str, active: str, status: str) -> None:
    timer = (
        f"Id=apt-daily-upgrade.timer\nLoadState=loaded\nActiveState={active}\n"
        f"UnitFileState={enabled}\n"
    )

    holds = rig.holds(blacklist=["nvidia"])

    found = rig.look(UNATTENDED, packages=LOOSE, package_holds=holds, units=timer)

    assert found.status == status


def test_a_host_without_unattended_upgrades() -> None:
    others = [one for one in rig.OTHERS if one[0] != "unattended-upgrades"]
    nothing = (
        "== apt-mark showhold\n== apt-config dump Unattended-Upgrade\n"
        "== apt-config dump APT::Periodic\n"
    )

    found = rig.look(
        UNATTENDED,
        packages=rig.installed(status="ii", others=others),
        package_holds=nothing,
    )

    assert found.status == "ok"


def test_no_gpu() -> None:
    from tests.unit.probe import answers  # noqa: PLC0415 - one test's alone

    alone: dict[str, str | None] = {"pci": answers.NO_GPU, "nvidia-smi-p2p-read": None}
    for check in (HOLD, UNATTENDED):
        assert rig.look(check, sections=alone).status == "skipped"


@given(
    section=st.sampled_from(["packages", "package-holds", "nvidia-version", "pci"]),
    is_lost=st.booleans(),
    share=st.floats(0, 1),
)
def test_a_section_that_is_lost_or_cut_never_makes_loose_packages_well(
    section: str, *, is_lost: bool, share: float
) -> None:
    loose: dict[str, str | None] = {"packages": LOOSE, "package-holds": rig.holds()}
    text = {**rig.WELL, **loose}[section]
    assert text is not None
    damaged = None if is_lost else text[: int(len(text) * share)]

    for check in (HOLD, UNATTENDED):
        found = rig.look(check, cut=[section], sections={**loose, section: damaged})
        assert found.status not in {"ok", "info"}
