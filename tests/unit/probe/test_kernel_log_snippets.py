"""How logs are brought along from hosts of several kinds, under every shell of this machine."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rigops.probe import reading
from rigops.probe.script import PATH, script
from rigops.probe.sections import boots, kernel_log
from rigops.probe.snapshot import Answer, Facts, HostSnapshot
from tests.unit.programs import SHELLS, SHELLS_WHERE_SLOW, needed

if TYPE_CHECKING:
    from rigops.probe.section import Section

AWKS = tuple(filter(shutil.which, ("mawk", "gawk", "busybox")))

XID = "NVRM: Xid (PCI:0000:05:00): {}, pid=1, name=x"
REFUSES = """\
case "$*" in *-q*) ;; *) echo "Hint: You are currently not seeing messages" >&2 ;; esac
echo "No journal files were opened due to insufficient permissions." >&2
exit 1
"""
NO_DMESG = 'echo "dmesg: read kernel buffer failed: Operation not permitted" >&2; exit 1\n'
# 100000 lines, and among them each kind that matters.
LONG = """\
case "$*" in *"-n 1"*) echo newest; exit ;; esac
i=0
while [ "$i" -lt 20000 ]; do
    i=$((i + 1))
    echo "[$i.000000] usb 1-1: number $i"
    case "$i" in
        *777) echo "[$i.5] NVRM: Xid (PCI:0000:05:00): 31, pid=1, name=p$i, rootpw=geheim" ;;
        *55) echo "[$i.6] pcieport 0000:00:03.1: AER: Corrected error number $i" ;;
    esac
done
"""
ENDLESS = """\
case "$*" in
    *"-n 1") echo newest; exit ;;
    *"-n 300"*) echo "[99999.000000] NVRM: Xid (PCI:0000:06:00): 79, GPU has fallen"; exit ;;
