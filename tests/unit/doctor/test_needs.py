"""Which sections the checks need, and how checks are found."""

from __future__ import annotations

import pkgutil
from pathlib import Path

from rigops.doctor import checks as folder
from rigops.doctor.registry import CHECKS
from rigops.probe.registry import PASTED, SECTIONS


def test_every_section_is_parsed() -> None:
    assert not [section.name for section in SECTIONS if section.parse is str]


def test_what_a_check_needs_is_asked_of_a_host_or_pasted() -> None:
    known = {section.name for section in (*SECTIONS, *PASTED)}

    assert {section.name for check in CHECKS for section in check.sections} <= known


def test_every_module_of_the_folder_has_checks_of_its_own() -> None:
    found = {module.name for module in pkgutil.iter_modules(folder.__path__)}
    written = {path.stem for path in Path(folder.__path__[0]).glob("[a-z]*.py")}

    assert found == written
    assert {check.run.__module__.rpartition(".")[2] for check in CHECKS} == found


def test_causes_stand_above_what_they_bring_about() -> None:
    ranks = {check.id: check.cause_rank for check in CHECKS}

    assert ranks["drv.dkms"] < ranks["drv.loaded"] < ranks["xid"] < ranks["gpu.lost"]
    assert ranks["cmdline.drift"] < ranks["iommu.mode"] < ranks["pwr.limit"]
    assert (
        max(ranks[one] for one in ("pwr.cable", "bar1.size", "xid", "gpu.lost"))
        < (ranks["gpu.init"])
    )
    assert max(ranks["tmp.core"], ranks["pwr.brake"]) < ranks["clk.throttle"]
    assert ranks["nccl.log"] < ranks["bench.nccl"]
    own = [check.cause_rank for check in CHECKS if check.cause_rank != ranks["pwr.limit"]]
    assert len(set(own)) == len(own)
