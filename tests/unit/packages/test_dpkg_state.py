from __future__ import annotations

from rigops.packages.dpkg import Holder, parse
from tests.unit.packages.test_apt_simulated import fixture


def test_a_real_answer_is_read() -> None:
    state = parse(fixture("state-unpacked"))

    dkms = state.get("dkms")
    assert state.manager == "apt"
    assert dkms is not None
    assert dkms.held
    assert dkms.version == "3.0.10-8+deb12u1"
    assert state.get("nosuch") is None
    assert [one.name for one in state.unfinished] == ["rigdemo-lib"]
    assert not state.interrupted
    assert state.holder is None
    assert state.owned is None


def test_what_is_at_work_and_what_was_interrupted_is_seen() -> None:
    state = parse(
        "== manager\napt-get\n== updates\n/var/lib/dpkg/updates/0003\n"
        "== holder\n812 unattended-upgrade\n== owned\n{}\n"
    )

    assert state.interrupted
    assert state.holder == Holder(812, "unattended-upgrade")
    assert str(state.holder) == "unattended-upgrade (process 812)"
    assert state.owned == "{}"


def test_a_name_alone_is_of_the_hosts_own_architecture() -> None:
    state = parse(
        "== architecture\namd64\n== packages\n"
        "ii \tlibc6\ti386\t2.36-8\nii \tlibc6\tamd64\t2.36-9\nrc \tgone\tamd64\t1\n"
        "iHR\tbad\tall\t1\nnonsense\n"
    )

    assert [one and one.version for one in map(state.get, ["libc6", "libc6:i386"])] == [
        "2.36-9", "2.36-8"
    ]  # fmt: skip
    assert state.get("gone") is None
    bad = state.get("bad")
    assert bad is not None
    assert bad.must_be_reinstalled
    assert not bad.is_installed


def test_a_trigger_that_was_cut_off_is_no_configuration_that_was() -> None:
    state = parse(
        "== manager\napt-get\n== unfinished\niF \tinitramfs-tools\tall\t0.142\t0.142\n"
        "iF \tupgraded\tall\t2\t1\niF \tnew\tall\t2\t\n"
    )

    assert [(one.name, one.is_in_trigger) for one in state.unfinished] == [
        ("initramfs-tools", True), ("upgraded", False), ("new", False)
    ]  # fmt: skip


def test_another_package_manager_is_named() -> None:
    assert parse("== manager\npacman\n").manager == "pacman"
    assert parse("== manager\n").manager is None
