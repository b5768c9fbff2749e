from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.concerns.registry import read
from rigops.probe.lost_cards import ADVICE
from rigops.record.declared import PATH as DECLARED
from rigops.record.declared import DeclaredKeys
from tests.unit.doctor.examining import catalog, check_of
from tests.unit.doctor.logged import (
    BOOTED,
    BOOTED_BEFORE,
    SECTIONS,
    WELL,
    journal,
    look,
    xid,
)
from tests.unit.doctor.pcie_rigs import smi, smi_card
from tests.unit.probe import answers

if TYPE_CHECKING:
    from rigops.doctor.finding import Finding

XID = check_of("xid")
CARD = "gpu 0000:0a:00.0"
DROP = "pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
ACTION = "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"


def test_nothing_in_two_whole_logs_is_well() -> None:
    (found,) = look(XID)

    assert found.status == "ok"
    assert "previous boot's" in found.summary


def test_a_card_off_the_bus() -> None:
    text = journal(
        (100, xid(79, rest=DROP)),
        (100.1, "NVRM: GPU 0000:0a:00.0: GPU has fallen off the bus."),
    )
    (found,) = look(XID, {"kernel-log": text})

    assert (found.status, found.subject, found.id) == ("fail", CARD, "xid")
    assert found.data == {
        "xid": 79,
        "count": 1,
        "first": "2026-01-30T17:01:40Z",
        "last": "2026-01-30T17:01:40Z",
        "boot": "current",
    }
    assert [one.section for one in found.evidence] == ["kernel-log"] * 2
    assert found.evidence[0].line.endswith("fallen off the bus.")
    assert found.why
    assert found.fix is not None
    assert (found.fix.kind, found.fix.text) == ("hands", ADVICE)


@pytest.mark.parametrize("boot", ["kernel-log", "kernel-log-previous"])
def test_a_card_that_is_back_gets_a_fix_that_apply_can_make(boot: str) -> None:
    booted = BOOTED if boot == "kernel-log" else BOOTED_BEFORE
    is_back = {"nvidia-smi-xml": smi(smi_card("0000:0a:00.0")), "pci": None}
    (found,) = look(XID, {**is_back, boot: journal((100, xid(79, rest=DROP)), booted=booted)})

    assert found.fix is not None
    assert (found.fix.kind, found.fix.concern) == ("apply", "gpu_tuning")
    assert found.fix.declare == {"gpu_power_limit": "80%"}
    assert "power supply" in found.fix.by_hand


def after_the_reboot(watts: int, *, limit_since: str | None = None) -> Finding:
    """Of a card that fell at 17:01:40 of the boot before, where 250 W are declared."""
    limits = "".join(
        f"<{name}_power_limit>{limit}.00 W</{name}_power_limit>"
        for name, limit in (("current", watts), ("default", 350), ("min", 100), ("max", 350))
    )
    card = smi_card("0000:0a:00.0").replace("<power_draw>", f"{limits}<power_draw>")
    keys = DeclaredKeys.from_keys(limit_since or "", {"gpu_power_limit": 250}, who="me@desktop")
    state = f"== {DECLARED}\n{keys.to_json()}" if limit_since else ""
    fell = journal((100, xid(79, rest=DROP)), booted=BOOTED_BEFORE)
    texts = {"kernel-log-previous": fell, "nvidia-smi-xml": smi(card), "pci": None}
    (found,) = look(XID, {**texts, "rigops-state": state}, spec=read({"gpu_power_limit": 250}))
    return found


def test_after_the_reboot_no_advice_leads_to_another_one() -> None:
    unapplied = after_the_reboot(350)
    assert (unapplied.status, unapplied.fix and unapplied.fix.is_declared) == ("fail", True)
    assert unapplied.fix == after_the_reboot(350, limit_since="2026-01-29T17:00:00Z").fix

    too_high = after_the_reboot(250, limit_since="2026-01-29T17:00:00Z")
    assert (too_high.status, too_high.fix and too_high.fix.kind) == ("fail", "hands")
    assert too_high.fix is not None
    assert too_high.fix.text.startswith('lower "gpu_power_limit" further')

    answered = after_the_reboot(250, limit_since="2026-01-29T17:02:00Z")
    assert (answered.status, answered.fix) == ("info", None)
    assert "it is back" in answered.summary
    assert "power supply" in answered.why


