"""The command on this machine and on hosts that cannot be reached. Real ssh is the lab's."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest

import rigops.hosts.access as command
from rigops.doctor.registry import CHECKS, sections_for
from rigops.probe.collect import ProbeError, collect
from rigops.probe.registry import PASTED, SECTIONS
from rigops.probe.sections.nvbandwidth import SECTION as NVBANDWIDTH
from rigops.transport import TransportError
from rigops.transport.result import ScriptResult
from tests.unit import recorded
from tests.unit.probe import answers

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Self  # from Python 3.11 on in typing

    from rigops.probe.bundle import Bundle
    from rigops.transport import Target
    from tests.unit.cli.conftest import Rigops

MARK = "0c7f4b1e-0000-4000-8000-000000000001"


class Rig:
    """A host that answers with texts, as the probe would."""

    def __init__(self, name: str, texts: dict[str, str], stdout: bytes | None = None) -> None:
        self.name = name
        self._stdout = stdout
        self._texts = texts
        self.execs: list[list[str]] = []

    @property
    def asked(self) -> list[str]:
        """In the last exec."""
        return self.execs[-1]

    def run_script(
        self,
        script: str,
        *,
        privilege: object,
        deadline_s: float,
        max_output: int,
    ) -> ScriptResult:
        assert "rigops_probe" in script
        asked = re.findall(r'^echo "\$mark asked ?(.*)"$', script, re.MULTILINE)[0].split()
        self.execs.append(asked)
        assert privilege is None
        assert deadline_s > 20
        assert max_output > 0
        said = f"rigops-probe/1 {MARK} root=1 at=2020-01-01T00:00:00Z host=other\n" + "".join(
            f"{MARK} begin {name} root=1 limit=6\n{text}\n"
            f"{MARK} rc=0 from=1 to=1\n\n{MARK} end {name}\n"
            for name, text in self._texts.items()
        )
        return ScriptResult(
            exit_code=0,
            stdout=said.encode() if self._stdout is None else self._stdout,
            stderr=b"",
            started=self._stdout is None,
            complete=True,
            login_noise=b"This account is not available.\n" if self._stdout == b"" else b"",
            login_seconds=0.1,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def rigs(monkeypatch: pytest.MonkeyPatch) -> dict[str, Rig | Exception]:
    """What each alias leads to; any other is not found."""
    known: dict[str, Rig | Exception] = {}

    def connect(target: Target, **_: object) -> Rig:
        unknown = TransportError("dns", f"no address for {target.alias}", host=target.name)
        found = known.get(target.alias, unknown)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(command, "connect", connect)
    return known


def test_this_machine(rigops: Rigops) -> None:
    said = rigops("doctor", "--json")

    document = said.json()
    (host,) = document["hosts"]
    assert document["schema"] == "rigops.doctor/1"
    assert (host["host"], host["source"]) == ("@local", "local")
    assert host["facts"]["kernel"] == subprocess.check_output(["uname", "-r"], text=True).strip()
    of_hosts = {
        check.id
        for check in CHECKS
        # nvbandwidth also names a driver, which hosts tell in another way.
        if not (set(check.needs) - {NVBANDWIDTH}) & set(PASTED) and check.needs != (NVBANDWIDTH,)
    }
    assert {finding["id"] for finding in host["findings"]} == of_hosts
    assert "@local: " in said.err


def test_one_host_that_is_not_reached_spoils_nothing(
    rigops: Rigops, rigs: dict[str, Rig | Exception]
) -> None:
    rigs["rig"] = Rig("rig", answers.BROKEN)
    rigs["odd"] = ValueError("a fault of ours")

    said = rigops("doctor", "--json", "gone", "rig", "odd")

    assert said.code == 1
    gone, rig, odd = said.json()["hosts"]
    assert (gone["status"], gone["error"]["kind"], gone["findings"]) == ("unknown", "dns", [])
    assert odd["error"] == {"kind": "fault", "message": "ValueError: a fault of ours"}
    failed = {f["id"] for f in rig["findings"] if f["status"] == "fail"}
    assert failed == {"drv.pin", "iommu.mode"}
    assert rig["collected_at"] > "2021"
    assert [gpu["model"] for gpu in rig["facts"]["gpus"]] == ["GeForce RTX 3090"] * 2
    assert {"gone: unknown", "rig: fail", "odd: unknown"} == {
        line.rpartition(" (")[0] for line in said.err.splitlines()
    }


def test_a_host_is_asked_only_what_the_chosen_checks_need(
    rigops: Rigops, rigs: dict[str, Rig | Exception], tmp_path: Path
) -> None:
    rig = rigs["rig"] = Rig("rig", answers.BROKEN)
    everything = [section.name for section in SECTIONS]
    summary = ["os-release", "uname", "nvidia-version"]
    cards = ["pci", "lspci", "nvidia-smi-xml", "nvidia-smi-topo", "nvidia-smi-p2p-read"]
    mode = ["proc-cmdline", "iommu-groups", "bootloader", "firmware", "kernel-log"]
    mode += ["rigops-state", "own-modules"]  # a proof of this driver and its modules counts more

    rigops("doctor", "--json", "rig", "--only", "iommu.mode")
    assert sorted(rig.asked) == sorted([*summary, *cards, *mode])

    rig.execs.clear()
    rigops("doctor", "--json", "rig", "--skip", "borg.age")
    assert {"units", "dkms"} <= set(rig.execs[0]) <= set(everything) - {"backups"}

    rig.execs.clear()
    rigops("doctor", "--json", "rig")
    assert rig.execs[0] == everything
    rigops("doctor", "--json", "rig", "--only", "time", "--save", str(tmp_path / "saved"))
    assert rig.asked == everything


def test_apt_is_asked_only_where_the_driver_is_in_question(
    rigops: Rigops, rigs: dict[str, Rig | Exception]
) -> None:
    rig = rigs["rig"] = Rig("rig", answers.BROKEN)
    rigops("doctor", "--json", "rig", "--only", "drv.pin")
    assert ["driver-offers" in asked for asked in rig.execs] == [False, True]

    good = {**answers.BROKEN, "nvidia-version": answers.VERSION.format("535.261.03")}
    rig = rigs["rig"] = Rig("rig", good)
    rigops("doctor", "--json", "rig", "--only", "drv.pin")
    assert ["driver-offers" in asked for asked in rig.execs] == [False]


def test_only_unreached_hosts(rigops: Rigops, rigs: dict[str, Rig | Exception]) -> None:
    del rigs
    said = rigops("doctor", "gone", "gone", "lost")

    assert said.code == 3
    assert said.out.endswith("\n2 hosts: 2 unknown.\n")


def test_an_inventory_names_the_hosts_and_what_they_should_be(
    rigops: Rigops, rigs: dict[str, Rig | Exception], tmp_path: Path
) -> None:
    (tmp_path / "rigs.py").write_text(
        'rigs = [("threadripper", {"ssh_hostname": "10.0.0.1", "driver": "535"}), "t180"]\n'
    )
    desktop = recorded.rig("desktop-3060-1060")
    healthy = {name: one.text for name, one in desktop.sections.items()}
    rigs["10.0.0.1"] = Rig("threadripper", answers.BROKEN)
    rigs["t180"] = Rig("t180", healthy)

    said = rigops("doctor", "-i", "rigs.py")

    assert said.code == 1
    assert said.out.startswith("threadripper  FAIL")
    assert "fix: rigops apply" in said.out
    assert "t180  ok" in said.out
    assert rigops("doctor", "-i", "rigs.py", "t180").code == 0
    assert rigops("doctor", "-i", "rigs.py", "--only", "iommu.present").code == 0


@pytest.mark.parametrize(("arguments", "ids"), [
    (["--only", "iommu.mode"], ["iommu.mode"]),
    (["--only", "iommu.mode,drv.pin", "--skip", "drv.pin"], ["iommu.mode"]),
    (["--skip", "iommu.mode", "--only", "drv.pin"], ["drv.pin"]),
])  # fmt: skip
def test_some_checks_only(
    rigops: Rigops, rigs: dict[str, Rig | Exception], arguments: list[str], ids: list[str]
) -> None:
    rigs["rig"] = Rig("rig", answers.BROKEN)

    (host,) = rigops("doctor", "rig", "--json", *arguments).json()["hosts"]

    assert [finding["id"] for finding in host["findings"]] == ids


def test_a_misspelled_check_is_answered_with_the_one_that_is_meant(rigops: Rigops) -> None:
    run = rigops("doctor", "@local", "--only", "iommu.mod")

    fix = "    fix: did you mean 'iommu.mode'?\n"
    assert (run.code, run.err) == (2, f"Error: --only = iommu.mod: no such check\n{fix}")


def test_strict_counts_warnings(rigops: Rigops, rigs: dict[str, Rig | Exception]) -> None:
    rigs["rig"] = Rig(
        "rig", {**answers.BROKEN, "nvidia-version": answers.VERSION.format("550.163.01")}
    )

    assert rigops("doctor", "rig", "--only", "drv.pin").code == 0
    assert rigops("doctor", "rig", "--only", "drv.pin", "--strict").code == 1


def test_a_login_that_runs_nothing(rigops: Rigops, rigs: dict[str, Rig | Exception]) -> None:
    rigs["rig"] = Rig("rig", {}, stdout=b"")

    (host,) = rigops("doctor", "rig", "--json").json()["hosts"]

    assert host["error"]["kind"] == "auth"
    assert "This account is not available." in host["error"]["message"]


@pytest.mark.parametrize("option", ["--only", "--skip", "--explain"])
def test_a_check_that_does_not_exist(rigops: Rigops, option: str) -> None:
    said = rigops("doctor", option, "drv.pinn", "--json")

    assert said.code == 2
    assert said.json()["errors"][0]["cure"] == "did you mean 'drv.pin'?"


def test_an_explanation(rigops: Rigops) -> None:
    assert "/sys/kernel/iommu_groups" in rigops("doctor", "--explain", "iommu.mode").out
    assert "reseat the card" in rigops("doctor", "--explain", "bad-riser").out
    assert "did you mean 'bad-riser'?" in rigops("doctor", "--explain", "bad-risr").err


def test_the_printed_probe_is_the_probe(rigops: Rigops) -> None:
    printed = rigops("doctor", "--print-probe").out

    assert "sudo -n" in printed
    assert "sudo -n" not in rigops("doctor", "--print-probe", "--no-root").out
    asked = re.findall(r'^echo "\$mark asked ?(.*)"$', printed, re.MULTILINE)[0].split()
    assert {one.name for one in sections_for(CHECKS)} <= {*asked}
    subprocess.run(["sh", "-n"], input=printed.encode(), check=True)


@pytest.mark.parametrize("inventory", ["-i missing.py", "-i broken.py"])
def test_a_wrong_inventory_is_a_usage_error(rigops: Rigops, tmp_path: Path, inventory: str) -> None:
    (tmp_path / "broken.py").write_text("rigs = [")

    assert rigops("doctor", *inventory.split()).code == 2


def test_a_bundle_has_the_name_that_it_was_asked_under() -> None:
    bundle: Bundle = collect(Rig("rig", answers.BROKEN), SECTIONS).bundle

    assert (bundle.host, bundle.collected_at) == ("rig", "2020-01-01T00:00:00Z")
    with pytest.raises(ProbeError, match="ran no command"):
        collect(Rig("rig", {}, stdout=b"command not found"), SECTIONS)


@pytest.mark.parametrize("hosts", [("a",), ("a", "b", "c", "d")])
def test_an_old_catalog_is_one_note_however_many_hosts_there_are(
    rigops: Rigops, monkeypatch: pytest.MonkeyPatch, hosts: tuple[str, ...]
) -> None:
    assert "note: the catalog of" not in rigops("doctor", *hosts).out

    young = rigops("doctor", *hosts, "--json").json()
    monkeypatch.setattr("rigops.report.catalog_age.MOST_DAYS", -(10**6))
    lines = rigops("doctor", *hosts).out.splitlines()

    (note,) = [line for line in lines if line.startswith("note: the catalog of")]
    assert "days old" in note
    assert "by the key `catalog`" in " ".join(lines[lines.index(note) :])
    assert rigops("doctor", *hosts, "--json").json().keys() == young.keys()
