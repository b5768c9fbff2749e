"""Who signed which package: the document, and what of several is kept."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace

import pytest

from rigops.vault import signing
from rigops.vault.signatures import Signatures, chosen, document, read
from tests.unit.vault.making import package
from tests.unit.vault.signed import KEY, KEYRING, Archive

ONE, TWO = package("libcuda1", "535.261.03-1"), package("nvidia-smi", "535.261.03-1")
A, B, C, D = (letter * 64 for letter in "abcd")

SAID = f"""\
== release {A}
signature {B}
source http://***@deb.example/debian bookworm
keyring {KEYRING}
key {KEY}
key {KEY}
said Good signature from "Debian \x07Archive"
== index {C}
path non-free/binary-amd64/Packages
sha256 {D}
size 20
release {A}
== packages
{ONE.sha256} {C}
no digest
== trouble
main/binary-amd64/Packages of x is larger than 128 MB
"""


def test_the_document_is_read_as_it_was_written() -> None:
    signatures = Archive((ONE,)).signatures()

    text = document(signatures, (ONE, TWO))

    assert read(text) == signatures
    told = {one["file"]: one["signer"] for one in json.loads(text)["packages"]}
    assert told == {f"pool/{ONE.file}": KEYRING, f"pool/{TWO.file}": "not signed by anybody"}


@pytest.mark.parametrize("text", ["", "{}", document(Signatures(), ()).replace("/1", "/2")])
def test_a_document_that_cannot_be_read_tells_of_nobody(text: str) -> None:
    assert read(text) == Signatures()


def test_a_file_that_is_no_digest_is_no_file() -> None:
    signatures = Archive((ONE,)).signatures()
    (index,) = signatures.indexes
    text = document(signatures, (ONE,)).replace(index.file, "../../../etc/passwd")

    assert read(text) == Signatures()


def test_what_was_kept_before_stays_when_archives_sign_anew() -> None:
    before, now = Archive((ONE,)), Archive((ONE, TWO))
    first, second = before.signatures(), now.signatures()

    found = chosen((ONE, TWO), (first, second), {*before.files, *now.files})

    assert found.index_of(ONE.sha256) == first.indexes[0]
    assert found.index_of(TWO.sha256) == second.indexes[0]


def test_what_was_lost_or_signed_by_nobody_known_gives_way() -> None:
    stranger, known = Archive((ONE,), keyring=""), Archive((ONE,), detached=True)
    first, second = stranger.signatures(), known.signatures()
    every = {*stranger.files, *known.files}

    assert chosen((ONE,), (first, second), every).signer_of(ONE.sha256) == second.releases[0]
    lost = chosen((ONE,), (first, second), set(stranger.files))
    assert lost.signer_of(ONE.sha256) == first.releases[0]
    assert chosen((ONE,), (first, second), ()) == Signatures()


def test_what_the_host_tells_is_read() -> None:
    found, trouble = signing.parse(SAID)

    (release,), (index,) = found.releases, found.indexes
    assert (release.text, release.signature, release.keys) == (A, B, (KEY,))
    assert release.said == ('Good signature from "Debian Archive"',)
    assert (index.file, index.sha256, index.size, index.release) == (C, D, 20, A)
    assert found.packages == {ONE.sha256: C}
    assert found.signer_of(ONE.sha256) == release
    assert trouble == ("main/binary-amd64/Packages of x is larger than 128 MB",)


def test_what_is_no_digest_names_no_file() -> None:
    found, _ = signing.parse(SAID.replace(A, "../x").replace(C, "../y"))

    assert found == Signatures()


def test_an_answer_that_is_cut_short_signs_nothing() -> None:
    cut = SAID[: SAID.index("release " + A, 10)]

    assert signing.parse(cut)[0].packages == {}
    assert signing.parse("") == (Signatures(), ())


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="there is no shellcheck")
def test_shellcheck_has_nothing_to_say() -> None:
    text = signing.script([ONE, replace(TWO, sha256="1' ; x")])
    # What formats of apt's, and what apt-config, bring.
    done = subprocess.run(
        ["shellcheck", "--shell=sh", "--exclude=SC2154,SC2016", "-"],
        input=text,
        text=True,
        capture_output=True,
        check=False,
    )

    assert done.stdout == ""
    for shell in (["dash"], ["busybox", "sh"]):
        assert subprocess.run([*shell, "-n"], input=text, text=True, check=False).returncode == 0
