"""A card has fallen off the bus: five commands say the same of it, and no fix leads in a circle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from rigops.probe.lost_cards import ADVICE
from tests.lab.applying import INVENTORY, only
from tests.lab.laptop import Laptop
from tests.lab.tended import Tended
from tests.shards import LAB_DOCTOR

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.lab.conftest import Lab

pytestmark = pytest.mark.shard(LAB_DOCTOR)

LOST: Final = "0000:84:00.0"
SENTENCE: Final = "card 84:00.0 is lost since "
KEYS: Final[Mapping[str, Any]] = {"gpus": {"V100": 4}, "psus": [1600, 1600]}


class Rig(Tended):
    def shown(self, code: int, *words: str, **declared: object) -> str:
        self.declare(**declared)
        said = self.laptop.rigops(*words, *INVENTORY)
        assert said.code == code, said.out + said.err
        return " ".join(said.out.split())


@pytest.fixture(scope="module")
def rig(module_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Rig:
    host = module_lab.one("t180-4xv100")
    host.set(f"lost={LOST}")
    return Rig(Laptop(tmp_path_factory.mktemp("laptop")), host)


def test_doctor_has_one_advice_and_no_fix_that_apply_refuses(rig: Rig) -> None:
    rig.declare(**KEYS)
    seen = rig.laptop.doctor(*INVENTORY).seen()

    fails = [one for one in seen.findings if one["status"] in {"fail", "warn"}]
    assert [one["id"] for one in fails] == ["xid", "gpu.lost", "gpu.count"]
    assert {(one["remedy"]["kind"], one["remedy"]["text"]) for one in fails} == {("hands", ADVICE)}
    assert seen.one("gpu.lost")["summary"].startswith("lost since ")
    assert seen.one("acs.path")["status"] == "unknown"


def test_plan_says_it_whatever_is_declared(rig: Rig) -> None:
    assert f"{ADVICE}" in (shown := rig.shown(0, "plan", **KEYS))
    assert SENTENCE in shown
    (blocked,) = rig.plan(1, **KEYS, gpu_power_limit=250)["blocked"]
    assert SENTENCE in blocked["reason"]
    assert ADVICE in blocked["reason"]


def test_power_counts_at_least_what_it_knows(rig: Rig) -> None:
    shown = rig.shown(3, "power", **KEYS)

    assert SENTENCE in shown
    assert "at least 250 of 2880 W" in shown
    assert f"fix: {ADVICE}" in shown


@pytest.mark.parametrize("command", ["preflight", "apply"])
def test_nothing_is_copied_and_nothing_is_blamed(rig: Rig, command: str) -> None:
    assert f"fix: {ADVICE}" in rig.shown(1, command, "--yes", **KEYS)
    said = rig.laptop.rigops(command, "--yes", "--json", *INVENTORY)

    found = only(said)["preflight"] if command == "apply" else said.json()["hosts"][0]
    (reason,) = [one for one in found["reasons"] if "84:00.0" in one]
    assert reason.startswith(SENTENCE)
    assert found["changes"] is None
    assert {pair["verdict"] for pair in found["pairs"]} <= {"skipped", "not_granted"}
    assert rig.laptop.doctor(*INVENTORY).seen().of("p2p.proof")[0]["status"] != "fail"


def test_when_it_is_back_the_advice_can_be_applied(rig: Rig) -> None:
    rig.host.set("lost=")
    rig.host.run("mkdir -p /var/log/journal && systemctl restart systemd-journald")
    rig.reboot()

    rig.declare(**KEYS)
    seen = rig.laptop.doctor(*INVENTORY).seen()
    assert seen.one("gpu.lost")["status"] == "ok"
    rig.apply(**KEYS, gpu_power_limit="80%")
    assert rig.finding("pwr.limit", **KEYS, gpu_power_limit="80%")["status"] == "ok"
