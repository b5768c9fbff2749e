"""The list of `nvidia-smi -L`."""

from __future__ import annotations

import pytest

from rigops.probe.sections.nvidia_smi_xml import parse

HEAD = "GPU models and configuration"
LIST = """\
GPU 0: NVIDIA GeForce RTX 3090 (UUID: GPU-11111111-2222-3333-4444-555555555555)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-11111111-2222-3333-4444-666666666666)
  MIG 3g.20gb     Device  0: (UUID: MIG-11111111-2222-3333-4444-777777777777)
"""


def test_a_list_names_cards_without_addresses() -> None:
    found = parse(LIST)

    assert [(one.name, one.address) for one in found.gpus] == [
        ("NVIDIA GeForce RTX 3090", None),
        ("NVIDIA A100-SXM4-40GB", None),
    ]
    assert found.gpus[0].uuid == "GPU-11111111-2222-3333-4444-555555555555"
    assert not found.is_complete
    assert not found.unparsed


@pytest.mark.parametrize("end", ["GPU-xxxxxxxx-xxxx-xxxx)", "GPU-[redacted])", "GPU-111"])
def test_a_uuid_that_somebody_masked_or_cut_names_the_card(end: str) -> None:
    found = parse(f"GPU 0: NVIDIA GeForce RTX 3090 (UUID: {end}")

    assert [one.name for one in found.gpus] == ["NVIDIA GeForce RTX 3090"]
    assert not found.unparsed


@pytest.mark.parametrize(
    "text",
    [
        f"{HEAD}: GPU 0: NVIDIA RTX A6000\nNvidia driver version: 535.183.01\n",
        f"{HEAD} : \nGPU 0: NVIDIA RTX A6000\n\nNvidia driver version        : 535.183.01\n",
    ],
)
def test_collect_env_names_cards_and_driver(text: str) -> None:
    found = parse(text)

    assert (found.driver, [one.name for one in found.gpus]) == ("535.183.01", ["NVIDIA RTX A6000"])
    assert not found.unparsed
