from __future__ import annotations

import re
from dataclasses import replace

import pytest

from rigops.doctor.finding import Evidence, Finding
from rigops.doctor.stories import Story
from rigops.report.markdown import doctor_markdown, prose
from tests import hostile
from tests.unit.report.test_doctor_text import BAD, WELL, report


def test_findings_with_evidence_and_fix() -> None:
    lines = doctor_markdown([report("rig", BAD, *WELL)]).split("\n")

    assert lines[0] == "### rig: FAIL"
    assert "- **fail** `iommu.mode` translated" in lines
    assert "  - fix: `rigops apply` does it" in lines
    assert '  "kernel_args": ["quiet", "iommu=pt"],' in lines
    assert r"  iommu-groups: 13 DMA \x1b[2J\u202e0000:0a:00.0" in lines
    assert "Also: 2 ok." in lines


def test_what_happened_comes_first() -> None:
    effect = Finding("fail", "stopped", id="iommu.fault")
    told = Story("page-faults", "The IOMMU *stopped* a card", "It translates.", 0, (1,))
    host = replace(report("rig", BAD, effect, *WELL), stories=(told,))

    text = doctor_markdown([host])

    assert r"- **The IOMMU \*stopped\* a card.** It translates." in text
    assert "  Cause: `iommu.mode`. It explains iommu.fault." in text
    assert text.index("Cause:") < text.index("**fail**")
    assert "**fail** `iommu.fault` stopped" in text


def test_prose_is_not_markup_and_calls_nobody() -> None:
    assert prose("a *b* <img> [x](y) | _z_") == r"a \*b\* \<img\> \[x\](y) \| \_z\_"
    assert prose("gpu_power_limit, __init__") == r"gpu_power_limit, \_\_init\_\_"
    assert prose("run `ls *` now") == "run `ls *` now"
    assert prose("a ` alone") == r"a \` alone"
    assert prose("me@example") == "me@<!-- -->example"


def test_no_line_ends_the_fence_around_evidence() -> None:
    evil = Finding("fail", "x", (Evidence("log", "````\n### forged"),), id="xid")

    text = doctor_markdown([report("rig", evil)])

    assert re.search(r"\n  `{5}text\n  log: `{4}\\n### forged\n  `{5}\n", text)


@pytest.mark.parametrize("text", hostile.STRINGS.values(), ids=hostile.STRINGS)
def test_nothing_hides(text: str) -> None:
    finding = Finding("fail", text, (Evidence(text, text),), id="xid", subject=text)

    assert not hostile.raw(doctor_markdown([report(text, finding, notes=(text,))]))
