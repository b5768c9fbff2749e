"""Baselines and acknowledgements as a person meets them: one host, changed from run to run."""

from __future__ import annotations

import re
import shlex
import stat
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

import rigops.hosts.access as command
from rigops.probe.bundle import Bundle
from rigops.probe.collect import Collection
from rigops.record import baseline, host_file
from tests.unit import recorded
from tests.unit.cli.test_doctor import Rig
from tests.unit.cli.test_preflight import Fleet, fleet
from tests.unit.preflight.hosts import GRANTED, PROVEN
from tests.unit.test_screens import ROOT, matches

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.conftest import Rigops
    from tests.unit.forks import Said

__all__ = ("fleet",)  # a fixture

NARROWER: Final = (
    "link=2.5,16 max=16.0,16 numa=0 bar1=268435456 path=/sys/devices/pci0000:00",
    "link=2.5,8 max=16.0,16 numa=0 bar1=268435456 path=/sys/devices/pci0000:00",
)


class Host:
    """`texts`: what it answers from now on."""

    def __init__(self, rigops: Rigops) -> None:
        bundle = Bundle.read(recorded.DEMO / "threadripper")
        self.texts = {name: one.text for name, one in bundle.sections.items()}
        self._rigops = rigops

    def change(self, section: str, old: str, new: str) -> None:
        assert old in self.texts[section]
        self.texts[section] = self.texts[section].replace(old, new)

    def connect(self, *_: object, **__: object) -> Rig:
        return Rig("rig", self.texts)

    def doctor(self, *words: str) -> Said:
        return self._rigops("doctor", "rig", *words)

    def findings(self, check: str) -> list[dict[str, Any]]:
        (host,) = self.doctor("--json").json()["hosts"]
        return [one for one in host["findings"] if one["id"] == check]


@pytest.fixture
def host(rigops: Rigops, monkeypatch: pytest.MonkeyPatch) -> Host:
    made = Host(rigops)
    monkeypatch.setattr(command, "connect", made.connect)
    return made


def test_a_baseline_is_stored_and_the_next_runs_say_what_has_changed(host: Host) -> None:
    assert host.findings("drift")[0]["status"] == "skipped"
    saved = host.doctor("--save-baseline")

    assert saved.code == 1  # of its driver
    assert "rig: baseline stored: 3 GPUs, driver 545.29.06, 13 of 13 kinds" in saved.err
    path = baseline.path_of("rig")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600

    host.change("pci", *NARROWER)
    (seen,) = host.doctor("--json").json()["hosts"]
    stored = baseline.read("rig")
    assert stored is not None
    assert seen["baseline"] == {"at": stored.at}
    day = stored.day
    (width,) = [one for one in host.findings("pci.width") if one["subject"] == "gpu 0000:0a:00.0"]
    assert width["status"] == "fail"
    assert f"(link x16 at the baseline of {day})" in width["summary"]

    again = host.doctor("--save-baseline", "--only", "drift")
    assert f"baseline stored, in place of that of {day}" in again.err
    assert host.findings("drift")[0]["status"] == "ok"


def test_a_look_that_lacks_parts_takes_no_baselines_place(host: Host) -> None:
    host.doctor("--save-baseline")
    path = baseline.path_of("rig")
    before = path.read_text()

    del host.texts["aer"]
    less = host.doctor("--save-baseline")

    assert less.code == 1
    assert (
        "rig: no baseline stored: this time not collected: corrected errors of the PCIe link, "
        f"uncorrected errors of the PCIe link; fix: look as root, or remove {path}" in less.err
    )
    assert path.read_text() == before


def test_a_lost_card_is_no_state_to_compare_with(host: Host) -> None:
    host.change("lspci", "[10de:2204] (rev a1)", "[10de:2204] (rev ff)")
    said = host.doctor("--save-baseline")

    assert said.code == 1
    assert "rig: no baseline stored: gpu." in said.err
    assert baseline.read("rig") is None


def test_a_bundle_is_a_baseline_of_the_host_that_is_named(rigops: Rigops, tmp_path: Path) -> None:
    (tmp_path / "inventory.py").write_text('rigs = ["threadripper"]\n')
    bundle = str(recorded.DEMO / "threadripper")

    unnamed = rigops("doctor", "--from", bundle, "--save-baseline")
    assert unnamed.code == 2
    assert "a baseline is of a host that is named" in unnamed.err

    named = rigops("doctor", "threadripper", "--from", bundle, "--save-baseline")
    assert "threadripper: baseline stored" in named.err
    stored = baseline.read("threadripper")
    assert stored is not None
    assert stored.at == "2026-11-23T13:29:35Z"

    baseline.write(replace(stored, at="2026-11-24T00:00:00Z"))
    older = rigops("doctor", "threadripper", "--from", bundle, "--only", "drift", "--json").json()
    assert [one["status"] for one in older["hosts"][0]["findings"]] == ["skipped"]


