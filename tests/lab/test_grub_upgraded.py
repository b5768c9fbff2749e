"""GRUB that reads /etc/default/grub alone, until an upgrade brings one that reads drop-ins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.lab import hosts
from tests.lab.applying import DROP_IN, MENU
from tests.lab.laptop import Laptop
from tests.lab.tended import Tended
from tests.shards import LAB_CONCERNS

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.shard(LAB_CONCERNS)

NAME: Final = "grub-upgraded"
DEFAULTS: Final = "cat /etc/default/grub"
GENERATOR: Final = "/usr/sbin/grub-mkconfig"
OLDER: Final = f"cp {GENERATOR} /root && sed -i s,/default/grub.d/,/default/none.d/, {GENERATOR}"
UPGRADED: Final = f"cp /root/grub-mkconfig {GENERATOR}"
FIRST: Final = ["iommu=pt"]
BOTH: Final = ["iommu=pt", "pcie_port_pm=off"]


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tended]:
    with hosts.running([f"threadripper-3x3090={NAME}"]) as (host,):
        rig = Tended(Laptop(tmp_path_factory.mktemp("laptop")), host)
        rig.does(OLDER)
        yield rig


@pytest.fixture(scope="module")
def before(rig: Tended) -> str:
    return rig.does(DEFAULTS)


def have(rig: Tended, arguments: list[str]) -> None:
    """Apply converges, and plan and doctor agree with it."""
    done = rig.apply(0, "--reboot", "auto", kernel_args=arguments, kernel_trial="off")
    assert done["outcome"] == "changed"
    assert_settled(rig, arguments)


def assert_settled(rig: Tended, arguments: list[str]) -> None:
    assert rig.plan(kernel_args=arguments, kernel_trial="off")["changes"] == []
    found = rig.finding("cmdline.drift", kernel_args=arguments)
    assert found["status"] == ("ok" if arguments else "skipped")
    menu, running = rig.does(f"cat {MENU}"), rig.does("cat /proc/cmdline")
    assert [one for one in BOTH if one in menu and one in running] == arguments


def test_words_of_rigops_stay_its_own_in_grubs_file_when_grub_reads_drop_ins_since(
    rig: Tended, before: str
) -> None:
    have(rig, FIRST)
    assert "iommu=pt" in rig.does(DEFAULTS)

    rig.does(UPGRADED)
    assert_settled(rig, FIRST)

    have(rig, BOTH)
    assert "iommu=pt" in rig.does(DEFAULTS)
    assert "pcie_port_pm=off" in rig.does(f"cat {DROP_IN}")
    assert "iommu" not in rig.does(f"cat {DROP_IN}")

    have(rig, [])
    assert rig.does(DEFAULTS) == before
    assert rig.host.run(f"ls {DROP_IN}").returncode != 0
