"""The last lines of a run over several hosts, and of one."""

from __future__ import annotations

import re

from rigops.converge.result import Blocker, HostResult, Stage, Withheld
from rigops.errors import HostError
from rigops.hosts.engines import HostAnswer
from rigops.hostside.p2p.verdict import STATUS_OF
from rigops.plan.change import Change, Plan
from rigops.preflight.found import CollectivesFound, GpuSeen, HostFound, PairFound
from rigops.preflight.headline import has_stopgap
from rigops.report.apply import outcome_lines
from rigops.report.closing import Again, Step, closing_lines
from rigops.report.host_rows import apply_rows, backup_rows, plan_rows
from rigops.report.plan import plan_lines, total_lines
from rigops.report.terminal import rendered, visible

A, B = "0000:0a:00.0", "0000:0b:00.0"
RACK = Again(("-i", "rack.py"), is_whole=True)
SUDO = HostError("sudo", "rig4: sudo wants a password", "use --ask-sudo-password, or ...")
REFUSED = HostError("refused", "rig5 (me@10.0.0.4:22): Connection refused", "is sshd on?")
LIMIT = Plan(changes=(Change("gpu_tuning", "setting", "power limit", "350 W", "285 W"),))


def text(lines: list[str]) -> list[str]:
    return [rendered(visible(line), color=False) for line in lines]


def proof(verdict: str = "ok", level: str = "L5", size: str = "", count: int = 6) -> HostFound:
    evidence = (f"{size}: 3 of 3 wrong: 1 of 1 pages bad",) if size else ()
    pairs = (PairFound(A, B, verdict, level, evidence=evidence),) * count
    return HostFound(
        host="rig",
        status=STATUS_OF[verdict],
        level=None if verdict == "not_granted" else level,
        gpus=(GpuSeen(A, "RTX 3090"), GpuSeen(B, "RTX 3090")),
        pairs=pairs,
        collectives=CollectivesFound(),
    )


WRONG = proof("wrong_data", "L1", "4 KiB")


def test_a_stopgap_that_is_declared_is_not_asked_for_again() -> None:
    result = HostResult("rig1", "converged", preflight=WRONG, has_stopgap=True)

    advice = " ".join(line.strip() for line in text(outcome_lines([result]))[1:])

    assert 'declare "nccl"' not in advice
    assert 'declare "p2p": "skip"' in advice
    assert has_stopgap(WRONG, {"NCCL_P2P_DISABLE": "1"})
    assert not has_stopgap(WRONG, {"NCCL_P2P_DISABLE": "0"})
    assert not has_stopgap(proof(), {"NCCL_P2P_DISABLE": "1"})


def test_a_proof_that_fails_by_what_is_declared_has_no_stopgap() -> None:
    reason = 'p2p = "required" is declared, and 2 of 2 pairs are refused'
    found = HostFound(
        host="rig", status="fail", pairs=proof("not_granted", "L0").pairs, reasons=(reason,)
    )

    said = text(outcome_lines([HostResult("rig", "converged", preflight=found)]))

    assert said[0].startswith(f"rig FAILED its proof: {reason}")
    assert "Nothing was changed" in said[1]
    assert "NCCL_P2P_DISABLE" not in " ".join(said)


def test_the_end_of_an_apply_is_a_table_with_the_next_command_of_each_trouble() -> None:
    results = [
        HostResult("rig1", "changed", preflight=WRONG),
        HostResult("rig2", "changed", preflight=proof()),
        HostResult("rig3", "reboot_owed", reboot_reasons=("new driver",), waits_for="rig1"),
        HostResult("rig4", "unreachable", error=SUDO),
        HostResult("rig5", "unreachable", error=REFUSED),
        HostResult("rig6", "changed", withheld=(Withheld("acs", ("/etc/x",)),)),
        HostResult("rig7", "refused", blocked=(Blocker("borg", ("borg",), "no repository"),)),
    ]

    *table, total = text(closing_lines(apply_rows(results), 120, RACK))
    doctor, plan = "rigops doctor -i rack.py", "rigops plan -i rack.py"
    apply, sudo = "rigops apply -i rack.py", "--ask-sudo-password"
    assert [tuple(re.split(r" {2,}", line)) for line in table] == [
        ("host", "result", "reason", "next"),
        ("rig1", "FAIL", "P2P: wrong data on 6 of 6 pairs (L1, 4 KiB)", f"{doctor} rig1"),
        ("rig7", "refused", "borg: no repository", f"{plan} rig7"),
        ("rig4", "skipped", f"sudo wants a password ({sudo})", f"{apply} {sudo} rig4"),
        ("rig5", "not reached", "Connection refused", f"{doctor} rig5"),
        ("rig3", "waits", "not rebooted: rig1", f"{apply} rig3"),
        ("rig6", "kept", "acs: no longer declared", f"{apply} --prune rig6"),
        ("rig2", "changed", "proven L5"),
    ]
    assert total == (
        "7 hosts: 1 fail, 1 refused, 1 skipped, 1 not reached, 1 waits, 1 kept, 1 changed."
    )


def test_where_all_went_well_no_table_follows() -> None:
    results = [HostResult(name, "converged") for name in ("a", "b")]

    assert closing_lines(apply_rows(results), 100, RACK) == ["2 hosts: 2 as declared."]
    assert closing_lines(apply_rows(results[:1]), 100, RACK) == []


