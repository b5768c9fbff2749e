"""Ten screens that misled new users are as they were recorded, compared by their facts."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import pytest
from click.testing import CliRunner

import rigops.hosts.access
from rigops.cli import consent
from rigops.cli.consent import ConsentScreen
from rigops.cli.init import command as init
from rigops.cli.terminal import Progress
from rigops.concerns.borg.host.borg_meanings import BorgError, BorgMessage
from rigops.concerns.gpu_tuning import decide, record
from rigops.concerns.registry import read
from rigops.converge.errors import NoRootError, host_error
from rigops.converge.flow import Question, Reboot
from rigops.converge.result import Blocker, HostResult, Override
from rigops.doctor.host_report import HostReport
from rigops.hosts.engines import HostAnswer
from rigops.plan.change import Change, Plan
from rigops.preflight.run import prove
from rigops.report.apply import outcome_lines
from rigops.report.closing import Again, closing_lines
from rigops.report.doctor import NextSteps, doctor_lines
from rigops.report.host_rows import apply_rows, backup_rows, plan_rows
from rigops.report.plan import plan_lines
from rigops.report.preflight import preflight_lines, preflight_rows
from rigops.report.snapshots import backup_lines
from rigops.report.terminal import rendered, visible
from tests.unit.cli.test_doctor import Rig
from tests.unit.cli.test_host_drivers import TEXTS
from tests.unit.concerns.gpu_tuning.test_decide import GEFORCE, tuned
from tests.unit.doctor.examining import look
from tests.unit.doctor.test_rigops_records import DECLARED, answer, trace
from tests.unit.doctor.test_rigops_records import TEXTS as RECORDS
from tests.unit.preflight.hosts import GRANTED, FakeHost, collectives, pair, said
from tests.unit.probe import answers
from tests.unit.test_screens import ROOT, screens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rigops.preflight.found import HostFound

RECORDED: Final = dict(screens(ROOT / "tests/fixtures/screens/ten.md"))
WIDTH: Final = 100
LINES: Final = 16
_ENDS: Final = ",.:;?()`"
_IS_FACT: Final = re.compile(r"[0-9/\"_@]|--|->")
_FACT: Final = re.compile(
    r"""
    rigops\s[a-z]+(?:\ (?:--?[a-z-]+|[a-z]+[0-9]+\b))*       # a command with options and hosts
    | restrict,command=.*\S                                  # a line of authorized_keys
    | "\w+":\s(?:"[^"]*"|\[[^]]*\]|\{[^}]*\}|[0-9.]+)        # a declaration
    | "[^"]*"
    | [0-9.]+\s\S+\s->\s[0-9.]+\s\S+                         # a value and what becomes of it
    | \b[0-9.]+\s(?:of\s[0-9]+|[GKM]i?B(?:/s)?|W|cards?)(?=\W|$)
    | --[a-z-]+
    | [\w.:/@~-]*[0-9/@_](?:[\w.:/@~-]*\w)?                  # hosts, addresses, keys, paths
    | group\s[\w-]+
    """,
    re.VERBOSE,
)
_VERDICT: Final = re.compile(
    r"\b(no longer declared|wrong data|peer access|host memory|in place|look into|slower|bad"
    r"|failed|fail|ok|warn|skipped|unknown|blocked|proven|not|no)\b"
)
_SECONDS: Final = re.compile(r" \([0-9.]+ s\)")


def facts(screen: str) -> set[str]:
    """Hosts, values with units, addresses, keys, paths, commands and verdicts, without the rest."""
    text = "\n".join(" ".join(line.split()) for line in _SECONDS.sub("", screen).splitlines())
    verdicts = _VERDICT.findall(" ".join(text.lower().split()))
    return {*(" ".join(one.split()) for one in _FACT.findall(text)), *verdicts}


def told(lines: Iterable[str]) -> str:
    return "\n".join(rendered(visible(line), color=False) for line in lines) + "\n"


def suggestions() -> str:
    """Of two 3090 with a driver that hangs."""
    return CliRunner().invoke(init, ["--host", "rig1"]).stderr


def failed_proof() -> str:
    """All pairs have wrong data after the settings were changed."""
    cards = [f"0000:{at}:00.0" for at in ("0a", "0b", "41")]
    pairs = [(one, other) for one in cards for other in cards if one != other]
    evidence = ["4 KiB: 3 of 3 wrong: 1 of 1 pages bad"]
    gpus = [{"address": one, "name": "RTX 3090"} for one in cards]
    granted = said(*(pair(*both, "skipped") for both in pairs), gpus=gpus, topology="")
    wrong = said(
        *(pair(*both, "wrong_data", evidence=evidence) for both in pairs), gpus=gpus, topology=""
    )
    found = prove("rig1", FakeHost([granted, wrong]), None, level="p2p")
    done = Plan(
        headlines=(("gpu_tuning", "power limit 350 W -> 285 W on 3 cards"),),
        changes=(Change("gpu_tuning", "setting", "power limit", "350 W", "285 W"),),
    )
    result = HostResult("rig1", "changed", done, preflight=found)
    assert result.exit_code == 1
    return told([*outcome_lines([result]), *closing_lines(apply_rows([result]), WIDTH, Again())])


def consent_asked() -> str:
    """Of a second machine whose inventory has no limit any more."""
    cards = [f"0000:{at}:00.0" for at in ("06", "07", "84", "85")]
    one = {"setting": "power", "value": "240", "was": "300.00"}
    text = json.dumps(
        {
            "schema": "rigops.gpu_tuning/1",
            "boot_id": "boot",
            "settings": [{"card": card, "address": card, **one} for card in cards],
        }
    )
    judged = decide.judged((), (), {record.PATH: text}, "boot")
    plan = Plan(
        headlines=tuple(("gpu_tuning", line) for line in decide.headlines(judged)),
        changes=(Change("gpu_tuning", "file", "/etc/rigops/gpu_tuning", "a\n", "b\n"),),
    )
    whose = Override("gpu_power_limit", 240, "me@desktop", "2026-11-20T10:00:00Z")
    screen = ConsentScreen(Progress("applying"), has_changes=False)

    @click.command()
    def asked() -> None:
        screen.show([HostResult("rig2", plan=plan, overrides=(whose,))])
        screen.ask(Question("change rig2", Reboot((), "ask"), (), is_confirmed=False))

    return rendered(CliRunner().invoke(asked, input="n\n").stderr, color=False)


def unrecorded_key() -> str:
    text = answer(RECORDS) + trace("/etc/rigops/borg_key").replace("made", "there", 1)
    declared, concerns = read({"borg": DECLARED["borg"]}), frozenset({"borg"})
    found = look("rigops.records", declared, concerns=concerns, rigops_state=text)
    report = HostReport(
        host="data3", source="ssh", collected_at=None, duration_ms=1, findings=(found,)
    )
    return told(doctor_lines([report], WIDTH, NextSteps(Again())))


def refused_key() -> str:
    refused = BorgMessage("ERROR", "", "rig@nas: Permission denied (publickey).")
    key = "ssh-ed25519 AAAAC3Nz rigops@data3"
    error = BorgError("ssh://rig@nas:2222/backups/data3", [refused], 2, key)
    done = {"errors": [{"message": error.message, "fix": error.fix}]}
    rows = backup_rows([HostAnswer(host="data3", status="fail", value=done)])
    return told(
        [
            *backup_lines("data3", done, WIDTH, dry_run=False),  # type: ignore[arg-type]  # of its errors alone
            *closing_lines(rows, WIDTH, Again()),
        ]
    )


def proofs(*found: HostFound) -> str:
    """As preflight prints them."""
    lines = preflight_lines(found, WIDTH)
    return told([*lines, *closing_lines(preflight_rows(found), WIDTH, Again())])


def unread_log() -> str:
    around = {
        **dict.fromkeys(("changes", "links", "functions", "kernel_log"), ()),
        "smi": ["", ""],
        "unread": ["the kernel log (journalctl: exit code 1)"],
    }
    copied = said(
        pair("0000:0a:00.0", "0000:0b:00.0", "ok", gb_per_s=12.9),
        pair("0000:0b:00.0", "0000:0a:00.0", "ok", gb_per_s=12.8),
        meanwhile=around,
    )
    return proofs(prove("rig1", FakeHost([GRANTED, copied]), None, level="p2p"))


def collectives_proven() -> str:
    """Of one host without peer access, and of one whose copies take a detour over NVLink."""
    both = ("0000:0a:00.0", "0000:0b:00.0")
    ways = (both, both[::-1])
    none = [pair(*way, "not_granted") for way in ways]
    staged = collectives("proven", p2p_gb_per_s=0.9, control_gb_per_s=0.9)
    slow = collectives("proven", p2p_gb_per_s=1.2, control_gb_per_s=1.6)
    copied = [pair(*way, "ok", gb_per_s=22.1) for way in ways]
    refused = FakeHost([said(*none), said(*none, collectives=staged)])
    granted = FakeHost([GRANTED, said(*copied, collectives=slow)])
    return proofs(
        prove("rig2", refused, None, level="p2p"), prove("rig3", granted, None, level="p2p")
    )


def without_sudo() -> str:
    error = host_error(NoRootError("rig4", "sudo: a password is required"))
    results = [HostResult("rig3", "converged"), HostResult("rig4", "unreachable", error=error)]
    closing = closing_lines(apply_rows(results), WIDTH, Again(is_whole=True))
    return told([*outcome_lines(results), "", *closing])


def wrong_model() -> str:
    cards = [replace(GEFORCE, address=f"0000:{at}:00.0", uuid=None) for at in ("0a", "42", "43")]
    reasons = tuned(*cards, gpu_power_limit={"3080": 285}).blockers
    blocked = tuple(Blocker("gpu_tuning", ("gpu_power_limit",), one) for one in reasons)
    results = [HostResult("rig1", blocked=blocked)]
    return told([*plan_lines(results, WIDTH), *closing_lines(plan_rows(results), WIDTH, Again())])


def eight_without_access() -> str:
    cards = [{"address": f"0000:{at}0:00.0", "name": "RTX 3090"} for at in range(1, 9)]
    addresses = [one["address"] for one in cards]
    pairs = [
        pair(one, other, "not_granted", evidence=[f"{one} may not read {other}"])
        for one in addresses
        for other in addresses
        if one != other
    ]
    refused = said(*pairs, gpus=cards, topology="")
    return proofs(prove("rig8", FakeHost([refused] * 2), None, level="p2p"))


SCREENS: Final[Mapping[str, Callable[[], str]]] = {
    "rigops init --host rig1": suggestions,
    "rigops apply rig1": failed_proof,
    "rigops apply rig2": consent_asked,
    "rigops doctor data3": unrecorded_key,
    "rigops backup data3": refused_key,
    "rigops preflight rig1": unread_log,
    "rigops preflight rig2 rig3": collectives_proven,
    "rigops apply": without_sudo,
    "rigops plan rig1": wrong_model,
    "rigops preflight rig8": eight_without_access,
}
# On 760e320, as their readers wrote them down.
BEFORE: Final[Mapping[str, str]] = {
    "rigops init --host rig1": "4 suggestions in comments. Next: rigops plan",
    "rigops apply rig1": "rig1 changed, now as declared (23.4 s)\nPeer-to-peer is not proven.",
    "rigops apply rig2": "settings of 4 GPUs\nChange rig2? [y/N]",
    "rigops doctor data3": "/etc/rigops/borg_key lies where rigops writes. fix: remove it",
    "rigops backup data3": (
        "the server refuses this host's key. "
        "fix: add /etc/rigops/borg_key.pub to its authorized_keys"
    ),
    "rigops preflight rig1": (
        "not compared before and after the copies: the kernel log (journalctl: exit code 1)"
    ),
    "rigops preflight rig2 rig3": (
        "proven, 0.9 GB/s with P2P, 0.9 GB/s without P2P\n1.2 GB/s with P2P, 1.6 GB/s without P2P"
    ),
    "rigops apply": "rig4 not reached: rig4: sudo wants a password",
    "rigops plan rig1": (
        "3080: fix: name one of GPU 0000:0a:00.0 (NVIDIA GeForce RTX 3090) GPU-cb8c, "
        "GPU 0000:42:00.0 (NVIDIA GeForce RTX 3090) GPU-93d1"
    ),
    "rigops preflight rig8": "rig8  ok\n" + "not granted  " * 56,
}


@pytest.fixture(autouse=True)
def quiet_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A terminal, an empty folder, and a host for init."""
    texts = {**TEXTS, **answers.BROKEN}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rigops.hosts.access, "connect", lambda to, **_: Rig(to.name, texts))
    monkeypatch.setattr(consent, "has_terminal", lambda: True)
    monkeypatch.setattr(consent, "text_width", lambda _: WIDTH)


