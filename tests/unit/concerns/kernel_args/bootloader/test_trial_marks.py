from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.concerns.kernel_args.trial_boot.parts import UNIT_FILE
from rigops.concerns.kernel_args.trial_boot.prepare import changed, marked, prepare
from rigops.record.trial_boot import without_marks
from tests.unit.concerns.kernel_args.trial_boot.grounds import MARKS, RUNNING, ground, reason, trial

words = st.lists(
    st.one_of(
        st.sampled_from(("panic=0", "panic=30", "rd.shell=1", "systemd.watchdog_sec=9", "quiet")),
        st.text("abcrd.=", min_size=1, max_size=6),
    ),
    max_size=6,
)
NONE: tuple[str, ...] = ()


@given(
    words, st.sampled_from((NONE, ("--", "x"), ("---", "panic=1"))), st.booleans(), st.booleans()
)
def test_what_is_only_for_the_trial_can_be_cut_off_again(
    kernels: list[str],
    inits: tuple[str, ...],
    has_watchdog: bool,  # noqa: FBT001 - pytest's
    has_dracut: bool,  # noqa: FBT001 - pytest's
) -> None:
    line = (*kernels, *inits)
    tried = marked(line, has_watchdog=has_watchdog, has_dracut=has_dracut)

    assert without_marks(tried) == line
    assert without_marks(line) == line
    assert set(line) <= set(tried)


def test_what_a_person_has_set_is_not_set_again() -> None:
    own = ("panic=30", "systemd.watchdog_device=/dev/watchdog1", "rd.shell=1")
    tried = marked(own, has_watchdog=True, has_dracut=True)

    marks = ("rigops.trial", "systemd.wants=rigops-trial.service", "rd.emergency=reboot")
    assert tried == (*own, *marks)


def test_what_comes_is_added_once_and_before_what_is_for_init() -> None:
    line = ("root=/dev/sda1", "a=1", "--", "a=1")

    assert changed(line, add=("b", "b", "root=/dev/sda1"), remove=("a=1",)) == (
        "root=/dev/sda1", "b", "--", "a=1",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("watchdogs", "systemd", "has"),
    [
        (("iTCO_wdt",), 252, True),
        (("i6300ESB timer",), 250, True),
        (("iTCO_wdt",), 249, False),  # which does not know the word yet
        (("Software Watchdog",), 252, False),
        (("Software Watchdog", "SP5100 TCO timer"), 252, True),
        ((), 252, False),
    ],
)
def test_a_watchdog_of_hardware_is_used(
    watchdogs: tuple[str, ...],
    systemd: int,
    has: bool,  # noqa: FBT001 - pytest's
) -> None:
    found = replace(ground(), watchdogs=watchdogs, systemd=systemd)
    prepared = trial(found)

    text = prepared.files["/boot/grub/custom.cfg"].content.decode()
    assert ("systemd.watchdog_sec=60" in text) is has
    assert any("no hardware watchdog" in notice for notice in prepared.notices) is not has


def test_dracut_is_told_to_reboot_and_not_to_wait() -> None:
    found = replace(ground(), tools=(*ground().tools, "dracut"))

    text = trial(found).files["/boot/grub/custom.cfg"].content.decode()
    assert f"{MARKS} rd.shell=0 rd.emergency=reboot\n" in text


def test_a_panic_that_waits_is_said() -> None:
    running = f"{RUNNING['plain']} panic=0"

    assert any("panic=0" in text for text in trial(ground(), running=running).notices)
    assert not any("panic=0" in text for text in trial(ground()).notices)


@pytest.mark.parametrize(
    ("running", "words"),
    [
        (f"{RUNNING['plain']} x.token=***", "a secret"),
        (f'{RUNNING["plain"]} a=\\"b\\"', "escaped quotes"),
        (RUNNING["plain"].replace("quiet", "single"), "recovery"),
        (f"{RUNNING['plain']} {'x' * 2048}", "too long"),
    ],
)
def test_a_command_line_that_cannot_be_repeated_is_not_tried(running: str, words: str) -> None:
    assert words in reason(ground(), running=running)


def test_a_machine_that_nobody_could_bring_back_is_not_tried() -> None:
    assert "systemd" in reason(replace(ground(), systemd=None))
    assert "rEFInd" in reason(replace(ground(), loader="rEFInd 0.14.0"))
    assert "no bootloader" in reason(replace(ground(), grub=None))


def test_grub_that_names_itself_is_still_grub() -> None:
    trial(replace(ground(), loader="GRUB 2.12"))


def test_the_unit_begins_by_the_command_line_and_knows_the_deadline() -> None:
    unit = trial(ground()).files[UNIT_FILE].content.decode().splitlines()

    assert "ExecStart=@/bin/sh @rigops-trial /usr/local/libexec/rigops/trial 900" in unit
    assert "ConditionKernelCommandLine=rigops.trial" in unit
    assert "StartLimitBurst=90" in unit
    assert "WantedBy" not in "".join(unit)


@given(st.text(max_size=80))
def test_any_command_line_is_prepared_for_without_raising(running: str) -> None:
    prepare(ground(), running=running, add=("iommu=pt",), remove=(), deadline_s=60)
