"""Whatever somebody has kept a bundle in, and whatever somebody has made to do harm."""

from __future__ import annotations

import gzip
import json
import tarfile
import time
import tracemalloc
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rigops.errors import UsageError
from rigops.probe.bundle import MOST_BYTES, Bundle, Collected
from rigops.probe.bundles.archive import MOST_HEADERS_OF_ONE, MOST_MEMBERS
from rigops.probe.bundles.reading import MOST_CONTENT, read_all
from rigops.probe.bundles.saving import save, save_all
from rigops.probe.sections.iommu_groups import SECTION as IOMMU_GROUPS
from rigops.probe.snapshot import HostSnapshot
from tests.unit.probe import answers
from tests.unit.probe.bundles.archives import UNAME, member, tar

if TYPE_CHECKING:
    from pathlib import Path

PROBE = (
    "Last login: today\n"
    "rigops-probe/1 mark-1 root=1 at=2026-01-31T18:00:00Z host=rig\n"
    "mark-1 begin uname root=0 limit=6\n"
    f"{UNAME}\n"
    "mark-1 rc=0 from=1.0 to=1.5\n"
    "\n"
    "mark-1 end uname\n"
    "mark-1 done\n"
)


def refusal(path: Path) -> str:
    with pytest.raises(UsageError) as caught:
        read_all(path)
    (problem,) = caught.value.problems
    assert problem.file is not None
    assert str(path) in problem.file or str(path) in problem.message
    return problem.message


