"""Whether package, index and release hang together."""

from __future__ import annotations

import gzip
from dataclasses import replace

import pytest

from rigops.vault import chain
from rigops.vault.chain import faults, signed_text
from rigops.vault.signatures import Signatures
from tests.unit.vault.making import package
from tests.unit.vault.signed import PATH, Archive, index_text, inline, release_text

ONE, TWO = package("libcuda1", "535.261.03-1"), package("nvidia-smi", "535.261.03-1")


def broken(archive: Archive, signatures: Signatures) -> dict[str, str]:
    return faults(signatures, (ONE, TWO), archive.files.get)


@pytest.mark.parametrize("detached", [False, True])
def test_what_an_archive_signed_holds(*, detached: bool) -> None:
    archive = Archive((ONE, TWO), detached=detached)

    assert broken(archive, archive.signatures()) == {}


def test_what_nobody_signed_is_no_fault() -> None:
    assert broken(Archive(()), Signatures()) == {}


@pytest.mark.parametrize(
    "other",
    [
        replace(ONE, name="libcuda2"),
        replace(ONE, version="535.261.03-2"),
        replace(ONE, architecture="i386"),
        replace(ONE, size=ONE.size + 1),
        replace(ONE, sha256="0" * 64),
    ],
)
def test_another_package_in_the_index_is_a_fault_of_that_one_alone(other: object) -> None:
    archive = Archive((ONE, TWO))
    signatures = archive.signatures(index_text((other, TWO)))  # type: ignore[arg-type]

    found = broken(archive, signatures)

    assert found == {ONE.file: "the signed index has no such package with this digest"}


def test_an_index_that_its_release_does_not_name_proves_nothing() -> None:
    archive = Archive((ONE, TWO))
    release = release_text(index_text((ONE,)))

    found = broken(archive, archive.signatures(release=release))

    assert set(found) == {ONE.file, TWO.file}
    assert f"has another {PATH}" in found[ONE.file]


def test_the_digests_of_another_kind_do_not_count() -> None:
    archive = Archive((ONE, TWO))
    release = release_text(index_text((ONE, TWO))).replace("SHA256:", "SHA512:")

    assert f"has another {PATH}" in broken(archive, archive.signatures(release=release))[ONE.file]


@pytest.mark.parametrize("what", ["index", "release"])
def test_what_is_not_here_proves_nothing(what: str) -> None:
    archive = Archive((ONE, TWO))
    signatures = archive.signatures()
    gone = signatures.indexes[0].file if what == "index" else signatures.releases[0].text
    del archive.files[gone]

    assert "is not here" in broken(archive, signatures)[ONE.file]


def test_an_index_with_another_content_than_its_release_says_is_seen() -> None:
    archive = Archive((ONE, TWO))
    signatures = archive.signatures()
    archive.files[signatures.indexes[0].file] = gzip.compress(index_text((TWO, ONE)))

    assert "is not the one that is signed" in broken(archive, signatures)[ONE.file]


@pytest.mark.parametrize(
    "data", [b"no gzip", gzip.compress(b"x" * 100, mtime=0)[:-9]], ids=["another", "cut short"]
)
def test_an_index_that_cannot_be_unpacked_is_a_fault(data: bytes) -> None:
    archive = Archive((ONE, TWO))
    signatures = archive.signatures()
    archive.files[signatures.indexes[0].file] = data

    assert set(broken(archive, signatures)) == {ONE.file, TWO.file}


def test_no_more_is_unpacked_than_an_index_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    archive = Archive((ONE, TWO))
    signatures = archive.signatures()
    monkeypatch.setattr(chain, "LARGEST", 10)

    assert "larger than any" in broken(archive, signatures)[ONE.file]


@pytest.mark.parametrize(
    "around",
    [
        b"SHA256:\n evil\n%s",
        b"%sSHA256:\n evil\n",
        b"%s%s",
        b"-----BEGIN PGP SIGNED MESSAGE-----\n%s",
    ],
)
def test_what_stands_around_the_signed_text_is_not_read(around: bytes) -> None:
    signed = inline(release_text(b"index"))

    with pytest.raises(ValueError, match="signed text"):
        signed_text(around.replace(b"%s", signed), has_signature=True)


def test_dashes_of_a_signed_text_are_as_they_were() -> None:
    assert signed_text(inline("-a\nb\n"), has_signature=True) == "-a\nb"
