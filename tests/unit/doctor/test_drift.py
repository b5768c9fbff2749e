"""What changed since the baseline: of a rig of three cards, and of its texts changed afterwards."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from rigops.doctor.examined import Examined
from rigops.doctor.registry import CHECKS, Known, examine
from rigops.doctor.views.changes import missing
from rigops.doctor.views.observed import observed
from rigops.inventory.spec import RigSpec
from rigops.probe.bundle import Bundle, Collected
from rigops.probe.snapshot import HostSnapshot
from rigops.record.baseline import Baseline
from tests.unit import recorded
from tests.unit.doctor.examining import catalog, checks_of, spec
from tests.unit.doctor.test_host_memory import channels, memory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rigops.doctor.check import Check
    from rigops.doctor.finding import Finding

Changes = tuple[str, str, str]  # in a section, this for that

LATER: Final = "2026-12-24T13:29:35Z"
DAY: Final = "2026-11-23"
BOOT: Final = "440bb9e7-846f-4b20-9420-acec6c396682"
OTHER_BOOT: Final = ("boot", BOOT, f"9{BOOT[1:]}")
NAME: Final = "GeForce RTX 3090"
CARD: Final = "gpu 0000:0a:00.0"
PORT: Final = "/sys/bus/pci/devices/0000:00:03.1/aer_dev_{}"
_LINK: Final = "link=2.5,{} max=16.0,16 numa=0 bar1=268435456 path=/sys/devices/pci0000:00"
NARROWER: Final = ("pci", _LINK.format(16), _LINK.format(8))
NO_D: Final = (
    "memory",
    "32 GB\n\tBank Locator: P0 CHANNEL D",
    "No Module Installed\n\tBank Locator: P0 CHANNEL D",
)
MORE: Final[Mapping[str, str]] = {
    "memory": memory(*channels(*"ABCD")).replace(
        "== dmidecode", "mc0/dimm0 ce=2 ue=0 size=32768 label=A1\n== dmidecode"
    ),
    "smart": "== ls /sys/block\nnvme0n1\nnvme1n1\n"
    + "".join(
        f"== smartctl -n standby -j -a /dev/nvme{at}n1\n"
        f'{{"smart_status": {{"passed": true}},\n'
        f'"nvme_smart_health_information_log": {{"critical_warning": 0, "media_errors": {at}}}}}\n'
        for at in (0, 5)
    ).replace("nvme5", "nvme1"),
    "firmware": "== /sys/class/dmi/id/board_name\nX399\n== /sys/class/dmi/id/bios_version\nF8\n",
}


def rig(
    *changes: Changes, at: str = LATER, without: Iterable[str] = (), name: str = "threadripper"
) -> HostSnapshot:
    base = Bundle.read(recorded.DEMO / name)
    sections = {
        **base.sections,
        **{name: Collected(text, root=True) for name, text in MORE.items()},
    }
    for section, old, new in changes:
        text = sections[section].text
        assert old in text, (section, old)
        sections[section] = replace(sections[section], text=text.replace(old, new))
    left = {name: one for name, one in sections.items() if name not in without}
    return HostSnapshot(Bundle("rig", at, root=True, sections=left))


def taken(*changes: Changes, without: Iterable[str] = ()) -> Baseline:
    snapshot = rig(*changes, at=f"{DAY}T13:29:35Z", without=without)
    return Baseline.from_json(observed(Examined(snapshot, RigSpec(), catalog())).to_json())


def found(
    snapshot: HostSnapshot,
    baseline: Baseline | None = None,
    declared: RigSpec | None = None,
    checks: Iterable[Check] = checks_of("drift"),
) -> list[Finding]:
    known = Known(baseline or taken())
    return examine(snapshot, declared, catalog(), checks=checks, known=known)


def aer(kind: str, name: str, count: int) -> Changes:
    head = f"== {PORT.format(kind)}\n"
    text = Bundle.read(recorded.DEMO / "threadripper").sections["aer"].text
    body = text.partition(head)[2].partition("\n\n")[0].partition("==")[0]
    counted = body.replace(f"{name} 0", f"{name} {count}")
    total = counted.replace("TOTAL_ERR_COR 0", f"TOTAL_ERR_COR {count}")
    return "aer", head + body, head + total


@pytest.mark.parametrize(
    ("change", "status", "subject", "summary"),
    [
        (
            NARROWER, "fail", CARD, f"{NAME}: link x8; link x16 at the baseline of {DAY}",
        ),
        (
            ("nvidia-smi-xml", "<max_link_gen>3<", "<max_link_gen>2<"),
            "warn", CARD,
            f"{NAME}: PCIe up to generation 2; PCIe up to generation 3 at the baseline of {DAY}",
        ),
        (
            ("nvidia-smi-xml", "<vbios_version>94.02.42.00.01<", "<vbios_version>94.02.71.00.01<"),
            "info", CARD,
            f"{NAME}: VBIOS 94.02.71.00.01; VBIOS 94.02.42.00.01 at the baseline of {DAY}",
        ),
        (
            NO_D, "fail", "host",
            f"3 memory modules (without: P0 CHANNEL D); 4 at the baseline of {DAY}",
        ),
        (("firmware", "F8", "F9"), "info", "host", f"BIOS F9; F8 at the baseline of {DAY}"),
        (
            ("memory", "ce=2", "ce=7"), "warn", "host",
            f"corrected errors of the host's memory: A1 +5 since the baseline of {DAY}",
        ),
        (
            ("smart", '"media_errors": 0', '"media_errors": 3'), "warn", "/dev/nvme0n1",
            f"data that the disk could not read: +3 since the baseline of {DAY}",
        ),
        (
            aer("nonfatal", "Undefined", 2), "fail", CARD,
            f"uncorrected errors of the PCIe link: 0000:00:03.1 +2 since the baseline of {DAY}",
        ),
        (
            aer("correctable", "BadTLP", 2000), "warn", CARD,  # in 482 minutes of this boot
            f"corrected errors of the PCIe link: 0000:00:03.1 +2000 since the baseline of {DAY}",
        ),
        (
            aer("correctable", "BadTLP", 20), "info", CARD,
            f"corrected errors of the PCIe link: 0000:00:03.1 +20 since the baseline of {DAY}",
        ),
    ],
)  # fmt: skip
def test_a_change_is_named_with_how_it_was(
    change: Changes, status: str, subject: str, summary: str
) -> None:
    one = found(rig(change))[0]

    assert (one.status, one.subject, one.summary) == (status, subject, summary)
    assert one.evidence[0].section == "baseline"
    assert one.data["since"] == f"{DAY}T13:29:35Z"
    assert (one.fix is not None) is (status in {"fail", "warn"})


def test_nothing_has_changed_and_without_a_baseline_it_is_skipped() -> None:
    (same,) = found(rig())
    assert (same.status, same.summary) == ("ok", f"nothing has changed since the baseline of {DAY}")

    (absent,) = examine(rig(), None, catalog(), checks=checks_of("drift"))
    assert absent.status == "skipped"


def test_a_card_that_is_gone_and_one_that_is_new() -> None:
    whole = rig().bundle.sections
    lines = [one for one in whole["pci"].text.splitlines() if "0000:43:00" not in one]
    xml = whole["nvidia-smi-xml"].text
    begin = xml.index('<gpu id="00000000:43:00.0">')
    fewer = rig(
        ("pci", whole["pci"].text, "\n".join(lines)),
        ("nvidia-smi-xml", xml[begin : xml.index("</gpu>", begin) + 6], ""),
        ("nvidia-smi-xml", "<attached_gpus>3", "<attached_gpus>2"),
        without=["lspci"],
    )

    (gone,) = found(fewer)
    assert (gone.status, gone.subject) == ("fail", "gpu 0000:43:00.0")
    assert gone.summary == f"{NAME} is gone; there at the baseline of {DAY}"

    both = found(fewer, declared=spec(gpus=3), checks=checks_of("drift", "gpu.count"))
    assert [(one.id, one.status) for one in both] == [("gpu.count", "fail"), ("drift", "info")]
    assert f"(GeForce RTX 3090 at 0000:43:00.0 at the baseline of {DAY})" in both[0].summary

    before = replace(observed(Examined(fewer, RigSpec(), catalog())), at=f"{DAY}T00:00:00Z")
    (new,) = found(rig(without=["lspci"]), before)
    assert (new.status, new.summary.partition(";")[0]) == ("info", "GeForce RTX 3090 is new")


def test_a_card_in_another_slot_is_the_same_card() -> None:
    moved = rig(
        ("pci", "0000:43:00", "0000:44:00"),
        ("nvidia-smi-xml", "00000000:43:00.0", "00000000:44:00.0"),
        without=["lspci"],
    )

    (one,) = found(moved)
    assert (one.status, one.subject) == ("info", "gpu 0000:44:00.0")
    assert "its address is 0000:43:00.0 at the baseline" in one.summary


def test_a_limit_that_is_back_at_its_default_is_named_where_it_is_not_declared() -> None:
    before = taken(
        ("nvidia-smi-xml", "<requested_power_limit>350", "<requested_power_limit>285"),
    )

    reset = found(rig(), before)
    assert {one.status for one in reset} == {"warn"}
    assert reset[0].fix is not None
    assert reset[0].fix.declare == {"gpu_power_limit": 285}
    assert "350 W, its default; power limit 285 W at the baseline" in reset[0].summary
    assert [one.status for one in found(rig(), before, spec(gpu_power_limit=285))] == ["ok"]


def test_counters_that_begin_with_the_boot_are_compared_with_it_in_mind() -> None:
    before = taken(aer("nonfatal", "Undefined", 5))

    same_boot = found(rig(aer("nonfatal", "Undefined", 7)), before)
    assert "+2 since" in same_boot[0].summary
    assert [one.status for one in found(rig(aer("nonfatal", "Undefined", 5)), before)] == ["ok"]
    next_boot = found(rig(aer("nonfatal", "Undefined", 7), OTHER_BOOT), before)
    assert "+7 since" in next_boot[0].summary
    none_yet = ("memory", "ce=2", "ce=0")
    assert [one.status for one in found(rig(OTHER_BOOT, none_yet), before)] == ["ok"]


def test_disks_that_changed_their_names_have_no_new_errors() -> None:
    swapped = rig(
        ("smart", "/dev/nvme0n1", "/dev/nvme9n1"),
        ("smart", "/dev/nvme1n1", "/dev/nvme0n1"),
        ("smart", "/dev/nvme9n1", "/dev/nvme1n1"),
    )

    assert [one.status for one in found(swapped)] == ["ok"]


@pytest.mark.parametrize("lost", ["memory", "aer", "smart", "firmware", "nvidia-smi-xml"])
def test_a_fact_that_was_not_collected_is_neither_changed_nor_fine(lost: str) -> None:
    now = found(rig(without=[lost]))
    assert [one.status for one in now] == ["unknown"]
    assert now[0].summary.startswith(f"not collected, and in the baseline of {DAY}: ")

    assert [one.status for one in found(rig(), taken(without=[lost]))] == ["ok"]


def test_a_baseline_of_another_machine_is_not_compared() -> None:
    (other,) = found(rig(name="t180"))
    assert (other.status, other.essential) == ("unknown", False)
    assert "of another machine" in other.summary


def test_another_check_says_it_once_and_as_gravely() -> None:
    both = found(rig(NARROWER), checks=checks_of("drift", "pci.width"))

    width = next(one for one in both if one.id == "pci.width" and one.subject == CARD)
    assert width.status == "fail"
    assert width.summary.endswith(f"x8 where x16 is possible (link x16 at the baseline of {DAY})")
    assert [(one.status, one.summary) for one in both if one.id == "drift"] == [
        ("info", f"what changed since the baseline of {DAY} is in pci.width")
    ]


def test_a_look_without_rights_lacks_parts_of_a_baseline() -> None:
    whole, partial = taken(), taken(without=["memory", "smart"])

    assert set(missing(whole, partial)) == {
        "memory modules",
        "data that the disk could not read",
        "uncorrected errors of the host's memory",
        "corrected errors of the host's memory",
    }
    assert missing(partial, whole) == ()


def test_other_checks_are_the_same_with_a_baseline_of_the_same_state() -> None:
    others = [one for one in CHECKS if one.id != "drift"]
    assert found(rig(), checks=others) == examine(rig(), None, catalog(), checks=others)
