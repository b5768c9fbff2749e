"""What changes on a host meanwhile is part of its status, and what nobody could read is said."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from rigops.preflight.changes import Around, Change, changes_of, gravity_of, in_words, not_compared
from rigops.preflight.run import prove
from tests.unit.preflight.hosts import GRANTED, A, B, FakeHost, pair, said

if TYPE_CHECKING:
    from rigops.preflight.found import HostFound
    from rigops.transport import ScriptResult

STAMP = "2026-01-31T18:00:00.000001+0000 rig kernel: "
XID = STAMP + "NVRM: Xid (PCI:0000:0b:00): 79, pid='<unknown>', GPU has fallen off the bus."
FAULT = (
    "nvidia 0000:0a:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0010 address=0xfe0 flags=0]"
)
PORT = "0000:00:03.1"
CORRECTED = STAMP + f"pcieport {PORT}: PCIe Bus Error: severity=Corrected, type=Data Link Layer"


QUIET = Around(
    counted=(), links=(), functions=(), new_lines=(), smi_before="", smi_after="", unread=()
)
NOTHING = dict.fromkeys(("changes", "links", "functions", "kernel_log", "smi", "unread"), ())


def smi(*, brake: str = "Not Active", brake_us: int = 0, bar1: int = 256, used: int = 2) -> str:
    return f"""
==============NVSMI LOG==============

Driver Version                            : 575.64.03
Attached GPUs                             : 1
GPU 00000000:0A:00.0
    Performance State                     : P8
    Clocks Event Reasons
        Idle                              : Active
        SW Power Cap                      : Not Active
        HW Slowdown                       : {brake}
            HW Thermal Slowdown           : Not Active
            HW Power Brake Slowdown       : {brake}
    Clocks Event Reasons Counters
        SW Power Capping                  : 824547036 us
        HW Power Braking                  : {brake_us} us
    BAR1 Memory Usage
        Total                             : {bar1} MiB
        Used                              : {used} MiB
