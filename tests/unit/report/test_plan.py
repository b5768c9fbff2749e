from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from rigops import __version__
from rigops.converge.result import Blocker, HostResult, Override, Stage, Withheld
from rigops.errors import HostError
from rigops.plan.change import Change, Package, PackageChanges, Plan, Repair
from rigops.report.apply import outcome_lines
from rigops.report.plan import plan_lines, total_lines
from rigops.report.terminal import rendered, visible

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

FILE = Change("base", "file", "/etc/nccl.conf", "# mine\nA=1\n", "# mine\nA=2\n")
STEERS = "\x1b[2J\x07"
DEAD = HostError("timeout", "rig (10.0.0.9:22): it does not answer", "is it on?")


WIDE = 1000


def lines(*results: HostResult, width: int = WIDE, **options: bool) -> list[str]:
    found = plan_lines(results, width, **options)
    return [rendered(visible(line), color=False) for line in found]


def rows(result: HostResult, **options: bool) -> list[str]:
    """Below the head, with one space between the columns."""
    _, *rest = lines(result, **options)
    return [f"{line[2:15].strip()} {line[17:]}".strip() for line in rest]


def shown(plan: Plan = Plan(), **what: Any) -> list[str]:  # noqa: B008 - frozen
    return rows(HostResult("rig", plan=plan, **what))


def meaning(plan: Plan, **what: Any) -> str:
    return lines(HostResult("rig", plan=plan, **what))[0].removeprefix("rig  ")


def outcome(*results: HostResult, shown: Collection[str] = ()) -> list[str]:
    return [rendered(visible(line), color=False) for line in outcome_lines(results, shown=shown)]


def test_what_is_the_same_on_several_hosts_is_told_once() -> None:
    results = [HostResult(name, plan=Plan(changes=(FILE,))) for name in ("a", "c")]

    assert lines(results[0], HostResult("b"), results[1]) == [
        "a, c (same on 2 hosts)  base (1 change)",
        "  base           change /etc/nccl.conf",
        "b  as declared",
    ]


def test_of_many_hosts_the_first_are_named_and_the_others_counted() -> None:
    assert lines(*(HostResult(f"rig{number}") for number in range(9))) == [
        "rig0, rig1, rig2, rig3 and 5 more (same on 9 hosts)  as declared",
    ]


def test_what_only_some_of_them_have_names_these_hosts() -> None:
    plan = Plan(changes=(FILE,))
    results = [HostResult("a", plan=plan)]
    results += [HostResult(name, plan=plan, notices=("mind the gap",)) for name in ("b", "c")]

    assert lines(*results) == [
        "a, b, c (same on 3 hosts)  base (1 change)",
        "  base           change /etc/nccl.conf",
        "  note           b, c: mind the gap",
    ]


def test_of_a_fleet_of_24_with_3_in_trouble_plan_and_consent_fit_a_screen() -> None:
    plan = Plan(
        headlines=tuple(("gpu_tuning", f"power limit 240 W -> {watts} W") for watts in (300, 310)),
        changes=tuple(
            Change("gpu_tuning", "setting", f"GPU {number} power limit", "240 W", "300 W")
            for number in range(8)
        ),
    )
    every = [
        HostResult(f"rig{number:02}", plan=plan, notices=(f"clock of {number}",) if number else ())
        for number in range(21)
    ]
    for number, what in enumerate(("is off", "refuses the key", "is full")):
        error = HostError("failed", f"rig2{number} {what}", f"see to rig2{number}")
        every.append(HostResult(f"rig2{number}", "failed", error=error))

    for has_changes in (True, False):
        found = lines(*every, width=100, has_changes=has_changes)

        assert len(found) <= 50
        assert "power limit 240 W -> 300 W" in found[0] + found[1]
        for number in range(3):
            assert any(f"see to rig2{number}" in line for line in found)
            assert any(f"rigops doctor rig2{number}" in line for line in found) != has_changes


def test_a_host_that_wants_a_password_is_not_sent_to_doctor() -> None:
    error = HostError("sudo", "rig4: sudo asks for a password", "use --ask-sudo-password, or ...")

    found = lines(HostResult("rig4", "unreachable", error=error), has_changes=False)

    assert any("use --ask-sudo-password" in line for line in found)
    assert not any("rigops doctor" in line for line in found)


