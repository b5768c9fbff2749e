"""What one card reports at this moment, as values that every output form prints."""

from typing import NamedTuple

from . import settings, topology
from .heat import Heat
from .rig import Gpu, Rig

NA = "N/A"
UNKNOWN_ERROR = "Unknown Error"
DEPRECATED = "Requested functionality has been deprecated"
# Where a layout changed, by driver branch.
_INSTANT_DRAW, _MARGINS, _NO_APPLICATION_CLOCKS = 545, 550, 580

CUDA = {525: "12.0", 535: "12.2", 545: "12.3", 550: "12.4", 560: "12.6", 570: "12.8", 580: "13.0"}


class Driver(NamedTuple):
    version: str

    @property
    def branch(self) -> int:
        return int(self.version.partition(".")[0])

    @property
    def cuda(self) -> str:
        return CUDA[max((b for b in CUDA if b <= self.branch), default=525)]

    @property
    def splits_draw(self) -> bool:
        return self.branch >= _INSTANT_DRAW

    @property
    def has_margins(self) -> bool:
        return self.branch >= _MARGINS

    @property
    def has_application_clocks(self) -> bool:
        return self.branch < _NO_APPLICATION_CLOCKS


class View(NamedTuple):
    gpu: Gpu
    rig: Rig
    driver: Driver

    @property
    def heat(self) -> Heat:
        return Heat(self.gpu, self.rig.heat.get(self.gpu.address, ()))

    @property
    def busy(self) -> bool:
        return self.rig.load == "step" or self.heat.is_busy

    @property
    def persistence(self) -> str:
        return "Enabled" if settings.persistence(self.gpu) else "Disabled"

    @property
    def limit(self) -> float:
        return settings.power_limit(self.gpu)

    @property
    def watts(self) -> float:
        if not self.busy:
            return self.gpu.model.watts.idle + 0.1 * self.gpu.number + 0.23
        capped = settings.highest_graphics(self.gpu) / self.gpu.model.clocks.graphics
        return min(self.limit - 1.31, self.gpu.model.watts.max * capped)

    @property
    def state(self) -> str:
        if not self.busy:
            return self.gpu.model.idle_state
        return "P2" if self.gpu.model.idle_state == "P8" else "P0"

    @property
    def graphics_clock(self) -> int:
        if self.busy:
            return settings.highest_graphics(self.gpu)
        lock = settings.get(self.gpu, "graphics_clock")
        lowest = int(lock.split(",")[0]) if lock else 0
        return max(self.gpu.model.clocks.idle_graphics, lowest)

    @property
    def memory_clock(self) -> int:
        clocks = self.gpu.model.clocks
        lock = settings.get(self.gpu, "memory_clock")
        if lock:
            return int(lock.split(",")[-1])
        return clocks.memory if self.busy else clocks.idle_memory

    @property
    def video_clock(self) -> int:
        clocks = self.gpu.model.clocks
        return clocks.video if self.busy else clocks.idle_video

    @property
    def _degrees(self) -> int:
        warm = self.heat.celsius(self.limit)
        if warm is not None:
            return warm
        return self.gpu.model.temperature.idle + (31 if self.busy else self.gpu.number)

    @property
    def celsius(self) -> str:
        return self.heat.unreadable or str(self._degrees)

    @property
    def margin(self) -> str:
        """How many degrees are left, on cards that report it."""
        facts = self.gpu.model.temperature
        if facts.limit is None:
            return NA
        return self.heat.unreadable or str(facts.limit + facts.idle - self._degrees)

    @property
    def memory_celsius(self) -> str:
        memory = self.gpu.model.temperature.memory
        if memory is None:
            return NA
        return str(self.heat.memory or memory + (28 if self.busy else 0))

    @property
    def used_mib(self) -> int:
        return 2 if self.gpu.model.fan else 0

    @property
    def free_mib(self) -> int:
        return self.gpu.model.memory_mib - self.gpu.model.reserved_mib - self.used_mib

    @property
    def percent(self) -> int:
        return 100 if self.busy else 0

    @property
    def fan(self) -> str:
        return f"{60 if self.busy else 0} %" if self.gpu.model.fan else NA

    @property
    def ecc(self) -> str:
        return self.gpu.model.ecc or NA

    @property
    def serial(self) -> str:
        return (self.gpu.serial if self.gpu.model.serial else "") or NA

    @property
    def link_now(self) -> int:
        return topology.current_generation(self.gpu, busy=self.busy)

    @property
    def link_max(self) -> int:
        return min(self.gpu.generation, self.gpu.model.generation)

    @property
    def applications(self) -> tuple[str, str]:
        """Graphics and memory."""
        if not self.driver.has_application_clocks:
            return DEPRECATED, DEPRECATED
        pair = settings.applications(self.gpu)
        return (f"{pair[1]} MHz", f"{pair[0]} MHz") if pair else (NA, NA)

    @property
    def default_applications(self) -> tuple[str, str]:
        if not self.driver.has_application_clocks:
            return DEPRECATED, DEPRECATED
        pair = self.gpu.model.applications
        return (f"{pair.graphics} MHz", f"{pair.memory} MHz") if pair else (NA, NA)

    @property
    def reasons(self) -> dict[str, bool]:
        """By name of the reason, in the order of the outputs."""
        pair = settings.applications(self.gpu)
        limited = self.busy and pair is not None and self.graphics_clock == pair[1]
        slowdown = self.gpu.model.temperature.slowdown
        is_hot = not self.heat.unreadable and slowdown is not None and self._degrees >= slowdown
        return {
            "gpu_idle": not self.busy,
            "applications_clocks_setting": limited,
            "sw_power_cap": self.busy and not limited,
            "hw_slowdown": is_hot,
            "hw_thermal_slowdown": is_hot,
            "hw_power_brake_slowdown": False,
            "sync_boost": False,
            "sw_thermal_slowdown": False,
            "display_clocks_setting": False,
        }

    @property
    def reasons_mask(self) -> int:
        bits = (0x1, 0x2, 0x4, 0x8, 0x40, 0x80, 0x10, 0x20, 0x100)
        return sum(bit for bit, on in zip(bits, self.reasons.values(), strict=True) if on)
