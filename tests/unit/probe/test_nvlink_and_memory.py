"""NVLinks and memory modules of real machines."""

from __future__ import annotations

import gzip
from typing import Final

import pytest

from rigops.probe.sections import memory, nvidia_smi_nvlink
from tests.corpus import CORPUS

SMI: Final = "01c-nvidia-smi-other"
# Links up of each card, all links, counters, and lines that were left.
NVLINKS: Final = {
    f"{SMI}/gpud-a100.nvlink-status.txt": ([12] * 8, [12] * 8, 0, 0),
    f"{SMI}/h100-590.nvlink-s.txt": ([18], [18], 0, 0),
    f"{SMI}/rtx2080s-610.nvlink-s.txt": ([0], [0], 0, 0),
    f"{SMI}/rtx4080s-595.nvlink-s.txt": ([0], [0], 0, 0),
    f"{SMI}/stas-h100-nvlink-errors.txt": ([0], [0], 9, 1),
}
MODULES: Final = {"11d-dmidecode-memory/jc-centos77.dmidecode-mem.txt.gz": (128, [4096])}
ROWS: Final = {**NVLINKS, **MODULES}


@pytest.mark.corpus
@pytest.mark.parametrize("file", NVLINKS)
def test_links_of_real_cards(file: str) -> None:
    found = nvidia_smi_nvlink.parse((CORPUS / file).read_text())

    links = [(len(one.active), len(one.links)) for one in found.gpus]
    counters = sum(len(one.errors) for one in found.gpus)
    up, every = ([*column] for column in zip(*links, strict=True))
    assert (up, every, counters, len(found.unparsed)) == NVLINKS[file]


@pytest.mark.corpus
@pytest.mark.parametrize("file", MODULES)
def test_modules_of_real_machines(file: str) -> None:
    text = gzip.decompress((CORPUS / file).read_bytes()).decode()

    found = memory.parse(f"== {memory.MODULES}\n{text}")

    assert (len(found.slots or ()), [one.mib for one in found.modules]) == MODULES[file]
    assert not found.unparsed
