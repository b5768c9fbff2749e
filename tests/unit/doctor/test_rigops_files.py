"""The files and units of rigops on a host, each with each change of somebody's."""

from __future__ import annotations

import pytest

from rigops.ownership.ownership import OwnedFile, Ownership
from rigops.probe.sections.rigops_state import OWNED_FILES, OWNED_UNITS, RECORD
from tests.unit.doctor.examining import look

CHECK = "rigops.files"
PATH, UNIT = "/etc/rigops/notify", "rigops-acs.service"
OURS, THEIRS = "a" * 64, "b" * 64
RECORDED = Ownership(
    {PATH: OwnedFile(path=PATH, concern="base", digest=OURS, mode=0o600)}
).to_json()


def answer(file: str = f"8180 0:0 {OURS}", unit: str = "enabled", drop_ins: str = "") -> str:
    there = f"{file} {PATH}\n" if file else ""
    return (
        f"== {RECORD}\n{RECORDED}\n== {OWNED_FILES}\n{there}== {OWNED_UNITS}\n"
        f"Id={UNIT}\nActiveState=active\nUnitFileState={unit}\nDropInPaths={drop_ins}\n"
    )


def test_files_as_rigops_wrote_them_are_well() -> None:
    assert look(CHECK, rigops_state=answer()).status == "ok"


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("", "gone"),
        (f"8180 0:0 {THEIRS}", "its content was changed"),
        (f"8180 1000:0 {OURS}", "the owner is 1000:0, declared 0:0"),
        (f"81b6 0:0 {OURS}", "the mode is 0666, declared 0600"),
        ("a1ff 0:0 -", "a symbolic link"),
        ("11a4 0:0 -", "a FIFO"),
        ("41ed 0:0 -", "a directory"),
    ],
)
def test_a_file_that_somebody_changed_is_a_warning(file: str, says: str) -> None:
    found = look(CHECK, rigops_state=answer(file))

    assert (found.status, found.subject) == ("warn", PATH)
    assert says in found.summary


def test_a_masked_unit_is_a_warning_with_the_command_that_ends_it() -> None:
    found = look(CHECK, rigops_state=answer(unit="masked"))

    assert (found.status, found.subject) == ("warn", UNIT)
    assert found.fix
    assert found.fix.text == f"sudo systemctl unmask {UNIT}"


def test_a_drop_in_of_this_unit_is_named_and_those_of_all_units_are_not() -> None:
    mine = f"/etc/systemd/system/{UNIT}.d/override.conf"
    of_all = "/usr/lib/systemd/system/service.d/10-timeout.conf"

    found = look(CHECK, rigops_state=answer(drop_ins=f"{of_all} {mine}"))

    assert (found.status, found.summary) == ("warn", f"{mine} changes the unit")
    assert look(CHECK, rigops_state=answer(drop_ins=of_all)).status == "ok"


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (f"== {OWNED_FILES}\n", "skipped"),
        (f"== {RECORD}\n{RECORDED}\n", "unknown"),
        (f"== {RECORD}\n{{\n== {OWNED_FILES}\n", "unknown"),
    ],
)
def test_what_is_unknown_is_not_well(text: str, status: str) -> None:
    assert look(CHECK, rigops_state=text).status == status
