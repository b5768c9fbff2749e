"""Made-up entries that the tests write into catalog files."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

EVIDENCE = 'evidence = [{ where = "example/rig#1", date = "2026-01-02", hardware = "two cards" }]'

GPU = f"""
[[gpus]]
name = "GeForce GTX 1650"
aliases = ["1650"]
pci_ids = ["1f82"]
architecture = "Turing"
memory_gib = 11
watts_default = 250
watts_min = 100
watts_max = 280
spike_factor = 1.5
pcie_generation = 3
pcie_width = 16
nvlink_links = 2
nvlink_gb_per_s = 50.0
p2p = "nvlink-or-none"
p2p_why = "A made-up entry."
ecc = false
memory_temperature = false
first_branch = "470"
last_branch = ""
{EVIDENCE}
"""

XID = f"""
[[xids]]
number = 999
meaning = "made up"
severity = "warn"
reading = "nothing"
remedy = "nothing"
nvidia_action = "none"
{EVIDENCE}
"""

DRIVER = f"""
[[drivers]]
branch = "999"
kind = "production"
end_of_life = ""
cuda = "99.0"
architectures = ["Turing"]
open_architectures = ["Turing"]
releases = [{{ version = "999.10.01", date = "2026-01-02" }}]
verdicts = []
{EVIDENCE}
"""

VERDICT = f"""
[[drivers]]
branch = "535"

[[drivers.verdicts]]
status = "bad"
versions = ""
gpus = ["*"]
purpose = "any"
since = ""
why = "Made up."
{EVIDENCE}
"""

KERNEL_CHANGE = f"""
[[kernel_changes]]
name = "made up"
kernels = ["6.18.9", "6.19"]
flavors = ["open"]
since = ""
fixed = ["999.10.01"]
{EVIDENCE}
"""


KNOWN_LINE = f"""
[[known_lines]]
name = "our-riser"
words = ["riser"]
pattern = 'riser-watch: link of [0-9a-f:.]{{7,12}} retrained'
finding = "pci.width"
status = "warn"
meaning = "made up"
fix = "swap it"
example = "riser-watch: link of 0000:41:00.0 retrained"
counter = "riser-watch: link of 0000:41:00.0 steady"
{EVIDENCE}
"""


def write(directory: Path, text: str) -> Path:
    path = directory / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def without(text: str, field: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith(f"{field} ="))


def changed(text: str, field: str, value: str) -> str:
    return without(text, field) + f"\n{field} = {value}\n"


def verdict(**fields: str) -> str:
    """An entry of 535 with a verdict that has these values."""
    text = VERDICT
    for field, value in fields.items():
        text = changed(text, field, f'"{value}"')
    return text
