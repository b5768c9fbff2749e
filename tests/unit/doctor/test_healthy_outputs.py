"""Outputs of real machines with which nothing is wrong raise no alarm; the others raise theirs."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from rigops.doctor.known_lines import has_known_lines
from rigops.doctor.registry import examine
from rigops.probe.bundles.reading import read_all
from rigops.probe.snapshot import HostSnapshot
from tests.corpus import CORPUS
from tests.unit.doctor.examining import catalog

if TYPE_CHECKING:
    from rigops.probe.bundle import Bundle

SICK: Final[dict[str, set[tuple[str, str]]]] = {
    "01b-nvidia-smi-q-text/stas-a100-rowremap.nvidia-smi-q.txt": {("warn", "remap")},
    "04-kernel-log/stas-a100-xid63.dmesg.txt": {("warn", "xid")},
}
HEALTHY: Final = (
    "01-nvidia-smi-xml/*",
    "01b-nvidia-smi-q-text/*",
    "01c-nvidia-smi-other/*.table.txt",
    "01c-nvidia-smi-other/*nvlink*",
    "01c-nvidia-smi-other/*.csv",
    "02-topo-m/*",
    "03-topo-p2p/*",
    "04-kernel-log/gpud-*",
    "05-p2p-bench/*",
    "06-lspci/*",
    "07-cmdline-grub-iommu/*",
)
# No section takes them, or there is nothing in them.
NOT_RECOGNIZED: Final = (
    "index.tsv",
    "01c-nvidia-smi-other/*.dmon.txt",
    "01c-nvidia-smi-other/*.version.txt",
    "02-topo-m/*-win591.topo-m.txt",
    "04-kernel-log/gpud-fabricmanager.log",
    "05-p2p-bench/*.bandwidthTest.txt",
    "11b-borg/*",
    "11d-dmidecode-memory/*",
    "12-nccl-topo-xml/*",
)


def _files() -> list[str]:
    every = (path for path in Path(CORPUS).rglob("*") if path.is_file())
    return sorted(str(path.relative_to(CORPUS)) for path in every)


def _alarms(file: str) -> set[tuple[str, str]]:
    found = [
        one
        for bundle in read_all(CORPUS / file, is_known=lambda _: True)
        for one in examine(HostSnapshot(bundle), None, catalog())
    ]
    assert found
    return {(one.status, one.id) for one in found if one.status in {"warn", "fail"}}


def _is_known(bundle: Bundle) -> bool:
    known = has_known_lines(HostSnapshot(bundle), catalog())
    return known or not bundle.paste or bool(bundle.paste.recognized)


@pytest.mark.corpus
def test_every_output_raises_the_alarms_that_it_should_and_no_other() -> None:
    for file in _files():
        if any(fnmatch(file, shape) for shape in NOT_RECOGNIZED):
            assert not any(map(_is_known, read_all(CORPUS / file, is_known=lambda _: True))), file
        else:
            assert file in SICK or any(fnmatch(file, shape) for shape in HEALTHY), file
            assert _alarms(file) == SICK.get(file, set()), file
