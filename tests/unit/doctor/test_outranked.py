"""What preflight passed for what is there now is no fault, whatever there is to suspect."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from rigops.probe.sections.rigops_state import OWNED_FILES, STRAYS
from rigops.record import Driver, Pair
from rigops.record.shell import FAILED_PROOF, PROVEN
from tests.unit.doctor.examining import spec
from tests.unit.doctor.pcie_rigs import HEALTHY, ONE, OTHER, ROOT_PORTS, found
from tests.unit.record import examples

if TYPE_CHECKING:
    from rigops.doctor.finding import Finding

BOTH = (Pair(ONE, OTHER, "ok", 20.0), Pair(OTHER, ONE, "ok", 20.0))
PROOF = replace(
    examples.PROVEN,
    at="2026-11-20T08:00:00Z",
    driver=Driver("580.95.05", "proprietary"),
    kernel="6.1.0-18-amd64",
    gpus=tuple(replace(examples.FIRST, address=address) for address in (ONE, OTHER)),
    level="L5",
    pairs=BOTH,
)
SUSPECTED = {
    "acs.path": {"lspci": ROOT_PORTS},
    "iommu.mode": {"iommu-groups": f"13 DMA-FQ {ONE}\n14 DMA-FQ {OTHER}\n"},
    "bar1.size": {"pci": HEALTHY["pci"].replace(f"bar1={64 << 30}", f"bar1={256 << 20}")},
}


def look(check: str, records: dict[str, str], **declared: Any) -> list[Finding]:
    shown = "".join(f"== {path}\n{text}\n" for path, text in records.items())
    texts = {
        **HEALTHY,
        **SUSPECTED[check],
        "rigops-state": f"{shown}== {OWNED_FILES}\n== {STRAYS}\n",
        "uname": "Linux rig 6.1.0-18-amd64 #1 SMP x86_64 GNU/Linux\n",
    }
    return found(check, texts, spec(p2p="required", **declared))


def proven(**changed: Any) -> dict[str, str]:
    line = tuple(HEALTHY["proc-cmdline"].split())
    return {PROVEN: replace(PROOF, command_line=line, **changed).to_json()}


@pytest.mark.parametrize("check", SUSPECTED)
def test_a_suspicion_is_information_once_preflight_has_passed(check: str) -> None:
    assert {one.status for one in look(check, {})} <= {"fail", "warn"}

    for one in look(check, proven()):
        assert (one.status, one.fix) == ("info", None)
        assert "preflight passed all the same (2026-11-20, level L5)" in one.summary


@pytest.mark.parametrize("check", SUSPECTED)
@pytest.mark.parametrize(
    "changed",
    [
        {"level": "L1"},
        {"kernel": "6.1.0-17-amd64"},
        {"pairs": (BOTH[0], replace(BOTH[1], verdict="slower_than_staged"))},
        {"pairs": tuple(replace(one, verdict="not_granted") for one in BOTH)},
    ],
)
def test_a_proof_of_less_or_of_something_else_outranks_nothing(
    check: str, changed: dict[str, Any]
) -> None:
    assert {one.status for one in look(check, proven(**changed))} <= {"fail", "warn"}


@pytest.mark.parametrize("check", SUSPECTED)
def test_what_preflight_failed_since_is_a_fault(check: str) -> None:
    records = {**proven(), FAILED_PROOF: "damaged"}

    assert {one.status for one in look(check, records)} <= {"fail", "warn"}


def test_what_is_declared_is_not_outranked() -> None:
    (one,) = look("acs.path", proven(), acs_redirect="off")

    assert one.status == "fail"