def test_a_limit_that_is_declared_is_not_declared_again() -> None:
    text = journal((100, xid(79, rest=DROP)))
    (found,) = look(XID, {"kernel-log": text}, spec=read({"gpu_power_limit": 250}))

    assert found.fix is not None
    assert found.fix.kind == "hands"


def test_a_drop_that_is_told_in_words_only() -> None:
    (found,) = look(XID, {"kernel-log": journal((9, "NVRM: GPU has fallen off the bus"))})

    assert (found.status, found.subject) == ("fail", "gpu unknown")
    assert found.data["xid"] == 79
    assert found.data["count"] == 1


def test_how_grave_it_is_says_the_catalog() -> None:
    for known in catalog().xids:
        (found,) = look(XID, {"kernel-log": journal((9, xid(known.number)))})

        assert found.status == known.severity, known.number
        assert known.meaning in found.summary
        assert found.why == known.reading, known.number
        assert (found.fix is None) == (known.severity == "info"), known.number


def test_a_number_that_nobody_has_described() -> None:
    (found,) = look(XID, {"kernel-log": journal((9, xid(999)))})

    assert found.status == "warn"
    assert "not in the catalog" in found.summary
    assert found.fix is not None


@pytest.mark.parametrize(
    ("said", "causes"),
    [
        ([(1, xid(48)), (1.5, xid(63)), (2.9, xid(45))], [48]),
        ([(1, xid(31)), (1.1, xid(79, rest=DROP))], [79]),
        ([(1, xid(62)), (1.1, xid(109)), (1.2, xid(45))], [62]),
        ([(1, xid(31)), (40, xid(45))], [31]),
        ([(1, xid(119)), (30, xid(154, rest=ACTION))], [119]),
        ([(1, xid(31)), (4, xid(13))], [31, 13]),
        ([(1, xid(31)), (1, xid(13, "0b:00"))], [31, 13]),
        ([(1, xid(45))], [45]),
        ([(1, xid(999)), (1, xid(45))], [999]),
    ],
)
def test_what_belongs_together(said: list[tuple[float, str]], causes: list[int]) -> None:
    found = look(XID, {"kernel-log": journal(*said)})

    assert [one.data["xid"] for one in found] == causes


def test_the_same_trouble_again_and_again_is_one_finding() -> None:
    said = [(10.0 + 45 * n, xid(119)) for n in range(200)]
    (found,) = look(XID, {"kernel-log": journal(*said)})

    assert found.data["count"] == 200
    assert (found.data["first"], found.data["last"]) == (
        "2026-01-30T17:00:10Z",
        "2026-01-30T19:29:25Z",
    )
    assert len(found.evidence) <= 4
    assert "200 times" in found.summary


def test_copies_of_the_same_lines_are_not_more_of_them() -> None:
    dmesg = f"[   10.000000] {xid(62)}\n[   99.000000] {xid(62)}\n"
    text = journal((10, xid(62)), (99, xid(62))) + dmesg + dmesg
    (found,) = look(XID, {"kernel-log": text})

    assert found.data["count"] == 2


def test_a_repeated_message_counts_as_often_as_it_says() -> None:
    text = journal((10, xid(62)), (11, f"message repeated 3 times: [ {xid(62)}]"))
    (found,) = look(XID, {"kernel-log": text})

    assert found.data["count"] == 4


