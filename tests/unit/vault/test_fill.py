from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from rigops.vault import fill
from rigops.vault.pinned_set import FOLDER
from tests.unit import programs
from tests.unit.vault.pinned_sets import index_of, package, pinned_set

if TYPE_CHECKING:
    from pathlib import Path

SAID = f"""\
== stored
libcuda1 535.261.03-1 amd64 {"a" * 64} 20
dkms 3.0.10-8+deb12u1 all {"b" * 64} 30
== control
Package: libcuda1
Version: 535.261.03-1
Depends: libc6

Package: dkms
Version: 3.0.10-8+deb12u1
"""


def test_what_is_stored_is_read_with_its_fields() -> None:
    found = fill.parse(SAID)

    assert [one.file for one in found.packages] == [
        "dkms_3.0.10-8+deb12u1_all.deb",
        "libcuda1_535.261.03-1_amd64.deb",
    ]
    assert found.records[0][1]["Depends"] == "libc6"


def test_a_package_without_fields_is_left_out() -> None:
    found = fill.parse(SAID.replace("Package: dkms", "Package: other"))

    assert [one.name for one in found.packages] == ["libcuda1"]


def test_an_answer_that_is_cut_short_is_read_as_far_as_it_goes() -> None:
    assert fill.parse("== trouble\nE: no\n").trouble == "E: no"
    assert fill.parse("").packages == ()


@pytest.mark.parametrize("shell", programs.SHELLS)
def test_writing_the_record_drops_what_no_set_has(tmp_path: Path, shell: str) -> None:
    """As it does there, in another folder."""
    now, old = pinned_set("535.261.03"), pinned_set("535.183.01")
    pool = tmp_path / "pool"
    pool.mkdir()
    for one in (now, old):
        for its in one.packages:
            (pool / its.file).touch()
    (tmp_path / "000000000000.packages").touch()
    for name in (f"{now.index[:12]}.signatures", "000000000000.signatures"):
        (tmp_path / name).touch()
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / ("0" * 64)).touch()
    text = fill.record_script([now], now, index_of("535.261.03"))

    subprocess.run(
        [*programs.shell(shell), "-s"],
        input=text.replace(FOLDER, str(tmp_path)),
        text=True,
        check=True,
    )

    assert {path.name for path in pool.iterdir()} == {one.file for one in now.packages}
    assert not (tmp_path / "lists").exists()
    assert list(tmp_path.glob("*.signatures")) == []
    (found,) = tmp_path.glob("*.packages")
    assert found.read_text() == index_of("535.261.03")
    assert '"535.261.03"' in (tmp_path / "vault.json").read_text()
    assert found.stat().st_mode & 0o777 == 0o644


def test_names_and_digests_reach_the_shell_as_words() -> None:
    text = fill.script(["a; rm -rf /"], [package("b", "1' ; x")])

    done = subprocess.run(
        ["sh", "-nc", text], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )

    assert done.returncode == 0
    assert "names=''\"'\"'a; rm -rf /'\"'\"''" in text


@pytest.mark.parametrize(
    "text",
    [
        fill.script(["libcuda1"], [package("a", "1")]),
        fill.record_script([pinned_set("535.261.03")], pinned_set("535.261.03"), "x"),
    ],
    ids=["fill", "write"],
)
def test_shellcheck_has_nothing_to_say(text: str) -> None:
    # What apt-config and a format of dpkg's bring.
    programs.assert_clean_shell(text, exclude="SC2154,SC2016")


@pytest.mark.parametrize("shell", programs.SHELLS)
def test_every_shell_can_read_it(shell: str) -> None:
    text = fill.script(["libcuda1"], [package("a", "1")])
    text += fill.record_script([pinned_set("535.261.03")], pinned_set("535.261.03"), "x")

    words = [*programs.shell(shell), "-n"]
    assert subprocess.run(words, input=text, text=True, check=False).returncode == 0