"""


def ran(**meanwhile: Any) -> HostFound:
    around = {
        "changes": [],
        "links": [{"gpu": A, "gt_per_s": 8.0, "lanes": 16}],
        "functions": [A, B, PORT],
        "kernel_log": [],
        "smi": [smi(), smi()],
        "unread": [],
        **meanwhile,
    }
    copied = said(pair(A, B, "ok"), pair(B, A, "ok"), meanwhile=around)
    return prove("rig", FakeHost([GRANTED, copied]), None, level="p2p")


def counted(kind: str, subject: str, before: float, after: float) -> dict[str, Any]:
    return {"kind": kind, "subject": subject, "before": before, "after": after}


def test_where_nothing_changed_nothing_is_said() -> None:
    found = ran()

    assert (found.status, found.changes, found.not_compared, found.reasons) == ("ok", (), (), ())
    assert found.as_json()["changes"] == []
    assert found.as_json()["links"] == [{"gpu": A, "gt_per_s": 8.0, "lanes": 16}]


def test_where_nothing_was_copied_nobody_looked() -> None:
    found = prove("rig", FakeHost([GRANTED]), None, level="quick")

    assert found.as_json()["changes"] is None


@pytest.mark.parametrize(
    ("meanwhile", "status", "reason"),
    [
        ({"kernel_log": [XID]}, "fail", f"Xid 79 of {B}: GPU has fallen off the bus."),
        ({"kernel_log": [STAMP + FAULT]}, "fail", f"the IOMMU stopped {A} once"),
        (
            {"kernel_log": [STAMP + FAULT.replace("0a:00.0", "05:00.0")]},
            "warn",
            "the IOMMU stopped 0000:05:00.0 once",
        ),
        (
            {"changes": [counted("aer_fatal", PORT, 0, 1)]},
            "fail",
            f"PCIe errors of {PORT} (fatal) grew from 0 to 1",
        ),
        (
            {"changes": [counted("aer_nonfatal", A, 1, 3)]},
            "fail",
            f"PCIe errors of {A} (not corrected) grew from 1 to 3",
        ),
        (
            {"changes": [counted("aer_corrected", PORT, 7, 250)]},
            "warn",
            f"PCIe errors of {PORT} (corrected) grew from 7 to 250",
        ),
        (
            {"kernel_log": [CORRECTED, CORRECTED]},
            "warn",
            f"PCIe errors of {PORT} (corrected) grew from 0 to 2",
        ),
        (
            {"changes": [counted("link_width", A, 16, 8)]},
            "warn",
            f"the link of {A} had 8 lanes, 16 before",
        ),
        (
            {"changes": [counted("link_speed", A, 8, 2.5)]},
            "warn",
            f"the link of {A} ran at 2.5 GT/s at most, at 8 before",
        ),
        ({"changes": [counted("link_width", A, 16, 0)]}, "fail", f"{A} has left the bus"),
        (
            {"smi": [smi(), smi(brake="Active")]},
            "warn",
            f"{A} slows down: hw_power_brake, hw_slowdown",
        ),
        (
            {"smi": [smi(brake_us=5), smi(brake_us=2_500_005)]},
            "warn",
            f"the power supply slowed {A} down for 2.5 s",
        ),
        (
            {"smi": [smi(), f"Unable to determine the device handle for GPU {A}: GPU is lost.\n"]},
            "fail",
            f"{A} has left the bus",
        ),
    ],
)
def test_what_changes_is_a_reason(meanwhile: dict[str, Any], status: str, reason: str) -> None:
    found = ran(**meanwhile)

    assert found.status == status
    assert found.reasons == (f"during the copies: {reason}",)
    assert found.changes is not None
    assert len(found.changes) == 1


@pytest.mark.parametrize(
    "meanwhile",
    [
        {"changes": [counted("link_width", A, 8, 16)]},
        {"smi": [smi(bar1=256), smi(bar1=32768)]},
        {"smi": [smi(bar1=32768), smi(bar1=32768, used=516)]},
    ],
)
def test_what_is_no_fault_is_only_in_the_document(meanwhile: dict[str, Any]) -> None:
    found = ran(**meanwhile)

    assert (found.status, found.reasons) == ("ok", ())
    assert found.changes is not None
    assert [set(change.as_json()) for change in found.changes] == [
        {"kind", "subject", "before", "after"}
    ]


def test_what_programs_map_now_and_then_is_no_change() -> None:
    assert ran(smi=[smi(used=2), smi(used=9)]).changes == ()
    assert ran(smi=[smi(bar1=32768, used=516), smi(bar1=32768)]).changes == ()


def test_errors_that_were_counted_are_not_taken_from_the_log_again() -> None:
    found = ran(changes=[counted("aer_corrected", PORT, 0, 2)], kernel_log=[CORRECTED, CORRECTED])

    assert found.changes == (Change("aer_corrected", PORT, 0, 2),)


def test_errors_of_links_that_lead_to_no_card_are_nothing_to_copies() -> None:
    assert ran(kernel_log=[CORRECTED], functions=[A, B]).changes == ()


def test_what_could_not_be_read_is_said_and_is_no_failure() -> None:
    found = ran(unread=["the kernel log (not permitted)"], smi=["", ""])

    missing = ("the kernel log (not permitted)", "throttling and BAR1 (nvidia-smi -q)")
    assert (found.status, found.changes, found.not_compared) == ("ok", (), missing)
    assert found.as_json()["not_compared"] == list(missing)


def test_a_card_without_an_address_fails_as_one_that_is_known() -> None:
    assert gravity_of(Change("iommu_fault", "", 0, 1), [A]) == "fail"
    assert in_words(Change("iommu_fault", "", 0, 1)) == "the IOMMU stopped a device once"


def test_output_of_another_program_is_no_view_of_the_cards() -> None:
    around = replace(QUIET, smi_before="bash: nvidia-smi: command not found", smi_after="")

    assert changes_of(around) == ()
    assert not_compared(around) == ("throttling and BAR1 (nvidia-smi -q)",)


def test_the_copies_are_not_blamed_for_a_card_that_was_lost_before() -> None:
    gone = "Unable to determine the device handle for GPU0000:0a:00.0: GPU is lost.\n"

    assert changes_of(replace(QUIET, smi_before=gone, smi_after=gone)) == ()
    assert [one.kind for one in changes_of(replace(QUIET, smi_after=gone))] == ["lost"]


@pytest.mark.parametrize(
    "meanwhile",
    [
        [],
        {**NOTHING, "unread": None},
        {**NOTHING, "changes": [{}]},
    ],
)
def test_an_odd_answer_is_no_answer(meanwhile: object) -> None:
    odd: ScriptResult = said(pair(A, B, "ok"), meanwhile=meanwhile)

    assert prove("rig", FakeHost([GRANTED, odd]), None, level="p2p").status == "unknown"
