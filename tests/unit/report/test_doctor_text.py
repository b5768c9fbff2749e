from __future__ import annotations

from dataclasses import replace

import pytest

from rigops.doctor.finding import HOST, Evidence, Finding, Fix, FixKind, Status
from rigops.doctor.host_report import HostReport
from rigops.doctor.stories import Story
from rigops.errors import HostError
from rigops.report.closing import Again
from rigops.report.doctor import NextSteps, doctor_lines
from rigops.report.terminal import rendered, visible

STEPS = NextSteps(Again(("-i", "rack.py")))
CARDS = ("0000:0a:00.0", "0000:42:00.0", "0000:43:00.0")

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
BY_HAND = Finding(
    id="drv.pin",
    status="warn",
    summary="odd",
    fix=Fix(kind="hands", text="look (at a. b) at Foo Inc. `ls; ls`. Then think"),
)
WELL = [Finding(id=name, status="ok", summary="") for name in ("a.b", "c.d")]


def report(
    host: str, *findings: Finding, error: HostError | None = None, notes: tuple[str, ...] = ()
) -> HostReport:
    gpus = [{"address": card, "model": "GeForce RTX 3090", "driver": "nvidia"} for card in CARDS]
    system = "Debian GNU/Linux 12 (bookworm)"
    facts = {"os": system, "kernel": "6.1.0-31-amd64", "driver": None, "gpus": gpus}
    return HostReport(
        host=host,
        source="ssh",
        collected_at=None,
        duration_ms=1,
        facts={} if error else facts,
        findings=findings,
        error=error,
        notes=notes,
    )


def of_card(card: str, summary: str, text: str = "", status: str = "warn") -> Finding:
    fix = Fix(kind="hands", text=text) if text else None
    return Finding(id="pwr.limit", status=status, summary=summary, subject=f"gpu {card}", fix=fix)  # type: ignore[arg-type]  # a status


def lines(*hosts: HostReport, width: int = 100, verbose: bool = False) -> list[str]:
    shown = doctor_lines(hosts, width, STEPS, verbose=verbose)
    return [rendered(visible(line), color=False) for line in shown]


def test_a_finding_is_a_line_and_its_fix_another_and_the_worst_host_is_first() -> None:
    infos = [Finding(id=one, status="info", summary="normal") for one in ("x.a", "x.b")]

    assert lines(report("well", *WELL), report("rig", BAD, BY_HAND, *infos, *WELL)) == [
        "rig  FAIL  Debian 12, kernel 6.1.0-31, 3x RTX 3090",
        "  fail  iommu.mode  translated",
        '                    fix: "kernel_args": ["quiet", "iommu=pt"]     (apply, reboot)',
        "  warn  drv.pin     odd",
        "                    fix: look (at a. b) at Foo Inc. `ls; ls` …    (by hand)",
        "  info  2: x.a, x.b",
        "  2 ok",
        "",
        "well  ok  Debian 12, kernel 6.1.0-31, 3x RTX 3090",
        "  2 ok",
        "",
        "host  result  reason               next",
        "rig   FAIL    iommu.mode, drv.pin  rigops fix -i rack.py rig",
        "well  ok      -",
        "2 hosts: 1 fail, 1 ok. To fix: 1 with rigops apply, 1 by hand.",
        "Next: rigops fix -i rack.py    Details: add -v, or --explain iommu.mode",
    ]


def test_verbose_adds_evidence_why_and_the_whole_fix() -> None:
    assert lines(report("rig", BAD, BY_HAND, *WELL), width=80, verbose=True) == [
        "rig  FAIL  Debian 12, kernel 6.1.0-31, 3x RTX 3090",
        "  fail    iommu.mode  translated",
        "    iommu-groups: 13 DMA \\x1b[2J\\u202e0000:0a:00.0",
        "    why: It stands between the cards.",
        "    fix: `rigops apply` does it",
        '         in the inventory: "kernel_args": ["quiet", "iommu=pt"],',
        "  warn    drv.pin  odd",
        "    fix: by hand: look (at a. b) at Foo Inc. `ls; ls`. Then think",
        "  ok      2: a.b, c.d",
        "",
        "1 host: fail. To fix: 1 with rigops apply, 1 by hand.",
        "Next: rigops fix -i rack.py",
    ]