@pytest.mark.parametrize("command", SCREENS)
def test_a_screen_has_the_facts_of_the_recorded_one(command: str) -> None:
    screen = SCREENS[command]()

    assert facts(screen) == facts(RECORDED[command]), screen
    assert facts(BEFORE[command]) != facts(RECORDED[command])
    assert len(screen.splitlines()) <= LINES


def test_each_fact_counts_and_the_words_between_do_not() -> None:
    assert RECORDED.keys() == SCREENS.keys() == BEFORE.keys()
    for command, recorded in RECORDED.items():
        screen = _SECONDS.sub("", recorded)
        for dropped in {one.strip(_ENDS) for one in screen.split() if _IS_FACT.search(one)}:
            left = re.sub(rf"(?<!\S)[{_ENDS}]*{re.escape(dropped)}[{_ENDS}]*(?!\S)", "", screen)
            assert facts(left) != facts(screen), (command, dropped)
        reworded = re.sub(r"\b(the|this|is|and)\b", r"\1 truly", screen)
        assert facts(reworded) == facts(screen), command


def test_a_value_that_becomes_another_and_a_command_of_another_host_are_other_facts() -> None:
    consent_, doctor = RECORDED["rigops apply rig2"], RECORDED["rigops apply rig1"]

    assert facts(consent_.replace("240 W -> 300 W", "300 W -> 240 W")) != facts(consent_)
    assert facts(doctor.replace("doctor rig1", "doctor rig2")) != facts(doctor)
    assert facts(doctor.replace("6 of 6", "1 of 6")) != facts(doctor)
    assert facts(doctor.replace("FAILED", "passed")) != facts(doctor)
