"""A .run file in a folder, in the pool and in what is written of them."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from rigops.concerns.nvidia_driver.resolver.vault_sets import offers, parse
from rigops.errors import RigopsError
from rigops.probe.package_names import RUN_FILE
from rigops.vault import fill
from rigops.vault.directory import Directory
from rigops.vault.pinned_set import PinnedSet, document, index_text
from rigops.vault.pinned_set import parse as parse_record

if TYPE_CHECKING:
    from pathlib import Path

NAME = "NVIDIA-Linux-x86_64-535.261.03.run"
LABEL = b'label="NVIDIA Accelerated Graphics Driver for Linux-x86_64 535.261.03"\n'
FILE = b"#!/bin/sh\n" + LABEL + b"\0" * 100


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        (NAME, True),
        ("NVIDIA-Linux-x86_64-580.76.run", True),
        ("NVIDIA-Linux-x86_64-535.261.03-grid.run", False),
        ("NVIDIA-Linux-aarch64-535.261.03.run", False),
        ("cuda_12.2.2_535.104.05_linux.run", False),
        ("NVIDIA-Linux-x86_64-535.261.03.run.part", False),
    ],
)
def test_a_driver_is_known_by_its_name(tmp_path: Path, name: str, *, is_one: bool) -> None:
    (tmp_path / NAME).write_bytes(FILE)
    (tmp_path / name).write_bytes(FILE.replace(b"535.261.03", b"580.76") if "580" in name else FILE)

    found = {one.file for one in Directory(str(tmp_path)).packages}

    assert found == ({NAME, name} if is_one else {NAME})


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"<html>404</html>",
        LABEL,
        b"#!/bin/sh\n",
        b"#!/bin/sh\n" + LABEL.replace(b"261.03", b"261.031"),
        b"#!/bin/sh\n" + LABEL.replace(b"535.261.03", b"535.183.01"),
    ],
)
def test_another_file_saved_under_its_name_is_refused(tmp_path: Path, head: bytes) -> None:
    (tmp_path / NAME).write_bytes(head)

    with pytest.raises(RigopsError) as caught:
        Directory(str(tmp_path)).records  # noqa: B018 - reading it is the point

    (problem,) = caught.value.problems
    assert problem.message.startswith(f"{tmp_path / NAME} does not begin like NVIDIA's installer")
    assert "--check" in problem.fix


def test_a_folder_with_one_offers_its_driver(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(FILE)
    (tmp_path / "cuda_12.2.2_535.104.05_linux.run").write_bytes(b"")
    directory = Directory(str(tmp_path))

    ((package, record),) = directory.records

    assert package.file == NAME
    assert (package.sha256, package.size) == (sha256(FILE).hexdigest(), len(FILE))
    assert b"".join(directory.pieces(package.sha256)) == FILE
    (offered,) = offers(index_text([(package, record)]), place="there").every
    assert (offered.name, offered.upstream, offered.places) == (
        RUN_FILE,
        "535.261.03",
        ("there",),
    )


def test_others_files_of_that_kind_are_told_what_one_is_called(tmp_path: Path) -> None:
    (tmp_path / "NVIDIA-Linux-x86_64-535.261.03-grid.run").write_bytes(FILE)

    with pytest.raises(RigopsError) as caught:
        Directory(str(tmp_path)).records  # noqa: B018 - reading it is the point

    assert "NVIDIA-Linux-x86_64-VERSION.run" in caught.value.problems[0].fix


def test_its_record_is_of_an_architecture_that_dpkg_has_no_such_name_for(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(FILE)

    text = index_text(Directory(str(tmp_path)).records)

    assert "Architecture: x86_64\n" in text
    assert f"Filename: ./pool/{NAME}\n" in text


def test_it_is_stored_and_read_again_like_packages(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(FILE)
    (package,) = Directory(str(tmp_path)).packages
    said = (
        f"== stored\n{RUN_FILE} 535.261.03 x86_64 {package.sha256} {package.size}\n== control\n"
        f"Package: {RUN_FILE}\nVersion: 535.261.03\nArchitecture: x86_64\n"
    )
    one = PinnedSet(
        version="535.261.03",
        flavor="proprietary",
        at="2026-11-22T00:00:00Z",
        kernel="6.1.0-50-amd64",
        packages=fill.parse(said).packages,
        index="0" * 64,
    )

    assert one.packages == (package,)
    assert parse_record(document([one])) == (one,)
    assert parse(f"== pool\n{package.sha256}  {NAME}\n").digests == {NAME: package.sha256}
