from __future__ import annotations

from rigops.doctor.finding import Evidence, Finding, Fix
from rigops.doctor.host_report import HostReport
from rigops.errors import HostError
from rigops.report.doctor import doctor_lines
from rigops.report.terminal import rendered, visible

BAD = Finding(
    id="iommu.mode",
    status="fail",
    summary="translated",
    evidence=(Evidence("iommu-groups", "13 DMA \x1b[2J\u202e0000:0a:00.0"),),
    why="It stands between the cards.",
    fix=Fix(
        kind="apply+reboot",
        text="`rigops apply` does it",
        concern="kernel_args",
        declare={"kernel_args": ["quiet", "iommu=pt"]},
    ),
)
BY_HAND = Finding(id="drv.pin", status="warn", summary="odd", fix=Fix(kind="hands", text="look"))
WELL = [Finding(id=name, status="ok", summary="") for name in ("a.b", "c.d")]


def report(host: str, *findings: Finding, error: HostError | None = None) -> HostReport:
    gpus = [{"address": "x", "model": "GeForce RTX 3090", "driver": "nvidia"}] * 2
    return HostReport(
        host=host,
        source="ssh",
        collected_at=None,
        duration_ms=1,
        facts={} if error else {"os": "Debian 12", "kernel": "6.1", "driver": None, "gpus": gpus},
        findings=findings,
        error=error,
    )


def text(*hosts: HostReport) -> str:
    return "\n".join(rendered(visible(line), color=False) for line in doctor_lines(hosts, 80))


def test_the_worst_host_comes_first_with_its_evidence_and_its_way_out() -> None:
    said = text(report("well", *WELL), report("rig", BAD, BY_HAND, *WELL)).splitlines()

    assert said == [
        "rig  fail  Debian 12, kernel 6.1, 2x GeForce RTX 3090",
        "  fail    iommu.mode  translated",
        "    iommu-groups: 13 DMA \\x1b[2J\\u202e0000:0a:00.0",
        "    why: It stands between the cards.",
        "    fix: `rigops apply` does it",
        '         in the inventory: "kernel_args": ["quiet", "iommu=pt"],',
        "  warn    drv.pin  odd",
        "    fix: by hand: look",
        "  ok      2 checks: a.b, c.d",
        "",
        "well  ok  Debian 12, kernel 6.1, 2x GeForce RTX 3090",
        "  ok      2 checks: a.b, c.d",
        "",
        "`rigops apply` would fix iommu.mode on rig. To do by hand: drv.pin on rig.",
    ]


def test_a_host_that_was_not_reached_says_why() -> None:
    error = HostError("dns", "there is no\x07address", "check the spelling")

    assert text(report("rig", error=error)).splitlines() == [
        "rig  unknown",
        "    dns: there is no\\x07address",
        "    fix: check the spelling",
        "",
        "Not checked: rig.",
    ]


def test_no_value_of_a_host_makes_a_line_of_its_own() -> None:
    forged = "x\nok      2 checks: a.b, c.d\r\nNothing to fix.\n"
    bad = Finding(
        id="drv.pin",
        status="fail",
        subject=forged,
        summary=forged,
        evidence=(Evidence("packages", forged),),
        why=forged,
        fix=Fix(kind="hands", text=forged),
    )
    hosts = report(forged, bad), report(forged, error=HostError("dns", forged, forged))

    assert not [line for line in text(*hosts).splitlines() if line.startswith(("ok", "Nothing"))]


def test_nothing_to_do() -> None:
    assert text(report("rig", *WELL)).endswith("\nNothing to fix.")