def written(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("name", ["one.tar.gz", "one.tgz", "folder"])
def test_what_was_saved_is_read_back(tmp_path: Path, name: str) -> None:
    bundle = answers.bundle(answers.BROKEN, pci=124)

    assert read_all(save(bundle, tmp_path / name, redacted=False)) == [bundle]


@pytest.mark.parametrize("name", ["all.tar.gz", "folder"])
def test_several_hosts(tmp_path: Path, name: str) -> None:
    bundles = [Bundle(host, None, root=False, sections={}) for host in ("b", "a", "a", "../a/..")]

    found = read_all(save_all(bundles, tmp_path / name, redacted=False))

    assert sorted(one.host for one in found) == ["../a/..", "a", "a", "b"]


def test_a_directory_made_by_hand(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    for host in ("left", "right"):
        (tmp_path / host).mkdir()
        written(tmp_path / host / "uname.txt", UNAME)

    assert [one.host for one in read_all(tmp_path)] == ["left", "right"]
    assert read_all(tmp_path / "left")[0].sections == {"uname": Collected(UNAME)}
    assert "no file in it is named like a section" in refusal(tmp_path / "notes")


def test_two_answers_for_one_section(tmp_path: Path) -> None:
    for name in ("uname", "uname.txt"):
        written(tmp_path / name, UNAME)

    assert "two files for the section uname" in refusal(tmp_path)


def test_a_file_that_is_far_too_long(tmp_path: Path) -> None:
    with written(tmp_path / "kernel-log", "").open("r+b") as file:
        file.truncate(MOST_BYTES + 1)

    assert "longer than 16 MiB" in refusal(tmp_path)


@pytest.mark.parametrize("mode", ["w:gz", "w"])
@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_an_archive_made_by_hand(tmp_path: Path, mode: str, form: int) -> None:
    deep = "very-long-name/" * 6 + "rig"
    content = tar(
        [
            (member("./", tarfile.DIRTYPE), ""),
            (f"./{deep}/uname.txt", UNAME),
            (f"./{deep}/._uname.txt", "\0\0Mac OS X"),
            ("./README", "how I took it"),
        ],
        mode,
        form,
    )
    (bundle,) = read_all(written(tmp_path / "mine.tar.gz", content))

    assert bundle == Bundle("rig", None, root=False, sections={"uname": Collected(UNAME)})


def test_an_archive_without_a_directory_is_named_after_its_file(tmp_path: Path) -> None:
    archive = written(tmp_path / "threadripper.tar.gz", tar([("uname", UNAME)]))

    assert [one.host for one in read_all(archive)] == ["threadripper"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("../../etc/cron.d/x", "leads out of the archive"),
        ("rig/../../uname", "leads out of the archive"),
        ("/etc/passwd", "leads out of the archive"),
        ("rig\\..\\uname", "leads out of the archive"),
        (member("rig/uname", tarfile.SYMTYPE, "/etc/shadow"), "neither a file nor a directory"),
        (member("rig/uname", tarfile.LNKTYPE, "other"), "neither a file nor a directory"),
        (member("rig/uname", tarfile.FIFOTYPE), "neither a file nor a directory"),
        (member("rig/uname", tarfile.CHRTYPE), "neither a file nor a directory"),
        ("rig/pci", "duplicate name"),
    ],
)
@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_a_member_that_may_do_harm(
    tmp_path: Path, name: str | tarfile.TarInfo, message: str, form: int
) -> None:
    archive = written(tmp_path / "x.tar.gz", tar([("rig/pci", "1"), (name, "")], form=form))

    refused = refusal(archive)

    assert message in refused
    assert repr(name if isinstance(name, str) else name.name) in refused
    assert sorted(one.name for one in tmp_path.iterdir()) == ["x.tar.gz"]


def test_too_many_members(tmp_path: Path) -> None:
    many = tar((f"rig/section-{number}", "") for number in range(MOST_MEMBERS + 1))

    assert f"more than {MOST_MEMBERS} members" in refusal(written(tmp_path / "x.tar.gz", many))


def zeros_packed(megabytes: int) -> bytes:
    piece = gzip.compress(bytes(1024 * 1024))
    return piece * megabytes


def header(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    info = member(name, kind)
    info.size = size
    return info.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (header("rig/kernel-log", MOST_BYTES + 1), "longer than 16 MiB"),
        (header("rig/kernel-log", 2**40), "longer than 16 MiB"),
        (header("x", 2**33, tarfile.GNUTYPE_LONGNAME), "headers of a member are too long"),
        (header("x", 2**33, tarfile.XHDTYPE), "headers of a member are too long"),
        (
            b"".join(header(f"rig/s{n}", MOST_BYTES) + bytes(MOST_BYTES) for n in range(2))
            + header("rig/uname", 0),
            "unpacks to more than 256 MiB",
        ),
        (PROBE.encode(), "unpacks to more than 256 MiB"),
    ],
)
def test_a_small_file_that_grows_without_end(tmp_path: Path, start: bytes, message: str) -> None:
    content = gzip.compress(start) + zeros_packed((MOST_CONTENT >> 20) + 1)
    assert len(content) < 1024 * 1024
    archive = written(tmp_path / "bomb.tar.gz", content)
    tracemalloc.start()

    assert message in refusal(archive)

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MOST_CONTENT + 32 * 1024 * 1024


def pax(records: bytes, kind: bytes = tarfile.XHDTYPE) -> bytes:
    """A header about the next member."""
    return header("about", len(records), kind) + records + bytes(-len(records) % 512)


def record(key: str, value: str) -> bytes:
    length = len(f" {key}={value}\n")
    length += len(str(length + len(str(length))))
    return f"{length} {key}={value}\n".encode()


