"""Files that rigops made and that its record on the host does not name, and damaged records."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from rigops.hostside.packing import installed_at, pack
from rigops.probe.sections import rigops_state
from rigops.probe.sections.rigops_state import (
    RECORD,
    RELOAD,
    RUNTIME,
    SECTION,
    STATE,
    RigopsState,
)
from tests import version_0_1
from tests.unit.probe.snippets import run, tree
from tests.unit.programs import SHELLS

if TYPE_CHECKING:
    from pathlib import Path

PLACES = (
    "/var/lib/rigops",
    "/etc/",
    "/boot/",
    "/usr/local/libexec",
    "/usr/local/sbin",
    "/run/rigops",
)
BLOCK = "# rigops owns the lines from here on\nA=1\n# rigops owns the lines up to here\n"
MADE = "# Made by rigops from limits in the inventory; made anew, never edited.\n"


def collected(root: Path, shell: str = "dash") -> RigopsState:
    code, output = run(SECTION, shell, root, *PLACES)
    assert code == 0
    return rigops_state.parse(output)


def record_of(root: Path, *paths: str) -> dict[str, str]:
    entries = "".join(f'      "path": "{root}{path}",\n' for path in paths)
    return {RECORD: f'{{"schema": "rigops.owned/1",\n{entries}}}\n'}


@pytest.mark.parametrize("shell", SHELLS)
def test_what_rigops_made_is_found_without_a_record_and_files_of_others_are_not(
    tmp_path: Path, shell: str
) -> None:
    made = {
        "/etc/security/limits.d/90-rigops.conf": MADE,
        "/etc/kernel/postinst.d/00-rigops-nvidia": f"#!/bin/sh\n{MADE}",
        "/usr/local/libexec/rigops/acs": pack("acs").text,
        "/etc/nccl.conf": f"B=2\n{BLOCK}",
        "/usr/local/libexec/rigops/thermal_guard": pack("thermal_guard").text,
        "/usr/local/sbin/rigops-guard": f"#!/bin/sh\n{MADE}",
        "/etc/rigops/notify": "url\nhttps://example.org\n",
    }
    named = {"/etc/rigops/other": "of somebody\n"}
    others = {
        "/etc/systemd/logind.conf.d/90-rigops.conf": "[Login]\n",
        "/etc/modprobe.d/rigops.conf.rigops-new": MADE,
    }
    tree(tmp_path, {**made, **named, **others})

    found = collected(tmp_path, shell)

    assert {path for path, one in found.unrecorded.items() if one.is_made} == {*made}
    assert {path for path, one in found.unrecorded.items() if not one.is_made} == {*named}
    assert found.unparsed == ()


@pytest.mark.parametrize("shell", SHELLS)
def test_units_that_wait_for_systemds_reload_are_named_once(tmp_path: Path, shell: str) -> None:
    waiting = "rigops-a.timer restart\nrigops-a.service reread\nrigops-a.timer restart\n"
    tree(tmp_path, {RELOAD: waiting})

    found = collected(tmp_path, shell)

    assert found.unread == ("rigops-a.timer", "rigops-a.service")
    assert (found.records, found.unparsed) == ({}, ())


@pytest.mark.parametrize("shell", SHELLS)
def test_what_a_service_of_rigops_does_now_is_a_record_too(tmp_path: Path, shell: str) -> None:
    text = '{"schema": "rigops.thermal_guard/1"}\n'
    tree(tmp_path, {f"{STATE}/holds.json": "{}\n", f"{RUNTIME}/thermal_guard.json": text})
    os.mkfifo(tmp_path / f"{RUNTIME}/other.json"[1:])

    found = collected(tmp_path, shell)
    records = {path.removeprefix(str(tmp_path)): body for path, body in found.records.items()}
    assert records == {
        f"{STATE}/holds.json": "{}\n",
        f"{RUNTIME}/thermal_guard.json": text,
        f"{RUNTIME}/other.json": "",
    }
    assert found.unparsed == ()


@pytest.mark.parametrize("shell", SHELLS)
def test_nothing_is_found_where_the_record_names_it_all(tmp_path: Path, shell: str) -> None:
    limits, lines = "/etc/security/limits.d/90-rigops.conf", f"{STATE}/lines/etc-nccl.conf"
    tree(tmp_path, {limits: MADE, lines: BLOCK, "/etc/nccl.conf": BLOCK})
    tree(tmp_path, record_of(tmp_path, limits, lines))

    assert collected(tmp_path, shell).unrecorded == {}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_record_that_is_no_file_or_without_end_is_named_and_not_read(
    tmp_path: Path, shell: str
) -> None:
    tree(tmp_path, {f"{STATE}/holds.json": "{}", f"{STATE}/journal.jsonl": "{}\n"})
    os.mkfifo(tmp_path / RECORD[1:])
    (tmp_path / f"{STATE}/proven.json"[1:]).mkdir()
    (tmp_path / f"{STATE}/driver.json"[1:]).symlink_to("holds.json")
    (tmp_path / f"{STATE}/leaving.json"[1:]).write_bytes(b"")
    os.truncate(tmp_path / f"{STATE}/leaving.json"[1:], 1 << 40)
    (tmp_path / f"{STATE}/journal.jsonl"[1:]).unlink()
    os.mkfifo(tmp_path / f"{STATE}/journal.jsonl"[1:])

    found = collected(tmp_path, shell)

    names = ("owned.json", "proven.json", "driver.json", "leaving.json", "journal.jsonl")
    assert set(found.misshapen) == {f"{STATE}/{name}" for name in names}
    assert {path for path, text in found.records.items() if text} == {f"{STATE}/holds.json"}
    assert found.records[f"{STATE}/proven.json"] == ""
    assert found.owned == ""


@pytest.mark.parametrize("shell", SHELLS)
def test_of_a_template_nothing_is_asked_since_systemd_would_answer_of_no_unit_then(
    tmp_path: Path, shell: str
) -> None:
    folder = "/etc/systemd/system"
    units = [f"{folder}/rigops-{name}" for name in ("a.service", "failed@.service", "b.timer")]
    paths = [*units, f"{folder}/rigops-.service.d/rigops-failed.conf"]
    entries = "".join(f'      "path": "{path}",\n' for path in paths)
    tree(
        tmp_path,
        {RECORD: f'{{"schema": "rigops.owned/1",\n{entries}}}\n', "/run/systemd/system/x": ""},
    )
    asked = 'systemctl() { for one; do echo "asked $one"; done; }'

    places = ("/var/lib/rigops", "/run/systemd/system")
    code, output = run(SECTION, shell, tmp_path, *places, commands=asked)

    assert code == 0
    words = [one.partition(" ")[2] for one in output.splitlines() if one.startswith("asked ")]
    assert words[3:] == ["rigops-a.service", "rigops-b.timer"]


def test_every_file_that_version_0_1_wrote_is_found(tmp_path: Path) -> None:
    written = [
        one["path"]
        for one in version_0_1.load("manifest.json")
        if one["kind"] == "file" and not one["path"].startswith(STATE)
    ]
    for path in written:
        text = (version_0_1.FOLDER / "host" / path[1:]).read_text()
        tree(tmp_path, {path: text})

    found = collected(tmp_path).unrecorded

    assert set(found) == set(written)
    assert all(one.is_made for one in found.values())


@pytest.mark.parametrize(
    "program",
    [
        *("acs", "cpu_tuning", "gpu_tuning", "kernel_hook", "notify", "nvidia_modules"),
        *("own_modules", "self_check", "trial"),
    ],
)
def test_every_program_that_stays_on_hosts_is_recognized(tmp_path: Path, program: str) -> None:
    tree(tmp_path, {installed_at(program): pack(program).text})

    assert collected(tmp_path).unrecorded[installed_at(program)].is_made