@pytest.mark.parametrize(
    ("line", "first"),
    [
        (f"[   12.345678] {xid(48)}", None),
        (f"[Fri Mar  3 04:23:22 2023] {xid(48)}", None),
        (f"Jul 22 15:36:45 rig kernel: {xid(48)}", None),
        (xid(48), None),
        (f"2026-01-30T18:00:10+0100 rig kernel: {xid(48)}", "2026-01-30T17:00:10Z"),
    ],
)
def test_moments_are_told_where_year_and_zone_are_known(line: str, first: str | None) -> None:
    (found,) = look(XID, {"kernel-log": f"{line}\n"})

    assert (found.status, found.data["first"], found.data["last"]) == ("fail", first, first)


def test_what_the_driver_asks_for_is_in_the_fix() -> None:
    said = ((1, xid(119)), (30, xid(154, rest=ACTION)))
    (found,) = look(XID, {"kernel-log": journal(*said)})
    (alone,) = look(XID, {"kernel-log": journal(said[1])})
    (before,) = look(XID, {"kernel-log-previous": journal(said[1], booted=BOOTED_BEFORE)})
    settled = ACTION.replace("0x2 (Node Reboot Required)", "0x0 (None)")
    (over,) = look(XID, {"kernel-log": journal((1, xid(154, rest=settled)))})

    assert "Node Reboot Required" in str(found.fix)
    assert "Node Reboot Required" in str(alone.fix)
    assert (alone.status, before.status, over.status) == ("warn", "info", "info")
    assert over.fix is None


def test_an_mmu_fault_of_a_peer_test_is_the_machines() -> None:
    (found,) = look(
        XID, {"kernel-log": journal((1, xid(31, rest="pid=1, name=simpleP2P, Ch 0, MMU Fault")))}
    )

    assert found.status == "fail"
    assert found.fix is not None
    assert "iommu.mode" in found.fix.text


@pytest.mark.parametrize(("word", "status"), [("Fatal", "fail"), ("Nonfatal", "warn")])
def test_what_the_driver_calls_fatal_is_a_failure(word: str, status: str) -> None:
    line = xid(149, rest=f"NETIR_LINK_EVT {word} XC0 i0 Link 04 (0x004505c6 0x00000000)")
    (found,) = look(XID, {"kernel-log": journal((60, line))})

    assert (found.status, found.data["xid"]) == (status, 149)


def test_a_channel_that_is_cleaned_up_names_the_xid_that_did_it() -> None:
    line = xid(45, rest="pid=1818990, name=python3, Ch 00000001 caused by previous Xid 149")
    (found,) = look(XID, {"kernel-log": journal((60, line))})

    assert (found.status, found.data["xid"]) == ("warn", 149)


@pytest.mark.parametrize(
    ("times", "pids", "names", "others", "is_the_card"),
    [
        (30, 30, 3, [], True),
        (30, 30, 1, [], True),  # two cards are there, and the other has none
        (30, 30, 1, ["0b:00"], False),
        (30, 1, 1, [], False),
        (4, 4, 2, [], False),
    ],
)
def test_many_programs_that_meet_an_xid_on_one_card_only(
    times: int, pids: int, names: int, others: list[str], *, is_the_card: bool
) -> None:
    lines = [
        (60.0 + 600 * at, xid(31, card, rest=f"pid={7 + at % pids}, name=python{at % names}, Ch 8"))
        for at in range(times)
        for card in ["0a:00", *others]
    ]
    found = next(one for one in look(XID, {"kernel-log": journal(*lines)}) if one.subject == CARD)

    assert found.status == "warn"
    assert ("on this card only" in found.summary) is is_the_card
    assert ("swap it with its neighbour" in str(found.fix)) is is_the_card


def test_the_previous_boot() -> None:
    before = journal((100, xid(79, rest=DROP)), booted=BOOTED_BEFORE)
    (found,) = look(XID, {"kernel-log-previous": before})

    assert (found.status, found.data["boot"]) == ("fail", "previous")
    assert found.evidence[0].section == "kernel-log-previous"
    assert "previous boot" in found.summary


