"""Declared limits against what stands on a host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.concerns.base import decide, limits
from rigops.concerns.base.decide import absences, plan_limits
from rigops.concerns.base.facts import HostState
from rigops.inventory.spec.model import Limits
from rigops.probe.mounts import planned
from rigops.probe.sections.limits import Configured, Range
from rigops.probe.sections.limits import Limits as Found
from rigops.probe.sections.rigops_state import OwnedUnit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rigops.concerns.base.limits import LimitPlan, PlannedFile

GIB = 1024**3
SYSTEM = "/etc/systemd/system.conf"
LOGIND = "/etc/systemd/logind.conf"
HALF = Found(shm_bytes=32 * GIB)


def around(
    *,
    settings: Mapping[str, str] | None = None,
    fstab: str = "",
    may_raise: bool | None = True,
    service_nofile: int | None = None,
    service_memlock: int | None = None,
    remove_ipc: bool | None = None,
) -> HostState:
    mounts, _ = planned(fstab)
    return HostState(
        systemd=True,
        memory_bytes=64 * GIB,
        most_files=1 << 20,
        may_raise=may_raise,
        planned_shm=mounts[0] if mounts else None,
        settings=settings or {},
        service_nofile=service_nofile,
        service_memlock=service_memlock,
        remove_ipc=remove_ipc,
    )


def held(wanted: LimitPlan, path: str) -> PlannedFile:
    (one,) = [one for one in wanted.files if one.path == path]
    return one


def configured(file: str, line: str) -> Configured:
    domain, kind, item, value = line.split()
    return Configured(file, domain, kind, item, value, line)


def test_nothing_declared_wants_nothing() -> None:
    assert plan_limits(Limits(), HALF, around()).files == ()


@pytest.mark.parametrize("systemd", [False, None])
def test_without_systemd_or_without_a_look_nothing_is_promised(*, systemd: bool | None) -> None:
    wanted = plan_limits(Limits(nofile=65536), HALF, HostState(systemd=systemd))

    assert wanted.files == ()
    assert "systemd" in wanted.blockers[0]


@pytest.mark.parametrize(
    ("declared", "option"),
    [
        ("48G", str(48 * GIB)), ("1.5GiB", str(3 * GIB // 2)), ("1048576", "1048576"),
        ("512MB", str(GIB // 2)), ("75%", "75%%"),
    ],
)  # fmt: skip
def test_shm_is_sized_by_a_unit_in_words_that_the_kernel_takes(declared: str, option: str) -> None:
    unit = held(plan_limits(Limits(shm=declared), HALF, around()), decide.SHM_PATH)

    assert f"ExecStart=/bin/mount -o remount,size={option} /dev/shm\n" in unit.content
    assert not unit.live


def test_a_share_that_is_no_whole_percentage_is_refused_since_the_kernel_takes_none() -> None:
    wanted = plan_limits(Limits(shm="12.5%"), HALF, around())

    assert wanted.files == ()
    assert "12.5%" in wanted.blockers[0]


def test_shm_is_not_made_smaller_than_what_it_holds() -> None:
    wanted = plan_limits(
        Limits(shm="1G"), Found(shm_bytes=32 * GIB, shm_used_bytes=2 * GIB), around()
    )

    assert wanted.files == ()
    assert str(2 * GIB) in wanted.blockers[0]


def test_shm_may_be_as_small_as_what_it_holds() -> None:
    found = Found(shm_bytes=32 * GIB, shm_used_bytes=2 * GIB)

    assert plan_limits(Limits(shm="2G"), found, around()).blockers == ()


@pytest.mark.parametrize(
    ("fstab", "declared"),
    [("", "50%"), ("tmpfs /dev/shm tmpfs size=32g,nosuid 0 0\n", "32G")],
)
def test_a_size_that_it_has_without_us_needs_no_unit(fstab: str, declared: str) -> None:
    assert plan_limits(Limits(shm=declared), HALF, around(fstab=fstab)).files == ()


@pytest.mark.parametrize(
    ("now", "live"),
    [
        (20 * GIB, True), (20 * GIB - (1 << 20) + 1, True), (20 * GIB + (1 << 20) - 1, True),
        (20 * GIB - (1 << 20), False), (20 * GIB + (1 << 20), False), (None, True),
    ],
)  # fmt: skip
def test_a_size_that_somebody_set_by_hand_alone_is_made_to_last(
    *, now: int | None, live: bool
) -> None:
    wanted = plan_limits(Limits(shm="20G"), Found(shm_bytes=now), around())

    assert held(wanted, decide.SHM_PATH).live is live


def test_a_size_that_somebody_changed_since_the_boot_is_put_right() -> None:
    wanted = plan_limits(Limits(shm="50%"), Found(shm_bytes=20 * GIB), around())

    assert not held(wanted, decide.SHM_PATH).live


def test_a_unit_that_is_ours_stays_though_what_it_says_is_live() -> None:
    owned = {decide.SHM_PATH}

    assert plan_limits(Limits(shm="50%"), HALF, around(), owned=owned).files


@pytest.mark.parametrize(
    "unit", [OwnedUnit("inactive", "enabled"), OwnedUnit("active", "disabled")]
)
def test_a_unit_that_does_not_run_or_will_not_at_boot_is_not_live(unit: OwnedUnit) -> None:
    found, units = Found(shm_bytes=20 * GIB), {decide.SHM_UNIT: unit}
    wanted = plan_limits(Limits(shm="20G"), found, around(), owned={decide.SHM_PATH}, units=units)

    assert not held(wanted, decide.SHM_PATH).live


def test_another_size_in_fstab_is_named_and_is_what_comes_back() -> None:
    surroundings = around(fstab="tmpfs /dev/shm tmpfs size=8G 0 0\n")
    wanted = plan_limits(Limits(shm="20G"), HALF, surroundings)

    assert "size=8G" in wanted.notices[0]
    assert absences(surroundings)[decide.SHM_PATH] == "mount -o remount,size=8G /dev/shm"
    assert absences(around())[decide.SHM_PATH] == "mount -o remount,size=50% /dev/shm"


def test_memlock_and_nofile_are_for_every_login_with_root_and_for_services() -> None:
    wanted = plan_limits(Limits(memlock="64G", nofile=65536), HALF, around())

    assert held(wanted, limits.LOGINS).content.splitlines()[1:] == [
        "* - memlock 67108864", "root - memlock 67108864",
        "* - nofile 65536", "root - nofile 65536",
    ]  # fmt: skip
    assert held(wanted, limits.SERVICES).content.splitlines()[1:] == [
        "[Manager]", f"DefaultLimitMEMLOCK={64 * GIB}", "DefaultLimitNOFILE=65536"
    ]  # fmt: skip


def test_no_limit_is_written_as_each_reader_wants_it_and_nothing_is_a_limit_too() -> None:
    wanted = plan_limits(Limits(memlock="unlimited"), HALF, around())
    none = plan_limits(Limits(memlock="0"), HALF, around())
    odd = plan_limits(Limits(memlock="1025"), HALF, around())

    assert "* - memlock 2\n" in held(odd, limits.LOGINS).content
    assert "* - memlock unlimited\n" in held(wanted, limits.LOGINS).content
    assert "DefaultLimitMEMLOCK=infinity\n" in held(wanted, limits.SERVICES).content
    assert "DefaultLimitMEMLOCK=0\n" in held(none, limits.SERVICES).content


@pytest.mark.parametrize(
    ("memlock", "nofile", "waiting"),
    [
        (64 * GIB, 65536, ""), (None, None, ""), (64 * GIB, 524288, "nofile counts"),
        (GIB, 524288, "memlock and nofile count"),
    ],
)  # fmt: skip
def test_a_default_of_services_waits_for_the_next_boot_with_a_notice(
    memlock: int | None, nofile: int | None, waiting: str
) -> None:
    surroundings = around(service_memlock=memlock, service_nofile=nofile)
    wanted = plan_limits(Limits(memlock="64G", nofile=65536), Found(), surroundings)

    planned = held(wanted, limits.SERVICES)
    assert (planned.live, planned.effect) == (True, "")
    when = "for services that start after the next boot or reload of systemd"
    assert wanted.notices == ((f"{waiting} {when}",) if waiting else ())


def test_as_many_files_as_the_kernel_grants_lock_nobody_out() -> None:
    assert plan_limits(Limits(nofile=1 << 20), HALF, around()).blockers == ()


def test_more_files_than_the_kernel_grants_would_lock_everybody_out() -> None:
    wanted = plan_limits(Limits(nofile=(1 << 20) + 1), HALF, around())

    assert wanted.files == ()
    assert "every login would be refused" in wanted.blockers[0]


@pytest.mark.parametrize(
    ("declared", "hard", "refused"),
    [
        (Limits(nofile=65536), 20000, True), (Limits(nofile=20000), 20000, False),
        (Limits(memlock="unlimited"), 8 << 20, True), (Limits(memlock="4M"), 8 << 20, False),
        (Limits(memlock="unlimited"), "unlimited", False),
    ],
)  # fmt: skip
def test_where_root_may_not_raise_limits_only_lower_ones_are_taken(
    *, declared: Limits, hard: int, refused: bool
) -> None:
    now = Range(hard, hard, "")
    wanted = plan_limits(declared, Found(memlock=now, nofile=now), around(may_raise=False))

    assert bool(wanted.blockers) is refused
    assert bool(wanted.files) is not refused


def test_where_it_is_not_known_whether_root_may_raise_limits_they_are_taken() -> None:
    found = Found(nofile=Range(20000, 20000, ""))

    assert plan_limits(Limits(nofile=65536), found, around(may_raise=None)).blockers == ()


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        (["* - nofile 65536"], ["root - nofile 65536"]),
        (["* soft nofile 65536", "* hard nofile 65536", "root - nofile 65536"], []),
        (["* soft nofile 65536"], ["* - nofile 65536", "root - nofile 65536"]),
        (["* hard nofile 65536"], ["* - nofile 65536", "root - nofile 65536"]),
        (["* - nofile 65536", "root - nofile 65536", "* hard nofile 9"], ["* - nofile 65536"]),
    ],
)
def test_what_somebody_elses_lines_say_already_is_not_written_again(
    lines: list[str], left: list[str]
) -> None:
    said = tuple(configured("/etc/security/limits.conf", line) for line in lines)
    wanted = plan_limits(Limits(nofile=65536), Found(configured=said), around())

    ours = [one.content for one in wanted.files if one.path == limits.LOGINS]
    assert [line for text in ours for line in text.splitlines()[1:]] == left
    assert not wanted.blockers


def test_limits_d_goes_after_limits_conf_whatever_their_order_in_the_facts() -> None:
    said = (
        configured("/etc/security/limits.d/10-a.conf", "* - nofile 65536"),
        configured("/etc/security/limits.d/10-a.conf", "root - nofile 65536"),
        configured("/etc/security/limits.conf", "* - nofile 9"),
    )
    wanted = plan_limits(Limits(nofile=65536), Found(configured=said), around())

    assert [one.path for one in wanted.files] == [limits.SERVICES]


def test_a_later_file_of_somebody_elses_is_in_the_way_and_a_users_own_line_is_named() -> None:
    said = (
        configured("/etc/security/limits.d/95-site.conf", "* - nofile 4096"),
        configured("/etc/security/limits.conf", "@staff hard nofile 4096"),
    )
    wanted = plan_limits(Limits(nofile=65536), Found(configured=said), around())

    assert wanted.blockers == (
        "/etc/security/limits.d/95-site.conf overrides the declaration: * - nofile 4096",
    )
    assert "@staff" in wanted.notices[0]


def test_a_later_file_that_says_the_same_of_one_side_is_not_in_the_way() -> None:
    said = (configured("/etc/security/limits.d/95-site.conf", "* hard nofile 65536"),)

    assert plan_limits(Limits(nofile=65536), Found(configured=said), around()).blockers == ()


def test_our_own_file_is_no_foreign_setting() -> None:
    said = (
        configured(limits.LOGINS, "* - nofile 9"),
        configured(limits.LOGINS, "root - nofile 9"),
    )
    wanted = plan_limits(
        Limits(nofile=65536), Found(configured=said),
        around(settings={limits.SERVICES: "[Manager]\nDefaultLimitNOFILE=65536\n"}),
    )  # fmt: skip

    assert {one.path for one in wanted.files} == {limits.LOGINS, limits.SERVICES}
    assert not wanted.blockers


@pytest.mark.parametrize(
    ("path", "value", "written", "in_the_way"),
    [
        (SYSTEM, "65536", False, False),
        (SYSTEM, "65536:65536", False, False),
        (SYSTEM, "1024:65536", True, False),
        (f"{SYSTEM}.d/10-site.conf", "4096", True, False),
        (f"{SYSTEM}.d/99-site.conf", "4096", True, True),
        ("/usr/lib/systemd/system.conf.d/zz.conf", "4096", True, True),
        ("/run/systemd/system.conf.d/10-site.conf", "4096", True, False),
        (f"{SYSTEM}.d/99-site.conf", "64K", False, False),
    ],
)
def test_a_default_of_services_is_ours_unless_somebody_says_the_same(
    *, path: str, value: str, written: bool, in_the_way: bool
) -> None:
    settings = {path: f"[Manager]\n#DefaultLimitNOFILE=1\nDefaultLimitNOFILE = {value}\n"}
    wanted = plan_limits(Limits(nofile=65536), HALF, around(settings=settings))

    assert (limits.SERVICES in {one.path for one in wanted.files}) is written
    assert bool(wanted.blockers) is in_the_way


def test_a_file_in_etc_hides_one_of_the_same_name_elsewhere() -> None:
    settings = {
        "/usr/lib/systemd/system.conf.d/99-a.conf": "[Manager]\nDefaultLimitNOFILE=4096\n",
        "/etc/systemd/system.conf.d/99-a.conf": "[Manager]\n",
    }
    wanted = plan_limits(Limits(nofile=65536), HALF, around(settings=settings))

    assert not wanted.blockers


@pytest.mark.parametrize(
    ("declared", "text", "now", "content", "live"),
    [
        (False, "", True, "[Login]\nRemoveIPC=no\n", False),
        (False, "", False, "[Login]\nRemoveIPC=no\n", True),
        (False, "", None, "[Login]\nRemoveIPC=no\n", True),
        (True, "RemoveIPC=no", False, "[Login]\nRemoveIPC=yes\n", False),
        (False, "RemoveIPC=off", False, None, True),
    ],
)
def test_removeipc_is_ours_unless_somebody_says_the_same(
    *, declared: bool, text: str, now: bool | None, content: str | None, live: bool
) -> None:
    surroundings = around(settings={LOGIND: f"[Login]\n{text}\n"}, remove_ipc=now)
    wanted = plan_limits(Limits(removeipc=declared), Found(), surroundings)

    if content is None:
        assert wanted.files == ()
    else:
        assert held(wanted, decide.LOGIND).content.endswith(content)
        assert held(wanted, decide.LOGIND).live is live


def test_a_later_drop_in_of_logind_is_in_the_way() -> None:
    settings = {f"{LOGIND}.d/zz.conf": "[Login]\nRemoveIPC=yes\n"}

    assert plan_limits(Limits(removeipc=False), HALF, around(settings=settings)).blockers
