"""Going back to the configuration that was declared before, on a booted host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.lab import hosts
from tests.lab.applying import INVENTORY, QUIETLY, only
from tests.lab.laptop import Laptop
from tests.lab.tended import Tended
from tests.shards import LAB_CONCERNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

pytestmark = pytest.mark.shard(LAB_CONCERNS)

NAME: Final = "config-rollback"
NCCL: Final = "cat /etc/nccl.conf"
LOGIND: Final = "grep -rs RemoveIPC=no /etc/systemd/logind.conf.d || true"
FIRST: Final = {"NCCL_P2P_LEVEL": "SYS"}


class Rig(Tended):
    def apply_and_prove(self, **declared: object) -> None:
        self.declare(**declared)
        said = self.laptop.rigops("apply", "--yes", "--json", *INVENTORY)
        assert said.code == 0, said.out + said.err

    def go_back(self, code: int = 0) -> Mapping[str, Any]:
        said = self.laptop.rigops(
            "rollback", NAME, "--what", "config", "--yes", "--reboot", "never", "--json", *INVENTORY
        )
        assert said.code == code, said.out + said.err
        return only(said)


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with hosts.running([f"nvlink-2x3090={NAME}"]) as (host,):
        yield Rig(Laptop(tmp_path_factory.mktemp("laptop")), host)


def test_without_an_earlier_one_it_is_said(rig: Rig) -> None:
    rig.apply_and_prove(nccl=FIRST)

    said = rig.laptop.rigops("rollback", NAME, "--what", "config", "--yes", *INVENTORY)

    assert said.code == 1
    assert "no earlier configuration that worked is recorded there" in said.err


def test_owned_files_are_as_declared_before_and_the_lines_to_change_are_named(rig: Rig) -> None:
    rig.apply_and_prove(nccl={"NCCL_P2P_LEVEL": "PHB"}, limits={"removeipc": False})
    assert rig.does(LOGIND)

    host = rig.go_back()

    assert host["outcome"] == "changed", host
    assert "NCCL_P2P_LEVEL=SYS" in rig.does(NCCL)
    assert rig.does(LOGIND) == ""
    assert host["story"] == [
        'remove "limits" from the inventory',
        'write "nccl": {"NCCL_P2P_LEVEL": "SYS"}, in the inventory',
    ]


def test_what_never_worked_is_not_gone_back_to(rig: Rig) -> None:
    rig.declare(nccl={"NCCL_P2P_LEVEL": "SYS"}, limits={"memlock": "1T"})
    rig.laptop.rigops("apply", "--json", *QUIETLY)  # blocked: no container can raise it
    rig.declare(nccl=FIRST)

    assert rig.go_back()["outcome"] == "changed"

    assert "NCCL_P2P_LEVEL=PHB" in rig.does(NCCL)
    assert rig.does(LOGIND)
