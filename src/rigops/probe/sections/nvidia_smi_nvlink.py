"""The NVLinks of each card, for people: their speed and state (`nvidia-smi nvlink -s`)."""

from __future__ import annotations

from rigops.probe.smi import smi_section

SECTION = smi_section("nvidia-smi-nvlink", "nvlink -s", str, lane="links")
