"""`rigops drivers --host` on hosts that answer with texts. Real ones are the lab's."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final

import pytest

import rigops.hosts.access as seen
from rigops.transport import TransportError
from tests.unit.cli.test_doctor import Rig
from tests.unit.concerns.driver_modules.trees import files, written

if TYPE_CHECKING:
    from pathlib import Path

    from rigops.transport import Target
    from tests.unit.cli.conftest import Rigops

SOURCES: Final = """\
== file /etc/apt/sources.list
deb http://archive.example/ubuntu noble main restricted
deb http://archive.example/ubuntu noble-updates main restricted

== trouble

== lists
4
"""
REAL: Final = "535.171.04-0ubuntu2"
TRAP: Final = "535.309.01-0ubuntu0.24.04.2"
NEWER: Final = "580.178.04-0ubuntu0.24.04.1"


def driver(branch: str, version: str, depends: str = "") -> list[tuple[str, str, str]]:
    """Packages with their versions and what each depends on, else one another."""
    names = [f"nvidia-{word}-{branch}" for word in ("dkms", "utils", "headless", "driver")]
    its = f"nvidia-dkms-{branch} (= {version}), nvidia-utils-{branch} (= {version})"
    needs = dict.fromkeys(names[:2], "libc6") | dict.fromkeys(names[2:], its)
    return [(name, version, depends.format(name) or needs[name]) for name in names]


def offers(*packages: tuple[str, str, str], sources: str = SOURCES) -> str:
    places = [f"{name} {version} noble/restricted\n" for name, version, _ in packages]
    records = [
        f"Package: {name}\nVersion: {version}\nDepends: {depends}\n"
        for name, version, depends in packages
    ]
    return f"{sources}== places\n{''.join(places)}== records\n" + "\n".join(records)


TRAPPED: Final = offers(
    *driver("535", REAL),
    *((name, TRAP, name.replace("535", "580")) for name, _, _ in driver("535", TRAP)),
)
TEXTS: Final = {
    "os-release": 'ID=ubuntu\nVERSION_ID="24.04"\nVERSION_CODENAME=noble\n',
    "uname": "Linux rig 6.8.0-31-generic #31-Ubuntu SMP x86_64 GNU/Linux\n",
    "pci": "0000:17:00.0 vendor=0x10de device=0x2204 class=0x030000 rev=a1 driver=nvidia link=-,- "
    "max=-,- numa=0 bar1=- path=/sys/devices/pci0000:16/0000:16:00.0/0000:17:00.0\n",
    "nvidia-version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  545.29.06  Thu Nov 16\n",
    "nvidia-modinfo": "",
    "packages": "== dpkg-query -W\nlinux-generic\t6.8.0-31.31\tamd64\tii \tlinux-meta\n",
    "secure-boot": "== ls -d /sys/firmware/efi\nls: cannot access: No such file or directory\n",
    "rigops-state": "",
    "driver-ground": "== kernels\n6.8.0-31-generic headers\n",
    "driver-offers": TRAPPED,
}


class Fleet:
    """Hosts by alias; a host that is not there cannot be reached."""

    def __init__(self) -> None:
        self.texts: dict[str, dict[str, str]] = {}
        self.asked: list[str] = []

    def connect(self, target: Target, **_: Any) -> Rig:
        if target.alias not in self.texts:
            raise TransportError("timeout", "no answer within 20 s", host=target.name)
        fleet = self

        class Counted(Rig):
            def run_script(self, script: str, **how: Any) -> Any:
                fleet.asked.append(script)
                return super().run_script(script, **how)

        return Counted(target.name, self.texts[target.alias])


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> Fleet:
    made = Fleet()
    monkeypatch.setattr(seen, "connect", made.connect)
    return made


@pytest.fixture
def today(monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]  # stands still
            del tz
            return datetime(2026, 11, 22, tzinfo=timezone.utc)

    monkeypatch.setattr("rigops.concerns.nvidia_driver.from_bundle.datetime", Clock)


@pytest.mark.usefixtures("today")
def test_the_document(rigops: Rigops, fleet: Fleet) -> None:
    fleet.texts["rig"] = TEXTS

    run = rigops("drivers", "--host", "rig", "--json")

    assert run.code == 0
    document = run.json()
    assert list(document) == ["schema", "drivers", "hosts"]
    assert document["schema"] == "rigops.drivers/1"
    assert {row["branch"] for row in document["drivers"]} >= {"535", "545", "580"}
    assert document["hosts"] == [
        {
            "host": "rig",
            "status": "ok",
            "gpus": [
                {
                    "address": "0000:17:00.0",
                    "model": "GeForce RTX 3090",
                    "pci_id": "10de:2204",
                }
            ],
            "distribution": "Ubuntu 24.04",
            "kernels": [{"release": "6.8.0-31-generic", "headers": True}],
            "installed": None,
            "loaded": {"version": "545.29.06", "flavour": "proprietary", "status": "bad"},
            "offered": [
                {
                    "version": "535.309.01",
                    "branch": "535",
                    "flavour": "proprietary",
                    "sets": [],
                    "from": ["noble/restricted"],
                    "status": "known-good",
                    "fits": False,
                    "why": "what is named 535 here is not 535: nvidia-dkms-535 "
                    "535.309.01-0ubuntu0.24.04.2 is empty and installs nvidia-dkms-580",
                },
                {
                    "version": "535.171.04",
                    "branch": "535",
                    "flavour": "proprietary",
                    "sets": ["compute", "desktop"],
                    "from": ["noble/restricted"],
                    "status": "known-good",
                    "fits": True,
                    "why": "known to be good for GeForce RTX 3090; gets no more fixes",
                },
            ],
            "recommended": {
                "version": "535.171.04",
                "flavour": "proprietary",
                "declare": {"driver": "535"},
                "why": "535.171.04 is the newest on offer that is known to be good for GeForce RTX "
                "3090; 545.29.06, which is loaded, is known to be bad; 535 has had no fixes "
                "since 2026-06; plan for 580, which gets fixes until 2028-06",
                "notes": [],
            },
            "refusal": None,
            "declared": None,
        }
    ]


@pytest.mark.usefixtures("today")
def test_the_text(rigops: Rigops, fleet: Fleet) -> None:
    fleet.texts["rig"] = TEXTS

    run = rigops("drivers", "--host", "rig")

    assert run.code == 0
    assert run.out == (
        "rig  Ubuntu 24.04, GeForce RTX 3090, Linux 6.8.0-31-generic\n"
        "    loaded     545.29.06 proprietary, bad\n"
        "\n"
        "    recommended: 535.171.04 proprietary\n"
        "        535.171.04 is the newest on offer that is known to be good for GeForce RTX 3090; "
        "545.29.06, "
        "which is loaded, is known to be bad; 535 has had no fixes since 2026-06; plan for "
        "580, which gets fixes until 2028-06\n"
        '        declare: "driver": "535"\n'
        "\n"
        "    on offer\n"
        "        535.171.04 proprietary  known-good, fits, noble/restricted\n"
        "            known to be good for GeForce RTX 3090; gets no more fixes\n"
        "        535.309.01 proprietary  does not fit, noble/restricted\n"
        "            what is named 535 here is not 535: nvidia-dkms-535 535.309.01-0ubuntu0.24.04.2"
        " is empty and installs nvidia-dkms-580\n"
    )
    assert run.err.startswith("rig: ok (")


def test_a_host_is_asked_once(rigops: Rigops, fleet: Fleet) -> None:
    fleet.texts["rig"] = TEXTS

    rigops("drivers", "--host", "rig")

    (script,) = fleet.asked
    assert "asked os-release uname pci" in script


@pytest.mark.usefixtures("today")
def test_what_drives_not_all_cards_is_one_line(rigops: Rigops, fleet: Fleet) -> None:
    more = offers(*driver("580", NEWER), *driver("470", "470.256.02-0ubuntu1"))
    fleet.texts["rig"] = {**TEXTS, "pci": TEXTS["pci"].replace("2204", "2b85")}
    fleet.texts["rig"]["driver-offers"] = more

    run = rigops("drivers", "--host", "rig")

    assert "    nothing to recommend\n" in run.out
    assert run.out.endswith(
        "        not for all cards of this machine\n"
        "            580.178.04 proprietary, 470.256.02 proprietary\n"
    )


def test_a_host_out_of_reach_is_unknown_and_spoils_no_other(rigops: Rigops, fleet: Fleet) -> None:
    fleet.texts["rig"] = TEXTS

    run = rigops("drivers", "--host", "rig,gone", "--json")
    text = rigops("drivers", "--host", "rig", "--host", "gone")

    assert run.code == text.code == 3
    rig, gone = run.json()["hosts"]
    assert rig["recommended"]["version"] == "535.171.04"
    assert gone == {
        "host": "gone",
        "status": "unknown",
        "error": {"kind": "timeout", "message": "no answer within 20 s"},
    }
    assert text.out.startswith("gone  unknown\n    timeout: no answer within 20 s\n\nrig  Ubuntu")


def test_an_answer_that_did_not_come_in_time_is_no_empty_one(rigops: Rigops, fleet: Fleet) -> None:
    fleet.texts["rig"] = {k: v for k, v in TEXTS.items() if k != "driver-offers"}

    run = rigops("drivers", "--host", "rig", "--json")

    assert run.code == 3
    (host,) = run.json()["hosts"]
    assert (host["status"], host["error"]["kind"]) == ("unknown", "timeout")
    assert "driver-offers" in host["error"]["message"]


def test_what_the_inventory_declares_is_resolved_too(
    rigops: Rigops, fleet: Fleet, tmp_path: Path
) -> None:
    (tmp_path / "inventory.py").write_text(
        'rigs = [("good", {"driver": "535"}), ("bad", {"driver": "545"})]\n'
    )
    fleet.texts |= {"good": TEXTS, "bad": TEXTS}

    run = rigops("drivers", "--host", "good,bad", "--json")
    text = rigops("drivers", "--host", "good,bad", "-i", "inventory.py").out

    assert run.code == 0
    good, bad = (host["declared"] for host in run.json()["hosts"])
    assert (good["driver"], good["version"], good["refusal"]) == ("535", "535.171.04", None)
    assert (bad["version"], "known to be bad" in bad["refusal"]["reason"]) == (None, True)
    assert 'declared   "535" is 535.171.04 proprietary: ' in text
    assert 'declared   "545", refused\n' in text


def test_with_a_tree_of_modules_no_other_release_of_the_declared_branch_will_do(
    rigops: Rigops, fleet: Fleet, tmp_path: Path
) -> None:
    written(tmp_path / "tree", files("535.261.03"))
    (tmp_path / "inventory.py").write_text(
        'rigs = [("rig", {"driver": "535", "driver_modules": "tree"})]\n'
    )
    fleet.texts["rig"] = TEXTS

    (host,) = rigops("drivers", "--host", "rig", "--json").json()["hosts"]

    assert host["declared"]["version"] is None
    assert "535.261.03" in host["declared"]["refusal"]["reason"]


def test_a_source_that_is_declared_in_full_is_tried_beside_the_hosts_own(
    rigops: Rigops, fleet: Fleet, tmp_path: Path
) -> None:
    fields = {"URIs": "http://mine.example/apt", "Suites": "noble", "Components": "main"}
    (tmp_path / "inventory.py").write_text(
        f'rigs = [("rig", {{"driver": "535", "driver_source": {fields!r}}})]\n'
    )
    trouble = SOURCES.replace("== trouble\n", "== trouble\nE: no http://mine.example/apt\n")
    fleet.texts["rig"] = {**TEXTS, "driver-offers": offers(*driver("535", REAL), sources=trouble)}

    (host,) = rigops("drivers", "--host", "rig", "--json").json()["hosts"]

    (script,) = fleet.asked
    assert "URIs: http://mine.example/apt" in script
    assert "no http://mine.example/apt" in host["declared"]["refusal"]["cure"]
    assert host["recommended"]["version"] == "535.171.04"


def test_a_catalog_of_the_users_own_counts(rigops: Rigops, fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(
        '[[drivers]]\nbranch = "535"\n\n[[drivers.verdicts]]\nstatus = "bad"\n'
        'versions = "==535.171.04"\ngpus = ["GeForce RTX 3090"]\npurpose = "p2p"\n'
        'since = "2026-11"\nwhy = "Our own rig hung on it."\n'
        'evidence = [{ where = "our lab book", date = "", hardware = "" }]\n'
    )
    (tmp_path / "inventory.py").write_text('rigs = [("rig", {"catalog": "own.toml"})]\n')
    fleet.texts["rig"] = TEXTS

    document = rigops("drivers", "--host", "rig", "--json").json()

    (host,) = document["hosts"]
    assert host["recommended"] is None
    assert host["offered"][1]["status"] == "bad"
    assert "our lab book" in host["offered"][1]["why"]
    assert any("our lab book" in str(row["evidence"]) for row in document["drivers"])


def test_what_a_host_says_does_not_reach_the_terminal_as_it_is(
    rigops: Rigops, fleet: Fleet
) -> None:
    evil = TEXTS["driver-ground"].replace("headers", "headers\n6.9.0\x1b[31m none")
    names = TRAPPED.replace("noble/restricted", "noble\x1b[31m/restricted")
    fleet.texts["rig"] = {**TEXTS, "driver-ground": evil, "driver-offers": names}

    assert "\x1b" not in rigops("drivers", "--host", "rig", "--no-color").out


def test_a_card_and_a_host_are_not_both_meant(rigops: Rigops, fleet: Fleet) -> None:
    said = rigops("drivers", "--host", "rig", "--gpu", "3090", "--json")

    assert said.code == 2
    assert said.json()["errors"][0]["key"] == "--gpu"
    assert fleet.asked == []
