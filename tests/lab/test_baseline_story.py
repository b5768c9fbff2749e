"""A rig with a baseline: its hardware changes, doctor names it, and a person lives with some."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.lab.laptop import Laptop
from tests.lab.sshd import until
from tests.shards import LAB_DOCTOR

if TYPE_CHECKING:
    from tests.lab.conftest import Lab
    from tests.lab.hosts import Host

pytestmark = pytest.mark.shard(LAB_DOCTOR)

MODULE = """
Handle 0x0012, DMI type 17, 92 bytes
Memory Device
	Size: 32 GB
	Locator: DIMM_{}1
	Bank Locator: P0 CHANNEL {}
"""
# What a person does with a screwdriver, and with a new BIOS.
REBUILD = """
import json
path = "/etc/rigsim/rig.json"
rig = json.load(open(path))
rig["board"]["bios_version"] = "P3.80"
rig["gpus"][0]["width"] = 8
rig["gpus"][1]["vbios"] = "95.02.18.80.99"
rig["gpus"].pop()
json.dump(rig, open(path, "w"))
"""


class Rig:
    def __init__(self, host: Host, laptop: Laptop) -> None:
        self.host, self.laptop = host, laptop
        self.cards = [gpu.address for gpu in host.rig().gpus]

    def doctor(self, *words: str, code: int | None = None) -> Any:
        done = self.laptop.rigops("doctor", self.host.name, *words)
        assert code in {None, done.code}, done.out + done.err
        return done

    def findings(self, check: str) -> list[dict[str, Any]]:
        return self.laptop.doctor(self.host.name).seen().of(check)

    def one(self, check: str, subject: str) -> dict[str, Any]:
        (found,) = [one for one in self.findings(check) if one["subject"] == subject]
        return found

    def has_modules(self, letters: str) -> None:
        listed = "".join(MODULE.format(one, one) for one in letters)
        script = f"#!/bin/sh\ncat <<'END'\n# dmidecode 3.4\n{listed}END\n"
        self.host.run("cat >/usr/sbin/dmidecode && chmod 755 /usr/sbin/dmidecode", given=script)

    def suffers_an_xid(self) -> None:
        line = f"NVRM: Xid (PCI:{self.cards[2][:-2]}): 48, pid=1, name=job, DBE at 0x0"
        program = (
            "import sys; sys.path.insert(0, '/usr/lib/rigsim'); from rigsim import kernel_log; "
            f"kernel_log.add({line!r}, priority=4); kernel_log.import_new()"
        )
        assert self.host.run("python3 -", given=program).returncode == 0

    def baseline(self) -> dict[str, Any]:
        (path,) = (self.laptop.folder / "state/rigops/baselines").iterdir()
        found: dict[str, Any] = json.loads(path.read_text())
        return found


@pytest.fixture(scope="module")
def rig(module_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Rig:
    made = Rig(module_lab.one("epyc-8x4090"), Laptop(tmp_path_factory.mktemp("laptop")))
    made.laptop.declare({made.host.name: {"gpu_power_limit": 300}})
    made.has_modules("ABCD")
    return made


def test_a_proven_apply_takes_a_baseline_and_nothing_has_changed_since(rig: Rig) -> None:
    done = rig.laptop.rigops("apply", "--yes", timeout=600)
    assert done.code == 0, done.out + done.err
    assert "baseline" not in done.out + done.err

    taken = rig.baseline()
    assert (taken["by"], len(taken["cards"]), len(taken["modules"])) == ("apply", 8, 4)
    (drift,) = rig.findings("drift")
    assert (drift["status"], drift["summary"]) == (
        "ok",
        f"nothing has changed since the baseline of {taken['at'][:10]}",
    )


def test_an_acknowledged_incident_that_comes_again_counts_again(rig: Rig) -> None:
    subject = f"gpu {rig.cards[2]}"
    rig.suffers_an_xid()
    before = rig.one("xid", subject)
    assert before["status"] in {"fail", "warn"}
    rig.doctor("--ack", "xid", "--because", "an odd job", code=0)
    assert rig.one("xid", subject)["status"] == "info"

    rig.suffers_an_xid()
    again = rig.one("xid", subject)
    assert again["status"] == before["status"]
    assert again["data"]["last"] > before["data"]["last"]


def test_a_rig_that_was_rebuilt_says_what_is_not_as_it_was(rig: Rig) -> None:
    boot_id = "cat /proc/sys/kernel/random/boot_id"
    before = rig.host.run(boot_id).stdout
    assert rig.host.run("python3 -", given=REBUILD).returncode == 0
    rig.has_modules("ABC")
    rig.host.run("systemctl reboot")
    until(lambda: rig.host.run(f"timeout 5 {boot_id}").stdout not in {"", before}, "another boot")

    rig.doctor(code=1)
    day = rig.baseline()["at"][:10]
    gone = rig.one("drift", f"gpu {rig.cards[-1]}")
    assert (gone["status"], gone["data"]["what"]) == ("fail", "card")
    assert gone["summary"].endswith(f"is gone; there at the baseline of {day}")
    first, second = (f"gpu {address}" for address in rig.cards[:2])
    narrow = rig.one("drift", first)
    assert (narrow["status"], narrow["data"]["was"], narrow["data"]["is"]) == ("fail", 16, 8)
    assert (
        rig.one("drift", second)["summary"]
        .partition(": ")[2]
        .startswith("VBIOS 95.02.18.80.99; VBIOS 95.02.18.80.5F at")
    )
    of_host = {
        one["data"]["what"]: one["status"]
        for one in rig.findings("drift")
        if one["subject"] == "host" and "what" in one.get("data", {})
    }
    memory = [*rig.findings("mem.dimm"), *rig.findings("drift")]
    assert of_host["bios"] == "info"
    assert any(one["status"] == "fail" and "4 at the baseline" in one["summary"] for one in memory)


def test_what_is_acknowledged_is_information_and_the_rest_still_counts(rig: Rig) -> None:
    subject = f"gpu {rig.cards[-1]}"
    said = rig.doctor(
        "--ack", "drift", "--subject", subject, "--because", "sold it", "--until", "2999-12-31",
        code=0,
    )  # fmt: skip
    assert f"  fail  drift  {subject}: " in said.out

    gone = rig.one("drift", subject)
    assert gone["status"] == "info"
    assert gone["summary"].endswith(" until 2999-12-31: sold it")
    rig.doctor(code=1)


def test_a_baseline_that_is_asked_for_is_the_new_measure(rig: Rig) -> None:
    said = rig.doctor("--save-baseline")
    assert "baseline stored, in place of that of" in said.err
    assert "7 GPUs" in said.err

    assert {one["status"] for one in rig.findings("drift")} == {"ok"}
