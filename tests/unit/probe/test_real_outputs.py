"""Every output of a real machine is read by some table test, or named here with the reason."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.corpus import CORPUS
from tests.unit.doctor import test_command_line
from tests.unit.probe import (
    test_kernel_log,
    test_lspci_corpus,
    test_nvlink_and_memory,
    test_smi_real_outputs,
)

TABLES: tuple[dict[str, object], ...] = (
    dict(test_smi_real_outputs.ROWS),
    dict(test_lspci_corpus.ROWS),
    dict(test_kernel_log.REAL_ROWS),
    dict(test_command_line.ROWS),
    dict(test_nvlink_and_memory.ROWS),
)
ROWS = {file: facts for table in TABLES for file, facts in table.items()}

OUT_OF_SCOPE = {
    "index.tsv": "the list of the files",
    "01c-*/*.csv": "--query-gpu: one unknown field fails the whole query, so no section uses it",
    "01c-*/*.dmon.txt": "a stream, not a state",
    "01c-*/*.version.txt": "only the tool's own version",
    "05-p2p-bench/*": "programs that need a CUDA toolkit; preflight measures for itself",
    "11b-borg/*": "answers of borg; a section asks systemd about backups, not borg",
    "12-nccl-topo-xml/*": "topologies dumped by NCCL",
}


@pytest.mark.corpus
def test_every_file_is_read_or_named_as_out_of_scope() -> None:
    files = {str(path.relative_to(CORPUS)) for path in Path(CORPUS).rglob("*") if path.is_file()}
    outside = {file for file in files if any(fnmatch(file, shape) for shape in OUT_OF_SCOPE)}

    assert files - outside == set(ROWS)
    for shape in OUT_OF_SCOPE:
        assert any(fnmatch(file, shape) for file in files), f"{shape} names nothing"


def test_the_table_has_fifty_rows() -> None:
    assert len(ROWS) >= 50