def test_what_comes_back_after_a_reboot_is_for_hands() -> None:
    before = journal((100, xid(79, rest=DROP)), booted=BOOTED_BEFORE)
    now = journal((50, xid(79, rest=DROP)))
    found = look(XID, {"kernel-log-previous": before, "kernel-log": now})

    assert [one.data["boot"] for one in found] == ["current", "previous"]
    assert [one.fix and one.fix.kind for one in found] == ["hands", "hands"]
    assert "come back" in str(found[1].fix)
    assert "Reboot once" not in str(found[1].fix)


def history(*booted: int) -> str:
    """Of boots that began so many days before the previous one."""
    lines = [
        journal((60, xid(79, rest=DROP)), booted=BOOTED_BEFORE - timedelta(days=days)).splitlines()
        for days in booted
    ]
    return "\n-- Reboot --\n".join(one[-1] for one in lines) + "\n"


def test_boots_long_ago_are_a_remark() -> None:
    (found,) = look(XID, {"xid-history": history(9, 5)})

    assert (found.status, found.subject) == ("info", "host")
    assert "Xid 79 on 0000:0a:00.0 (2 times)" in found.summary


def test_a_trouble_of_long_ago_that_is_here_again() -> None:
    now = journal((50, xid(79, rest=DROP)))
    recent, older = look(XID, {"xid-history": history(9), "kernel-log": now})

    assert (recent.status, older.status) == ("fail", "info")
    assert recent.fix is not None
    assert recent.fix.kind == "hands"


def test_the_history_repeats_what_the_logs_said() -> None:
    now = journal((50, xid(48)), (70, xid(48)))
    before = journal((50, xid(62)), booted=BOOTED_BEFORE)
    both = "\n".join((before.splitlines()[-1], "-- Reboot --", *now.splitlines()[-2:]))
    found = look(XID, {"kernel-log": now, "kernel-log-previous": before, "xid-history": both})

    assert [(one.data["xid"], one.data["count"], one.data["boot"]) for one in found] == [
        (48, 2, "current"),
        (62, 1, "previous"),
    ]


@pytest.mark.parametrize("marker", ["-- Reboot --\n", ""])
def test_the_history_knows_of_a_previous_boot_that_could_not_be_read(marker: str) -> None:
    before = journal((50, xid(48)), booted=BOOTED_BEFORE).splitlines()[-1]
    text = f"{before}\n{marker}{WELL.splitlines()[-1]}\n"
    (found,) = look(XID, {"kernel-log-previous": None, "xid-history": text})

    assert (found.status, found.data["boot"]) == ("fail", "previous")
    assert found.evidence[0].section == "xid-history"


def test_the_list_of_boots_decides_which_boot_it_was() -> None:
    listed = (
        "== journalctl --list-boots -q --no-pager\n"
        " -1 0123456789abcdef Thu 2026-01-29 17:00:00 UTC—Fri 2026-01-30 16:00:00 UTC\n"
        "  0 0123456789abcdee Fri 2026-01-30 17:00:00 UTC—Fri 2026-01-30 18:00:00 UTC\n"
    )
    found = look(XID, {"boots": listed, "kernel-log-previous": None, "xid-history": history(1)})

    assert [one.status for one in found] == ["info"]


@pytest.mark.parametrize(
    ("text", "rc", "root", "timed_out", "essential"),
    [
        ("dmesg: read kernel buffer failed: Operation not permitted\n", 1, False, False, False),
        ("dmesg: read kernel buffer failed: Operation not permitted\n", 0, False, False, False),
        ("", 1, False, False, False),
        ("", 0, False, False, False),
        (None, 0, False, False, False),
        (WELL, 1, False, False, False),
        (WELL, 124, False, True, True),
        ("", 124, False, True, True),
        (None, 0, True, False, True),
        ("", 1, True, False, True),
        ("", 0, True, False, True),
        ("== journalctl -k -b\n", 0, True, False, True),
        (WELL, 1, True, False, True),
        (WELL, 124, True, True, True),
        ("rubbish\n" * 50, 0, True, False, True),
    ],
)
def test_a_log_that_was_not_read_is_not_clean(
    text: str | None, rc: int, *, root: bool, timed_out: bool, essential: bool
) -> None:
    found = look(
        XID,
        {"kernel-log": text},
        cut={"kernel-log": rc},
        timed_out={"kernel-log"} if timed_out else frozenset(),
        root=root,
    )

    assert [(one.status, one.essential) for one in found] == [("unknown", essential)]


