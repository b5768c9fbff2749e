"""The question itself, asked by every shell of this machine of a stand-in for apt."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.packages.facts import AptSnapshot, parse_uris, snapshot_section
from tests.unit.probe.snippets import called, run, tree
from tests.unit.programs import SHELLS

STANZAS = (
    "Types: deb\nURIs: http://d.example.org/it's\nSuites: trixie trixie-updates\nSnapshot: DAY\n",
    "Types: deb\nURIs: http://s.example.org/\nSuites: trixie-security\nSnapshot: DAY\n",
)
# It answers with what it was given: the URI of the file that it was told to read.
APT_GET = """\
for word; do
    case $word in Dir::Etc::sourcelist=*) file=${word#*=} ;; esac
done
echo "$file" >>"$ROOT/files"
echo "$*" >"$ROOT/words"
case "$*" in *'indextargets --format $(REPO_URI) $(RELEASE)') ;; *) exit 1 ;; esac
uri=$(sed -n 's/^URIs: //p' "$file")
grep -q security "$file" && { echo "E: Snapshots not supported" >&2; exit 100; }
for suite in $(sed -n 's/^Suites: //p' "$file"); do
    for component in main contrib; do
        echo "$uri $suite"
        echo "http://me:secret@snap.example.org/DAY/ $suite"
    done
done
"""


@pytest.mark.parametrize("shell", SHELLS)
def test_each_stanza_is_asked_for_alone_and_nothing_is_left(shell: str, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    tree(tmp_path, {"programs/apt-get": f"#!/bin/sh\n{APT_GET}"})
    (programs / "apt-get").chmod(0o755)
    commands = f'export ROOT="{tmp_path}" PATH="{programs}:/usr/bin:/bin"'
    code, text = run(snapshot_section(STANZAS), shell, tmp_path, commands=commands)

    assert code == 0
    own, then = "http://d.example.org/it's", "http://***@snap.example.org/DAY/"
    first, second = parse_uris(text)
    assert {suite: set(uris) for suite, uris in first.items()} == {
        "trixie": {own, then},
        "trixie-updates": {own, then},
    }
    assert second == {}
    assert "-o Dir::Etc::sourceparts=/dev/null" in (tmp_path / "words").read_text()
    for file in (tmp_path / "files").read_text().split():
        assert file.startswith("/tmp/rigops-apt.")
        assert not Path(file).parent.exists()


def test_the_fact_reads_what_its_command_says() -> None:
    command = AptSnapshot().command(stanzas=STANZAS).get_raw_value()

    assert "it'\"'\"'" in command
    assert AptSnapshot().process([]) == ()


@given(st.text())
def test_any_text_is_read_without_raising(text: str) -> None:
    parse_uris(text)
    parse_uris(f"== 1\n{text}\n== 2\n{text}")


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_shellcheck_has_nothing_to_say() -> None:
    done = subprocess.run(
        ["shellcheck", "--shell=sh", "-"],
        input=called(snapshot_section(STANZAS).snippet),
        text=True,
        capture_output=True,
        check=False,
    )

    assert done.stdout == ""