FILE = header("rig/uname", len(UNAME)) + UNAME.encode().ljust(512, b"\0")
TOO_LONG = "headers of a member are too long"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (pax(b"") * 100_000, TOO_LONG),
        (header("x", 0, tarfile.GNUTYPE_LONGNAME) * 100_000, TOO_LONG),
        (pax(b"1" * MOST_HEADERS_OF_ONE), TOO_LONG),
        ((pax(record("comment", "x" * 4000)) + FILE) * 1000, "duplicate name"),
        (
            b"".join(
                pax(record("comment", "x" * 4000) + record("path", f"rig/s{n}")) + FILE
                for n in range(1000)
            ),
            TOO_LONG,
        ),
        (pax(record("size", str(2**60))) + header("rig/pci", 0), "longer than 16 MiB"),
        (pax(record("path", "../rig/pci")) + header("rig/pci", 0), "leads out of the archive"),
        (
            pax(record("path", "rig/pci"), tarfile.XGLTYPE) + FILE + FILE,
            "'rig/pci' refused: duplicate name",
        ),
        (header("rig/pci", 0, tarfile.GNUTYPE_SPARSE), "neither a file nor a directory"),
        (
            pax(record("GNU.sparse.map", "0,1") + record("GNU.sparse.size", str(2**40)))
            + header("rig/pci", 0),
            "neither a file nor a directory",
        ),
        (
            pax(record("GNU.sparse.major", "1") + record("GNU.sparse.minor", "0"))
            + header("rig/pci", 2**30)
            + b"9" * 100_000,
            "cut short",
        ),
        (header("rig/pci", 0, tarfile.BLKTYPE), "neither a file nor a directory"),
    ],
    ids=range(12),
)
def test_headers_that_may_do_harm(tmp_path: Path, content: bytes, message: str) -> None:
    started = time.monotonic()
    tracemalloc.start()

    for packed in (content, gzip.compress(content)):
        assert message in refusal(written(tmp_path / "x.tar", packed))

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 32 * 1024 * 1024
    assert time.monotonic() - started < 20


def test_a_size_below_0_is_refused_or_taken_for_the_end_of_what_was_cut(tmp_path: Path) -> None:
    """Which of both depends on the Python: since CVE-2025-8194 tarfile refuses it itself."""
    content = FILE + pax(record("size", "-1024")) + header("rig/pci", 0)

    with suppress(UsageError):
        (bundle,) = read_all(written(tmp_path / "x.tar", content))
        assert set(bundle.sections) == {"uname"}
        assert not bundle.sections["uname"].is_complete


def test_a_gzip_file_of_several_streams_and_something_behind_them(tmp_path: Path) -> None:
    content = tar([("rig/uname", UNAME)], "w")
    packed = b"".join(gzip.compress(content[at : at + 700]) for at in range(0, len(content), 700))

    for rest in (b"", bytes(1024), b"signature"):
        (bundle,) = read_all(written(tmp_path / "x.tar.gz", packed + rest))
        assert bundle.sections == {"uname": Collected(UNAME)}


def test_an_archive_cut_anywhere_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    sections = {"iommu-groups": "", "pci": answers.PCI, "uname": UNAME}
    bundle = answers.bundle(sections)
    full = save(bundle, tmp_path / "full.tar.gz", redacted=False).read_bytes()
    plain = gzip.decompress(full)
    file = tmp_path / "cut.tar.gz"
    seen = set()
    for content, step in ((full, 1), (plain, 61)):
        for length in range(0, len(content), step):
            file.write_bytes(content[:length])
            try:
                (found,) = read_all(file)
            except UsageError:
                continue
            for name, one in found.sections.items():
                assert not one.is_complete or one.text == sections[name]
            # Empty means that the IOMMU is off: what was lost must not look so.
            groups = HostSnapshot(found)[IOMMU_GROUPS].value
            assert groups is None or found.sections["iommu-groups"].is_complete
            seen.add(tuple(name for name, one in found.sections.items() if one.is_complete))
    assert () in seen
    assert ("iommu-groups", "pci", "uname") in seen


def test_a_cut_archive_without_its_meta_file_says_nothing_for_certain(tmp_path: Path) -> None:
    content = tar([("rig/iommu-groups", ""), ("rig/uname", UNAME), ("rig/meta.json", "{}")], "w")
    (bundle,) = read_all(written(tmp_path / "x.tar", content[: 3 * 512 + 300]))

    assert not bundle.sections["uname"].is_complete
    assert HostSnapshot(bundle)[IOMMU_GROUPS].value is None


