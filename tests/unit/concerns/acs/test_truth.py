"""Plan asks a program on the host, doctor reads lspci: what they say to do of ACS is the same.

The program prints the same words as lspci's ACSCtl has.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pytest

from rigops.concerns.acs import decide, facts
from tests.unit.doctor.examining import spec
from tests.unit.doctor.pcie_rigs import BOOT, NO_REDIRECTION, ROOT_PORTS, look

if TYPE_CHECKING:
    from collections.abc import Mapping

OFF: Final = {"acs_redirect": "off"}
LOCKED: Final = "== /sys/kernel/security/lockdown\nnone [integrity] confidentiality\n"
BITS: Final = ("SrcValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl")
PORTS: Final = ("0000:40:01.1", "0000:60:03.1")
ONE_REDIRECTS: Final = re.sub(r"(ACSCtl:.*)ReqRedir-", r"\1ReqRedir+", NO_REDIRECTION, count=1)
EGRESS: Final = re.sub(r"(ACSCtl:.*)EgressCtrl-", r"\1EgressCtrl+", NO_REDIRECTION, count=1)


@dataclass(frozen=True)
class Row:
    plan: str
    doctor: str
    lspci: str = ROOT_PORTS
    declared: Mapping[str, object] = field(default_factory=lambda: OFF)
    is_locked_down: bool = False
    machine: str = "none"
    is_readable: bool = True


ROWS: Final = {
    "every port redirects": Row("change", "fail, fix: apply"),
    "one port redirects requests only": Row("change", "fail, fix: apply", ONE_REDIRECTS),
    "one port has egress control": Row("change", "fail, fix: apply", EGRESS),
    "no port redirects": Row("no change", "ok", NO_REDIRECTION),
    "the kernel is locked down": Row("blocked", "fail, fix: hands", is_locked_down=True),
    "the kernel is locked down, and nothing is to do": Row(
        "no change", "ok", NO_REDIRECTION, is_locked_down=True
    ),
    "a virtual machine": Row("blocked", "unknown", machine="kvm"),
    "ports that cannot be read": Row("blocked", "unknown", is_readable=False),
    "redirection is declared": Row(
        "no change", "ok", NO_REDIRECTION, {"acs_redirect": "keep"}
    ),
}  # fmt: skip


def by_plan(row: Row) -> str:
    controls = re.findall(r"ACSCtl:(.*)", row.lspci)[: len(PORTS)]
    words = [
        sum(1 << at for at, name in enumerate(BITS) if f"{name}+" in control)
        for control in controls
    ]
    shown = [f"{word:04x}" if row.is_readable else "unreadable" for word in words]
    ports = "".join(f"port {at} {word}\n" for at, word in zip(PORTS, shown, strict=True))
    found = facts.parse(f"gpus 2\n{ports}{'lockdown' if row.is_locked_down else ''}\n")
    if row.declared != OFF:
        return "change" if found.to_restore else "no change"
    if decide.blocker(found, row.machine if row.machine != "none" else ""):
        return "blocked"
    return "change" if found.redirecting else "no change"


def by_doctor(row: Row) -> str:
    lspci = (
        row.lspci
        if row.is_readable
        else re.sub(
            r"\tCapabilities: \[2a0.*\n.*\n.*\n", "\tCapabilities: <access denied>\n", row.lspci
        )
    )
    found = look(
        "acs.path",
        spec(**row.declared),
        lspci=lspci,
        boot=BOOT.replace("\nnone\n", f"\n{row.machine}\n"),
        secure_boot=LOCKED if row.is_locked_down else LOCKED.replace("[", "").replace("]", ""),
    )
    return f"{found.status}, fix: {found.fix.kind}" if found.fix else found.status


@pytest.mark.parametrize("name", ROWS)
def test_plan_and_doctor_agree(name: str) -> None:
    row = ROWS[name]

    assert (by_plan(row), by_doctor(row)) == (row.plan, row.doctor)