def test_no_rights_for_this_section_only() -> None:
    (found,) = look(
        XID,
        {"kernel-log": "Operation not permitted\n"},
        cut={"kernel-log": 1},
        without_root={"kernel-log"},
    )

    assert (found.status, found.essential) == ("unknown", False)
    assert "without root" in found.summary
    assert found.evidence[0].line == "Operation not permitted"


def test_half_a_log_tells_what_it_tells() -> None:
    found = look(XID, {"kernel-log": journal((1, xid(79, rest=DROP)))}, timed_out={"kernel-log"})

    assert [(one.status, one.essential) for one in found] == [("fail", False), ("unknown", True)]
    assert "in time" in found[1].summary


@pytest.mark.parametrize(
    ("previous", "said"),
    [(None, "was not collected"), ("== absent: no such boot\n", "none is kept")],
)
def test_this_boot_alone_may_be_well(previous: str | None, said: str) -> None:
    (found,) = look(XID, {"kernel-log-previous": previous})

    assert found.status == "ok"
    assert said in found.summary


def test_a_log_without_its_beginning_is_no_proof() -> None:
    (found,) = look(XID, {"kernel-log": "[ 90000.000000] usb 1-1: x\n[ 90001.000000] NVRM: y\n"})

    assert found.status == "info"
    assert "beginning is lost" in found.summary


def test_where_there_is_nothing_to_report_on() -> None:
    no_gpu = {"pci": answers.NO_GPU, "nvidia-smi-p2p-read": None}
    no_driver = {"nvidia-version": "", "nvidia-smi-p2p-read": None}

    assert [one.status for one in look(XID, no_gpu)] == ["skipped"]
    assert [one.status for one in look(XID, {**no_gpu, "kernel-log": None})] == ["skipped"]
    assert [one.status for one in look(XID, no_driver)] == ["skipped"]


def test_the_last_card_off_the_bus_is_still_told() -> None:
    text = journal((1, xid(79, rest=DROP)))
    found = look(XID, {"pci": answers.NO_GPU, "nvidia-smi-p2p-read": None, "kernel-log": text})

    assert [one.status for one in found] == ["fail"]


@given(
    st.sampled_from(sorted(SECTIONS)),
    st.one_of(st.none(), st.integers(0, 2000)),
    st.sampled_from([1, 124]),
)
def test_losing_or_cutting_a_section_never_turns_a_failure_into_well(
    section: str, length: int | None, rc: int
) -> None:
    now, before = journal((50, xid(79, rest=DROP))), journal((9, xid(48)), booted=BOOTED_BEFORE)
    texts = {"kernel-log": now, "kernel-log-previous": before}
    whole = {**SECTIONS, **texts}[section]
    changed: dict[str, str | None] = {**texts, section: None if length is None else whole[:length]}

    found = look(XID, changed, cut={section: rc})

    assert {one.status for one in found} & {"fail", "unknown"}
    assert not {one.status for one in found} & {"ok", "skipped"}


def test_an_xid_of_this_boot_comes_before_those_of_the_boot_before() -> None:
    before = journal((60, xid(79)), booted=BOOTED_BEFORE)
    found = look(
        XID, {"kernel-log-previous": before, "kernel-log": journal((9, xid(119, "42:00")))}
    )

    assert [one.data["boot"] for one in found] == ["current", "previous"]
