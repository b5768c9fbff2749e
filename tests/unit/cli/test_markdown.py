"""doctor --markdown: no name of a person or a machine leaves it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import rigops.hosts.access as seen
from tests.unit.cli.test_doctor import Rig
from tests.unit.probe import answers

if TYPE_CHECKING:
    from rigops.transport import Target
    from tests.unit.cli.conftest import Rigops

XID = (
    "== journalctl -k -b\n2026-01-30T17:01:40.000000+0000 secretbox kernel: NVRM: Xid "
    "(PCI:0000:0a:00): 31, pid=7, name=train of alice, MMU Fault at 10.20.30.40\n"
)
UNAME = answers.UNAME.replace("Linux rig ", "Linux secretbox.example.org ")


@pytest.fixture(autouse=True)
def rigs(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(target: Target, **_: object) -> Rig:
        return Rig(target.name, {**answers.BROKEN, "uname": UNAME, "kernel-log": XID})

    monkeypatch.setattr(seen, "connect", connect)


def test_names_of_hosts_and_addresses_are_replaced(rigops: Rigops) -> None:
    said = rigops("doctor", "threadripper", "--markdown")

    assert said.code == 1
    assert "`xid`" in said.out
    assert "MMU Fault at" in said.out
    assert said.out.startswith("### host-1: FAIL")
    for name in ("threadripper", "secretbox", "example.org", "10.20.30.40"):
        assert name not in said.out


def test_hosts_on_the_same_circuit_are_not_named(rigops: Rigops) -> None:
    Path("inventory.py").write_text(
        'FEED = {"psus": [{"watts": 1500, "host": True, "gpus": ["0000:0a:00.0"], '
        '"circuit": "A"}], "circuits": {"A": "120V/15A"}}\n'
        'rigs = [("threadripper", FEED), ("basement", FEED)]\n'
    )

    plain = rigops("doctor", "threadripper", "-v")
    said = rigops("doctor", "threadripper", "--markdown")

    assert "basement" in plain.out
    assert "basement" not in said.out


def test_it_is_one_document(rigops: Rigops) -> None:
    said = rigops("doctor", "threadripper", "--markdown", "--json")

    assert said.code == 2
    assert "--markdown" in said.out
