from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rigops.converge.result import Blocked, HostResult, Stage, Withheld
from rigops.errors import HostError
from rigops.plan.change import Change, Package, PackageChanges, Plan, Repair
from rigops.report.apply import outcome_lines
from rigops.report.plan import plan_lines
from rigops.report.terminal import rendered, visible

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

FILE = Change("base", "file", "/etc/nccl.conf", "# mine\nA=1\n", "# mine\nA=2\n")
STEERS = "\x1b[2J\x07"
DEAD = HostError("timeout", "rig (10.0.0.9:22): it does not answer", "is it on?")


def lines(*results: HostResult) -> list[str]:
    return [rendered(visible(line), color=False) for line in plan_lines(results)]


def told(plan: Plan = Plan(), **what: Any) -> list[str]:  # noqa: B008 - frozen
    head, *rest = lines(HostResult("rig", plan=plan, **what))
    assert head == "rig"
    return rest


def outcome(*results: HostResult, shown: Collection[str] = ()) -> list[str]:
    return [rendered(visible(line), color=False) for line in outcome_lines(results, shown=shown)]


def test_what_is_the_same_on_several_hosts_is_told_once() -> None:
    results = [HostResult(name, plan=Plan(changes=(FILE,))) for name in ("a", "c")]

    assert lines(results[0], HostResult("b"), results[1]) == [
        "a, c (same on 2 hosts)",
        "    base: change /etc/nccl.conf",
        "         # mine",
        "        -A=1",
        "        +A=2",
        "b",
        "    nothing to do",
    ]


def test_of_many_hosts_the_first_are_named_and_the_others_counted() -> None:
    assert lines(*(HostResult(f"rig{number}") for number in range(9))) == [
        "rig0, rig1, rig2, rig3 and 5 more (same on 9 hosts)",
        "    nothing to do",
    ]


def test_a_host_of_which_anything_else_is_known_is_not_folded() -> None:
    note = HostResult("b", plan=Plan(changes=(FILE,)), notices=("mind the gap",))

    told = lines(HostResult("a", plan=Plan(changes=(FILE,))), note)

    assert len([one for one in told if one[0] != " "]) == 2


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (None, "x\n", ["    base: write /f", "        +x"]),
        ("x\n", None, ["    base: remove /f", "        -x"]),
        (None, None, ["    base: remove /f"]),
    ],
)
def test_files_that_come_and_go(before: str | None, after: str | None, said: list[str]) -> None:
    assert told(Plan(changes=(Change("base", "file", "/f", before, after),))) == said


def test_of_a_long_file_only_what_is_near_a_change_is_shown() -> None:
    before = "".join(f"{number}\n" for number in range(20))

    after = before.replace("10\n", "ten\n")
    said = told(Plan(changes=(Change("base", "file", "/f", before, after),)))

    assert [line.strip() for line in said[1:]] == ["8", "9", "-10", "+ten", "11", "12"]


def test_packages_have_their_versions_and_a_removal_is_a_line_of_its_own() -> None:
    changes = PackageChanges(
        install=(Package("new", None, "1"),),
        remove=(Package("old", "2", None),),
        upgrade=(Package("up", "1", "2"),),
        downgrade=(Package("down", "2", "1"),),
    )

    assert told(Plan(packages_by={"demo": changes})) == [
        "    install new 1",
        "    remove old 2",
        "    upgrade up 1 -> 2",
        "    downgrade down 2 -> 1",
    ]


def test_a_repair_that_was_agreed_to_comes_first_and_makes_a_plan() -> None:
    offered = Repair("dpkg was interrupted", "dpkg --configure -a", agreed=False)
    agreed = Repair("dpkg was interrupted", "dpkg --configure -a", agreed=True)
    ways = (Blocked("demo", (), "dpkg was interrupted: sudo dpkg --configure -a"),)

    assert told(Plan(repairs=(agreed,))) == [
        "    first `dpkg --configure -a`, since dpkg was interrupted"
    ]
    assert told(Plan(repairs=(offered,)), blocked=ways) == [f"    blocked: demo: {ways[0].reason}"]
    assert HostResult("rig", plan=Plan(repairs=(agreed,))).pending
    assert not HostResult("rig", plan=Plan(repairs=(offered,))).pending
    assert HostResult("rig", plan=Plan(repairs=(offered,))).plan_json()["repairs"] == [
        {"broken": "dpkg was interrupted", "command": "dpkg --configure -a", "agreed": False}
    ]


def test_a_reboot_has_its_reasons_and_whom_it_would_hit() -> None:
    assert told(
        reboot_reasons=("the kernel does not run with a yet",), reboot_hits=("kim is logged in",)
    ) == [
        "    reboot: the kernel does not run with a yet",
        "        a reboot would interrupt: kim is logged in",
    ]


def test_what_is_in_the_way_names_its_keys_and_is_not_nothing_to_do() -> None:
    ways = (Blocked("borg", ("borg", "snapshots"), "not in this version"), Blocked("host", (), "x"))

    assert told(blocked=ways) == [
        "    blocked: borg (borg, snapshots): not in this version",
        "    blocked: host: x",
    ]


def test_of_a_host_that_was_not_reached_only_that_is_told_with_the_fix() -> None:
    assert told(Plan(changes=(FILE,)), error=DEAD) == [
        f"    {DEAD.message}",
        f"    fix: {DEAD.fix}",
    ]


@pytest.mark.parametrize(
    "what",
    [
        {"plan": Plan(changes=(Change("base", "file", "/f", f"a{STEERS}b\n", "c\n"),))},
        {"error": HostError("failed", f"it said {STEERS}")},
        {"notices": (f"see {STEERS}",)},
        {"blocked": (Blocked("base", (), STEERS),)},
    ],
    ids=["file", "error", "notice", "in the way"],
)
def test_what_a_host_says_does_not_steer_the_terminal(what: Mapping[str, Any]) -> None:
    result = HostResult("rig", **what)

    assert STEERS not in plan_lines([result])
    assert STEERS not in outcome_lines([result])


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
            HostResult("rig", plan=Plan(changes=(FILE,)), blocked=(Blocked("x", (), "y"),)),
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


def test_hosts_that_did_not_make_it_are_named_with_the_reason_and_the_fix() -> None:
    said = outcome(
        HostResult("well", "changed"),
        HostResult("rig", "unreachable", error=DEAD),
        HostResult("odd", "refused", blocked=(Blocked("borg", ("borg",), "not in this version"),)),
    )

    assert said == [
        "well changed, now as declared (0.0 s)",
        "rig not reached (0.0 s)",
        f"    {DEAD.message}",
        f"    fix: {DEAD.fix}",
        "odd refused, not touched (0.0 s)",
        "    blocked: borg (borg): not in this version",
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
        f"rig not reached: {DEAD.message} (0.0 s)",
        "later FAILED (0.0 s)",
        "    the disk is full",
    ]
