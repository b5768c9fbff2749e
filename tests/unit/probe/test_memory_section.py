from __future__ import annotations

import gzip

import pytest

from rigops.probe.sections import memory
from tests.corpus import CORPUS
from tests.unit.probe import host_sections


def test_what_the_kernel_has() -> None:
    found = memory.parse(host_sections.MEMORY)

    assert (found.total_kib, found.available_kib) == (131900412, 120000000)
    assert (found.swap_total_kib, found.swap_free_kib) == (8388604, 8388600)
    assert not found.unparsed


def test_slots_full_empty_and_not_reported() -> None:
    found = memory.parse(host_sections.MEMORY)

    assert found.slots is not None
    assert [(one.locator, one.size_mib) for one in found.slots] == [
        ("DIMM_A1", 32768),
        ("DIMM_A2", 0),
        ("DIMM_B1", None),
    ]
    first, empty, old = found.slots
    assert (first.bank, first.kind, first.total_bits, first.data_bits) == (
        "P0 CHANNEL A",
        "DDR4",
        72,
        64,
    )
    assert (first.mt_per_s, first.configured_mt_per_s) == (3200, 2133)
    assert (empty.kind, empty.mt_per_s) == (None, None)
    assert (old.mt_per_s, old.configured_mt_per_s) == (1333, 1066)
    assert "Configured Memory Speed: 2133 MT/s" in first.line
    assert (found.correction, found.maximum_mib) == ("Multi-bit ECC", 512 * 1024)


def test_what_ecc_has_counted() -> None:
    found = memory.parse(host_sections.MEMORY)

    assert found.counters is not None
    assert [(one.name, one.corrected, one.uncorrected) for one in found.counters] == [
        ("mc0", 3, 0),
        ("mc0/dimm0", 3, 0),
    ]


def test_no_ecc_driver_is_not_the_same_as_not_asked() -> None:
    assert memory.parse("== ls /sys/devices/system/edac/mc\n").counters == ()
    assert memory.parse("").counters is None


def test_without_root_there_are_no_slots() -> None:
    denied = "== dmidecode -t memory\n/dev/mem: Permission denied\n"

    assert memory.parse(denied).slots is None
    assert memory.parse(denied).unparsed == ("/dev/mem: Permission denied",)


# Slots, those that hold something, and the size of the first of these in MiB.
ROWS = {"11d-dmidecode-memory/jc-centos77.dmidecode-mem.txt.gz": (128, 1, 4096)}


@pytest.mark.corpus
@pytest.mark.parametrize("file", ROWS)
def test_the_slots_of_real_machines(file: str) -> None:
    text = gzip.decompress((CORPUS / file).read_bytes()).decode()

    found = memory.parse(f"== {memory.SLOTS}\n{text}")

    assert found.slots is not None
    filled = [one for one in found.slots if one.size_mib]
    assert (len(found.slots), len(filled), filled[0].size_mib) == ROWS[file]
    assert {one.mt_per_s for one in found.slots} == {None}
    assert not found.unparsed
