"""The needs of a host's self-check, and where its node_exporter looks for textfiles."""

from __future__ import annotations

import re
from typing import Final

from rigops.dataclass import dataclass
from rigops.facts.sections import SectionFact
from rigops.probe.section import Section
from rigops.probe.text import blocks, lines

PYTHON: Final = "python3 -V"
EXPORTERS: Final = "systemctl show ExecStart"
FOLDER: Final = "ls DEBIAN_FOLDER"

_DEBIAN_FOLDER: Final = "/var/lib/prometheus/node-exporter"

_VERSION = re.compile(r"Python ([0-9]{1,3})\.([0-9]{1,3})")
_UNITS: Final = "prometheus-node-exporter.service node_exporter.service node-exporter.service"
_SETTINGS: Final = (
    "/etc/default/prometheus-node-exporter /etc/default/node_exporter "
    "/etc/default/node-exporter /etc/sysconfig/node_exporter /etc/conf.d/prometheus-node-exporter"
)
_SNIPPET = f"""
if [ -x /usr/bin/python3 ]; then
    block "{PYTHON}"
    /usr/bin/python3 -V 2>&1
fi
if [ -d /run/systemd/system ]; then
    block "{EXPORTERS}"
    for unit in {_UNITS}; do
        systemctl show -p ExecStart "$unit" 2>/dev/null | grep '^ExecStart=.'
    done
fi
show {_SETTINGS}
if [ -d {_DEBIAN_FOLDER} ]; then
    block "{FOLDER}"
    echo yes
fi
return 0
"""


@dataclass(frozen=True, kw_only=True)
class Monitoring:
    """`commands`: of the units of node_exporter; `settings`: texts of their default files.

    `debian_folder`: where Debian's package looks, where that is there.
    """

    python: tuple[int, int] | None = None
    commands: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    debian_folder: str = ""


def parse(text: str) -> Monitoring:
    found = blocks(text)
    version = _VERSION.search(found.get(PYTHON, ""))
    shown = lines(found.get(EXPORTERS, ""))
    texts = [body for head, body in found.items() if head.startswith("/etc/")]
    uncommented = (
        "\n".join(line for line in lines(body) if not line.lstrip().startswith("#"))
        for body in texts
    )
    return Monitoring(
        python=(int(version[1]), int(version[2])) if version else None,
        commands=tuple(line for line in shown if line.startswith("ExecStart=")),
        settings=tuple(uncommented),
        debian_folder=_DEBIAN_FOLDER if found.get(FOLDER, "").strip() == "yes" else "",
    )


SECTION = Section(
    name="monitoring-host", snippet=_SNIPPET, parse=parse, wants_root=True, lane="machine"
)


class MonitoringHost(SectionFact[Monitoring]):
    section = SECTION
