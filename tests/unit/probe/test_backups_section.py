from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.probe.sections import backups
from tests.unit.probe import host_sections
from tests.unit.probe.asking import ask
from tests.unit.programs import SHELLS

if TYPE_CHECKING:
    from pathlib import Path


def test_timers_and_how_the_last_run_ended() -> None:
    found = backups.parse(host_sections.BACKUPS)

    assert found.units is not None
    timer, service = found.units
    assert timer.enabled == "enabled"
    assert (service.result, service.finished) == ("exit-code", 1795143609)
    assert found.now == 1795289293
    assert found.newest == 1795143605
    assert not found.unparsed


@pytest.mark.parametrize(
    ("printed", "at"),
    [
        ("1795143605", 1795143605),
        ("2026-11-20T04:00:05+01:00", 1795143605),
        ("2026-11-20 03:00:05", None),  # in which zone?
        ("yesterday", None),
        ("", None),
    ],
)
def test_the_newest_backup_is_when_a_command_of_the_inventory_says(
    printed: str, at: int | None
) -> None:
    assert backups.parse(f"== newest backup\n{printed}\n").newest == at


@pytest.mark.parametrize("shell", SHELLS)
def test_a_watched_unit_and_its_command_are_asked_for(shell: str, tmp_path: Path) -> None:
    watched = tmp_path / "etc/rigops/borg_watched"
    watched.parent.mkdir(parents=True)
    watched.write_text("unit nightly.timer\nnewest echo geheim; echo 1795143605\n")

    answer = ask(backups.SECTION, shell, tmp_path)

    assert "geheim" not in answer.text
    assert backups.parse(answer.text).newest in {1795143605, None}  # None: not as root


@pytest.mark.parametrize(
    "said", ["n/a", "", "Fri 2026-13-40 03:00:01 UTC", "Fri 2026-11-20 03:00:01 CET", "0"]
)
def test_a_time_that_cannot_be_read_is_unknown(said: str) -> None:
    text = f"== systemctl show\nId=a.service\nExecMainExitTimestamp={said}\n"
    (unit,) = backups.parse(text).units or ()

    assert unit.finished is None


def test_no_systemd_is_not_the_same_as_no_units() -> None:
    assert backups.parse("== date +%s\n1\n").units is None
    assert backups.parse("== systemctl show\n").units == ()
