"""The units that rigops writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from rigops.concerns.borg.decide import unit_path
from rigops.rendering import render

TEMPLATES = Path(__file__).resolve().parents[2] / "templates"


def test_no_run_holds_a_timer_for_ever() -> None:
    units = {one.name: one.read_text() for one in TEMPLATES.glob("*.service.j2")}
    oneshot = {name: text for name, text in units.items() if "Type=oneshot" in text}

    assert {"rigops-borg.service.j2", "rigops-failed@.service.j2"} <= oneshot.keys()
    assert [name for name, text in oneshot.items() if "TimeoutStartSec=" not in text] == []
    assert [name for name, text in units.items() if "TimeoutStartSec=infinity" in text] == []


@pytest.mark.parametrize("name", ["snapshots", "borg", "borg-drill"])
def test_backups_wait_for_the_clock_to_be_set(name: str) -> None:
    lines = (TEMPLATES / f"rigops-{name}.service.j2").read_text().splitlines()
    (after,) = [one for one in lines if one.startswith("After=")]

    assert "time-sync.target" in after.split()


@pytest.mark.parametrize(
    ("repository", "written"),
    [
        ("/mnt/backup", '"-/mnt/backup"'),
        ('/mnt/my "rig" 100%', r'"-/mnt/my \"rig\" 100%%"'),
        ("/mnt/a\\b", r'"-/mnt/a\\b"'),
    ],
)
def test_backups_may_write_into_a_repository_of_this_machine_and_it_may_be_absent(
    repository: str, written: str
) -> None:
    assert f"ReadWritePaths={written}" in _borg_unit(repository)


@pytest.mark.parametrize("repository", ["ssh://me@nas/srv/rig", "me@nas:rig"])
def test_of_a_repository_on_a_server_nothing_is_writable_here(repository: str) -> None:
    lines = [one for one in _borg_unit(repository) if one.startswith("ReadWritePaths=")]
    assert lines == ["ReadWritePaths=/var/lib/rigops", "ReadWritePaths=/etc/rigops"]


def _borg_unit(repository: str) -> list[str]:
    values = {
        "program": "/usr/local/libexec/rigops/borg",
        "state": "/var/lib/rigops",
        "credential": "LoadCredential=passphrase:/etc/rigops/borg_passphrase",
        "repository": unit_path(repository),
    }
    return render("rigops-borg.service.j2", **values).splitlines()
