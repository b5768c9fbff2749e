"""The catalog against files of the published forms; each says where its form is from."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rigops.catalog import Catalog, load
from rigops.catalog.loader import SHIPPED
from rigops.catalog.refresh import differences, main

if TYPE_CHECKING:
    from collections.abc import Callable

_PUBLISHED = Path(__file__).with_name("published")
_TODAY = date(2026, 11, 27)


def _text(name: str) -> str:
    return (_PUBLISHED / name).read_text(encoding="utf-8")


def _wrong(text: str) -> list[tuple[str, str]]:
    found = differences(load(), text, _TODAY)
    return [(one.kind, one.text) for one in found if one.kind != "note"]


def _changed(name: str, change: Callable[[Any], object]) -> str:
    content = json.loads(_text(name))
    change(content)
    return json.dumps(content)


@pytest.mark.parametrize("path", sorted(_PUBLISHED.iterdir()), ids=lambda path: path.name)
def test_the_catalog_lacks_nothing_of_what_was_recorded(path: Path) -> None:
    assert _wrong(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", sorted(_PUBLISHED.iterdir()), ids=lambda path: path.name)
def test_a_recorded_file_says_where_its_form_is_from(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    assert "ritten for tests" in text
    assert "hape" in text


def _release(branch: str, version: str, day: str) -> Callable[[Any], object]:
    one = {"release_version": version, "release_date": day}
    return lambda content: content[branch]["driver_info"].insert(0, one)


@pytest.mark.parametrize(
    ("change", "kind", "said"),
    [
        (
            _release("595", "595.200.01", "2026-12-24"),
            "missing",
            "release 595.200.01 of 2026-12-24",
        ),
        (_release("580", "580.100.01", ""), "missing", "release 580.100.01"),
        (
            _release("470", "470.300.01", "2027-01-01"),
            "missing",
            "release 470.300.01 of 2027-01-01",
        ),
        (
            lambda one: one.update(
                {"630": {"driver_info": [{"release_version": "630.10.01", "release_date": ""}]}}
            ),
            "missing",
            "branch 630, with release 630.10.01",
        ),
        (
            lambda one: one["595"].update(type="lts branch"),
            "differs",
            "595 is LTSB, in the catalog",
        ),
        (
            lambda one: one["595"]["driver_info"][0].update(release_date="2026-12-22"),
            "differs",
            "595.112.07 is of 2026-12-22, in the catalog of 2026-10-22",
        ),
        (
            _release("470", "470.256.02", "2024-06-04"),
            "missing",
            "the day of 470.256.02: 2024-06-04",
        ),
    ],
)
def test_what_releases_json_has_and_the_catalog_lacks_is_named(
    change: Callable[[Any], object], kind: str, said: str
) -> None:
    ((found, text),) = _wrong(_changed("releases.json", change))

    assert found == kind
    assert said in text


@pytest.mark.parametrize("day", ["2026-10-22", "2026-10-20", "2026-11-02"])
def test_days_of_one_release_may_lie_apart_from_place_to_place(day: str) -> None:
    text = _changed(
        "releases.json", lambda one: one["595"]["driver_info"][0].update(release_date=day)
    )

    assert _wrong(text) == []


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        (
            "redistrib_620.70.06.json",
            lambda one: one["cuda_compat"].update({"linux-x86_64": {"cuda14.0": {}}}),
            "branch 620: CUDA 14.0, in the catalog 13.5",
        ),
        (
            "redistrib_620.70.06.json",
            lambda one: one.update(release_label="620.99.01"),
            "release 620.99.01 of 2026-11-04",
        ),
        (
            "redistrib_12.3.0.json",
            lambda one: one.update(release_label="12.9.1"),
            "branch 545: CUDA 12.9, in the catalog 12.3",
        ),
    ],
)
def test_what_a_manifest_says_of_a_driver_is_compared(
    name: str, change: Callable[[Any], object], said: str
) -> None:
    ((_, text),) = _wrong(_changed(name, change))

    assert said in text


def _chip(device: str, name: str, **more: object) -> Callable[[Any], object]:
    return lambda content: content.update(chips=[{"devid": device, "name": name, **more}])


@pytest.mark.parametrize(
    ("change", "kind", "said"),
    [
        (_chip("0x3300", "NVIDIA GeForce RTX 6090"), "missing", "no generation has its id"),
        (
            _chip("0x1E04", "NVIDIA GeForce RTX 2080 Ti", legacybranch="630.xx"),
            "differs",
            "last branch 630, in the catalog none",
        ),
        (_chip("0x13C2", "NVIDIA GeForce GTX 970"), "differs", "none, in the catalog 580"),
        (
            _chip("0x1DB5", "Tesla V100-SXM2-32GB", legacybranch="580.xx", features=["kernelopen"]),
            "differs",
            "open modules (Volta)",
        ),
        (_chip("0x2204", "NVIDIA GeForce RTX 3099"), "differs", "in the catalog GeForce RTX 3090"),
    ],
)
def test_a_card_that_the_catalog_lacks_or_judges_otherwise_is_named(
    change: Callable[[Any], object], kind: str, said: str
) -> None:
    ((found, text),) = _wrong(_changed("supported-gpus.json", change))

    assert found == kind
    assert said in text


def test_a_card_known_by_its_chip_alone_is_a_note() -> None:
    notes = [one.text for one in differences(load(), _text("supported-gpus.json"), _TODAY)]

    assert "10de:2717 NVIDIA GeForce RTX 4090 Laptop GPU: known by its chip alone" in notes
    assert not any("173" in one or "PCX" in one for one in notes)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("Version: 595.91.07-0", "Version: 595.200.01-0", "release 595.200.01"),
        ("Version: 535.261.03-1", "Version: 2:535.999.01-1", "release 535.999.01"),
        ("d00002C02sv", "d00003302sv", "10de:3302 of nvidia-driver-595-open: no generation"),
        ("d00002C02sv", "d00001DB5sv", "nvidia-driver-595-open drives Volta"),
    ],
)
def test_packages_of_an_archive_are_compared(old: str, new: str, said: str) -> None:
    ((_, text),) = _wrong(_text("Packages").replace(old, new))

    assert said in text


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"chips": 1}', "# notes", '{"release_date": "x"}']
)
def test_another_file_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"JSON|json|manifest"):
        differences(load(), text, _TODAY)


def test_what_was_recorded_leaves_nothing_to_mend(capsys: pytest.CaptureFixture[str]) -> None:
    paths = sorted(map(str, _PUBLISHED.iterdir()))

    assert main(paths) == 0
    said = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    assert said == [f"{path}: nothing to mend" for path in paths]


def test_without_a_file_it_says_which_it_reads(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "redistrib_*.json" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "table", "row", "said"),
    [
        (
            "releases.json",
            "drivers",
            '  { version = "620.70.06", date = "2026-11-04" },\n',
            "release 620.70.06 of 2026-11-04",
        ),
        (
            "redistrib_595.112.07.json",
            "drivers",
            '  { version = "595.112.07", date = "2026-10-22" },\n',
            "release 595.112.07 of 2026-10-22",
        ),
        (
            "Packages",
            "drivers",
            '  { version = "580.178.04", date = "2026-08-03" },\n',
            "release 580.178.04",
        ),
        (
            "supported-gpus.json",
            "generations",
            '"2900-2dff", ',
            "10de:2b85 NVIDIA GeForce RTX 5090: no generation has its id",
        ),
    ],
)
def test_a_row_that_is_taken_out_of_the_catalog_is_missing(
    tmp_path: Path, name: str, table: str, row: str, said: str
) -> None:
    for path in SHIPPED.iterdir():
        text = path.read_text(encoding="utf-8")
        if path.stem == table:
            assert row in text
            text = text.replace(row, "")
        (tmp_path / path.name).write_text(text, encoding="utf-8")

    found = differences(Catalog(tmp_path), _text(name), _TODAY)

    assert ("missing", said) in {(one.kind, one.text) for one in found}


def test_the_exit_code_is_that_of_the_worst_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = _PUBLISHED / "redistrib_620.70.06.json"
    lacking, other = tmp_path / "releases.json", tmp_path / "other"
    lacking.write_text(_changed("releases.json", _release("580", "580.100.01", "")))
    other.write_text("notes")

    assert main([str(good)]) == 0
    assert main([str(good), str(lacking)]) == 1
    assert main([str(other), str(lacking)]) == 2
    shown = capsys.readouterr()
    assert f"{good}: nothing to mend" in shown.out
    assert "  missing  release 580.100.01" in shown.out
    assert f"{other}: neither JSON nor a Packages file" in shown.err


def test_no_command_imports_it() -> None:
    code = "import rigops.cli.drivers, rigops.cli.doctor, rigops.catalog, sys; print(*sys.modules)"

    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout

    assert "rigops.catalog.loader" in loaded.split()
    assert "rigops.catalog.refresh" not in loaded.split()
