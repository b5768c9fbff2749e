from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rigops.errors import RigopsError, UsageError
from rigops.probe.bundle import Bundle, Collected, Paste
from rigops.probe.sections.iommu_groups import SECTION as IOMMU_GROUPS
from rigops.probe.sections.pci import SECTION as PCI
from rigops.probe.snapshot import HostSnapshot
from tests.unit.probe import answers

if TYPE_CHECKING:
    from pathlib import Path


def test_a_written_bundle_reads_the_same(tmp_path: Path) -> None:
    bundle = Bundle(
        "rig",
        "2026-01-31T18:00:00Z",
        root=True,
        sections={
            "uname": Collected(answers.UNAME, ms=12, root=True),
            "nvidia-smi-p2p-read": Collected("", rc=124, timed_out=True),
        },
        paste=Paste({"uname -a": ("line 1",)}, 2, ("rig",), 3, ("nvidia-smi",)),
    )

    bundle.write(tmp_path / "taken")

    assert Bundle.read(tmp_path / "taken") == bundle
    meta = json.loads((tmp_path / "taken/meta.json").read_text())
    assert meta["schema"] == "rigops.bundle/1"
    assert meta["sections"]["uname"] == {"rc": 0, "ms": 12, "root": True, "timed_out": False}


def test_a_bundle_made_by_hand(tmp_path: Path) -> None:
    folder = tmp_path / "threadripper"
    folder.mkdir()
    (folder / "iommu-groups.txt").write_text("")
    (folder / ".hidden").write_text("")

    bundle = Bundle.read(folder)

    assert bundle.host == "threadripper"
    assert list(bundle.sections) == ["iommu-groups"]
    known = HostSnapshot(bundle)
    assert known[IOMMU_GROUPS].is_complete
    assert known[IOMMU_GROUPS].or_empty.is_off
    assert known[PCI].value is None


@pytest.mark.parametrize(
    "meta", ["{}", '{"sections": 3}', '{"sections": {"uname": {"rc": "x", "ms": null}}, "host": 3}']
)
def test_a_partial_meta_file(tmp_path: Path, meta: str) -> None:
    (tmp_path / "meta.json").write_text(meta)
    (tmp_path / "uname").write_text(answers.UNAME)

    assert Bundle.read(tmp_path).sections["uname"] == Collected(answers.UNAME)


def test_a_section_that_was_lost_on_the_way_is_not_empty(tmp_path: Path) -> None:
    (tmp_path / "meta.json").write_text('{"sections": {"iommu-groups": {}}}')

    assert HostSnapshot(Bundle.read(tmp_path))[IOMMU_GROUPS].value is None


def test_a_section_that_timed_out_with_nothing_was_not_collected() -> None:
    assert (
        HostSnapshot(answers.bundle({"iommu-groups": ""}, iommu_groups=124))[IOMMU_GROUPS].value
        is None
    )
    cut = HostSnapshot(answers.bundle({"iommu-groups": answers.TRANSLATED}, iommu_groups=124))
    assert cut[IOMMU_GROUPS].value is not None
    assert not cut[IOMMU_GROUPS].is_complete


def test_a_bundle_of_a_newer_rigops_says_so(tmp_path: Path) -> None:
    (tmp_path / "meta.json").write_text('{"schema": "rigops.bundle/2"}')

    with pytest.raises(RigopsError, match="newer rigops"):
        Bundle.read(tmp_path)


def test_a_paste_of_another_shape_is_named(tmp_path: Path) -> None:
    (tmp_path / "meta.json").write_text('{"paste": {"recognized": "all"}}')

    with pytest.raises(UsageError, match="paste: recognized is 'all', expected an object"):
        Bundle.read(tmp_path)


def test_what_is_no_directory(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a bundle"):
        Bundle.read(tmp_path / "missing")
