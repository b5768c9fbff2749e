"""Plan asks a program on the host, doctor reads lspci: what they say to do of ACS is the same.

The program prints the same words as lspci's ACSCtl has.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as some

from rigops.concerns.acs import operations
from rigops.concerns.acs.operations import Acs
from rigops.concerns.state import REFUSED
from rigops.doctor.registry import examine
from rigops.facts.sections import Boot, RigopsState
from rigops.ownership.ownership import OwnedFile, Ownership
from rigops.probe.bundle import Bundle, Collected
from rigops.probe.sections import boot, rigops_state
from rigops.probe.snapshot import HostSnapshot
from tests.unit.concerns import asked
from tests.unit.concerns.asked import BOOT
from tests.unit.doctor.examining import catalog, check_of, snapshot_of, spec
from tests.unit.doctor.pcie_rigs import HEALTHY, ROOT_PORTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rigops.doctor.finding import Finding
    from rigops.plan.change import Change

OFF: Final = {"acs_redirect": "off"}
KEEP: Final = {"acs_redirect": "keep"}
LOCKDOWNS: Final = ("none", "integrity", "confidentiality")
NO_ACS: Final = -1
BITS: Final = ("SrcValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl")
PORTS: Final = ("0000:40:01.1", "0000:60:03.1")
ALL: Final = 0x1D  # as Linux sets them where there is an IOMMU
CLEAR: Final = 0x11


@dataclass(frozen=True)
class Row:
    """`words`: of the ports; None: unreadable. `was`: before rigops cleared them, in `boot_id`."""

    plan: str
    doctor: str
    words: tuple[int | None, int | None] = (ALL, ALL)
    declared: Mapping[str, object] = field(default_factory=lambda: OFF)
    lockdown: str = "none"
    machine: str = "none"
    was: Mapping[str, int] = field(default_factory=dict)
    boot_id: str = BOOT

    @property
    def boot(self) -> boot.Boot:
        return boot.Boot(boot_id=BOOT, virtualization=self.machine)

    @property
    def state(self) -> rigops_state.RigopsState:
        """A host with a record of what was cleared has the program."""
        if not self.was:
            return rigops_state.RigopsState()
        file = OwnedFile(path=operations.PROGRAM, concern="acs", digest="0" * 64, mode=0o755)
        ports = [{"address": port, "word": f"{word:04x}"} for port, word in self.was.items()]
        record = {"schema": "rigops.acs/1", "boot_id": self.boot_id, "ports": ports}
        return rigops_state.RigopsState(
            owned=Ownership({file.path: file}).to_json(),
            records={"/var/lib/rigops/acs.json": json.dumps(record)},
        )

    @property
    def shown(self) -> str:
        """As the program prints it."""
        ports = "".join(
            f"port {at} {_shown(word)}"
            f"{f' {self.was[at]:04x}' if at in self.was and self.boot_id == BOOT else ''}\n"
            for at, word in zip(PORTS, self.words, strict=True)
        )
        return f"gpus 2\n{ports}{'' if self.lockdown == 'none' else 'lockdown'}\n"

    @property
    def lspci(self) -> str:
        blocks = ROOT_PORTS.split("\n\n")
        for address, word in zip(PORTS, self.words, strict=True):
            at = next(i for i, one in enumerate(blocks) if one.startswith(address))
            bits = " ".join(
                f"{name}{'+' if (word or 0) >> bit & 1 else '-'}" for bit, name in enumerate(BITS)
            )
            blocks[at] = re.sub("ACSCtl:.*", f"ACSCtl:\t{bits} DirectTrans-", blocks[at])
            if word in {None, NO_ACS}:
                left = "\tCapabilities: <access denied>\n" if word is None else ""
                blocks[at] = re.sub(r"\tCapabilities: \[2a0.*\n.*\n.*\n", left, blocks[at])
        return "\n\n".join(blocks)


def _shown(word: int | None) -> str:
    if word is None:
        return "unreadable"
    return "none" if word == NO_ACS else f"{word:04x}"


ROWS: Final = {
    "every port redirects": Row("change", "fail, fix: apply"),
    "one port redirects requests only": Row("change", "fail, fix: apply", (0x15, CLEAR)),
    "one port redirects completions only": Row("change", "fail, fix: apply", (0x19, CLEAR)),
    "one port has egress control": Row("change", "fail, fix: apply", (0x31, CLEAR)),
    "no port redirects": Row("no change", "ok", (CLEAR, CLEAR)),
    "other bits alone": Row("no change", "ok", (0x53 & 0x3F, 0)),
    "one port redirects, and another one has no ACS": Row(
        "change", "fail, fix: apply", (ALL, NO_ACS)
    ),
    "no port has ACS": Row("no change", "ok", (NO_ACS, NO_ACS)),
    "the kernel is locked down": Row("blocked", "fail, fix: hands", lockdown="integrity"),
    "the kernel is locked down, for reading too": Row(
        "blocked", "fail, fix: hands", lockdown="confidentiality"
    ),
    "the kernel is locked down, and nothing is to do": Row(
        "no change", "ok", (CLEAR, CLEAR), lockdown="integrity"
    ),
    "a virtual machine": Row("blocked", "unknown", machine="kvm"),
    "ports that cannot be read": Row("blocked", "unknown", (None, None)),
    "one port redirects, and another one cannot be read": Row(
        "blocked", "fail, fix: hands", (ALL, None)
    ),
    "redirection is declared": Row("no change", "ok", (CLEAR, CLEAR), KEEP),
    "redirection is declared, and rigops has cleared a port": Row(
        "change", "warn, fix: apply undoes it", (CLEAR, CLEAR), KEEP, was={PORTS[0]: ALL}
    ),
    "redirection is declared, and rigops has cleared a port in another boot": Row(
        "no change", "ok", (CLEAR, CLEAR), KEEP, was={PORTS[0]: ALL}, boot_id="another"
    ),
    "redirection is declared, and only other bits are not as they were": Row(
        "no change", "ok", (0, CLEAR), KEEP, was={PORTS[0]: CLEAR}
    ),
    "redirection is declared, and back by itself": Row(
        "no change", "fail", (ALL, ALL), KEEP, was={PORTS[0]: ALL}
    ),
    "what was cleared is no longer declared": Row(
        "no change", "ok", (CLEAR, CLEAR), {}, was={PORTS[0]: ALL}
    ),
}


def changes(row: Row, patch: pytest.MonkeyPatch) -> list[Change] | None:
    """What the operations announce. None: blocked."""
    facts: asked.Facts = {RigopsState: row.state, Boot: row.boot, Acs: operations.parse(row.shown)}
    asked.collected(patch, operations, facts)
    redirect: Any = row.declared.get("acs_redirect")
    if any(state.status == REFUSED for state in operations._judged(redirect)):
        return None
    undone = {} if redirect == "off" else {"declared": redirect is not None}
    settings = operations._settings("off" if redirect == "off" else None)
    return asked.announced(patch, settings, **undone)


def finding(row: Row) -> Finding:
    modes = " ".join(f"[{one}]" if one == row.lockdown else one for one in LOCKDOWNS)
    lockdown = f"== /sys/kernel/security/lockdown\n{modes}\n"
    texts = {**HEALTHY, "lspci": row.lspci, "secure-boot": lockdown}
    sections = {name: Collected(text, root=True) for name, text in texts.items()}
    collected = HostSnapshot(Bundle("rig", None, root=True, sections=sections))
    snapshot = snapshot_of(collected, rigops_state=row.state, boot=row.boot)
    (found,) = examine(
        snapshot, spec(**row.declared), catalog(), checks=(check_of("acs.path"),),
        concerns=frozenset({"acs"}),
    )  # fmt: skip
    return found


def by_doctor(row: Row) -> str:
    """The advice to declare something else is none about the present declaration."""
    found = finding(row)
    is_one = found.fix and (found.fix.is_declared or not found.fix.by_apply)
    return asked.by_doctor(found) if is_one else found.status


@pytest.mark.parametrize("name", ROWS)
def test_plan_and_doctor_agree(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    row = ROWS[name]

    assert (asked.by_plan(changes(row, monkeypatch)), by_doctor(row)) == (row.plan, row.doctor)


# ---- what doctor says that apply does, apply does

_WORD: Final = some.sampled_from([None, NO_ACS, 0, CLEAR, 0x15, 0x19, ALL, 0x31, 0x3F])


@given(
    some.sampled_from([OFF, KEEP, {}]),
    some.tuples(_WORD, _WORD),
    some.dictionaries(some.sampled_from(PORTS), some.sampled_from([CLEAR, ALL, 0x31])),
    some.sampled_from(LOCKDOWNS),
    some.sampled_from(["none", "kvm", "systemd-nspawn"]),
)
def test_doctor_says_apply_if_and_only_if_plan_has_a_change(
    declared: dict[str, object],
    words: tuple[int | None, int | None],
    was: dict[str, int],
    lockdown: str,
    machine: str,
) -> None:
    row = Row("", "", words, declared, lockdown, machine, was)
    with pytest.MonkeyPatch.context() as patch:
        found = changes(row, patch)

    fix = finding(row).fix

    assert bool(fix and fix.by_apply and fix.is_declared) == bool(found)
