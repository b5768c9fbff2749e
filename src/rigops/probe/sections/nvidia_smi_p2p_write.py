"""Between which cards the driver grants peer writes."""

from __future__ import annotations

from rigops.probe.section import Section
from rigops.probe.sections.nvidia_smi_p2p_read import parse
from rigops.probe.smi.command import ask

SECTION = Section(
    name="nvidia-smi-p2p-write",
    snippet=ask("topo -p2p w"),
    parse=parse,
    timeout_s=20,
    asks_driver=True,
    needs="nvidia-smi",
)
