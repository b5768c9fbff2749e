"""Concerns whose keys are read and that this version cannot bring about."""

from __future__ import annotations

from typing import Final

from rigops.concerns.concern import Concern
from rigops.inventory.spec.gpu import CLOCKS_EXAMPLE, clocks, per_gpu, power_limit
from rigops.inventory.spec.machine import cpu_max_freq, thermal_limit
from rigops.inventory.spec.scalars import Key, boolean, whole_number, word_key
from rigops.inventory.spec.storage import borg, snapshots

_ACTIONS: Final = ("notify", "lower-power", "stop-jobs", "poweroff")
_GOVERNORS: Final = (
    "performance", "powersave", "schedutil", "ondemand", "conservative", "userspace",
)  # fmt: skip

GPU_TUNING: Final = Concern(
    name="gpu_tuning",
    keys=(
        Key(
            "gpu_persistence",
            "True or False",
            boolean,
            ("persistence", "persistence_mode", "gpu_persistence_mode"),
        ),
        Key(
            "gpu_power_limit",
            '285, "285W", "80%" of the default, or a dict keyed by GPU',
            per_gpu(power_limit, '{"3090": 285}'),
            ("power_limit", "gpu_power", "gpu_watts"),
        ),
        Key(
            "gpu_clocks",
            f"{CLOCKS_EXAMPLE}, or a dict keyed by GPU",
            per_gpu(clocks, '{"V100": "application=877,1005"}'),
        ),
    ),
)
CPU_TUNING: Final = Concern(
    name="cpu_tuning",
    keys=(
        Key(
            "cpu_max_freq",
            '"3.2GHz"',
            cpu_max_freq,
            ("cpu_max_frequency", "cpu_frequency", "cpu_freq"),
        ),
        word_key("cpu_governor", *_GOVERNORS),
    ),
)
THERMAL_GUARD: Final = Concern(
    name="thermal_guard",
    keys=(
        Key("thermal_limit", 'degrees Celsius or {"gpu": 83, "memory": 100}', thermal_limit),
        Key("thermal_hold", "seconds", whole_number(1, 3600, " s")),
        word_key("thermal_action", *_ACTIONS),
        word_key("thermal_sensor_loss", *_ACTIONS),
    ),
)
SNAPSHOTS: Final = Concern(
    name="snapshots",
    keys=(Key("snapshots", "a dict of subvolumes, keep and send_to", snapshots),),
)
BORG: Final = Concern(
    name="borg",
    keys=(
        Key(
            "borg",
            "a dict of repository, paths, exclude, keep, schedule, check_every and "
            "passphrase_command, or of managed and unit",
            borg,
        ),
    ),
)
