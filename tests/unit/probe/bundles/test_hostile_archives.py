"""Archives that somebody has made to do harm: one line of the table for each way."""

from __future__ import annotations

import gzip
import io
import lzma
import tarfile
import tracemalloc
import zipfile
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from rigops.errors import UsageError
from rigops.probe.bundle import MOST_BYTES, MOST_CONTENT, MOST_MEMBERS
from rigops.probe.bundles.archive import MOST_HEADERS_OF_ONE
from rigops.probe.bundles.reading import read_all
from tests import hostile
from tests.unit.probe.bundles.archives import UNAME, member, tar

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MIB = 1024 * 1024


def header(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    info = member(name, kind)
    info.size = size
    return info.tobuf(tarfile.GNU_FORMAT)


def pax(records: bytes, kind: bytes = tarfile.XHDTYPE) -> bytes:
    """A header about the next member."""
    return header("about", len(records), kind) + records + bytes(-len(records) % 512)


def record(key: str, value: str) -> bytes:
    length = len(f" {key}={value}\n".encode())
    length += len(str(length + len(str(length))))
    return f"{length} {key}={value}\n".encode()


def named(name: str | tarfile.TarInfo, form: int = tarfile.GNU_FORMAT) -> Callable[[], bytes]:
    return lambda: tar([("rig/pci", "1"), (name, "")], form=form)


def bomb(start: bytes) -> Callable[[], bytes]:
    """Zeros without end, in less than a mebibyte."""
    return lambda: gzip.compress(start) + gzip.compress(bytes(MIB)) * ((MOST_CONTENT >> 20) + 1)


def of_headers(content: bytes) -> Callable[[], bytes]:
    return lambda: content


def wrong_checksum() -> bytes:
    content = bytearray(tar([("rig/uname", UNAME)]))
    content[-8] ^= 1
    return bytes(content)


def zipped() -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as file:
        file.writestr("rig/uname", UNAME)
    return written.getvalue()


FILE = header("rig/uname", len(UNAME)) + UNAME.encode().ljust(512, b"\0")
PROBE = b"rigops-probe/1 mark-1 root=1 at=2026-01-31T18:00:00Z host=rig\nmark-1 begin uname\n"
PAX = tarfile.PAX_FORMAT

OUTSIDE = "the name leads out of the archive"
NO_FILE = "neither a file nor a directory"
TOO_LONG = "longer than 16 MiB"
TOO_MUCH = "unpacks to more than 256 MiB"
HEADERS = "headers of a member are too long"

ARCHIVES: dict[str, tuple[Callable[[], bytes], str]] = {
    "path traversal": (named("../../etc/cron.d/x"), OUTSIDE),
    "path traversal inside": (named("rig/../../uname"), OUTSIDE),
    "path traversal of Windows": (named("rig\\..\\uname"), OUTSIDE),
    "path traversal in a PAX header": (named("../../etc/cron.d/x", PAX), OUTSIDE),
    "path traversal in a PAX record": (
        of_headers(pax(record("path", "../rig/pci")) + header("rig/pci", 0)), OUTSIDE
    ),
    "an absolute path": (named("/etc/passwd"), OUTSIDE),
    "an absolute path in a PAX header": (named("/etc/passwd", PAX), OUTSIDE),
    "a NUL in a name": (
        of_headers(pax(record("path", "rig/pci\0/../..")) + header("rig/pci", 0)), OUTSIDE
    ),
    "a link": (named(member("rig/uname", tarfile.SYMTYPE, "/etc/shadow")), NO_FILE),
    "a hard link": (named(member("rig/uname", tarfile.LNKTYPE, "rig/pci")), NO_FILE),
    "a FIFO": (named(member("rig/uname", tarfile.FIFOTYPE)), NO_FILE),
    "a device": (named(member("rig/uname", tarfile.CHRTYPE)), NO_FILE),
    "a disk": (named(member("rig/uname", tarfile.BLKTYPE)), NO_FILE),
    "a duplicate": (named("rig/pci"), "duplicate name"),
    "a duplicate by another path": (named("./rig//pci"), "duplicate name"),
    "a duplicate by a PAX header of all": (
        of_headers(pax(record("path", "rig/pci"), tarfile.XGLTYPE) + FILE + FILE), "duplicate name"
    ),
    "a sparse file": (of_headers(header("rig/pci", 0, tarfile.GNUTYPE_SPARSE)), NO_FILE),
    "a sparse file of PAX 0.1": (
        of_headers(
            pax(record("GNU.sparse.map", "0,1") + record("GNU.sparse.size", str(2**40)))
            + header("rig/pci", 0)
        ),
        NO_FILE,
    ),
    "a sparse file of PAX 1.0": (
        of_headers(
            pax(record("GNU.sparse.major", "1") + record("GNU.sparse.minor", "0"))
            + header("rig/pci", 2**30)
            + b"9" * 100_000
        ),
        "cut short",
    ),
    "a file that is too long": (bomb(header("rig/kernel-log", MOST_BYTES + 1)), TOO_LONG),
    "a file of a tebibyte": (bomb(header("rig/kernel-log", 2**40)), TOO_LONG),
    "a file of an exbibyte by a PAX record": (
        of_headers(pax(record("size", str(2**60))) + header("rig/pci", 0)), TOO_LONG
    ),
    "a gzip bomb of many files": (
        bomb(
            b"".join(header(f"rig/s{n}", MOST_BYTES) + bytes(MOST_BYTES) for n in range(2))
            + header("rig/uname", 0)
        ),
        TOO_MUCH,
    ),
    "a gzip bomb of the probe's output": (bomb(PROBE), TOO_MUCH),
    "a long name without end": (bomb(header("x", 2**33, tarfile.GNUTYPE_LONGNAME)), HEADERS),
    "a PAX header without end": (bomb(header("x", 2**33, tarfile.XHDTYPE)), HEADERS),
    "a chain of PAX headers": (of_headers(pax(b"") * 100_000), HEADERS),
    "a chain of long names": (
        of_headers(header("x", 0, tarfile.GNUTYPE_LONGNAME) * 100_000), HEADERS
    ),
    "a PAX header of one number": (of_headers(pax(b"1" * MOST_HEADERS_OF_ONE)), HEADERS),
    "PAX headers of many members": (
        of_headers(
            b"".join(
                pax(record("comment", "x" * 4000) + record("path", f"rig/s{n}")) + FILE
                for n in range(1000)
            )
        ),
        HEADERS,
    ),
    "thousands of members": (
        lambda: tar((f"rig/section-{number}", "") for number in range(MOST_MEMBERS + 1)),
        f"more than {MOST_MEMBERS} members",
    ),
    "thousands of folders": (
        lambda: tar((member(f"{n}", tarfile.DIRTYPE), "") for n in range(MOST_MEMBERS + 1)),
        f"more than {MOST_MEMBERS} members",
    ),
    "truncated": (lambda: tar([("rig/uname", UNAME * 1000)])[:40], "cut short or damaged"),
    "a wrong checksum": (wrong_checksum, "its checksum is wrong"),
    "gzip in gzip": (lambda: gzip.compress(tar([("rig/uname", UNAME)])), "not a bundle"),
    "zip": (zipped, "packed with zip, which is not read"),
    "xz": (lambda: lzma.compress(tar([("rig/uname", UNAME)], "w")), "packed with xz"),
    "zstd": (lambda: b"\x28\xb5\x2f\xfd" + bytes(100), "packed with zstd"),
    "bzip2": (lambda: tar([("rig/uname", UNAME)], "w:bz2"), "packed with bzip2"),
    "7-Zip": (lambda: b"7z\xbc\xaf\x27\x1c" + bytes(100), "packed with 7-Zip"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "message"), ARCHIVES.values(), ids=list(ARCHIVES))
def test_an_archive_that_does_harm_is_refused_within_bounds(
    tmp_path: Path, content: Callable[[], bytes], message: str
) -> None:
    archive = tmp_path / "x.tar.gz"
    archive.write_bytes(content())
    assert archive.stat().st_size < 64 * MIB
    tracemalloc.start()

    with pytest.raises(UsageError) as caught:
        read_all(archive)

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    (problem,) = caught.value.problems
    assert message in problem.message
    assert problem.fix
    assert problem.file == str(archive)
    assert peak < (MOST_CONTENT if message == TOO_MUCH else 0) + 32 * MIB
    assert [one.name for one in tmp_path.iterdir()] == ["x.tar.gz"]


def test_a_name_that_steers_a_terminal_is_no_section_and_is_shown_in_a_refusal(
    tmp_path: Path,
) -> None:
    archive = tmp_path / "x.tar.gz"
    for what, name in hostile.STRINGS.items():
        inside = name.replace("/", "").replace("\\", "").replace("\0", "")
        if inside == "a\udcff\ud800b":
            inside = "a\udcffb"  # all that tarfile writes
        archive.write_bytes(tar([("rig/uname", UNAME), (f"rig/{inside}", "x")], form=PAX))

        (bundle,) = read_all(archive)

        assert list(bundle.sections) == ["uname"], what
        archive.write_bytes(tar([(f"../{inside}", "x")], form=PAX))
        with pytest.raises(UsageError) as caught:
            read_all(archive)
        assert repr(f"../{inside}") in caught.value.problems[0].message, what


def test_a_size_below_0_is_refused_or_taken_for_the_end_of_what_was_cut(tmp_path: Path) -> None:
    """Which of both depends on the Python: since CVE-2025-8194 tarfile refuses it itself."""
    content = FILE + pax(record("size", "-1024")) + header("rig/pci", 0)

    archive = tmp_path / "x.tar"
    archive.write_bytes(content)

    with suppress(UsageError):
        (bundle,) = read_all(archive)
        assert set(bundle.sections) == {"uname"}
        assert not bundle.sections["uname"].is_complete
