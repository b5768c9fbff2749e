"""Each check has a host on which it fails or warns, one on which it is ok, one where it is unknown.

tests/fixtures/check_states/ID.json has them: `bad`, `ok` and `unknown`, each a bundle of `sections`
(a text, or with the code that it ended with), in place of those of a `rig` of the fixtures, with
`replace` in their texts, what is `declared`, and the `baseline` of the host.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from rigops.doctor.registry import CHECKS, Known, examine
from rigops.probe.bundle import Bundle, Collected
from rigops.probe.snapshot import HostSnapshot
from rigops.record.baseline import Baseline
from tests.unit import recorded
from tests.unit.doctor.examining import catalog, spec

if TYPE_CHECKING:
    from rigops.doctor.check import Check

FOLDER: Final = Path(__file__).parents[2] / "fixtures/check_states"
STATES: Final = {"bad": {"fail", "warn"}, "ok": {"ok"}, "unknown": {"unknown"}}
MOMENT: Final = "2026-11-23T13:29:37Z"

_NOTE: Final = "a note: it is information at most"
_LINES: Final = "only known lines in a paste say anything"
# States that cannot occur, and why.
NEVER: Final = {
    "acs.srcvalid bad": _NOTE,
    "acs.in_vm bad": _NOTE,
    "bar1.capability bad": _NOTE,
    "bench.nvbandwidth ok": "right copies are information: how fast they are is not judged",
    "bench.p2p ok": "right copies are information: how fast they are is not judged",
    "cuda.error ok": _LINES,
    "cuda.error unknown": _LINES,
    "dcgm ok": _LINES,
    "dcgm unknown": _LINES,
    "drv.eol bad": "a driver without fixes works as before: information",
    "drv.patched bad": _NOTE,
    "hugetlb.numa_balancing bad": _NOTE,
    "iommu.present bad": _NOTE,
    "iommu.present ok": _NOTE,
    "nccl.level bad": _NOTE,
    "nccl.level ok": _NOTE,
    "nccl.log ok": "a log that ends well is information: another program may not",
    "p2p.grant ok": "a grant is a claim, and information: p2p.proof says what works",
    "passthrough ok": _LINES,
    "passthrough unknown": _LINES,
    "pci.chipset_lane unknown": "skipped where the tree of the bus is not known",
    "pci.gen.load unknown": "skipped where no card is known to be under load",
    "pci.reset bad": _NOTE,
    "pci.reset unknown": "skipped where no port is known",
    "pkg.errors ok": _LINES,
    "pkg.errors unknown": _LINES,
    "pwr.psu_split bad": _NOTE,
    "snap.nested bad": _NOTE,
    "tmp.mem.gddr6 bad": "the sensor is never read",
    "tmp.mem.gddr6 ok": "the sensor is never read",
    "tmp.mem.gddr6 unknown": "the sensor is never read",
    "uvm.hmm bad": _NOTE,
    "vllm.cache bad": _NOTE,
}


def _cases(check: Check) -> dict[str, dict[str, Any]]:
    file = FOLDER / f"{check.id}.json"
    found: dict[str, dict[str, Any]] = json.loads(file.read_text()) if file.exists() else {}
    return found


def _bundle(case: dict[str, Any]) -> Bundle:
    root, moment = case.get("root", True), case.get("collected_at", MOMENT)
    sections: dict[str, Collected] = {}
    if name := case.get("rig"):
        base = recorded.rig(name) if name in recorded.NAMES else Bundle.read(recorded.DEMO / name)
        sections, root, moment = dict(base.sections), base.root, base.collected_at
    for name, one in case.get("sections", {}).items():
        sections[name] = Collected(**({"root": root, "text": one} if isinstance(one, str) else one))
    for name, changes in case.get("replace", {}).items():
        text = sections[name].text
        for old, new in changes.items():
            assert old in text, f"{name} has no {old!r}"
            text = text.replace(old, new)
        sections[name] = Collected(text, root=root)
    return Bundle("rig", moment, root=root, sections=sections)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_a_check_is_seen_in_each_of_its_states(check: Check) -> None:
    cases = _cases(check)
    expected = {state for state in STATES if f"{check.id} {state}" not in NEVER}
    assert cases.keys() == expected, f"{FOLDER.name}/{check.id}.json, or NEVER with a reason"

    for state, case in cases.items():
        declared = spec(**case.get("declared", {}))
        baseline = case.get("baseline")
        known = Known(Baseline.from_json(json.dumps(baseline)) if baseline else None)
        snapshot = HostSnapshot(_bundle(case))
        found = examine(snapshot, declared, catalog(), checks=[check], known=known)
        assert STATES[state] & {one.status for one in found}, state


def test_no_state_is_kept_for_a_check_that_is_gone() -> None:
    known = {check.id for check in CHECKS}

    assert {path.stem for path in FOLDER.iterdir()} <= known
    assert {row.partition(" ")[0] for row in NEVER} <= known
