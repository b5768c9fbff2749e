from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rigops.errors import RigopsError
from rigops.record import Bios, Difference, Driver, Pair, Proven, ProvenGpu, differences
from tests.unit.record.examples import FIRST, PROVEN, SECOND

THIRD = ProvenGpu("GPU-cccc", "0000:0c:00.0", "NVIDIA GeForce RTX 3090", 285.0)


def test_what_is_written_is_read_back() -> None:
    assert Proven.from_json(PROVEN.to_json()) == PROVEN
    assert Proven.from_document(PROVEN.to_document()) == PROVEN


def test_the_document_says_its_schema_first() -> None:
    assert next(iter(PROVEN.to_document().items())) == ("schema", "rigops.proven/1")


def test_fields_of_a_later_rigops_are_passed_over() -> None:
    document = {**PROVEN.to_document(), "mood": "fine", "bios": {**BIOS_JSON, "date": "2025"}}
    assert Proven.from_json(json.dumps(document)) == PROVEN


BIOS_JSON = {"vendor": PROVEN.bios.vendor, "version": PROVEN.bios.version}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("schema", "rigops.proven/2"),
        ("at", "yesterday"),
        ("driver", "535"),
        ("packages", {"nvidia-driver-535": 535}),
        ("command_line", "iommu=pt"),
        ("gpus", [{"uuid": "GPU-aaaa"}]),
        ("pairs", [{"from": "a", "to": "b", "verdict": "ok", "gb_per_s": "fast"}]),
        ("level", None),
    ],
)
def test_a_wrong_type_is_refused(field: str, value: object) -> None:
    with pytest.raises(RigopsError, match="the proven record"):
        Proven.from_document({**PROVEN.to_document(), field: value})


def test_a_record_that_is_cut_short_is_refused() -> None:
    with pytest.raises(RigopsError, match="damaged or incomplete"):
        Proven.from_json(PROVEN.to_json()[:200])


@pytest.mark.parametrize(
    "same",
    [
        replace(PROVEN, gpus=(SECOND, FIRST)),
        replace(PROVEN, at="2026-02-01T00:00:00Z", rigops="0.2.0", inventory_digest="beef"),
        replace(PROVEN, packages={}, pairs=(), level="L4"),
        replace(PROVEN, gpus=(replace(FIRST, power_limit_watts=250.0), SECOND)),
    ],
    ids=["order of GPUs", "when and by whom", "what preflight found", "power limit"],
)
def test_the_key_holds_while_the_machine_is_the_same(same: Proven) -> None:
    assert same.key() == PROVEN.key()


@pytest.mark.parametrize(
    "other",
    [
        replace(PROVEN, driver=Driver("535.261.03", "proprietary")),
        replace(PROVEN, driver=Driver("535.54.03", "open")),
        replace(PROVEN, kernel="6.8.0-50-generic"),
        replace(PROVEN, command_line=("root=UUID=1234", "quiet")),
        replace(PROVEN, command_line=("iommu=pt", "root=UUID=1234", "quiet")),
        replace(PROVEN, bios=Bios("American Megatrends", "F13")),
        replace(PROVEN, gpus=(FIRST,)),
        replace(PROVEN, gpus=(replace(FIRST, address="0000:0c:00.0"), SECOND)),
        replace(PROVEN, gpus=(replace(FIRST, uuid="GPU-cccc"), SECOND)),
    ],
    ids=[
        "driver",
        "flavour",
        "kernel",
        "kernel argument",
        "order of kernel arguments",
        "BIOS",
        "GPU gone",
        "GPU in another slot",
        "other GPU",
    ],
)
def test_the_key_changes_with_what_the_proof_depends_on(other: Proven) -> None:
    assert other.key() != PROVEN.key()


def test_equal_states_do_not_differ() -> None:
    later = replace(PROVEN, at="2026-02-01T00:00:00Z", rigops="0.2.0", gpus=(SECOND, FIRST))
    assert differences(PROVEN, later) == []


def test_differences_are_told_one_by_one() -> None:
    later = replace(
        PROVEN,
        driver=Driver("535.261.03", "open"),
        kernel="6.8.0-50-generic",
        command_line=("root=UUID=1234", "iommu=off", "console=tty0", "console=ttyS0"),
        bios=Bios("American Megatrends", "F13"),
        gpus=(replace(FIRST, address="0000:0c:00.0", power_limit_watts=250.0),),
        packages={"nvidia-driver-535": "535.261.03-0ubuntu1", "linux-image-generic": "6.8.0-45"},
        level="L2",
        pairs=(Pair("0000:0a:00.0", "0000:0b:00.0", "hang", None),),
    )
    assert differences(PROVEN, later) == [
        Difference("driver", "535.54.03 (proprietary)", "535.261.03 (open)"),
        Difference("kernel", "6.8.0-45-generic", "6.8.0-50-generic"),
        Difference("BIOS", "American Megatrends F12", "American Megatrends F13"),
        Difference("kernel argument iommu", "iommu=pt", "iommu=off"),
        Difference("kernel argument quiet", "quiet", "absent"),
        Difference(
            "GPU GPU-aaaa",
            "NVIDIA GeForce RTX 3090 at 0000:0a:00.0, 285 W",
            "NVIDIA GeForce RTX 3090 at 0000:0c:00.0, 250 W",
        ),
        Difference("GPU GPU-bbbb", "NVIDIA GeForce RTX 3090 at 0000:0b:00.0", "absent"),
        Difference("package nvidia-driver-535", "535.54.03-0ubuntu1", "535.261.03-0ubuntu1"),
        Difference("preflight level", "L1", "L2"),
        Difference("P2P 0000:0a:00.0 to 0000:0b:00.0", "ok", "hang"),
        Difference("P2P 0000:0b:00.0 to 0000:0a:00.0", "not_granted", "absent"),
        Difference("kernel argument console", "absent", "console=tty0 console=ttyS0"),
    ]


def test_a_card_that_was_added_is_told() -> None:
    later = replace(PROVEN, gpus=(FIRST, SECOND, THIRD))
    assert differences(PROVEN, later) == [Difference("GPU GPU-cccc", "absent", str(THIRD))]


def test_another_order_of_kernel_arguments_is_told() -> None:
    later = replace(PROVEN, command_line=("iommu=pt", "root=UUID=1234", "quiet"))
    assert differences(PROVEN, later) == [
        Difference(
            "order of kernel arguments",
            "root=UUID=1234 iommu=pt quiet",
            "iommu=pt root=UUID=1234 quiet",
        ),
    ]


def test_a_speed_that_varies_is_no_difference() -> None:
    slower = tuple(replace(pair, gb_per_s=11.9) for pair in PROVEN.pairs)
    assert differences(PROVEN, replace(PROVEN, pairs=slower)) == []
