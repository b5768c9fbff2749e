"""A host that is lost in the middle of a change is told as lost, with what helps then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.converge.connector import HostChannel
from rigops.converge.engine import Engine
from rigops.converge.errors import DeployError
from rigops.transport import Privilege, Result, TransportError
from tests.unit.converge.fakes import FakeHost

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

COMMAND = """
from pyinfra.api.operation import operation
from pyinfra.context import host
from rigops.plan.context import housekeeping

@operation()
def noted():
    housekeeping(host, "things", "a note")
    yield "true"

noted()
"""
FACT = """
from pyinfra.context import host
from rigops.facts.sections import Uname

host.get_fact(Uname)
"""


class Gone(FakeHost):
    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes | Iterable[bytes] = b"",
        privilege: Privilege | None = None,
        deadline_s: float,
        max_output: int = 0,
    ) -> Result:
        del argv, stdin, privilege, deadline_s, max_output
        raise TransportError("lost", "rig: the connection was cut", host="rig", fix="look at it")


@pytest.mark.parametrize("deploy", [COMMAND, FACT], ids=["a command", "a fact"])
def test_a_lost_connection_is_the_trouble_that_is_told(tmp_path: Path, deploy: str) -> None:
    (tmp_path / "things.py").write_text(deploy)
    engine = Engine({"rig": {}})
    engine.attach("rig", HostChannel(Gone(), Privilege("root")), [])

    with pytest.raises(TransportError, match="cut") as lost:
        engine.apply("rig", [tmp_path / "things.py"])

    assert lost.value.kind == "lost"
    assert lost.value.problems[0].fix == "look at it"


def test_a_command_that_only_fails_is_no_lost_host(tmp_path: Path) -> None:
    (tmp_path / "things.py").write_text(COMMAND)
    engine = Engine({"rig": {}})
    engine.attach("rig", HostChannel(FakeHost(exit_code=1, stderr=b"no"), Privilege("root")), [])

    with pytest.raises(DeployError, match="no"):
        engine.apply("rig", [tmp_path / "things.py"])