def test_a_wrong_checksum(tmp_path: Path) -> None:
    content = bytearray(tar([("rig/uname", UNAME)]))
    content[-8] ^= 1

    assert "its checksum is wrong" in refusal(written(tmp_path / "x.tar.gz", bytes(content)))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_a_damaged_archive_is_never_a_fault_of_ours(tmp_path: Path, data: st.DataObject) -> None:
    mode = data.draw(st.sampled_from(["w:gz", "w"]))
    form = data.draw(st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]))
    long = "very-long-name/" * 8 + "rig"
    files = [(f"{long}/meta.json", '{"host": "rig"}'), (f"{long}/uname", UNAME)]
    content = bytearray(tar(files, mode, form))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    file = written(tmp_path / "x.tar.gz", bytes(content))
    try:
        assert all(isinstance(one, Bundle) for one in read_all(file))
    except UsageError as error:
        assert error.problems[0].file  # noqa: PT017 - either way is right


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        ('{"schema": "rigops.bundle/2"}', "newer rigops (rigops.bundle/2)"),
        ('{"schema": "other/1"}', "expected rigops.bundle/1"),
        ("{", "damaged or incomplete"),
        ("[]", "expected an object"),
        ("\0\xff", "damaged or incomplete"),
    ],
)
def test_a_meta_file_that_cannot_be_understood(tmp_path: Path, meta: str, message: str) -> None:
    archive = tar([("rig/meta.json", meta), ("rig/uname", UNAME)])
    folder = tmp_path / "rig"
    folder.mkdir()
    written(folder / "meta.json", meta)

    assert message in refusal(written(tmp_path / "x.tar.gz", archive))
    assert message in refusal(folder)


def test_a_meta_file_cannot_name_files_elsewhere(tmp_path: Path) -> None:
    meta = json.dumps({"sections": {"../../x": {}, "/etc/y": {}, "meta.json": {}, "pci": {}}})
    (bundle,) = read_all(written(tmp_path / "x.tgz", tar([("rig/meta.json", meta)])))

    assert list(bundle.sections) == ["pci"]
    assert not bundle.sections["pci"].is_complete


def test_a_section_that_is_told_of_and_lost_is_not_empty(tmp_path: Path) -> None:
    folder = save(answers.bundle({"iommu-groups": ""}), tmp_path / "rig", redacted=False)
    assert HostSnapshot(read_all(folder)[0])[IOMMU_GROUPS].value is not None
    (folder / "iommu-groups").unlink()

    assert HostSnapshot(read_all(folder)[0])[IOMMU_GROUPS].value is None


def test_binary_rubbish_is_kept_as_far_as_it_is_text(tmp_path: Path) -> None:
    (bundle,) = read_all(written(tmp_path / "x.tgz", tar([("rig/pci", b"\xff\0\xfe 0000:0a")])))

    assert bundle.sections["pci"].text == "�\0� 0000:0a"


@pytest.mark.parametrize("packed", [False, True])
def test_the_probes_own_output(tmp_path: Path, *, packed: bool) -> None:
    content = gzip.compress(PROBE.encode()) if packed else PROBE.encode()
    (bundle,) = read_all(written(tmp_path / "out.txt", content))

    assert (bundle.host, bundle.collected_at, bundle.root) == ("rig", "2026-01-31T18:00:00Z", True)
    assert bundle.sections["uname"] == Collected(UNAME, ms=500)
    assert not read_all(written(tmp_path / "cut", PROBE[:160]))[0].sections["uname"].is_complete


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "cut short or damaged"),
        ("\x1f\x8b", "cut short or damaged"),
        ("hello\n", "not a bundle"),
        ("rigops-probe/1 mark root=0 at= host=rig\n", "ends before its first section"),
        ("rigops-probe/2 mark root=0 at= host=rig\n", "newer rigops (rigops-probe/2)"),
        (gzip.compress(b"hello"), "not a bundle"),
        (gzip.compress(b"hello")[:12], "cut short or damaged"),
        (tar([("rig/README", "no section")]), "not a bundle"),
    ],
    ids=range(8),
)
def test_what_is_no_bundle(tmp_path: Path, content: str | bytes, message: str) -> None:
    data = content.encode("latin-1") if isinstance(content, str) else content

    assert message in refusal(written(tmp_path / "file", data))


def test_what_is_not_there(tmp_path: Path) -> None:
    assert "no such file" in refusal(tmp_path / "missing")