@pytest.mark.parametrize(("kind", "tag"), [("apply", ""), ("apply+reboot", "(reboot)")])
def test_what_is_declared_already_is_left_to_apply(kind: FixKind, tag: str) -> None:
    declared = Fix(kind=kind, text="", declare={"kernel_args": ["iommu=pt"]}, is_declared=True)

    said = lines(report("rig", Finding("fail", "translated", id="iommu.mode", fix=declared)))

    assert said[2].split() == ["fix:", "rigops", "apply", *tag.split()]
    assert said[2] == said[2].rstrip()
    assert said[-1].startswith("Next: rigops plan -i rack.py  ")


def test_one_cause_is_one_line_and_one_act_is_one_fix() -> None:
    start = Fix(kind="apply", concern="snapshots", text="it starts it", is_declared=True)
    ids = ("snap.age", "snap.target", "snap.held")
    same = [Finding("warn", "no timer", id=one, fix=start) for one in ids]
    reboot = Fix(kind="hands", text="reboot")
    lost = [Finding("fail", text, id=text, fix=reboot) for text in ("xid", "gpu.lost")]
    slots = [of_card(card, "narrow", f"reseat {card}") for card in CARDS]

    said = lines(report("rig", *lost, *same, *slots))

    assert said[1:7] == [
        "  fail  xid        xid",
        "                   fix: reboot                                   (by hand)",
        "  fail  gpu.lost   gpu.lost",
        "                   fix: as for xid",
        "  warn  snap.age   no timer (and snap.target, snap.held)",
        "                   fix: rigops apply",
    ]
    assert "To fix: 1 with rigops apply, 2 by hand." in said[-2]


def test_a_cause_has_its_fix_and_below_it_one_line_of_what_it_explains() -> None:
    def of(status: Status, check: str, subject: str = HOST, **data: object) -> Finding:
        fix = Fix(kind="hands", text=f"look at {check}")
        return Finding(status, f"{check} it is", id=check, subject=subject, fix=fix, data=data)

    first, other, _ = (f"gpu {card}" for card in CARDS)
    found = (
        of("fail", "drv.dkms"),
        of("warn", "pci.aer.corr", first),
        of("fail", "xid", first, xid=79),
        of("fail", "gpu.lost", other),
        of("warn", "pci.width", other),
        of("warn", "tmp.fan", first),
    )
    told = Story("bad-riser", "One poor link", "It transmits badly.", 1, (2, 3, 4))
    host = replace(report("rig", *found), stories=(told,))

    said, whole = lines(host), lines(host, verbose=True)

    shown = [line.split("  ", 1)[1] for line in said[1:8]]
    assert shown.pop(4).split("explains: ")[1] == (
        "xid 79 (fail), gpu.lost (fail, GPU 42:00.0), pci.width (GPU 42:00.0)"
    )
    assert shown == [
        "fail  drv.dkms      drv.dkms it is",
        "                    fix: look at drv.dkms                         (by hand)",
        f"warn  pci.aer.corr  GPU {first[9:]}: pci.aer.corr it is",
        "                    fix: look at pci.aer.corr                     (by hand)",
        f"warn  tmp.fan       GPU {first[9:]}: tmp.fan it is",
        "                    fix: look at tmp.fan                          (by hand)",
    ]
    assert "To fix: 3 by hand." in said[-2]
    assert all(any(f"look at {one.id}" in line for line in whole) for one in found)
    assert any("story bad-riser: It transmits badly." in line for line in whole)
    assert sum("explained by: pci.aer.corr" in line for line in whole) == 3


def test_a_key_that_mends_several_findings_is_counted_once() -> None:
    fixes = [
        Fix(kind="apply", text=text, declare={"driver": "535"}) for text in ("pin it", "hold it")
    ]
    found = [Finding("warn", one.text, id=one.text, fix=one) for one in fixes]

    assert "To fix: 1 with rigops apply." in lines(report("rig", *found))[-2]


def test_the_next_command_asks_for_the_password_as_this_one_did() -> None:
    steps = NextSteps(Again(asks_password=True))

    said = doctor_lines([report("rig", BAD)], 100, steps)

    assert said[-1].startswith("Next: rigops fix --ask-sudo-password  ")


