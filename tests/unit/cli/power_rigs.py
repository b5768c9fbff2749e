"""Rigs as the probe of `rigops power` would have them, in texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import rigops.hosts.access as command
from rigops.transport import TransportError
from tests.unit.cli.test_doctor import Rig

if TYPE_CHECKING:
    from rigops.transport import Target

RTX3090 = ("NVIDIA GeForce RTX 3090", "2204", "350.00 W", "100.00 W", "366.00 W")
V100 = ("Tesla V100-SXM2-16GB", "1db1", "300.00 W", "150.00 W", "300.00 W")
RTX3060 = ("NVIDIA GeForce RTX 3060", "2504", "170.00 W", "100.00 W", "170.00 W")
GTX1060 = ("NVIDIA GeForce GTX 1060 6GB", "1c03", "120.00 W", "60.00 W", "140.00 W")
LAPTOP = ("NVIDIA GeForce RTX 3090", "2204", "N/A", "N/A", "N/A")
UPS = "== upsc myups@localhost\nups.load: 31\nups.realpower: {}\nups.status: OL\n"

Card = tuple[tuple[str, ...], str, str, str]


def card(
    model: tuple[str, ...], address: str, limit: str | None = None, draw: str = "21.00 W"
) -> Card:
    """`limit`: the one in force, where that is not the default."""
    return model, address, limit or model[2], draw


def texts(*cards: Card, ups: str = "") -> dict[str, str]:
    return {"pci": _pci(cards), "nvidia-smi-xml": _smi(cards), "ups": ups}


def _pci(cards: tuple[Card, ...]) -> str:
    return "".join(
        f"{address} vendor=0x10de device=0x{model[1]} class=0x030000 rev=a1 driver=nvidia "
        f"link=8.0,16 max=8.0,16 numa=0 bar1=268435456 "
        f"path=/sys/devices/pci0000:00/0000:00:01.0/{address}\n"
        for model, address, _, _ in cards
    )


def _smi(cards: tuple[Card, ...]) -> str:
    gpus = "".join(
        f"""\
\t<gpu id="0000{address.upper()}">
\t\t<product_name>{model[0]}</product_name>
\t\t<uuid>GPU-00000000-0000-0000-0000-0000000000{address[5:7]}</uuid>
\t\t<clocks_event_reasons>
\t\t\t<clocks_event_reason_gpu_idle>Active</clocks_event_reason_gpu_idle>
\t\t</clocks_event_reasons>
\t\t<utilization>
\t\t\t<gpu_util>0 %</gpu_util>
\t\t</utilization>
\t\t<gpu_power_readings>
\t\t\t<power_draw>{draw}</power_draw>
\t\t\t<current_power_limit>{limit}</current_power_limit>
\t\t\t<requested_power_limit>{limit}</requested_power_limit>
\t\t\t<default_power_limit>{model[2]}</default_power_limit>
\t\t\t<min_power_limit>{model[3]}</min_power_limit>
\t\t\t<max_power_limit>{model[4]}</max_power_limit>
\t\t</gpu_power_readings>
\t</gpu>
"""
        for model, address, limit, draw in cards
    )
    return f"""\
<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
\t<driver_version>535.261.03</driver_version>
\t<attached_gpus>{len(cards)}</attached_gpus>
{gpus}</nvidia_smi_log>
"""


THREADRIPPER = (
    card(RTX3090, "0000:0a:00.0"),
    card(RTX3090, "0000:42:00.0"),
    card(RTX3090, "0000:43:00.0"),
)
T180 = tuple(card(V100, f"0000:{bus}:00.0", draw="40.00 W") for bus in ("04", "05", "08", "09"))
DESKTOP = (card(RTX3060, "0000:01:00.0"), card(GTX1060, "0000:04:00.0"))


class Rigs:
    """Hosts by alias; a host that is not there cannot be reached."""

    def __init__(self) -> None:
        self.texts: dict[str, dict[str, str]] = {}
        self.asked: dict[str, list[list[str]]] = {}  # in each exec

    def connect(self, target: Target, **_: Any) -> Rig:
        if target.alias not in self.texts:
            raise TransportError("timeout", "no answer within 20 s", host=target.name)
        rig = Rig(target.name, self.texts[target.alias])
        self.asked[target.alias] = rig.execs
        return rig


@pytest.fixture
def rigs(monkeypatch: pytest.MonkeyPatch) -> Rigs:
    made = Rigs()
    monkeypatch.setattr(command, "connect", made.connect)
    return made
