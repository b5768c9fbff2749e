"""What the limits depend on, asked under every shell of this machine and read from any text."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.concerns.base.facts import SECTION, parse
from rigops.probe import reading
from rigops.probe.script import script
from tests.unit import programs

SAID = """\
== /run/systemd/system
ignored
== ls /run/systemd/system
yes
== grep MemTotal /proc/meminfo
MemTotal:       24684092 kB
== /proc/sys/fs/nr_open
1048576

== /etc/fstab
# tmpfs /dev/shm tmpfs size=1G 0 0
UUID=1 / ext4 defaults 0 1
tmpfs /dev/shm tmpfs nosuid,size=8G 0 0

== /etc/systemd/system.conf
[Manager]
DefaultLimitNOFILE=9

== ulimit -H -l unlimited
no
"""


def test_an_answer_is_read() -> None:
    found = parse(SAID)

    assert (found.systemd, found.may_raise) == (True, False)
    assert (found.memory_bytes, found.most_files) == (24684092 * 1024, 1048576)
    assert found.planned_shm is not None
    assert found.planned_shm.options == ("nosuid", "size=8G")
    assert found.settings["/etc/systemd/system.conf"].startswith("[Manager]\nDefaultLimitNOFILE=9")


def test_no_answer_is_not_a_host_without_systemd() -> None:
    assert parse("").systemd is None


@given(st.text())
def test_any_text_is_read_without_raising(text: str) -> None:
    parse(text)
    parse(f"== /etc/fstab\n{text}\n== grep MemTotal /proc/meminfo\n{text}")


@pytest.mark.parametrize("shell", programs.SHELLS)
def test_every_shell_gives_a_whole_answer(shell: str) -> None:
    done = subprocess.run(
        programs.shell(shell), input=script([SECTION]).encode(), capture_output=True, check=True
    )
    bundle = reading.read(done.stdout)

    assert bundle is not None
    answer = bundle.sections[SECTION.name]
    assert answer.is_complete
    found = parse(answer.text)
    assert found.systemd is not None
    assert found.may_raise is not None
    assert found.memory_bytes is not None
    assert found.most_files is not None
