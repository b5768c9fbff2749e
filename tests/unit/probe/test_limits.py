from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.probe.sections import limits
from rigops.probe.sections.limits import Limits, Range
from tests.unit.probe.asking import ask
from tests.unit.programs import SHELLS

if TYPE_CHECKING:
    from pathlib import Path

SAID = """\
== df -P -k /dev/shm
Filesystem     1024-blocks  Used Available Capacity Mounted on
tmpfs             65845312  1024  65844288       1% /dev/shm
== /proc/self/limits
Limit                     Soft Limit           Hard Limit           Units     \n\
Max open files            1024                 1048576              files     \n\
Max locked memory         8388608              unlimited            bytes     \n\

== /etc/security/limits.d/90-gpu.conf
*    soft    memlock    unlimited  # for NCCL
@render - nofile 1048576
== /proc/sys/kernel/numa_balancing
1

== /sys/devices/system/node/online
0-1,4

== stat /dev/shm
1700000000 4194660 /dev/shm/nccl-03v824
== ls /var/lib/systemd/linger
no
== systemctl show
DefaultLimitNOFILE=524288
DefaultLimitMEMLOCK=18446744073709551615
== busctl get-property logind RemoveIPC
b true
== timedatectl show
NTPSynchronized=yes
"""


def test_what_is_in_force() -> None:
    found = limits.parse(SAID)

    assert (found.shm_bytes, found.shm_used_bytes) == (65845312 * 1024, 1024 * 1024)
    assert found.memlock is not None
    assert (found.memlock.soft, found.memlock.hard) == (8388608, "unlimited")
    assert found.nofile is not None
    assert (found.nofile.soft, found.nofile.hard) == (1024, 1048576)
    assert (found.numa_balancing, found.numa_nodes) == (1, 3)
    assert found.ntp_synchronized is True
    assert not found.unparsed


def test_what_is_configured() -> None:
    found = limits.parse(SAID)

    assert [(one.domain, one.kind, one.item, one.value) for one in found.configured] == [
        ("*", "soft", "memlock", "unlimited"),
        ("@render", "-", "nofile", "1048576"),
    ]


def test_the_raw_lines() -> None:
    said = limits.parse(SAID).raw

    assert said["ntp_synchronized"] == "NTPSynchronized=yes"
    assert said["shm_bytes"].endswith("/dev/shm")


@pytest.mark.parametrize(
    ("said", "in_time"),
    [
        ("== ls /run/systemd/timesync/synchronized\nyes\n", True),
        ("== ls /run/systemd/timesync/synchronized\nno\n", False),
        ("== chronyc -n tracking\nLeap status     : Normal\n", True),
        ("== chronyc -n tracking\nLeap status     : Not synchronised\n", False),
        ("== chronyc -n tracking\n506 Cannot talk to daemon\n", None),
    ],
)
def test_whoever_keeps_the_time_is_asked(said: str, *, in_time: bool | None) -> None:
    assert limits.parse(said).ntp_synchronized is in_time


def test_nothing_said_is_nothing_known() -> None:
    assert limits.parse("") == Limits()
    assert limits.parse("== timedatectl show\nFailed to connect to bus\n").ntp_synchronized is None


@pytest.mark.parametrize(
    ("text", "memlock", "nofile"),
    [
        ("== ulimit -l\n65536\n", 65536 * 1024, None),
        ("== ulimit -l\nunlimited\r\n== ulimit -n\n1024\n", "unlimited", 1024),
        ("== ulimit -l\nulimit: bad option\n", None, None),
        ("== ulimit -n\n" + "9" * 5000, None, None),
    ],
)
def test_limits_as_people_save_them(text: str, memlock: object, nofile: object) -> None:
    found = limits.parse(text)

    def soft(one: Range | None) -> object:
        return one and one.soft

    assert (soft(found.memlock), soft(found.nofile)) == (memlock, nofile)


def test_a_command_that_nobody_knows_is_unparsed() -> None:
    assert limits.parse("== ipcs\nrubbish\n").unparsed == ("ipcs",)


@pytest.mark.parametrize("shell", SHELLS)
def test_this_machine(shell: str, tmp_path: Path) -> None:
    configured = tmp_path / "etc/security/limits.d/gpu.conf"
    configured.parent.mkdir(parents=True)
    configured.write_text("# comment\n\n* - memlock unlimited\n")

    answer = ask(limits.SECTION, shell, tmp_path)

    assert answer.is_complete
    found = limits.parse(answer.text)
    assert found.nofile is not None
    assert found.memlock is not None
    assert [one.line for one in found.configured] == ["* - memlock unlimited"]
    assert not found.unparsed
