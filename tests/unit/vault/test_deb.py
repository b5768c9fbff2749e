from __future__ import annotations

import gzip
import io
import lzma
import tarfile
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from rigops.errors import RigopsError
from rigops.vault.directory import Directory, control

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FIELDS = "Package: libcuda1\nVersion: 1:535.261.03-1\nArchitecture: amd64\nDepends: libc6\n"


def tar(text: str, name: str = "./control") -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as file:
        for its, data in (("./md5sums", b"x"), (name, text.encode())):
            entry = tarfile.TarInfo(its)
            entry.size = len(data)
            file.addfile(entry, io.BytesIO(data))
    return stream.getvalue()


def ar(*members: tuple[str, bytes]) -> bytes:
    return b"!<arch>\n" + b"".join(
        f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode()
        + data
        + b"\n" * (len(data) % 2)
        for name, data in members
    )


def deb(packed: bytes | None = None, name: str = "control.tar") -> bytes:
    data = tar(FIELDS) if packed is None else packed
    return ar(("debian-binary", b"2.0\nx"), (name, data), ("data.tar", b""))


@pytest.mark.parametrize(
    ("suffix", "pack"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)]
)
def test_the_fields_are_read_however_they_are_packed(
    tmp_path: Path, suffix: str, pack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "a.deb"
    path.write_bytes(deb(pack(tar(FIELDS)), f"control.tar{suffix}"))

    assert control(path) == FIELDS


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not an archive",
        b"!<arch>\n",
        deb()[:200],
        deb(b"no tar"),
        deb(b"no xz", "control.tar.xz"),
        deb(b"", "control.tar.lzo"),
        deb(tar(FIELDS, "./other")),
    ],
)
def test_what_is_no_package_is_named(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.deb"
    path.write_bytes(data)

    with pytest.raises(RigopsError, match=r"cannot read .*a\.deb as a package"):
        control(path)


def test_a_folder_of_packages_is_read_by_what_is_in_them(tmp_path: Path) -> None:
    (tmp_path / "whatever.deb").write_bytes(deb())
    (tmp_path / "README").write_text("")
    directory = Directory(str(tmp_path))

    ((package, record),) = directory.records

    assert package.file == "libcuda1_535.261.03-1_amd64.deb"
    assert package.sha256 == sha256(deb()).hexdigest()
    assert package.size == len(deb())
    assert record["Depends"] == "libc6"
    assert b"".join(directory.pieces(package.sha256)) == deb()


def test_a_folder_without_packages_is_named(tmp_path: Path) -> None:
    with pytest.raises(RigopsError, match=r"has no \.deb files"):
        Directory(str(tmp_path)).records  # noqa: B018 - reading it is the point


def test_what_is_no_folder_is_named_with_the_one_that_was_meant(tmp_path: Path) -> None:
    (tmp_path / "a.deb").write_bytes(deb())

    with pytest.raises(RigopsError, match="is no folder on this machine"):
        Directory(str(tmp_path / "absent")).records  # noqa: B018 - reading it is the point
    with pytest.raises(RigopsError, match="is a file on this machine") as caught:
        Directory(str(tmp_path / "a.deb")).records  # noqa: B018 - reading it is the point

    assert caught.value.problems[0].fix.endswith(f'"dir:{tmp_path}"')
