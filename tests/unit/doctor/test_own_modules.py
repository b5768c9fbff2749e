"""drv.modules: which set a boot chose, what is loaded, and what the next boot finds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from rigops.concerns.driver_modules.record import PATH, FailedModules
from rigops.doctor.registry import examine
from rigops.probe.sections.own_modules import BuiltSet, OwnModules
from rigops.probe.sections.packages import Package, Packages
from rigops.probe.sections.rigops_state import RigopsState
from tests.unit.doctor.examining import catalog, check_of, checks_of, judge, snapshot_of, spec
from tests.unit.doctor.pcie_rigs import HEALTHY, ONE, OTHER, ROOT_PORTS, smi, smi_card
from tests.unit.probe import answers

if TYPE_CHECKING:
    from rigops.doctor.finding import Finding

DIGEST: Final = "a" * 64
IDS: Final = {"nvidia": "ab" * 20, "nvidia-uvm": "cd" * 20}
OWN: Final = OwnModules(
    chosen="own",
    digest=DIGEST,
    loaded=IDS,
    built={"6.1.0-18-amd64": BuiltSet(DIGEST, "595.71.05", IDS)},
    has_modprobe_file=True,
)


def _found(there: OwnModules | None, *, is_declared: bool = True, **facts: Any) -> Finding:
    declared = spec(driver_modules="tree") if is_declared else spec()
    snapshot = snapshot_of(own_modules=there, **facts)
    (found,) = examine(
        snapshot,
        declared,
        catalog(),
        checks=[replace(check_of("drv.modules"), needs_gpu=False)],
        concerns=frozenset({"driver_modules"}),
    )
    return found


def test_a_host_without_them_is_asked_nothing_more() -> None:
    assert _found(OwnModules(), is_declared=False).status == "skipped"
    assert _found(None, is_declared=False).status == "skipped"
    assert (_found(None).status, _found(None).essential) == ("unknown", True)


def test_the_loaded_set_is_told_by_its_build_ids() -> None:
    foreign = replace(OWN, loaded={**IDS, "nvidia-uvm": "ef" * 20})

    assert _found(OWN).summary == "modules of your own 595.71.05 (aaaaaaaaaaaa) are loaded"
    assert _found(foreign).status == "warn"
    assert _found(foreign).summary.startswith("nvidia-uvm: the build ID of what is loaded is that")


def test_stock_modules_in_their_place_are_a_failure_with_its_reason() -> None:
    stock = replace(OWN, chosen="stock", digest="", reason="not-built")
    record = FailedModules(DIGEST, "a card was gone", "2026-11-28T06:00:00Z")
    known = RigopsState(records={PATH: record.to_json()})
    failed = _found(stock, rigops_state=known)

    assert _found(stock).summary == (
        "the stock modules are loaded, not your own: your own are not built for this kernel"
    )
    assert _found(stock).status == failed.status == "fail"
    assert failed.summary.endswith("they failed at 2026-11-28T06:00:00Z: a card was gone")
    assert failed.fix is not None
    assert f"sudo rm {PATH}" in failed.fix.text


def test_a_next_kernel_without_a_set_is_a_failure_before_it_boots() -> None:
    newer = Packages((Package("linux-image-6.1.0-20-amd64", "6.1.85-1", "amd64", "ii "),))

    found = _found(OWN, packages=newer)

    assert found.status == "fail"
    assert found.summary.startswith("kernel 6.1.0-20-amd64, which boots next, has no modules of")
    assert found.fix is not None
    assert (found.fix.kind, found.fix.concern) == ("apply", "driver_modules")


def test_what_hinders_p2p_that_is_required_of_them_is_a_failure_before_they_are_loaded() -> None:
    showing = smi_card(ONE, window=256).replace("\t\t<uuid>", "\t\t<display_active>Enabled"
        "</display_active>\n\t\t<uuid>", 1)  # fmt: skip
    texts = {
        **HEALTHY,
        "lspci": ROOT_PORTS,
        "iommu-groups": f"13 DMA-FQ {ONE}\n14 DMA-FQ {OTHER}\n",
        "nvidia-smi-xml": smi(showing, smi_card(OTHER)),
        "nvidia-smi-p2p-read": answers.MATRIX.format("CNS"),
    }
    hindrances = checks_of("acs.path", "bar1.size", "display.p2p", "iommu.mode")

    def found(**declared: str) -> dict[str, set[str]]:
        judged = judge(texts, spec(**declared), checks=hindrances, concerns=frozenset({"acs"}))
        return {
            check.id: {str(one.status) for one in judged if one.id == check.id} - {"ok"}
            for check in hindrances
        }

    ids = [check.id for check in hindrances]
    assert found(p2p="required", driver_modules="tree") == {one: {"fail"} for one in ids}
    assert found(p2p="required") == {
        "acs.path": {"info"},
        "bar1.size": {"warn"},
        "display.p2p": {"skipped"},
        "iommu.mode": {"info"},
    }