def test_the_first_line_is_what_the_changes_come_to() -> None:
    plan = Plan(
        headlines=(
            ("nvidia_driver", "driver 545 -> 535"),
            ("acs", "no ACS redirection on 2 ports"),
        ),
        changes=(
            Change("nvidia_driver", "file", "/f", None, "x\n"),
            Change("toy", "file", "/g", None, "x\n"),
            Change("kernel_args", "file", "/h", "x\n", None),
        ),
        packages_by={"nvidia_driver": PackageChanges(remove=(Package("old", "2", None),))},
        housekeeping=(("ownership", "/r"),),
        undeclared={"kernel_args": ("/h",)},
    )

    told = meaning(plan, reboot_reasons=("x", "y"))

    assert told == (
        "driver 545 -> 535, toy (1 change), undo kernel_args, ownership (its records), "
        "1 package removed, 1 reboot"
    )


def test_apply_repeats_what_changes_come_to_and_what_needs_attention() -> None:
    result = HostResult(
        "rig",
        plan=Plan(changes=(FILE,), headlines=(("base", "NCCL settings"),)),
        notices=("mind the gap",),
        reboot_reasons=("x",),
        reboot_hits=("kim is logged in",),
        blocked=(Blocker("borg", (), "x"),),
    )

    assert lines(result, has_changes=False) == [
        "rig  NCCL settings, 1 reboot",
        "  files          change /etc/nccl.conf",
        "  reboot         a reboot would interrupt: kim is logged in",
        "  note           rigops plan shows 1 note",
        "  blocked        borg: x",
    ]


def test_a_warning_is_shown_where_apply_asks_and_other_notes_are_counted() -> None:
    plan = Plan(changes=(FILE,), warnings=frozenset({"lactd undoes this"}))
    result = HostResult("rig", plan=plan, notices=("lactd undoes this", "a", "b"))

    _, _, warning, others = lines(result, has_changes=False)

    assert warning == "  note           lactd undoes this"
    assert others == "                 rigops plan shows 2 more notes"


def test_where_apply_asks_new_files_are_counted_and_others_named() -> None:
    changes = (
        *(Change("base", "file", f"/new{number}", None, "x\n") for number in range(7)),
        *(Change("base", "unit", f"/changed{number}", "a\n", "b\n") for number in range(2)),
        Change("base", "file", "/gone", "x\n", None),
        Change("acs", "file", "/acs", "x\n", None),
    )
    result = HostResult("rig", plan=Plan(changes=changes), undeclared={"acs": ("/acs",)})

    assert rows(result, has_changes=False) == [
        "acs no longer declared here: undo /acs",
        "files write 7 new files; change /changed0, /changed1; remove /gone",
    ]


def test_a_file_that_was_changed_by_hand_is_said_to_be_wherever_it_would_be_overwritten() -> None:
    result = HostResult("rig", plan=Plan(changes=(replace(FILE, by_hand=True),)))

    assert rows(result) == [
        "base change /etc/nccl.conf (changed by hand since rigops wrote it)",
    ]
    assert rows(result, has_diffs=True)[1:] == ["# mine", "-A=1", "+A=2"]
    assert rows(result, has_changes=False)[0] == (
        "overwrites /etc/nccl.conf, changed by hand since rigops wrote it; a copy goes to "
        "/var/lib/rigops/previous"
    )


def test_whose_declaration_is_overridden_is_said_by_plan_and_apply() -> None:
    override = Override("gpu_power_limit", 240, "me@desktop", "2026-11-20T10:00:00Z")
    result = HostResult("rig", plan=Plan(changes=(FILE,)), overrides=(override,))

    for has_changes in (True, False):
        assert rows(result, has_changes=has_changes)[0] == (
            "overrides gpu_power_limit = 240, declared by me@desktop on 2026-11-20"
        )
    assert result.plan_json()["overrides"] == [
        {
            "key": "gpu_power_limit",
            "value": 240,
            "by": "me@desktop",
            "at": "2026-11-20T10:00:00Z",
        }
    ]


def test_what_an_undone_concern_leaves_behind_has_its_values() -> None:
    plan = Plan(
        headlines=(("gpu_tuning", "power limit 240 W -> 300 W on 4 cards"),),
        changes=(Change("gpu_tuning", "file", "/f", "x\n", None),),
        undeclared={"gpu_tuning": ("/f",)},
    )

    assert meaning(plan) == "undo gpu_tuning (power limit 240 W -> 300 W on 4 cards)"


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (None, "x\n", "base write /f"),
        ("x\n", "y\n", "base change /f"),
        ("x\n", "x\n", "base put into force: /f"),
        ("x\n", None, "base remove /f"),
        (None, None, "base remove /f"),
    ],
)
def test_a_file_is_one_line(before: str | None, after: str | None, said: str) -> None:
    assert shown(Plan(changes=(Change("base", "file", "/f", before, after),))) == [said]


