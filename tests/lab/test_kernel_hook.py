"""New kernels on a booted host with a pinned driver, whom it tells of them, and what is held."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest

from rigops.concerns.nvidia_driver.record import PATH, PinnedDriver, document
from tests.lab import hosts
from tests.lab.demo_packages import begin_work, end_work
from tests.lab.laptop import Laptop
from tests.lab.listening import Listening, listening
from tests.lab.tended import Tended
from tests.shards import LAB_DRIVER

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME: Final = "kernel-hook"
PINNED: Final = "545.29.06"  # what the rig has
WITH, WITHOUT = "6.1.0-50-amd64", "6.1.0-47-amd64"
TOLD: Final = "/root/told"
COMMAND: Final = f'{{ echo "== $RIGOPS_HOST: $RIGOPS_SUBJECT"; cat; }} >>{TOLD}'
pytestmark = pytest.mark.shard(LAB_DRIVER)

SECRET: Final = "hush-hush-7f3a"
PATIENCE_S: Final = 120
DEPLOY: Final = """
from pyinfra.context import host
from rigops.packages.operations import held, kernel_metas
from rigops.concerns.nvidia_driver.modules import kernel_hook
from rigops.concerns.monitoring.operations import NOTIFY_ABSENCE, install_notify
from rigops.inventory.spec.model import Notify
from rigops.ownership.owned_files import undo_undeclared

kind = "url" if {target!r}.startswith("http") else "command"
install_notify(concern="hook", target=Notify(**{{kind: {target!r}}}) if {target!r} else None)
if {wanted!r}:
    kernel_hook(concern="hook")
