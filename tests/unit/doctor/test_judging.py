from __future__ import annotations

import pytest

from rigops.catalog import load
from rigops.concerns.registry import keys
from rigops.doctor.check import Check
from rigops.doctor.finding import Evidence, Finding, Fix, Status
from rigops.doctor.host_report import HostReport, HostStatus, document, exit_code, host_status
from rigops.doctor.registry import CHECKS, examine
from rigops.errors import HostError
from rigops.inventory.spec import examine as read
from rigops.probe.bundle import Bundle
from rigops.probe.snapshot import HostSnapshot

SNAPSHOT = HostSnapshot(Bundle("rig", None, root=True, sections={}))


def finding(status: Status, *, essential: bool = False) -> Finding:
    return Finding(status, "", id="x", essential=essential)


@pytest.mark.parametrize(
    ("findings", "status"),
    [
        ([], "ok"),
        ([finding("ok"), finding("info"), finding("skipped")], "ok"),
        ([finding("unknown")], "ok"),
        ([finding("unknown"), finding("warn")], "warn"),
        ([finding("warn"), finding("unknown", essential=True)], "unknown"),
        ([finding("unknown", essential=True), finding("fail"), finding("ok")], "fail"),
        ([finding("ok", essential=True)], "ok"),
    ],
)
def test_a_host(findings: list[Finding], status: HostStatus) -> None:
    assert host_status(findings) == status


@pytest.mark.parametrize(
    ("statuses", "code", "strict"),
    [
        ([], 0, 0),
        (["ok"], 0, 0),
        (["ok", "warn"], 0, 1),
        (["unknown", "ok"], 3, 3),
        (["unknown", "warn"], 3, 1),
        (["unknown", "fail", "ok"], 1, 1),
    ],
)
def test_the_gravest_exit_code(statuses: list[HostStatus], code: int, strict: int) -> None:
    assert exit_code(statuses) == code
    assert exit_code(statuses, strict=True) == strict


def test_the_document() -> None:
    bad = Finding(
        id="drv.pin",
        status="fail",
        summary="bad",
        evidence=(Evidence("nvidia-version", "NVRM"),),
        why="because",
        fix=Fix(kind="hands", text="do", declare={"driver": "535"}, by_hand="never shown"),
    )
    reached = HostReport(
        host="a", source="ssh", collected_at="2026-01-31T18:00:00Z", duration_ms=7, findings=(bad,)
    )
    lost = HostReport(
        host="b", source="ssh", collected_at=None, duration_ms=1, error=HostError("dns", "nowhere")
    )

    made = document([reached, lost])

    assert list(made) == ["schema", "status", "hosts"]
    assert (made["schema"], made["status"]) == ("rigops.doctor/1", "fail")
    assert reached.as_json()["findings"] == [
        {
            "id": "drv.pin",
            "status": "fail",
            "subject": "host",
            "summary": "bad",
            "evidence": [{"section": "nvidia-version", "line": "NVRM"}],
            "why": "because",
            "remedy": {
                "kind": "hands",
                "concern": None,
                "declare": {"driver": "535"},
                "text": "do",
            },
        }
    ]
    assert "error" not in reached.as_json()
    assert lost.as_json()["status"] == "unknown"
    assert lost.as_json()["error"] == {"kind": "dns", "message": "nowhere"}
    assert document([lost])["status"] == "unknown"


@pytest.mark.parametrize(
    ("declare", "is_declared"),
    [
        ({"gpu_power_limit": 285}, True),
        ({"gpu_power_limit": 280}, False),
        ({"gpu_power_limit": 285, "driver": "535"}, False),
        ({"gpu_power_limit": "285W\x1b[2J"}, False),  # words of a host
    ],
)
def test_what_the_inventory_has_already_is_known_in_whatever_words(
    declare: dict[str, object], *, is_declared: bool
) -> None:
    bad = Finding("fail", "bad", fix=Fix(kind="apply", text="", concern="x", declare=declare))
    spec, _ = read({"gpu_power_limit": "285W"}, keys())
    check = Check("x", needs_gpu=False, run=lambda _: bad)

    (found,) = examine(SNAPSHOT, spec, load(), checks=[check], concerns={"x"})

    assert found.fix is not None
    assert found.fix.is_declared is is_declared


def test_every_check_has_an_id_of_its_own_a_title_and_an_explanation() -> None:
    ids = [check.id for check in CHECKS]

    assert sorted(ids) == sorted(set(ids))
    assert [check.id for check in CHECKS if not check.title] == []
    assert [check.id for check in CHECKS if len(check.explanation) <= 80] == []
