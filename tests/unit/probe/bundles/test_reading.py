"""Whatever somebody has kept a bundle in, and whatever somebody has made to do harm."""

from __future__ import annotations

import gzip
import json
import tarfile
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rigops.errors import UsageError
from rigops.probe.bundle import Bundle, Collected
from rigops.probe.bundles.reading import read_all
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

    assert read_all(save(bundle, tmp_path / name)) == [bundle]


@pytest.mark.parametrize("name", ["all.tar.gz", "folder"])
def test_several_hosts(tmp_path: Path, name: str) -> None:
    bundles = [Bundle(host, None, root=False, sections={}) for host in ("b", "a", "a", "../a/..")]

    found = read_all(save_all(bundles, tmp_path / name))

    assert sorted(one.host for one in found) == ["../a/..", "a", "a", "b"]


def test_a_directory_made_by_hand(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    for host in ("left", "right"):
        (tmp_path / host).mkdir()
        written(tmp_path / host / "uname.txt", UNAME)

    assert [one.host for one in read_all(tmp_path)] == ["left", "right"]
    assert read_all(tmp_path / "left")[0].sections == {"uname": Collected(UNAME)}
    assert "no file in it is named like a section" in refusal(tmp_path / "notes")


def test_a_directory_of_copied_outputs_is_one_machine(tmp_path: Path) -> None:
    (tmp_path / "post").mkdir()
    written(tmp_path / "post" / "dmesg.txt", "[    1.000000] NVRM: loading NVIDIA UNIX x86_64\n")
    written(tmp_path / "post" / "kernel.log", "BOOT_IMAGE=/vmlinuz root=/dev/sda1 quiet\n")
    copied = read_all(tmp_path / "post")
    written(tmp_path / "post" / "uname.txt", UNAME)
    mixed = read_all(tmp_path / "post")

    assert [(one.host, set(one.sections)) for one in copied] == [
        ("post", {"kernel-log", "proc-cmdline", "pasted"})
    ]
    assert {"kernel-log", "proc-cmdline", "uname"} <= set(mixed[0].sections)


def test_what_a_bundle_holds_is_no_paste(tmp_path: Path) -> None:
    """A name that a newer rigops gave to a section."""
    bundle = Bundle("rig", None, root=True, sections={"uname": Collected(UNAME)})
    bundle.write(tmp_path / "rig")
    written(tmp_path / "rig" / "newer", "[    1.000000] NVRM: loading NVIDIA UNIX x86_64\n")

    (found,) = read_all(tmp_path / "rig")

    assert "kernel-log" not in found.sections
    assert found.paste is None


def test_two_answers_for_one_section(tmp_path: Path) -> None:
    for name in ("uname", "uname.txt"):
        written(tmp_path / name, UNAME)

    assert "two files for the section uname" in refusal(tmp_path)


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


def test_a_gzip_file_of_several_streams_and_something_behind_them(tmp_path: Path) -> None:
    content = tar([("rig/uname", UNAME)], "w")
    packed = b"".join(gzip.compress(content[at : at + 700]) for at in range(0, len(content), 700))

    for rest in (b"", bytes(1024), b"signature"):
        (bundle,) = read_all(written(tmp_path / "x.tar.gz", packed + rest))
        assert bundle.sections == {"uname": Collected(UNAME)}


def test_an_archive_cut_anywhere_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    sections = {"iommu-groups": "", "pci": answers.PCI, "uname": UNAME}
    bundle = answers.bundle(sections)
    full = save(bundle, tmp_path / "full.tar.gz").read_bytes()
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
    folder = save(answers.bundle({"iommu-groups": ""}), tmp_path / "rig")
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
        ("rigops-probe/3 mark root=0 at= host=rig\n", "newer rigops (rigops-probe/3)"),
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
