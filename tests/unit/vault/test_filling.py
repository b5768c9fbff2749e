from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from rigops.vault import filling
from rigops.vault.kept import FOLDER
from rigops.vault.signatures import document, read
from tests.unit.vault.making import index_of, kept_set, package
from tests.unit.vault.signed import Archive

if TYPE_CHECKING:
    from pathlib import Path

SAID = f"""\
== kept
libcuda1 535.261.03-1 amd64 {"a" * 64} 20
dkms 3.0.10-8+deb12u1 all {"b" * 64} 30
== lost
libnvidia-ml1 535.261.03-1
== control
Package: libcuda1
Version: 535.261.03-1
Depends: libc6

Package: dkms
Version: 3.0.10-8+deb12u1
"""


def test_what_is_kept_and_what_is_lost_is_read() -> None:
    found = filling.parse(SAID)

    assert [one.file for one in found.packages] == [
        "dkms_3.0.10-8+deb12u1_all.deb",
        "libcuda1_535.261.03-1_amd64.deb",
    ]
    assert found.lost == ("libnvidia-ml1 535.261.03-1",)
    assert found.records[0][1]["Depends"] == "libc6"


def test_who_signed_before_is_read_with_the_files_that_are_there() -> None:
    now = kept_set("535.261.03")
    signatures = Archive(now.packages).signatures()
    text = document(signatures, now.packages)
    said = f"{SAID}== lists\n{'a' * 64}\n== {now.signatures_file}\n{text}"

    found = filling.parse(said)

    assert found.signatures == {now.signatures_file: signatures}
    assert found.lists == {"a" * 64}


def test_a_package_that_says_nothing_of_itself_is_not_kept() -> None:
    found = filling.parse(SAID.replace("Package: dkms", "Package: other"))

    assert [one.name for one in found.packages] == ["libcuda1"]


def test_an_answer_that_is_cut_short_is_read_as_far_as_it_goes() -> None:
    assert filling.parse("== trouble\nE: no\n").trouble == "E: no"
    assert filling.parse("").packages == ()


def test_writing_the_record_drops_what_no_set_has(tmp_path: Path) -> None:
    """As it does there, in another folder."""
    now, old = kept_set("535.261.03"), kept_set("535.183.01")
    pool = tmp_path / "pool"
    pool.mkdir()
    for one in (now, old):
        for its in one.packages:
            (pool / its.file).touch()
    for name in ("000000000000.packages", "000000000000.signatures"):
        (tmp_path / name).touch()
    lists = tmp_path / "lists"
    lists.mkdir()
    signatures = Archive(now.packages).signatures()
    for file in (*signatures.files, "0" * 64):
        (lists / file).touch()
    text = filling.writing([now], now, index_of("535.261.03"), {now.signatures_file: signatures})

    for shell in (["dash"], ["busybox", "sh"]):
        subprocess.run(
            [*shell, "-s"],
            input=text.replace(FOLDER, str(tmp_path)),
            text=True,
            check=True,
        )

    assert {path.name for path in pool.iterdir()} == {one.file for one in now.packages}
    assert {path.name for path in lists.iterdir()} == set(signatures.files)
    (signed,) = tmp_path.glob("*.signatures")
    assert read(signed.read_text()) == signatures
    (found,) = tmp_path.glob("*.packages")
    assert found.read_text() == index_of("535.261.03")
    assert '"535.261.03"' in (tmp_path / "vault.json").read_text()
    assert found.stat().st_mode & 0o777 == 0o644


def test_names_and_digests_reach_the_shell_as_words() -> None:
    text = filling.script(["a; rm -rf /"], [package("b", "1' ; x")])

    done = subprocess.run(
        ["sh", "-nc", text], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )

    assert done.returncode == 0
    assert "names=''\"'\"'a; rm -rf /'\"'\"''" in text


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="there is no shellcheck")
@pytest.mark.parametrize(
    "text",
    [
        filling.script(["libcuda1"], [package("a", "1")]),
        filling.writing([kept_set("535.261.03")], kept_set("535.261.03"), "x", {}),
    ],
    ids=["fill", "write"],
)
def test_shellcheck_has_nothing_to_say(text: str) -> None:
    # What apt-config and a format of dpkg's bring.
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
