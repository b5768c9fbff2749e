from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rigops.errors import RigopsError
from rigops.record import Bios, Driver, Proven
from tests.unit.record.examples import FIRST, PROVEN, SECOND

DOCUMENT = json.loads(PROVEN.to_json())


def test_what_is_written_is_read_back() -> None:
    assert Proven.from_json(PROVEN.to_json()) == PROVEN


def test_the_document_says_its_schema_first() -> None:
    assert next(iter(DOCUMENT.items())) == ("schema", "rigops.proven/1")


def test_fields_of_a_later_rigops_are_passed_over() -> None:
    document = {**DOCUMENT, "mood": "fine", "bios": {**BIOS_JSON, "date": "2025"}}
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
        Proven.from_json(json.dumps({**DOCUMENT, field: value}))


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