def test_a_damaged_record_is_named_and_everything_else_is_judged(host: Host) -> None:
    for folder in ("baselines", "acknowledged"):
        host_file.write(folder, "rig", "{")

    (seen,) = host.doctor("--json").json()["hosts"]
    assert [note.partition(":")[0] for note in seen["notes"]] == [
        "no baseline to compare with",
        "nothing counts as acknowledged",
    ]
    assert seen["baseline"] is None
    assert host.doctor("--save-baseline").code == 1


@pytest.mark.parametrize("name", ["../../x", "..", "me@10.0.0.5:22", "ä b/c", "x" * 400, ""])
def test_whatever_a_host_is_called_its_file_is_in_the_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path = host_file.path_of("baselines", name)

    host_file.write("baselines", name, "{}")
    assert list((tmp_path / "rigops/baselines").iterdir()) == [path]
    assert path != host_file.path_of("baselines", name + "%2f")


def test_an_acknowledged_finding_is_information_until_it_is_taken_back(host: Host) -> None:
    said = host.doctor("--ack", "acs.path", "--because", "a lab rig", "--until", "2999-12-31")
    assert said.code == 0
    assert said.out.splitlines() == [
        "rig: acknowledged until 2999-12-31:",
        "  warn  acs.path  host: 3 ports redirect what the cards send to each other",
        "Take it back: rigops doctor rig --unack acs.path",
    ]

    (found,) = host.findings("acs.path")
    assert (found["status"], found["remedy"]) == ("info", None)
    assert ": a lab rig" in found["summary"]
    assert host.doctor("--ack", "acs.path", "--because", "twice").code == 2

    back = host.doctor("--unack", "acs.path")
    assert (back.code, back.out.splitlines()[0]) == (0, "rig: counts again:")
    assert host.findings("acs.path")[0]["status"] == "warn"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--ack", "acs.paht", "--because", "x"], "no such check"),
        (["--ack", "acs.path"], "needs a reason"),
        (["--ack", "acs.path", "--because", "x", "--until", "2020-01-01"], "no day to come"),
        (["--ack", "acs.path", "--because", "x", "--until", "tomorrow"], "no day to come"),
        (["--ack", "gpu.lost", "--because", "x"], "accepted: acs.path, drv.persist, drv.pin, "),
        (["--ack", "p2p.proof", "--because", "x"], "a failed proof ends with a preflight"),
        (["--ack", "acs.path", "--because", "x", "--subject", "gpu 9"], "accepted: host"),
        (["--ack", "acs.path", "--because", "x", "--json"], "not with --json"),
        (["--unack", "acs.path"], "nothing is acknowledged"),
        (["--unack", "acs.path", "--because", "x"], "takes neither"),
        (["--because", "x"], "--ack ID or --unack ID"),
        (["other", "--ack", "acs.path", "--because", "x"], "takes one host"),
    ],
)
def test_what_cannot_be_acknowledged_is_a_usage_error(
    host: Host, words: list[str], said: str
) -> None:
    done = host.doctor(*words)

    assert done.code == 2
    assert said in done.err + done.out


def test_a_preflight_that_passes_takes_a_baseline_and_keeps_it_where_something_got_worse(
    rigops: Rigops, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(rigops)

    def collect(*_: object, collected_at: str, **__: object) -> Collection:
        sections = Bundle.read(recorded.DEMO / "threadripper").sections
        texts = {name: type(one)(host.texts[name], root=True) for name, one in sections.items()}
        return Collection(Bundle("rig", collected_at, root=True, sections=texts), "", 0.0)

    monkeypatch.setattr("rigops.hosts.baselines.collect", collect)
    fleet.answers["rig"] = [GRANTED, PROVEN]
    assert rigops("preflight", "rig", "--yes").code == 0
    stored = baseline.read("rig")
    assert stored is not None
    assert (stored.by, stored.driver) == ("preflight", "545.29.06")

    host.change("pci", *NARROWER)
    fleet.answers["rig"] = [GRANTED, PROVEN]
    again = rigops("preflight", "rig", "--yes")
    assert again.code == 0
    assert "Warning: rig: no baseline stored: GeForce RTX 3090: link x8; link x16" in again.err
    assert baseline.read("rig") == stored


def test_the_screens_of_the_page_are_what_is_printed(host: Host) -> None:
    page = (ROOT / "docs/how-to/baseline.md").read_text(encoding="utf-8")
    block = r"(?m)^```text\n\$ rigops doctor rig (.*)\n((?:(?!```).*\n)+)```$"
    shown = re.findall(block, page)
    assert len(shown) == 3

    for words, screen in shown:
        done = host.doctor(*shlex.split(words))
        stored = baseline.read("rig")
        assert stored is not None
        progress = re.compile(r"^rig: [a-z]+ \([0-9.]+ s\)\n", re.MULTILINE)
        text = progress.sub("", done.out + done.err).replace(stored.day, "2026-11-02")
        assert matches(screen, text), text
        if "--save-baseline" in words:
            host.change("pci", *NARROWER)
            host.change("nvidia-smi-xml", "94.02.42.00.01", "94.02.71.00.01")