def test_a_blocked_plan_of_one_host_does_not_send_back_to_plan() -> None:
    blocked = Blocker("acs", (), "no")
    hosts = [HostResult(name, "refused", blocked=(blocked,)) for name in ("rig1", "rig2")]

    for rows in (plan_rows, apply_rows):
        assert [row.step for row in rows(hosts[:1])] == [None]
        assert [row.step for row in rows(hosts)] == [Step("plan")] * 2


def test_of_one_host_a_plan_says_what_to_type_next() -> None:
    rows = plan_rows([HostResult("rig", plan=LIMIT)])

    assert closing_lines(rows, 80, RACK)[-1] == "Next: rigops apply -i rack.py"
    some = Again(selection=("--only", "acs,borg"))
    assert closing_lines(rows, 80, some)[-1] == "Next: rigops apply --only acs,borg rig"


def test_the_next_command_asks_for_the_password_as_this_one_did() -> None:
    asked = Again(asks_password=True)

    for result, command in (
        (HostResult("rig", plan=LIMIT), "apply"),
        (HostResult("rig", "unreachable", error=SUDO), "plan"),
    ):
        said = closing_lines(plan_rows([result]), 80, asked)[-1]
        assert said == f"Next: rigops {command} --ask-sudo-password rig"


def test_one_card_and_no_access_are_never_called_proven() -> None:
    one = HostFound(host="rig", status="ok", gpus=(GpuSeen(A, "H200"),))
    rows = apply_rows(
        [
            HostResult("one", "converged", preflight=one),
            HostResult("none", "changed", preflight=proof("not_granted", "L0", count=56)),
        ]
    )

    assert [row.reason for row in rows] == [
        "1 GPU: nothing to prove",
        "no pair has peer access (56 of 56)",
    ]


def fleet(*troubles: HostResult, well: HostResult) -> list[HostResult]:
    """24 hosts, and what was on the way to each is its own."""
    names = [f"rig{number:02}" for number in range(1, 25)]
    others = names[: 24 - len(troubles)]
    return [
        *(
            HostResult(
                name,
                well.outcome,
                well.plan,
                preflight=well.preflight,
                story=[f"{name}: 17 packages in the vault"],
                stages=[Stage("apply", float(at))],
            )
            for at, name in enumerate(others)
        ),
        *troubles,
    ]


TROUBLES = (
    HostResult("rig22", "unreachable", error=REFUSED),
    HostResult("rig23", "failed", error=HostError("failed", "disk full", "free some space")),
    HostResult("rig24", "changed", LIMIT, preflight=WRONG),
)


def test_an_apply_of_24_hosts_with_3_in_trouble_fits_50_lines() -> None:
    results = fleet(*TROUBLES, well=HostResult("", "changed", LIMIT, preflight=proof()))

    said = text(outcome_lines(results, is_brief=True))
    said += text(closing_lines(apply_rows(results), 100, RACK))

    assert len(said) <= 50
    for command in (
        "rigops doctor -i rack.py rig22",
        "rigops apply -i rack.py rig23",
        "rigops doctor -i rack.py rig24",
    ):
        assert any(line.endswith(command) for line in said), command
    assert any("rig01, rig02 and 19 more" in line for line in said)


def test_a_plan_of_24_hosts_with_3_in_trouble_fits_50_lines() -> None:
    blocked = HostResult("rig24", plan=LIMIT, blocked=(Blocker("borg", ("borg",), "no server"),))
    results = fleet(*TROUBLES[:2], blocked, well=HostResult("", plan=LIMIT))
    for result in results:
        result.notices = (f"mind {'rigs' if len(result.plan.changes) else 'others'}",)
        result.preflight_reason = "no preflight passed yet"

    said = text(plan_lines(results, 100, is_brief=True))
    assert sum("mind rigs" in line for line in said) == 1
    said += text(closing_lines(plan_rows(results), 100, RACK, total_lines(results, 100)))

    assert len(said) <= 50
    for command in (
        "rigops doctor -i rack.py rig22",
        "rigops plan -i rack.py rig23",
        "rigops plan -i rack.py rig24",
    ):
        assert any(line.endswith(command) for line in said), command


def test_a_narrow_terminal_has_the_command_below_and_whole() -> None:
    rows = apply_rows([HostResult("rig1", "changed", preflight=WRONG), HostResult("b", "changed")])

    said = text(closing_lines(rows, 60, RACK))

    assert "rigops doctor -i rack.py rig1" in [line.strip() for line in said]
    assert all(len(line) <= 60 for line in said)


def test_a_backup_of_several_hosts_names_the_first_error_of_each() -> None:
    failed = {"errors": [{"message": "data3: the server is full", "fix": "free some space"}]}
    rows = backup_rows(
        [
            HostAnswer(host="data1", status="ok", value={}),
            HostAnswer(host="data3", status="fail", value=failed),
            HostAnswer(host="rig4", error=SUDO),
            HostAnswer(host="rig5", status="fail", value={"result": "wrong"}),
        ]
    )

    said = text(closing_lines(rows, 110, Again()))

    assert [tuple(re.split(r" {2,}", line)) for line in said[1:-1]] == [
        ("data3", "FAIL", "data3: the server is full", "rigops snapshots data3"),
        ("rig5", "FAIL", "wrong", "rigops snapshots rig5"),
        (
            "rig4",
            "skipped",
            "sudo wants a password (--ask-sudo-password)",
            "rigops backup --ask-sudo-password rig4",
        ),
        ("data1", "ok", "-"),
    ]
