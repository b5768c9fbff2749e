"""One apply per host: the lock on a booted host, over real connections that break."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.converge.lock import ApplyLock, Holder, LockedError, LockError, take, work_argv
from rigops.transport import HostKeyPolicy, Privilege, Target, connect, with_password
from tests.lab import clients, users
from tests.lab.applying import VERBOSE, sessions
from tests.lab.controllers import another_controller
from tests.lab.sshd import until
from tests.lab.users import PASSWORD
from tests.shards import LAB_APPLY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rigops.transport import Connection
    from tests.lab.conftest import Lab
    from tests.lab.hosts import Host

pytestmark = pytest.mark.shard(LAB_APPLY)

ME = Holder("me@here", "mine", "2025-11-21T23:00:00Z")

PREPARE = f"""
{users.added("asks", "free")}
{users.ASKS}
echo 'free ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/free
mkdir -p /root/slow/DEBIAN
cd /root/slow/DEBIAN
for line in 'Package: slow' 'Version: 1' 'Architecture: all' 'Maintainer: x <x@x>' 'Description: x'
do echo "$line"; done >control
printf '#!/bin/sh\\nsetsid sleep 97 </dev/null >/dev/null 2>&1 &\\nsleep 2\\n' >postinst
chmod 755 postinst
dpkg-deb --build /root/slow /root/slow.deb
"""


@pytest.fixture(scope="module")
def host(module_lab: Lab) -> Host:
    host = module_lab.one("threadripper-3x3090")
    done = host.run(PREPARE)
    assert done.returncode == 0, done.stderr
    return host


@pytest.fixture
def reach(host: Host) -> Iterator[Callable[..., Connection]]:
    opened: list[Connection] = []

    def one(user: str | None = None) -> Connection:
        target = Target(name=host.name, user=user, config_file=str(clients.config()))
        opened.append(connect(target, host_keys=HostKeyPolicy()))
        return opened[-1]

    yield one
    for connection in opened:
        connection.close()


def lock(connection: Connection, privilege: Privilege | None = None, **how: object) -> ApplyLock:
    told: Callable[[str], None] = how.get("tell", lambda _: None)  # type: ignore[assignment]  # of any
    return take(connection, privilege or Privilege("root"), ME, tell=told, deadline_s=60)


def test_a_live_holder_is_named_and_its_work_goes_on(
    host: Host, reach: Callable[..., Connection]
) -> None:
    with another_controller(host, user="free"):
        with pytest.raises(LockedError) as caught:
            lock(reach())

        (problem,) = caught.value.problems
        assert "kim@laptop, begun 2025-11-21T22:00:00Z, held for " in problem.message
        pid = problem.fix.rpartition("kill ")[2]
        assert host.run(f"kill -0 {pid}").returncode == 0


def test_a_killed_controller_leaves_a_notice_and_no_lock(
    host: Host, reach: Callable[..., Connection]
) -> None:
    with another_controller(host) as other:
        other.kill()
        other.wait()

    mine = lock(reach())

    assert "kim@laptop" in mine.notice
    mine.release()
    assert host.run("ls /var/lib/rigops").stdout.split() == ["lock"]
    assert host.run("stat -c '%a %U' /var/lib/rigops").stdout == "755 root\n"


def test_package_work_of_a_killed_controller_is_waited_for(
    host: Host, reach: Callable[..., Connection]
) -> None:
    with another_controller(host, "dpkg", "-i", "/root/slow.deb") as other:
        until(lambda: host.run("pgrep -f slow.postinst").returncode == 0, "the package's script")
        other.kill()
        other.wait()
    told: list[str] = []

    mine = lock(reach(), tell=told.append)

    assert told
    assert told[0].count("dpkg -i /root/slow.deb (pid ") == 2  # our own wrapper, and dpkg's lock
    assert mine.notice
    # What the package started goes on, and is nobody's work.
    assert host.run("dpkg-query -W -f '${Status}' slow").stdout == "install ok installed"
    assert host.run("pgrep -f 'sleep 97'").returncode == 0
    mine.release()


def test_sudo_with_a_password_holds_it_as_well(
    host: Host, reach: Callable[..., Connection]
) -> None:
    connection = reach("asks")
    privilege = with_password(connection, PASSWORD)
    assert privilege.kind == "password"

    mine = lock(connection, privilege)

    assert mine.held
    with pytest.raises(LockedError, match="me@here"):
        lock(reach())
    connection.close()  # as lost
    until(lambda: not _is_held(host), "the server to see that the connection is gone")
    again = lock(reach())
    assert again.notice == ""  # the same run
    assert again.held
    again.release()
    assert host.run("cat /var/lib/rigops/lock.json").returncode != 0


def _is_held(host: Host) -> bool:
    return host.run("flock -n /var/lib/rigops/lock true").returncode != 0


def test_a_holder_that_is_ended_on_the_host_is_seen_here(
    host: Host, reach: Callable[..., Connection]
) -> None:
    connection = reach()
    mine = lock(connection)
    assert mine.held

    host.run("kill $(sed 's/.*\"pid\": //; s/}//' /var/lib/rigops/lock.json)")

    until(lambda: not mine.held, "the end of the holder")
    assert connection.run(["echo", "on"], deadline_s=60).stdout == b"on\n"
    lock(connection).release()


@pytest.mark.parametrize(
    ("options", "fill", "said"),
    [
        ("ro", "", ("Read-only file system", "remount,rw")),
        ("size=64k", "head -c 1M /dev/zero >/var/lib/rigops/x", ("No space left", "free space")),
    ],
    ids=["read-only", "full"],
)
def test_a_root_that_takes_no_writes_is_named_with_its_fix(
    host: Host, reach: Callable[..., Connection], options: str, fill: str, said: tuple[str, str]
) -> None:
    host.run(f"mkdir -p /var/lib/rigops; mount -t tmpfs -o {options} none /var/lib/rigops; {fill}")
    try:
        with pytest.raises(LockError) as caught:
            lock(reach())
        stray = host.run("ls /var/lib/rigops").stdout.split()
    finally:
        host.run("umount /var/lib/rigops")

    (problem,) = caught.value.problems
    assert said[0] in problem.message
    assert said[1] in problem.fix
    assert not isinstance(caught.value, LockedError)
    assert [name for name in stray if name.startswith("lock.json")] == []


def test_it_costs_one_exec(host: Host, reach: Callable[..., Connection]) -> None:
    host.run(VERBOSE)
    until(lambda: sessions(host), "sshd to log them")
    connection = reach("free")
    before = sessions(host)

    mine = lock(connection, Privilege("free", ("sudo", "-n")))
    mine.release()

    assert sessions(host) - before - 1 == 1  # and the look into the log itself


def test_work_words_reach_the_command_through_sudo(reach: Callable[..., Connection]) -> None:
    connection = reach("free")

    done = connection.run(
        ["sudo", "-n", *work_argv(["printf", "%s|", "a  b", "-o"])], deadline_s=60
    )

    assert (done.exit_code, done.stdout) == (0, b"a  b|-o|")
