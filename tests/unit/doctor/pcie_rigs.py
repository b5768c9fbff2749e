"""Rigs whose bus is the subject, in the texts that they answer with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.unit.doctor.examining import changed_from, checks_of, judge
from tests.unit.probe import answers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rigops.doctor.finding import Finding
    from rigops.inventory.spec import RigSpec

CHECKS: Final = checks_of(
    "gpu.count",
    "gpu.lost",
    "pci.width",
    "pci.gen.load",
    "pci.chipset_lane",
    "pci.reset",
    "bar1.size",
    "bar1.capability",
    "pci.aer.corr",
    "pci.aer.uncorr",
    "acs.path",
    "acs.srcvalid",
    "acs.in_vm",
    "iommu.present",
)
FIXTURES: Final = Path(__file__).resolve().parents[2] / "fixtures/lspci"
ROOT_PORTS: Final = (FIXTURES / "root-ports.txt").read_text()
SWITCHES: Final = (FIXTURES / "switches.txt").read_text()
RISERS: Final = (FIXTURES / "risers.txt").read_text()
ONE, OTHER = "0000:41:00.0", "0000:61:00.0"

_LINE = (
    "{} vendor={} device={} class={} rev=a1 driver={} link={} max={} numa=0 bar1={} "
    "path=/sys/devices/{}\n"
)


def port(path: str, *, lanes: str = "16.0,16", device: str = "0x1483") -> str:
    address = path.rpartition("/")[2]
    return _LINE.format(address, "0x1022", device, "0x060400", "pcieport", lanes, lanes, "-", path)


def card(
    path: str,
    *,
    device: str = "0x26b3",
    driver: str = "nvidia",
    lanes: str = "2.5,16",
    most: str = "16.0,16",
    window: str = str(64 << 30),
) -> str:
    address = path.rpartition("/")[2]
    return _LINE.format(address, "0x10de", device, "0x030000", driver, lanes, most, window, path)


PCI: Final = (
    port("pci0000:40/0000:40:01.1")
    + card(f"pci0000:40/0000:40:01.1/{ONE}")
    + port("pci0000:60/0000:60:03.1")
    + card(f"pci0000:60/0000:60:03.1/{OTHER}")
)

_SMI_CARD = """\
	<gpu id="0000{address}">
		<product_name>{name}</product_name>
		<uuid>GPU-{uuid}</uuid>
		<pci>
			<pci_bus_id>0000{address}</pci_bus_id>
			<pci_gpu_link_info>
				<pcie_gen>
					<max_link_gen>4</max_link_gen>
					<current_link_gen>{generation}</current_link_gen>
				</pcie_gen>
				<link_widths>
					<max_link_width>16x</max_link_width>
					<current_link_width>{width}x</current_link_width>
				</link_widths>
			</pci_gpu_link_info>
		</pci>
		<fan_speed>{fan}</fan_speed>
		<performance_state>{state}</performance_state>
		<fb_memory_usage>
			<total>49140 MiB</total>
		</fb_memory_usage>
		<bar1_memory_usage>
			<total>{window} MiB</total>
		</bar1_memory_usage>
		<utilization>
			<gpu_util>{busy} %</gpu_util>
		</utilization>
		<mig_mode>
			<current_mig>{mig}</current_mig>
		</mig_mode>
		<gpu_power_readings>
			<power_draw>{watts}</power_draw>
		</gpu_power_readings>
	</gpu>
"""


def smi_card(address: str, **said: object) -> str:
    fields: dict[str, object] = {
        "name": "NVIDIA RTX 5880 Ada Generation",
        "uuid": f"11111111-0000-0000-0000-0000000000{address[5:7]}",
        "generation": 1,
        "width": 16,
        "fan": "30 %",
        "state": "P8",
        "window": 65536,
        "busy": 0,
        "mig": "N/A",
        "watts": "12.00 W",
        **said,
    }
    return _SMI_CARD.format(address=address, **fields)


def smi(*cards: str) -> str:
    return (
        '<?xml version="1.0" ?>\n<nvidia_smi_log>\n'
        f"\t<driver_version>580.95.05</driver_version>\n"
        f"\t<attached_gpus>{len(cards)}</attached_gpus>\n{''.join(cards)}</nvidia_smi_log>\n"
    )


def counters(address: str, *, corrected: int = 0, fatal: int = 0, nonfatal: int = 0) -> str:
    here = f"== /sys/bus/pci/devices/{address}"
    return (
        f"{here}/aer_dev_correctable\nRxErr 0\nBadTLP {corrected}\nTOTAL_ERR_COR {corrected}\n"
        f"{here}/aer_dev_nonfatal\nUnsupReq {nonfatal}\nTOTAL_ERR_NONFATAL {nonfatal}\n"
        f"{here}/aer_dev_fatal\nSDES {fatal}\nTOTAL_ERR_FATAL {fatal}\n"
    )


def awake(address: str, control: str = "on") -> str:
    return f"== /sys/bus/pci/devices/{address}/power/control\n{control}\n"


AER: Final = "".join(
    [
        counters(ONE),
        counters("0000:40:01.1"),
        awake("0000:40:01.1"),
        counters(OTHER),
        counters("0000:60:03.1"),
        awake("0000:60:03.1"),
    ]
)
BOOT: Final = f"{answers.BOOT}== systemd-detect-virt\nnone\n"
NO_REDIRECTION: Final = ROOT_PORTS.replace("ReqRedir+ CmpltRedir+ Up", "ReqRedir- CmpltRedir- Up")

# Two professional cards on root ports of their own, all well.
HEALTHY: Final[Mapping[str, str]] = {
    "boot": BOOT,
    "proc-cmdline": answers.CMDLINE,
    "pci": PCI,
    "lspci": NO_REDIRECTION.replace("ACSCtl:\tSrcValid+", "ACSCtl:\tSrcValid-"),
    "iommu-groups": f"13 identity {ONE}\n14 identity {OTHER}\n",
    "nvidia-version": answers.VERSION.format("580.95.05"),
    "nvidia-smi-xml": smi(smi_card(ONE), smi_card(OTHER)),
    "nvidia-smi-p2p-read": answers.MATRIX.format("OK"),
    "aer": AER,
}


def findings(
    texts: Mapping[str, str | None],
    declared: RigSpec | None = None,
    cut: Mapping[str, int] | None = None,
) -> list[Finding]:
    return judge(texts, declared, checks=CHECKS, concerns=frozenset({"acs"}), codes=cut or {})


def found(
    check: str,
    texts: Mapping[str, str | None],
    declared: RigSpec | None = None,
    cut: Mapping[str, int] | None = None,
) -> list[Finding]:
    return [one for one in findings(texts, declared, cut) if one.id == check]


def look(check: str, declared: RigSpec | None = None, **changed: str | None) -> Finding:
    """The only finding on the healthy rig, with sections changed, or lost where None."""
    (finding,) = found(check, changed_from(HEALTHY, changed), declared)
    return finding
