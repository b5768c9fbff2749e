"""The program on a watched host, under every shell of this machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import IO, cast

import pytest

from rigops.hostside.packing import pack
from tests.unit.hostside.waiting import PATIENCE_S, until
from tests.unit.programs import SHELLS, assert_clean_shell, shell

# One that knows the older names, and goes on until it is ended, whatever signal it gets but KILL.
SMI = r"""#!/bin/sh
trap '' TERM
case "$*" in
    --help-query-gpu) printf '"%s"\n' count pci.bus_id clocks_throttle_reasons.sw_power_cap ;;
    '-q -d TEMPERATURE') echo 'GPU 00000000:01:00.0'; echo 't 99' ;;
    *)
        echo "$$" >"$HOME/pid"
        echo "asked $*"
        while :; do sleep 0.1; done
        ;;
esac
"""
JOURNAL = r"""#!/bin/sh
case "$*" in
    *-f*)
        echo "$$" >"$HOME/log"
        echo 'eth0: link up'
        echo 'NVRM: Xid (PCI:0000:01:00): 31'
        exec sleep 60
        ;;
    *) echo 'a line' ;;
esac
"""


def test_it_is_portable_and_without_a_finding_of_shellcheck() -> None:
    assert_clean_shell(pack("watch").text)


@pytest.mark.parametrize("shell_name", SHELLS)
def test_each_source_is_marked_and_nothing_is_left_when_the_input_ends(
    tmp_path: Path, shell_name: str
) -> None:
    for name, text in {"nvidia-smi": SMI, "journalctl": JOURNAL}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    process = subprocess.Popen(
        [*shell(shell_name), "-c", pack("watch").text, "watch", "1", "0"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)},
    )
    output = cast("IO[str]", process.stdout)
    seen: list[str] = []
    wanted = ("h ", "q asked", "k ", "t ")
    while not all(any(line.startswith(one) for line in seen) for one in wanted):
        line = output.readline()
        assert line, seen
        seen.append(line.rstrip("\n"))

    cast("IO[str]", process.stdin).close()
    process.wait(PATIENCE_S)
    left = [int((tmp_path / name).read_text()) for name in ("pid", "log")]
    until(lambda: not any(map(_is_alive, left)))
    output.close()

    asked = "--query-gpu=count,pci.bus_id,clocks_throttle_reasons.sw_power_cap --format=csv -l 1"
    assert f"q asked {asked}" in seen
    assert sorted(line for line in seen if line.startswith(("d ", "k "))) == [
        "d GPU 00000000:01:00.0",
        "d t 99",
        "k NVRM: Xid (PCI:0000:01:00): 31",
    ]


def _is_alive(pid: int) -> bool:
    """A zombie has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