def test_what_differs_beside_its_content_is_named() -> None:
    change = Change("base", "file", "/f", "x\n", "x\n", "the mode is 0666, declared 0600")

    assert shown(Plan(changes=(change,))) == [
        "base change /f (the mode is 0666, declared 0600)",
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (Change("k", "argument", "line", None, "a b"), "k add to the line: a b"),
        (Change("k", "argument", "line", "a b", None), "k remove from the line: a b"),
        (
            Change("k", "argument", "line", "a b", "b c"),
            "k add to the line: c; remove from the line: a",
        ),
        (Change("d", "module", "modules", "545\n", "535\n"), "d modules: 545 -> 535"),
        (Change("d", "module", "modules", None, "535\n"), "d write modules"),
        (Change("a", "setting", "00:01.3", "1d\n", "11\n"), "a 00:01.3: 1d -> 11"),
        (Change("d", "hold", "holds", "a\n", "a\nb\nc\n"), "d hold 2 packages"),
        (Change("d", "hold", "holds", "a\nb\n", "b\n"), "d no longer hold a"),
    ],
)
def test_what_is_no_file_says_what_it_was_and_becomes(change: Change, said: str) -> None:
    assert shown(Plan(changes=(change,))) == [said]


def test_of_a_long_file_only_what_is_near_a_change_is_shown_and_only_when_asked() -> None:
    before = "".join(f"{number}\n" for number in range(20))
    after = before.replace("10\n", "ten\n")
    result = HostResult("rig", plan=Plan(changes=(Change("base", "file", "/f", before, after),)))

    _, _, *said = lines(result, has_diffs=True)

    assert [line.strip() for line in said] == ["8", "9", "-10", "+ten", "11", "12"]


def test_packages_of_one_change_are_counted_and_those_that_go_are_named() -> None:
    changes = PackageChanges(
        install=(Package("new", None, "1"),),
        remove=tuple(Package(f"old{number}", str(number), None) for number in range(6)),
        upgrade=(Package("up", "1", "2"),),
        downgrade=tuple(Package(f"down{number}", "2", "1") for number in range(3)),
    )
    result = HostResult("rig", plan=Plan(packages_by={"demo": changes}))

    assert rows(result) == [
        "demo install new 1",
        "remove old0, old1, old2, old3 and 2 more",
        "upgrade up 1 -> 2",
        "downgrade 3 packages 2 -> 1",
    ]
    assert rows(result, has_changes=False) == rows(result)
    assert len(rows(result, has_diffs=True)) == 11
    assert "downgrade down2 2 -> 1" in rows(result, has_diffs=True)


def test_a_repair_that_was_agreed_to_comes_first_and_makes_a_plan() -> None:
    offered = Repair("dpkg was interrupted", "dpkg --configure -a", agreed=False)
    agreed = Repair("dpkg was interrupted", "dpkg --configure -a", agreed=True)
    ways = (Blocker("demo", (), "dpkg was interrupted: sudo dpkg --configure -a"),)

    assert shown(Plan(repairs=(agreed,))) == [
        "packages first `dpkg --configure -a`, since dpkg was interrupted"
    ]
    assert meaning(Plan(repairs=(agreed,))) == "finish what dpkg began"
    assert shown(Plan(repairs=(offered,)), blocked=ways) == [f"blocked demo: {ways[0].reason}"]
    assert HostResult("rig", plan=Plan(repairs=(agreed,))).pending
    assert not HostResult("rig", plan=Plan(repairs=(offered,))).pending
    assert HostResult("rig", plan=Plan(repairs=(offered,))).plan_json()["repairs"] == [
        {"broken": "dpkg was interrupted", "command": "dpkg --configure -a", "agreed": False}
    ]


def test_a_reboot_has_its_reasons_and_whom_it_would_hit() -> None:
    assert shown(
        reboot_reasons=("the kernel does not run with a yet",), reboot_hits=("kim is logged in",)
    ) == [
        "reboot the kernel does not run with a yet",
        "reboot a reboot would interrupt: kim is logged in",
    ]


def test_a_reboot_that_waits_is_said_to_wait_and_not_counted() -> None:
    result = HostResult("rig", reboot_reasons=("x",), reboot_waits="not before the driver")

    assert lines(result) == [
        "rig  a reboot later",
        "  reboot         x",
        "  reboot         not before the driver",
    ]
    assert total_lines([result], WIDE)[0].startswith("1 host would change. ")


def test_copies_that_may_hang_the_host_are_announced_by_plan_and_apply() -> None:
    result = HostResult("rig", preflight_reason="no preflight passed yet")

    for has_changes in (True, False):
        (copies,) = rows(result, has_changes=has_changes)
        assert copies == (
            "preflight copies between GPUs follow: broken P2P can hang the host "
            "(no preflight passed yet)"
        )


