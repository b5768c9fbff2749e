"""Lines as the program on a watched host prints them."""

from __future__ import annotations

HEAD = (
    "q count, pci.bus_id, name, driver_version, fan.speed [%], temperature.gpu, "
    "temperature.memory, power.draw [W], power.limit [W], enforced.power.limit [W], "
    "clocks.current.sm [MHz], clocks.current.memory [MHz], clocks.max.sm [MHz], "
    "utilization.gpu [%], memory.used [MiB], memory.total [MiB], "
    "clocks_event_reasons.sw_power_cap, clocks_event_reasons.hw_thermal_slowdown"
)
BOOT = (
    "h boot-1",
    "c 0000:01:00.0 0000:01:00.0 0000:00:01.1",
    "c 0000:02:00.0 0000:02:00.0 0000:00:02.1",
    "q started",
    "d GPU 00000000:01:00.0",
    "d     Temperature",
    "d         GPU Current Temp                  : 20 C",
    "d         GPU Slowdown Temp                 : 95 C",
    "d GPU 00000000:02:00.0",
    "d     Temperature",
    "d         GPU Slowdown Temp                 : 95 C",
    "t 100.00",
)
XID = (
    "k 2026-11-28T05:00:00.000001+00:00 rig kernel: NVRM: Xid (PCI:0000:02:00): 79, "
    "pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
)
DEAD = (
    "q Unable to determine the device handle for GPU0000:02:00.0: GPU is lost.  Reboot the system"
)


def row(bus: int, celsius: int | str, *, hot: bool = False) -> str:
    active = "Active" if hot else "Not Active"
    return (
        f"q 2, 00000000:0{bus}:00.0, NVIDIA GeForce RTX 3090, 535.183.01, 60 %, {celsius}, N/A, "
        f"301.20 W, 350.00 W, 350.00 W, 1695 MHz, 9751 MHz, 2100 MHz, 100 %, 2048 MiB, 24576 MiB, "
        f"Active, {active}"
    )


def errors(total: int, kind: str = "correctable", name: str = "BadTLP") -> tuple[str, ...]:
    file = f"/sys/bus/pci/devices/0000:00:01.1/aer_dev_{kind}"
    return (f"e {file}:{name} {total}", f"e {file}:TOTAL_ERR_COR {total}")