def test_the_same_on_several_cards_is_one_line() -> None:
    every = [of_card(card, f"{card} draws 350 W", f"`smi -i {card}`") for card in CARDS]

    assert lines(report("rig", *every))[1:3] == [
        "  warn  pwr.limit  GPU draws 350 W (3 of 3 GPUs)",
        "                   fix: `smi -i GPU`                             (by hand)",
    ]


def test_some_of_the_cards_are_named() -> None:
    several = report("rig", *(of_card(card, "hot") for card in CARDS[1:]))
    one = report("rig", of_card(CARDS[0], f"hot, {CARDS[0]}", f"`smi -i {CARDS[0]}`"))

    assert lines(several)[1] == "  warn  pwr.limit  hot (2 of 3 GPUs: 42:00.0, 43:00.0)"
    assert lines(one)[1:3] == [
        "  warn  pwr.limit  hot, 0000:0a:00.0",
        "                   fix: `smi -i 0000:0a:00.0`                    (by hand)",
    ]


def test_different_numbers_with_one_fix_share_its_line() -> None:
    warm = [of_card(card, f"{n} °C", "clean it") for n, card in enumerate(CARDS[:2], 80)]

    assert [line.strip() for line in lines(report("rig", *warm))[1:4]] == [
        "warn  pwr.limit  GPU 0a:00.0: 80 °C",
        "warn  pwr.limit  GPU 42:00.0: 81 °C",
        f"{'fix: clean it':<45} (by hand)",
    ]


def unknown(count: int, *, essential: bool = False) -> list[Finding]:
    return [
        Finding("unknown", f"not read {n}", id=f"u.{n}", essential=essential) for n in range(count)
    ]


@pytest.mark.parametrize(
    ("findings", "shown"),
    [
        (unknown(2), ["unknown  u.0  not read 0", "unknown  u.1  not read 1"]),
        (unknown(4), ["unknown  4: u.0, u.1, u.2, u.3"]),
        (unknown(60), ["unknown  60: u.0, u.1, u.2, u.3, u.4, u.5, u.6, u.7, and 52 more"]),
        (unknown(3, essential=True), [f"unknown  u.{n}  not read {n}" for n in range(3)]),
    ],
    ids=["few", "several", "many", "essential"],
)
def test_what_is_unknown_is_never_among_what_is_ok(
    findings: list[Finding], shown: list[str]
) -> None:
    said = [line.strip() for line in lines(report("rig", *findings, *WELL))]

    assert said[1:-3] == [*shown, "2 ok"]
    assert f"{len(findings)} checks could not be judged." in said[-2]


def test_a_single_info_is_told_in_full() -> None:
    said = lines(report("rig", Finding("info", "no NVIDIA GPU here", id="gpu.count"), *WELL))

    assert said[1] == "  info  gpu.count  no NVIDIA GPU here"


def test_what_makes_the_host_unknown_comes_before_warnings() -> None:
    said = lines(report("rig", BY_HAND, *unknown(1, essential=True)))

    assert said[0].startswith("rig  unknown  ")
    assert "u.0" in said[1]
    assert "drv.pin" in said[2]


def test_a_check_is_counted_once_under_the_worst_that_it_found() -> None:
    said = lines(report("rig", of_card(CARDS[0], "hot"), of_card(CARDS[1], "", status="ok"), *WELL))

    assert "  2 ok" in said


def test_a_host_that_was_not_reached_says_why() -> None:
    error = HostError("dns", "there is no\x07address", "check the spelling")

    assert lines(report("rig", error=error)) == [
        "rig  unknown  not reached: there is no\\x07address",
        "  fix: check the spelling",
        "",
        "1 host: unknown.",
    ]


def test_a_fault_of_rigops_is_not_called_unreached() -> None:
    said = lines(report("rig", error=HostError("fault", "ValueError: x")))

    assert said[0] == "rig  unknown  not checked: ValueError: x"


def test_of_more_than_three_hosts_each_is_a_row() -> None:
    hosts = [report(f"well{n}", *WELL) for n in range(3)]
    error = HostError("refused", "me@lost:22: connection refused")
    grave = unknown(1, essential=True)

    said = lines(*hosts, report("lost", error=error), report("rig", BAD, BY_HAND, *grave), width=80)

    assert said == [
        "host                     result   reason  next",
        "rig                      FAIL     iommu.mode (translated), u.0, drv.pin",
        "                                  rigops doctor -i rack.py rig",
        "lost                     unknown  not reached: connection refused",
        "                                  rigops doctor -i rack.py lost",
        "well0, well1 and 1 more  ok       -",
        "5 hosts: 1 fail, 3 ok, 1 unknown. To fix: 1 with rigops apply, 1 by hand. 1",
        "check could not be judged.",
    ]


