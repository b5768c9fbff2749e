"""Outputs of programs are recognized from the first line to the last."""

from __future__ import annotations

import pytest

from rigops.probe.pastes.reading import read
from tests.unit.probe.pasted import OUTPUTS

# nvbandwidth prints the bare name of the host; NCCL's lines may be within those of nccl-tests.
UNRECOGNIZED = {("nvbandwidth", "three-cards"): 1}
WITHIN = {("nccl-tests", "not-validated"): {"nccl-log"}}


@pytest.mark.parametrize("section", OUTPUTS)
def test_it_is_recognized_as_one_output(section: str) -> None:
    for name, text in OUTPUTS[section].items():
        found = read([("paste", text.encode())], host="paste")

        assert found.paste is not None, name
        assert found.paste.others == UNRECOGNIZED.get((section, name), 0), name
        expected = {section, "pasted"} | WITHIN.get((section, name), set())
        assert set(found.sections) == expected, name


def test_rows_of_a_query_are_recognized() -> None:
    text = "name, pci.bus_id, temperature.gpu\nNVIDIA GeForce RTX 3090, 00000000:0A:00.0, 45\n"

    found = read([("paste", text.encode())], host="paste")

    assert set(found.sections) == {"nvidia-smi-xml", "pasted"}