def test_what_doctor_finds_and_nobody_declared_is_named_beside_as_declared() -> None:
    result = HostResult("rig", unfixed=("drv.pin", "iommu.mode"))

    for has_changes in (True, False):
        assert lines(result, has_changes=has_changes)[0] == "rig  as declared"
        (row,) = rows(result, has_changes=has_changes)
        assert row == (
            "doctor faults whose fix is not declared: drv.pin, iommu.mode. fix: rigops fix"
        )
    assert result.plan_json()["unfixed"] == ["drv.pin", "iommu.mode"]


def test_a_removal_that_is_withheld_is_not_said_to_come() -> None:
    undeclared = {"acs": ("/f",)}

    assert shown(undeclared=undeclared) == ["acs no longer declared here: undo /f"]
    assert shown(undeclared=undeclared, withheld=(Withheld("acs", ("/f",)),)) == [
        "acs no longer declared here: kept; --prune undoes /f"
    ]


def test_what_is_in_the_way_names_its_keys_and_is_not_nothing_to_do() -> None:
    ways = (
        Blocker("borg", ("borg", "snapshots"), "not in this version"),
        Blocker("base", ("nccl",), "no room"),
        Blocker("host", (), "x"),
    )

    assert shown(blocked=ways) == [
        f"ignored borg, snapshots: rigops {__version__} cannot set it",
        "blocked base (nccl): no room",
        "blocked host: x",
    ]
    assert meaning(Plan(), blocked=ways) == "partly as declared"


def test_of_a_host_that_was_not_reached_only_that_is_told_with_the_fix() -> None:
    assert shown(Plan(changes=(FILE,)), error=DEAD) == [
        f"error {DEAD.message}",
        f"fix {DEAD.fix}",
    ]


@pytest.mark.parametrize("width", [60, 80, 100])
def test_lines_are_as_wide_as_the_terminal_and_words_stay_whole(width: int) -> None:
    note = "each of them, network cards and disks too, can reach all of the memory " * 3
    result = HostResult("rig", plan=Plan(changes=(FILE,)), notices=(note, "short"))

    many = [HostResult(f"{'a' * 20}{number}") for number in range(4)]

    failed = HostResult("b", "failed", error=DEAD)
    found = lines(result, failed, *many, width=width, has_diffs=True)

    assert max(map(len, found)) <= width
    assert " ".join(found).count(many[0].host) == 1
    assert " ".join(" ".join(found).split()).count(" ".join(note.split())) == 1
    assert sum(line.startswith("  note") for line in found) == 2


def test_a_note_is_two_lines_and_whole_with_diffs() -> None:
    result = HostResult("rig", plan=Plan(changes=(FILE,)), notices=("word " * 60,))

    short = [line for line in lines(result, width=80) if "word" in line]
    whole = lines(result, width=80, has_diffs=True)

    assert len(short) == 2
    assert short[-1].endswith(" …")
    assert sum(line.count("word") for line in whole) == 60


def test_the_fix_of_a_note_is_never_cut() -> None:
    result = HostResult("rig", notices=(f"{'word ' * 60}. fix: declare less",))

    *_, cut, fix = lines(result, width=80)

    assert cut.endswith(" …")
    assert fix.strip() == "fix: declare less"


def test_a_path_that_is_nearly_as_wide_as_the_terminal_is_not_broken() -> None:
    path = f"/etc/{'a' * 50}"
    result = HostResult("rig", plan=Plan(changes=(replace(FILE, subject=path),)))

    found = lines(result, width=60)

    assert max(map(len, found)) <= 60
    assert any(line.strip() == path for line in found)


def test_ports_that_change_alike_are_one_line() -> None:
    ports = [Change("acs", "setting", f"0000:0{n}:00.0", "001d (a)", "0011 (b)") for n in range(3)]

    found = "\n".join(plan_lines([HostResult("rig", plan=Plan(changes=tuple(ports)))], 200))

    assert "0000:00:00.0, 0000:01:00.0, 0000:02:00.0: 001d (a) -> 0011 (b)" in found


def test_the_last_line_counts_hosts_and_reboots_and_says_where_more_is() -> None:
    changed = HostResult("a", plan=Plan(changes=(FILE,)), reboot_reasons=("x",))

    assert total_lines([HostResult("b")], WIDE) == ["Nothing to change. Nothing was touched."]
    (last,) = total_lines([changed, HostResult("c", error=DEAD)], WIDE)
    assert last == (
        "1 host would change, 1 reboot, 1 host could not be planned. Nothing was touched."
        "    All of it: rigops plan -v"
    )