esac
echo "[    1.000000] NVRM: Xid (PCI:0000:05:00): 13, first of all"
while :; do echo "[    2.000000] usb 1-1: again"; sleep 0.01; done
"""


class Host:
    """This machine, with one shell as its sh and with commands of our own making."""

    def __init__(self, folder: Path, shell: str) -> None:
        self.folder = folder
        self.path = f"{folder}:{PATH}"
        (folder / "sh").symlink_to(needed(shell))

    def command(self, name: str, program: str) -> None:
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{program}\n")
        path.chmod(0o755)

    def lack(self, name: str) -> None:
        """All commands of this machine but that one, and what was added here."""
        for place in PATH.split(":"):
            for one in Path(place).glob("*"):
                if one.name != name and not (self.folder / one.name).is_symlink():
                    (self.folder / one.name).symlink_to(one)
        self.path = str(self.folder)

    def ask(self, section: Section[Facts], timeout_s: int = 60) -> tuple[str, Answer[Facts]]:
        asked = replace(section, timeout_s=timeout_s)
        text = script((asked,), path=self.path)
        done = subprocess.run(
            [self.folder / "sh", "-s"],
            input=text.encode(),
            capture_output=True,
            check=True,
            timeout=120,
        )
        bundle = reading.read(done.stdout, host="here")
        assert bundle is not None
        assert done.stderr == b""
        return bundle.sections[section.name].text, HostSnapshot(bundle)[section]


@pytest.fixture(params=SHELLS)
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Host:
    return Host(tmp_path, request.param)


@pytest.fixture
def anyhost(tmp_path: Path) -> Host:
    return Host(tmp_path, "dash")


def test_a_long_journal_comes_along_in_part(host: Host) -> None:
    host.command("journalctl", LONG)

    text, found = host.ask(kernel_log.SECTION)

    assert found.value is not None
    assert found.is_complete
    assert text.startswith("== journalctl -k -b ")
    assert len(text.splitlines()) < 2000
    assert [one.detail for one in found.value.xids] == ["rootpw=***"] * 20
    assert "number 1\n" in text
    assert "number 20000\n" in text
    assert "number 12055\n" in text
    assert "usb 1-1: number 12056\n" not in text
    assert found.value.total_lines == 20_220


@pytest.mark.parametrize("awk", AWKS)
def test_every_awk_brings_the_same(anyhost: Host, awk: str) -> None:
    applet = "awk " if awk == "busybox" else ""
    anyhost.command("awk", f'exec {shutil.which(awk)} {applet}"$@"')
    anyhost.command("journalctl", LONG)

    text, known = anyhost.ask(kernel_log.SECTION)

    assert known.value is not None
    assert len(known.value.xids) == 20
    # The first 400 and the last 800, what matters between them, the head and what was left out.
    assert len(text.splitlines()) == 400 + 800 + 20 + 200 - 4 - 9 + 2


@pytest.mark.parametrize("host", SHELLS_WHERE_SLOW, indirect=True)
def test_what_was_read_in_time_is_kept_and_the_newest_too(host: Host) -> None:
    host.command("journalctl", ENDLESS)

    text, found = host.ask(kernel_log.SECTION, timeout_s=4)

    assert found.timed_out
    assert found.value is not None
    assert [one.number for one in found.value.xids] == [13, 79]
    assert "usb 1-1: again" in text


def test_a_guest_without_systemd_has_its_log_from_dmesg_alone(host: Host) -> None:
    host.lack("journalctl")
    (host.folder / "dmesg").unlink(missing_ok=True)
    host.command("dmesg", f'echo "[    1.000000] {XID.format(31)}"')

    text, found = host.ask(kernel_log.SECTION)

    assert found.is_complete
    assert found.value is not None
    assert found.value.unparsed == ()
    assert [one.number for one in found.value.xids] == [31]
    assert "journalctl" not in text


def test_a_journal_that_breaks_off_is_not_the_whole_log(host: Host) -> None:
    host.command("journalctl", 'echo "[ 1.0] NVRM: x"; case "$*" in *"-n 1") ;; *) exit 3 ;; esac')

    _, found = host.ask(kernel_log.SECTION)

    assert found.is_incomplete


def test_without_rights_there_is_no_log(host: Host) -> None:
    host.command("journalctl", REFUSES)
    host.command("dmesg", NO_DMESG)

    text, found = host.ask(kernel_log.SECTION)

    assert found.value is not None
    assert not found.value.is_a_log
    assert found.is_incomplete
    assert "insufficient permissions" in text
    assert "Operation not permitted" in text


@pytest.mark.parametrize("journal", [REFUSES, "exit 0", "echo; exit 0"])
def test_the_ring_buffer_where_the_journal_shows_nothing(host: Host, journal: str) -> None:
    host.command("journalctl", journal)
    host.command("dmesg", f'echo "[ 1.000000] {XID.format(79)}"')

    text, found = host.ask(kernel_log.SECTION)

    assert "== dmesg\n[ 1.000000] NVRM" in text
    assert not found.is_incomplete
    assert found.value is not None
    assert [one.number for one in found.value.xids] == [79]


def test_an_empty_ring_buffer_is_not_the_log(host: Host) -> None:
    host.command("journalctl", "exit 0")
    host.command("dmesg", "exit 0")

    _, found = host.ask(kernel_log.SECTION)

    assert found.is_incomplete


def test_the_previous_boot(host: Host) -> None:
    host.command(
        "journalctl", f'case "$*" in *"-b -1"*) echo "[ 1.0] {XID.format(48)}" ;; *) exit 1 ;; esac'
    )

    text, found = host.ask(kernel_log.KERNEL_LOG_PREVIOUS)

    assert text.startswith("== journalctl -k -b -1 ")
    assert not found.is_incomplete
    assert found.value is not None
    assert [one.number for one in found.value.xids] == [48]


def test_a_journal_that_forgets_has_no_previous_boot(host: Host) -> None:
    said = "Specifying boot ID or boot offset has no effect, no persistent journal was found."
    host.command(
        "journalctl", f'case "$*" in *"-b -1"*) echo "{said}" >&2; exit 1 ;; *) echo x ;; esac'
    )

    _, found = host.ask(kernel_log.KERNEL_LOG_PREVIOUS)

    assert not found.is_incomplete
    assert found.value is not None
    assert found.value.absent == said


def test_a_previous_boot_that_may_not_be_read_is_not_absent(host: Host) -> None:
    host.command("journalctl", REFUSES)
    host.command("id", "echo 1000")

    _, found = host.ask(kernel_log.KERNEL_LOG_PREVIOUS)

    assert found.is_incomplete
    assert found.value is not None
    assert found.value.absent is None


def test_the_history_keeps_xids_and_where_boots_begin(host: Host) -> None:
    lines = "\n".join(
        (
            "2026-01-01T00:00:00+0000 rig kernel: " + XID.format(79),
            "-- Boot 0123456789abcdef0123456789abcdef --",
            "2026-01-02T00:00:00+0000 rig kernel: usb 1-1: x",
            "2026-01-02T00:00:00+0000 rig kernel: " + XID.format(13),
        )
    )
    host.command("journalctl", f"cat <<'END'\n{lines}\nEND")

    text, found = host.ask(kernel_log.XID_HISTORY)

    assert found.value is not None
    assert [(one.number, one.entry.boot) for one in found.value.xids] == [
        (79, -1),
        (13, 0),
    ]
    assert "usb" not in text


def test_the_history_of_log_files_that_were_rotated(host: Host, tmp_path: Path) -> None:
    """With a NUL in them, as after a crash, and each boot with its first line."""
    logs = tmp_path / "log"
    logs.mkdir()
    first = "Jan {0} 18:00:00 rig kernel: [ 0.0] Linux version 5\n"
    line = f"{first}Jan {{0}} 19:00:00 rig kernel: [ 3600.0] usb\0 1-1\n"
    xid = "Jan {0} 19:00:01 rig kernel: [ 3601.0] " + XID.format("{1}")
    (logs / "kern.log.1.gz").write_bytes(
        gzip.compress((line + xid).format(28, 48).encode() + b"\n")
    )
    (logs / "kern.log").write_text((line + xid).format(29, 79) + "\n")
    os.utime(logs / "kern.log.1.gz", (time.time() - 90_000,) * 2)
    host.command("journalctl", "exit 1")
    snippet = kernel_log.XID_HISTORY.snippet.replace("/var/log", str(logs))

    text, found = host.ask(replace(kernel_log.XID_HISTORY, snippet=snippet))

    assert not found.is_incomplete
    assert found.value is not None
    assert [(one.number, one.entry.boot) for one in found.value.xids] == [
        (48, -1),
        (79, 0),
    ]
    assert "usb" not in text


def test_the_boots_and_how_the_last_one_ended(host: Host) -> None:
    boot = (
        "0123456789abcdef0123456789abcdef Fri 2026-01-30 17:00:00 UTC Fri 2026-01-30 18:00:00 UTC"
    )
    host.command(
        "journalctl",
        f'case "$*" in *list-boots*) echo "-1 {boot}"; echo " 0 {boot}" ;;'
        ' *"-b -1"*) echo "2026-01-30T18:00:00+0000 rig systemd-shutdown[1]: token=geheim" ;; esac',
    )

    text, found = host.ask(boots.SECTION)

    assert "geheim" not in text
    assert not found.is_incomplete
    assert found.value is not None
    assert [one.offset for one in found.value.boots] == [-1, 0]
    assert not found.value.unparsed


def test_boots_that_may_not_be_listed(host: Host) -> None:
    host.command("journalctl", REFUSES)
    host.command("id", "echo 1000")

    _, found = host.ask(boots.SECTION)

    assert found.is_incomplete
    assert found.value is not None
