"""Clocks that are years off, of the host, of the controller, or of both: a row each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lab import preloaded
from tests.lab.applying import INVENTORY, only
from tests.lab.laptop import Laptop
from tests.lab.tended import Tended
from tests.shards import ATTACK

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.lab.conftest import Lab
    from tests.lab.laptop import Said

pytestmark = pytest.mark.shard(ATTACK)

FIVE_YEARS = 5 * 365 * 86_400
# Of the host and of the controller, and whether they are so far apart that it is said.
ROWS = {
    "the host ahead": (FIVE_YEARS, 0, True),
    "the host behind": (-FIVE_YEARS, 0, True),
    "the controller ahead": (0, FIVE_YEARS, True),
    "the controller behind": (0, -FIVE_YEARS, True),
    "both ahead": (FIVE_YEARS, FIVE_YEARS, False),
    "both behind": (-FIVE_YEARS, -FIVE_YEARS, False),
    "apart": (-FIVE_YEARS, FIVE_YEARS, True),
}
APPLIED = ("the host ahead", "the controller behind", "both behind")  # which takes longer


def _rows(names: Iterable[str]) -> pytest.MarkDecorator:
    rows = [pytest.param(*ROWS[name], id=name) for name in names]
    return pytest.mark.parametrize(("host_s", "controller_s", "apart"), rows)


class Rig(Tended):
    def rigops(self, host_s: int, controller_s: int, *words: str) -> Said:
        self.host.run(f"echo {host_s} >/etc/clock-offset")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LD_PRELOAD", str(preloaded.library("clock")))
            patch.setenv("CLOCK_OFFSET", str(controller_s))
            return self.laptop.rigops(*words, "--json", *INVENTORY)


@pytest.fixture(scope="module")
def rig(module_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Rig:
    """Proven in what is the future, and in trouble now."""
    host = module_lab.one("nvlink-2x3090")
    preloaded.preload(host, "clock")
    rig = Rig(Laptop(tmp_path_factory.mktemp("laptop")), host)
    rig.declare(nccl={"NCCL_DEBUG": "WARN"})
    said = rig.rigops(FIVE_YEARS, FIVE_YEARS, "apply", "--yes", "--reboot", "never")
    assert only(said)["preflight"] is not None, said.err
    host.set("lost=0000:0b:00.0")
    return rig


@pytest.fixture(scope="module")
def right(rig: Rig) -> list[tuple[str, str, str]]:
    return rig.rigops(0, 0, "doctor").seen().verdicts()


@_rows(ROWS)
def test_no_clock_makes_anything_well(
    rig: Rig, right: list[tuple[str, str, str]], host_s: int, controller_s: int, *, apart: bool
) -> None:
    seen = rig.rigops(host_s, controller_s, "doctor").seen()

    assert ("xid", "fail", "gpu 0000:0b:00.0") in right
    assert (seen.one("time")["status"] == "warn") is apart
    assert [one for one in seen.verdicts() if one[0] != "time"] == [
        one for one in right if one[0] != "time"
    ]


@_rows(APPLIED)
def test_plan_and_apply_do_the_same_and_say_what_is_wrong_with_the_clock(
    rig: Rig, host_s: int, controller_s: int, *, apart: bool
) -> None:
    value = f"{host_s}:{controller_s}"
    rig.declare(nccl={"NCCL_DEBUG": "WARN", "NCCL_A": value})
    quietly = ("apply", "--yes", "--reboot", "never", "--preflight", "never")
    before = len(rig.laptop.rigops("history", "--json", *INVENTORY).json()["runs"])

    planned = rig.rigops(host_s, controller_s, "plan")
    first = rig.rigops(host_s, controller_s, *quietly)
    again = rig.rigops(host_s, controller_s, *quietly)

    assert only(planned)["changes"]
    assert any("clock" in one for one in only(planned)["notices"]) is apart
    assert (only(first)["outcome"], only(again)["outcome"]) == ("changed", "converged")
    assert f"NCCL_A={value}" in rig.host.run("cat /etc/nccl.conf").stdout
    runs = rig.laptop.rigops("history", "--json", *INVENTORY).json()["runs"]
    assert len(runs) >= before + 1
    assert {one["outcome"] for one in runs} <= {"changed", "converged"}
