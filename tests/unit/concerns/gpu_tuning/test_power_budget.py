"""What plan notices of limits that nothing feeds."""

from __future__ import annotations

from rigops import catalog
from rigops.concerns.gpu_tuning import decide, power_budget
from rigops.concerns.registry import read
from rigops.power import Share
from rigops.probe.sections.pci import Pci
from rigops.probe.smi.report import SmiReport
from tests.unit.concerns.gpu_tuning.test_decide import GEFORCE, SECOND
from tests.unit.doctor.driven_cards import RTX3090, rig

CARDS = power_budget.known(
    decide.find_cards(SmiReport(gpus=(GEFORCE, SECOND), is_complete=True), catalog.load())
)


def excess(*others: Share, **declared: object) -> str:
    return power_budget.excess(read(declared), CARDS, others)


def test_limits_that_are_fed_are_not_noticed() -> None:
    assert excess(gpu_power_limit=285, psus=[1600]) == ""
    assert excess(gpu_power_limit=285) == ""


def test_limits_that_cannot_be_fed_are_noticed_with_the_highest_that_fits() -> None:
    """2 x 285 x 1.71 + 250 = 1225 of 850; (850 - 250) / (2 x 1.71) = 175."""
    assert excess(gpu_power_limit=285, psus=[850]) == (
        "gpu_power_limit: these limits cannot be fed. PSU 1: 820 W under lasting load, above the "
        "safe 765 W (90% of its watts); PSU 1: 1225 W in peaks of milliseconds, above the safe "
        '850 W (all its watts). fix: declare "gpu_power_limit": 175, or use larger supplies or '
        "more circuits; `rigops power` shows the budget"
    )


def test_limits_in_force_are_for_doctor() -> None:
    assert excess(psus=[850]) == ""


def test_where_no_limit_fits_none_is_proposed() -> None:
    said = excess(gpu_power_limit=285, psus=[400])

    assert "fix: use larger supplies or more circuits" in said


def test_other_hosts_on_the_circuit_count() -> None:
    declared = {"gpu_power_limit": 250, "circuits": {"A": "120V/15A"}}
    share = Share(circuit="A", host="other", watts=700)

    assert excess(**declared) == ""
    said = excess(share, **declared)
    # (2 x 250 + 250) / 0.9 + 700
    assert "circuit A (with other): 1533 W from the wall, above the safe 1440 W" in said


def test_a_breaker_that_nobody_sells_is_noticed() -> None:
    (said,) = power_budget.odd_breakers(read({"circuits": "120V/16A"}))

    assert said.startswith("circuits: no breaker of 16 A is sold for 120 V")


def test_before_there_is_a_driver_the_catalog_says_what_the_cards_are() -> None:
    snapshot = rig(RTX3090, RTX3090)
    pci = next(one.value for one in snapshot.answers.values() if isinstance(one.value, Pci))
    cards = power_budget.foreseen(pci, catalog.load())

    def said(watts: int) -> str:
        return power_budget.excess(read({"gpu_power_limit": "80%", "psus": [watts]}), cards, ())

    assert said(1600) == ""
    # 80 % of 350, twice, and 250
    assert "PSU 1: 810 W under lasting load" in said(850)