@pytest.mark.parametrize(
    "what",
    [
        {"plan": Plan(changes=(Change("base", "file", "/f", f"a{STEERS}b\n", "c\n"),))},
        {"error": HostError("failed", f"it said {STEERS}")},
        {"notices": (f"see {STEERS}",)},
        {"blocked": (Blocker("base", (), STEERS),)},
    ],
    ids=["file", "error", "notice", "in the way"],
)
def test_what_a_host_says_does_not_steer_the_terminal(what: Mapping[str, Any]) -> None:
    result = HostResult("rig", **what)

    assert not any(STEERS in line for line in plan_lines([result], WIDE, has_diffs=True))
    assert not any(STEERS in line for line in outcome_lines([result]))


@pytest.mark.parametrize(
    ("result", "status", "code"),
    [
        (HostResult("rig"), "converged", 0),
        (HostResult("rig", plan=Plan(changes=(FILE,))), "pending", 4),
        (HostResult("rig", reboot_reasons=("x",)), "pending", 4),
        (
            HostResult(
                "rig",
                plan=Plan(packages_by={"x": PackageChanges(remove=(Package("x", "1", None),))}),
            ),
            "pending",
            4,
        ),
        (
            HostResult("rig", plan=Plan(changes=(FILE,)), blocked=(Blocker("x", (), "y"),)),
            "refused",
            1,
        ),
        (HostResult("rig", "unreachable", error=DEAD), "unknown", 3),
        (HostResult("rig", "failed", error=DEAD), "failed", 1),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_plan_amounts_to(result: HostResult, status: str, code: int) -> None:
    assert (result.status, result.plan_code) == (status, code)
    assert result.plan_json()["status"] == status
    assert ("error" in result.plan_json()) is (result.error is not None)


def test_an_outcome_has_what_happened_and_what_is_left_to_do() -> None:
    result = HostResult(
        "rig",
        "reboot_owed",
        reboot_reasons=("the kernel does not run with a yet",),
        story=["took over the lock of kim"],
        withheld=(Withheld("base", ("/f",)),),
    )

    assert outcome(result) == [
        "rig changed, reboot pending (0.0 s)",
        "    reboot pending: the kernel does not run with a yet",
        "    kept: base is no longer declared; --prune undoes /f",
        "    took over the lock of kim",
    ]


def test_a_driver_without_its_reboot_is_said_to_break_cuda() -> None:
    result = HostResult("rig", "reboot_owed", fails_until_reboot=("CUDA",))

    assert outcome(result) == [
        "rig changed, reboot pending; CUDA fails until you reboot it (0.0 s)"
    ]


def test_holds_that_a_release_leaves_are_named_with_what_releases_them() -> None:
    result = HostResult("rig", "changed", kept_holds=("libcuda1", "nvidia-driver"))

    assert outcome(result)[1:] == [
        "    2 still held; to release: sudo apt-mark unhold libcuda1 nvidia-driver"
    ]


def test_hosts_that_did_not_make_it_are_named_with_the_reason_and_the_fix() -> None:
    said = outcome(
        HostResult("well", "changed"),
        HostResult("rig", "unreachable", error=DEAD),
        HostResult("odd", "refused", blocked=(Blocker("borg", ("borg",), "not in this version"),)),
    )

    assert said == [
        "well changed, now as declared (0.0 s)",
        "rig not reached: it does not answer (0.0 s)",
        f"    fix: {DEAD.fix}",
        "odd refused, not touched (0.0 s)",
        f"    ignored: borg: rigops {__version__} cannot set it",
    ]


def test_the_same_outcome_of_several_hosts_is_told_once_with_the_time_that_they_took() -> None:
    odd = HostResult("odd", "changed", story=["took over the lock of kim"])
    results = [
        HostResult(name, "converged", stages=[Stage("probe", seconds)])
        for name, seconds in (("a", 0.5), ("b", 1.25), ("c", 0.75))
    ]

    assert outcome(results[0], odd, *results[1:]) == [
        "a, b, c (3 hosts): each as declared (0.5 to 1.2 s)",
        "odd changed, now as declared (0.0 s)",
        "    took over the lock of kim",
    ]


def test_the_cure_of_an_error_that_was_shown_with_the_plan_is_not_told_again() -> None:
    said = outcome(
        HostResult("rig", "unreachable", error=DEAD),
        HostResult("later", "failed", error=HostError("failed", "the disk is full")),
        shown=["rig"],
    )

    assert said == [
        "rig not reached: it does not answer (0.0 s)",
        "later FAILED (0.0 s)",
        "    the disk is full",
    ]
