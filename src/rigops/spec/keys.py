"""Every key of an inventory: what it takes, and which concern acts on it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rigops.spec.driver import driver, driver_source
from rigops.spec.faults import refuse
from rigops.spec.gpu import CLOCKS_EXAMPLE, clocks, gpus, per_gpu, power_limit
from rigops.spec.machine import (
    cpu_max_freq,
    kernel_argument,
    limits,
    module_options,
    nccl,
    thermal_limit,
)
from rigops.spec.scalars import boolean, choice, list_of, number, text, whole_number
from rigops.spec.storage import borg, snapshots
from rigops.spec.supply import CIRCUIT_EXAMPLE, circuits, psus

if TYPE_CHECKING:
    from collections.abc import Callable

# In the order in which they are brought about.
CONCERNS = (
    "base", "nvidia_driver", "kernel_args", "acs", "gpu_tuning", "cpu_tuning", "thermal_guard",
    "snapshots", "borg",
)  # fmt: skip
RESERVED_PREFIXES = ("gpu_", "driver_", "kernel_", "thermal_", "cpu_")

_ACTIONS = ("notify", "lower-power", "stop-jobs", "poweroff")
_GOVERNORS = (
    "performance", "powersave", "schedutil", "ondemand", "conservative", "userspace",
)  # fmt: skip


@dataclass(frozen=True)
class Key:
    name: str
    concern: str | None  # the deploy that acts on it; None: it guides others
    accepted: str
    parse: Callable[[object], object]
    also_written: tuple[str, ...] = ()  # what people write for it


def _words(*words: str) -> str:
    return ", ".join(f'"{word}"' for word in words)


def _notify(value: object) -> str:
    target = text(value)
    if re.match(r"[A-Za-z0-9+.-]+://", target) and not target.startswith(("http://", "https://")):
        refuse("this is neither a command nor an http(s) URL", value, secret=True)
    return target


_POWER = '285, "285W", "80%" of the default, or a dict keyed by GPU'

_TABLE = (
    Key("driver", "nvidia_driver", '"535", "535.261.03" or ">=535,<536"', driver,
        ("nvidia_driver", "driver_version", "driver_branch")),
    Key("driver_allow_bad", "nvidia_driver", "True or False", boolean),
    Key("driver_source", "nvidia_driver",
        '"auto", "distribution", "vendor", "snapshot:DATE", "dir:PATH" or a dict of deb822 fields',
        driver_source),
    Key("driver_flavor", "nvidia_driver", _words("auto", "proprietary", "open"),
        choice("auto", "proprietary", "open"), ("driver_flavour",)),
    Key("driver_set", "nvidia_driver", _words("compute", "desktop"), choice("compute", "desktop")),
    Key("module_options", "nvidia_driver", '{"nvidia": {"OPTION": VALUE}}', module_options),
    Key("kernel_hold", "nvidia_driver", "True or False", boolean),
    Key("kernel_args", "kernel_args", 'a list such as ["iommu=pt"]',
        list_of(kernel_argument, noun="kernel arguments"),
        ("kernel_arguments", "kernel_parameters", "kernel_cmdline")),
    Key("kernel_trial", "kernel_args", _words("required", "off"), choice("required", "off")),
    Key("acs_redirect", "acs", _words("keep", "off"), choice("keep", "off")),
    Key("gpus", None, '4, {"V100": 4} or a list of UUIDs', gpus),
    Key("gpu_persistence", "gpu_tuning", "True or False", boolean,
        ("persistence", "persistence_mode", "gpu_persistence_mode")),
    Key("gpu_power_limit", "gpu_tuning", _POWER, per_gpu(power_limit, '{"3090": 285}'),
        ("power_limit", "gpu_power", "gpu_watts")),
    Key("gpu_clocks", "gpu_tuning", f"{CLOCKS_EXAMPLE}, or a dict keyed by GPU",
        per_gpu(clocks, '{"V100": "application=877,1005"}')),
    Key("cpu_max_freq", "cpu_tuning", '"3.2GHz"', cpu_max_freq,
        ("cpu_max_frequency", "cpu_frequency", "cpu_freq")),
    Key("cpu_governor", "cpu_tuning", _words(*_GOVERNORS), choice(*_GOVERNORS)),
    Key("thermal_limit", "thermal_guard", 'degrees Celsius or {"gpu": 83, "memory": 100}',
        thermal_limit),
    Key("thermal_hold", "thermal_guard", "seconds", whole_number(1, 3600, " s")),
    Key("thermal_action", "thermal_guard", _words(*_ACTIONS), choice(*_ACTIONS)),
    Key("thermal_sensor_loss", "thermal_guard", _words(*_ACTIONS), choice(*_ACTIONS)),
    Key("psus", None, '[750, 750] or [{"watts": 750, "gpus": [ADDRESS, …], "host": True}]', psus),
    Key("circuits", None, CIRCUIT_EXAMPLE, circuits),
    Key("electricity_price", None, "the price of a kWh, such as 0.31", number(0, 100)),
    Key("other_watts", None, "watts", whole_number(0, 10000, " W")),
    Key("p2p", None, _words("measure", "nvlink", "required", "skip"),
        choice("measure", "nvlink", "required", "skip")),
    Key("snapshots", "snapshots", "a dict of subvolumes, keep and send_to", snapshots),
    Key("borg", "borg", "a dict of repository, paths, exclude, keep, schedule, check_every and "
        "passphrase_command, or of managed and unit", borg),
    Key("limits", "base", "a dict of shm, memlock, nofile and removeipc", limits),
    Key("nccl", "base", 'a dict such as {"NCCL_P2P_LEVEL": "SYS"}', nccl),
    Key("notify", "base", "a command or a URL", _notify),
    Key("reboot_timeout", None, "30 to 86400 seconds", whole_number(30, 86400, " s")),
    Key("rigops_vault", None, "a directory", text),
    Key("catalog", None, "the path of a TOML file", text, ("catalogue",)),
)  # fmt: skip

KEYS: dict[str, Key] = {key.name: key for key in _TABLE}