held(name="Holds", concern="hook", names=kernel_metas(host) if {hold!r} else ())
undo_undeclared(name="The rest", concern="hook", effects=NOTIFY_ABSENCE)
"""


@dataclass(frozen=True)
class Rig(Tended):
    def does(self, command: str) -> str:
        done = self.host.run(command, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def has(self, target: str = "", *, wanted: bool = False, hold: bool = False) -> str:
        """Brings it about; what pyinfra says of it."""
        deploy = self.laptop.folder / "hook.py"
        deploy.write_text(DEPLOY.format(target=target, wanted=wanted, hold=hold))
        self.declare()
        done = self.pyinfra(deploy, "-y")
        assert done.returncode == 0, done.stderr
        return done.stderr

    def judged(self) -> str:
        """What was told, once every new kernel has been looked at."""
        deadline = time.monotonic() + PATIENCE_S
        while self.does("systemctl list-units --all --plain --no-legend 'rigops-kernel-hook-*'"):
            assert time.monotonic() < deadline
            time.sleep(0.2)
        return self.does(f"cat {TOLD} 2>/dev/null; rm -f {TOLD}")


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with hosts.running([f"threadripper-3x3090={NAME}"]) as (host,):
        record = PinnedDriver(version=PINNED, flavor="proprietary", declared=PINNED)
        done = host.run(f"mkdir -p /var/lib/rigops && cat >{PATH}", given=document(record))
        assert done.returncode == 0, done.stderr
        rig = Rig(Laptop(tmp_path_factory.mktemp("laptop")), host)
        rig.has(COMMAND, wanted=True)
        yield rig


@pytest.fixture
def server() -> Iterator[Listening]:
    with listening() as told:
        yield told


def test_a_kernel_with_headers_gets_the_module_and_nobody_hears_of_it(rig: Rig) -> None:
    rig.does(f"apt-get -q -y install linux-image-{WITH} linux-headers-{WITH}")

    assert rig.judged() == ""
    assert f"{WITH}, x86_64: installed" in rig.does("dkms status")
    assert "has no NVIDIA module" not in rig.does("journalctl -t rigops -o cat")


def test_a_kernel_without_headers_is_told_once(rig: Rig) -> None:
    rig.does(f"apt-get -q -y install linux-image-{WITHOUT}")

    told = rig.judged()
    assert told.startswith(f"== {NAME}: kernel {WITHOUT} has no NVIDIA module {PINNED}\n")
    assert told.count("== ") == 1
    assert f"sudo apt install linux-headers-{WITHOUT}" in told
    assert f"kernel {WITHOUT} has no NVIDIA module" in rig.does("journalctl -t rigops -o cat")


def test_headers_that_come_later_bring_the_module_and_end_it(rig: Rig) -> None:
    rig.does(f"apt-get -q -y install linux-headers-{WITHOUT}")

    assert rig.judged() == ""
    assert f"{WITHOUT}, x86_64: installed" in rig.does("dkms status")


def test_a_build_that_fails_is_told_though_it_ends_the_hooks_of_the_kernel(rig: Rig) -> None:
    rig.does(f"apt-get -q -y purge linux-image-{WITH} linux-headers-{WITH}; mkdir -p /etc/rigsim")
    assert rig.judged() == ""
    rig.does(f"echo '{WITH}' >/etc/rigsim/dkms-fails")
    done = rig.host.run(
        f"apt-get -q -y install linux-image-{WITH} linux-headers-{WITH}", timeout=300
    )

    assert "exited with return code 11" in done.stdout + done.stderr
    told = rig.judged()
    assert told.count("== ") == 1
    assert f"sudo dkms autoinstall -k {WITH}" in told
    rig.does("rm /etc/rigsim/dkms-fails && dpkg --configure -a")
    assert rig.judged() == ""


def test_a_secret_url_is_told_and_no_user_of_the_host_can_read_it(
    rig: Rig, server: Listening
) -> None:
    processes: list[str] = []

    def look() -> None:
        processes.append(rig.host.run("cat /proc/[0-9]*/cmdline | tr '\\0' '\\n'").stdout)

    server.while_asked = look
    said = rig.has(server.url(f"/{SECRET}"), wanted=True)
    rig.does("echo 'it is dark' | /usr/local/libexec/rigops/notify 'the lamp'")

    (post,) = server.posts
    assert (post.path, post.title) == (f"/{SECRET}", f"{NAME}: the lamp")
    assert post.body.strip() == b"it is dark"
    assert "libexec/rigops/notify" in processes[0]
    assert SECRET not in processes[0] + said
    readable = "find / -xdev -type f -perm -o=r -size -1M -exec grep -lsF {} {{}} +"
    assert rig.host.run(readable.format(SECRET), timeout=300).stdout == ""
    assert SECRET not in rig.does("journalctl -o cat --no-pager")
    assert rig.does("stat -c '%a %U' /etc/rigops/notify") == "600 root\n"


def test_only_holds_of_rigops_are_released_again(rig: Rig) -> None:
    """While somebody is at work on packages, for whom it waits."""
    rig.does("apt-get -q -y install linux-image-amd64 linux-headers-amd64")
    rig.judged()
    before = rig.does("apt-mark hold linux-image-amd64 >&2; apt-mark showhold").split()
    begin_work(rig.host, 4)
    rig.has(COMMAND, wanted=True, hold=True)
    end_work(rig.host)

    assert {*rig.does("apt-mark showhold").split()} == {*before, "linux-headers-amd64"}
    assert rig.does("cat /var/lib/rigops/holds.json").count(': "hook"') == 1
    rig.has(COMMAND, wanted=True, hold=False)
    assert rig.does("apt-mark showhold").split() == before


def test_what_is_not_declared_any_more_leaves_nothing_behind(rig: Rig) -> None:
    rig.has()

    left = rig.host.run("ls -d /etc/rigops /usr/local/libexec/rigops/* /etc/kernel/*/*rigops*")
    assert left.stdout == ""
    rig.does(f"apt-get -q -y purge linux-headers-{WITHOUT} linux-image-{WITHOUT}")
    assert rig.judged() == ""