def test_24_hosts_with_3_in_trouble_fit_50_lines_and_each_trouble_has_its_next_command() -> None:
    well = [report(f"rig{n:02}", *WELL) for n in range(1, 21)]
    alike = [report(name, BY_HAND) for name in ("rig21", "rig22")]
    error = HostError("refused", "me@rig24:22: connection refused")

    said = lines(*well, *alike, report("rig23", BAD), report("rig24", error=error))

    assert len(said) <= 50
    for host in ("rig23", "rig24", "rig21 rig22"):
        assert any(line.endswith(f"rigops doctor -i rack.py {host}") for line in said), host
    assert any(line.startswith("rig01, rig02 and 18 more  ok ") for line in said)


def test_a_note_is_two_lines_and_its_fix() -> None:
    long = f"without root: {', '.join(['section'] * 40)} may be incomplete; fix: log in as root"

    first, second, fix = lines(report("rig", *WELL, notes=(long,)), width=60)[1:4]

    assert first.startswith("  note: without root: section,")
    assert second.endswith(" …")
    assert max(map(len, (first, second))) <= 60
    assert fix == "        fix: log in as root"


def test_the_same_of_several_sections_is_one_note() -> None:
    notes = tuple(f"section-{n} did not answer within 20 s" for n in range(7))

    assert lines(report("rig", *WELL, notes=notes))[1:3] == [
        "  note: section-0 and 6 more did not answer within 20 s",
        "  2 ok",
    ]


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize("width", [60, 80, 100])
def test_no_line_is_wider_than_the_terminal(width: int, *, verbose: bool) -> None:
    many = Finding("warn", "word " * 40, id="a.b", why="word " * 40, fix=BY_HAND.fix)
    hosts = report("rig", many, BAD, *WELL, notes=("word " * 60,)), report("rig", *unknown(40))

    assert max(map(len, lines(*hosts, width=width, verbose=verbose))) <= width


@pytest.mark.parametrize("verbose", [False, True])
def test_no_value_of_a_host_makes_a_line_of_its_own(*, verbose: bool) -> None:
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

    said = [*lines(*hosts, verbose=verbose), *lines(*hosts, *hosts, verbose=verbose)]
    assert not [line for line in said if line.startswith(("ok", "Nothing"))]


def test_nothing_to_do() -> None:
    assert lines(report("rig", *WELL))[-2:] == [
        "1 host: ok. Nothing to fix.",
        "Details: add -v",
    ]


def pasted(*findings: Finding) -> HostReport:
    return replace(report("post", *findings), is_paste=True)


def test_the_fix_of_a_paste_is_whole_where_the_terminal_has_room() -> None:
    wide, narrow = (lines(pasted(BY_HAND), width=width)[2].strip() for width in (100, 80))

    assert wide == "fix: look (at a. b) at Foo Inc. `ls; ls`. Then think (by hand)"
    assert narrow.startswith("fix: look (at a. b) at Foo Inc. `ls; ls` … ")


def test_what_matters_least_of_a_paste_is_left_out_where_the_page_is_full() -> None:
    many = [
        replace(BY_HAND, id=f"a.{n}", status="fail", summary=f"wrong {n}", fix=fix_of(n))
        for n in range(20)
    ]
    said = lines(pasted(*many, *WELL))

    assert len(said) <= 20
    assert said[1].startswith("  fail  a.0  ")
    assert any(
        line.startswith("  and ") and line.endswith("more findings: add -v") for line in said
    )


def fix_of(number: int) -> Fix:
    return Fix(kind="hands", text=f"look {number}. {'Then look again. ' * 9}")


def test_no_infos_of_a_paste_are_ids_alone() -> None:
    infos = [Finding("info", f"is so {n}", id=f"i.{n}") for n in range(3)]

    assert [line.split(None, 2)[2] for line in lines(pasted(*infos))[1:4]] == [
        "is so 0",
        "is so 1",
        "is so 2",
    ]
