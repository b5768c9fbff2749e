"""--html of doctor, preflight and power: what is written where, and what is refused first."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.unit import recorded
from tests.unit.cli import power_rigs
from tests.unit.cli.power_rigs import THREADRIPPER, Rigs, texts
from tests.unit.cli.test_preflight import Fleet, fleet
from tests.unit.preflight.hosts import GRANTED, PROVEN
from tests.unit.report.html.parsing import Page

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Rigops

rigs = power_rigs.rigs
__all__ = ["fleet", "rigs"]

BUNDLE = ("--from", str(recorded.DEMO / "threadripper"))


def test_doctor_writes_a_page_beside_its_text(rigops: Rigops) -> None:
    plain, said = rigops("doctor", *BUNDLE), rigops("doctor", *BUNDLE, "--html", "rig.html")

    assert said.out == plain.out
    assert said.code == plain.code == 1
    assert said.err == "Wrote rig.html: open it in a browser.\n"
    page = Path("rig.html")
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert Page(page.read_text()).text.strip().startswith("threadripper: rigops doctor")
    assert rigops("doctor", *BUNDLE, "--html", "rig.html", "--json").json()["hosts"]


def test_preflight_writes_a_page(rigops: Rigops, fleet: Fleet) -> None:
    fleet.answers["rig"] = [GRANTED, PROVEN]

    said = rigops("preflight", "rig", "--yes", "--html", "rig.html")

    assert said.code == 0
    assert "12.9" in Page(Path("rig.html").read_text()).text


def test_power_writes_a_page(rigops: Rigops, rigs: Rigs) -> None:
    rigs.texts["rig"] = texts(*THREADRIPPER)
    Path("inventory.py").write_text('rigs = [("rig", {"psus": [750, 750]})]')

    rigops("power", "--html", "rig.html")

    assert "Power path" in Page(Path("rig.html").read_text()).text


@pytest.mark.parametrize("command", ["doctor", "preflight", "power"])
def test_what_is_no_file_is_refused_before_a_host_is_asked(
    rigops: Rigops, fleet: Fleet, command: str
) -> None:
    Path("pages").mkdir()

    for given, words in (
        ("pages", "fix: name a file: --html pages/rigops.html"),
        ("/dev/null", "is no file"),
        ("away/rig.html", "fix: make it first: mkdir -p away"),
    ):
        said = rigops(command, "rig", "--html", given)

        assert said.code == 2
        assert words in said.err
    assert not fleet.reached


def test_a_page_that_cannot_be_written_is_an_error(
    rigops: Rigops, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rigops.atomic_file.replace", full)

    said = rigops("doctor", *BUNDLE, "--html", "rig.html")

    assert said.code == 2
    assert "not written: No space left on device" in said.err
