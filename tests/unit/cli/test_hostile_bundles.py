"""Bundles of strangers: whatever they hold, the terminal gets none of it raw."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest

from tests import hostile
from tests.unit.probe import answers
from tests.unit.probe.bundles.archives import UNAME, tar

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.unit.cli.conftest import Rigops
    from tests.unit.forks import Said


def raw_of(said: Said) -> list[str]:
    return hostile.raw(said.out + said.err)


def fit(text: str) -> str:
    """For the name of a file."""
    return text.replace("/", "").replace("\\", "").replace("\0", "").replace("\ud800", "")


def in_meta(text: str, path: Path) -> None:
    meta = json.dumps({"host": text, "collected_at": text, "sections": {text: {}, "uname": {}}})
    path.write_bytes(tar([("rig/meta.json", meta), ("rig/uname", UNAME)]))


def in_the_folder(text: str, path: Path) -> None:
    path.write_bytes(tar([(f"{fit(text)}/uname", UNAME)]))


def in_a_refused_member(text: str, path: Path) -> None:
    path.write_bytes(tar([(f"../{fit(text)}", UNAME)]))


def in_the_schema(text: str, path: Path) -> None:
    path.write_bytes(tar([("rig/meta.json", json.dumps({"schema": text}))]))


def in_the_output_of_the_probe(text: str, path: Path) -> None:
    path.write_text(
        f"rigops-probe/1 mark-1 root=1 at={text} host={text}\n"
        f"mark-1 begin uname root=0 limit=6\n{text}{UNAME}\nmark-1 rc=0 from=1.0 to=1.5\n\n"
        "mark-1 end uname\nmark-1 done\n",
        errors="replace",
    )


def in_a_bug_report(text: str, path: Path) -> None:
    report = (
        f"____\n\nStart of NVIDIA bug report log file. {text}\n"
        f"nvidia-bug-report.sh Version: {text}\nDate: {text}\n"
        f"uname: Linux {text} 6.1.0\ncommand line flags: {text}\n____\n"
    )
    path.write_bytes(gzip.compress(report.encode("utf-8", "replace")))


def in_every_section(text: str, path: Path) -> None:
    sections = {
        name: "".join(
            f"{line}\n{line[: len(line) // 2]}{text}{line[len(line) // 2 :]}\n{text}{line}\n"
            for line in content.splitlines()
        )
        for name, content in answers.BROKEN.items()
    }
    path.write_bytes(
        tar((f"rig/{name}", said.encode("utf-8", "replace")) for name, said in sections.items())
    )


PLACES: dict[str, Callable[[str, Path], None]] = {
    "meta.json": in_meta,
    "the folder": in_the_folder,
    "a refused member": in_a_refused_member,
    "the schema": in_the_schema,
    "the output of the probe": in_the_output_of_the_probe,
    "a bug report": in_a_bug_report,
    "every section": in_every_section,
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("options", [(), ("-v",), ("--json",)], ids=["text", "verbose", "json"])
def test_a_bundle_steers_no_terminal(
    rigops: Rigops, tmp_path: Path, place: str, options: tuple[str, ...]
) -> None:
    found = {}
    for number, (name, text) in enumerate(hostile.STRINGS.items()):
        if place == "every section" and number % 4:  # a host each, which takes its time
            continue
        PLACES[place](text, tmp_path / f"{number}.tar.gz")
        said = rigops("doctor", "--from", f"{number}.tar.gz", *options)
        assert said.out + said.err
        found[name] = raw_of(said)

    assert found == {name: [] for name in found}


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["text", "json"])
def test_a_path_steers_no_terminal(
    rigops: Rigops, tmp_path: Path, options: tuple[str, ...]
) -> None:
    found = {}
    for name, text in hostile.STRINGS.items():
        (tmp_path / fit(text)).mkdir()
        (tmp_path / fit(text) / "pci").symlink_to("nothing")
        for given in (fit(text), f"{fit(text)}.missing"):
            said = rigops("doctor", "--from", given, *options)
            assert said.code == 2
            found[name, given] = raw_of(said)

    assert found == {name: [] for name in found}
