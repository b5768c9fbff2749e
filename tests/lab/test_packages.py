"""Packages on a booted host, through its own apt: what the plan says, and what comes of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.lab import clients, hosts
from tests.lab.demo_packages import FOLDER, Demo, begin_work, end_work, publish
from tests.lab.sshd import until
from tests.shards import LAB_APPLY

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.shard(LAB_APPLY)

NAME = "packages"

_DEPLOY = """\
import json
import os
from dataclasses import asdict
from pathlib import Path

from pyinfra import host

from rigops.plan.context import plan_of
from rigops.packages.operations import packages

packages(concern="demo", **json.loads(os.environ["WISH"]))
told = plan_of(host)
found = {"packages": asdict(told.packages), "blocked": told.blocked, "notices": told.notices}
Path(os.environ["TOLD"]).write_text(json.dumps(found))
"""
_LOUD = "#!/bin/sh\nset -e\nfor n in 1 2 3 4; do echo $n; echo $n >&2; sleep 0.5; done\n"

DEMOS = [
    *(Demo("rigdemo", version) for version in ("1.0", "2.0", "10.0")),
    Demo("rigdemo-rival", "1.0"),
    Demo("rigdemo-new", "1.0", {"Conflicts": "rigdemo-rival", "Depends": "rigdemo-lib"}),
    Demo("rigdemo-lib", "1.5"),
    Demo("rigdemo-heavy", "1.0", bytes_=6 * 1024 * 1024),
    Demo("rigdemo-fails", "1.0", postinst="#!/bin/sh\necho no >&2\nexit 1\n"),
    Demo("rigdemo-loud", "1.0", postinst=_LOUD),
]


@dataclass(frozen=True)
class Ran:
    code: int
    said: str
    told: Any
    seconds: float

    def announced(self, kind: str) -> list[tuple[str, str | None, str | None]]:
        return [tuple(one.values()) for one in self.told["packages"][kind]]

    @property
    def blocked(self) -> str:
        ((concern, reason),) = self.told["blocked"]
        assert concern == "demo"
        return str(reason)


@dataclass(frozen=True)
class Desk:
    """Where a small deploy is run from, planned and applied in one go."""

    folder: Path
    host: hosts.Host

    def start(self, **wish: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [Path(sys.executable).with_name("pyinfra"), "inventory.py", "deploy.py", "-v"],
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "WISH": json.dumps(wish), "TOLD": str(self.folder / "told.json")},
        )

    def run(self, **wish: object) -> Ran:
        began = time.monotonic()
        running = self.start(**wish)
        said, _ = running.communicate("\n", timeout=180)
        told = json.loads((self.folder / "told.json").read_text())
        return Ran(running.returncode, said, told, time.monotonic() - began)

    def does(self, command: str) -> str:
        done = self.host.run(command)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def version(self, package: str) -> str:
        row = self.host.run(
            f"dpkg-query -W -f '${{db:Status-Abbrev}}${{Version}}' {package}"
        ).stdout
        return row[3:] if row.startswith(("ii ", "hi ")) else ""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with hosts.running([f"fresh-install={NAME}"]) as (host,):
        folder = tmp_path_factory.mktemp("desk")
        data = {
            "ssh_config_file": str(clients.config()),
            "ssh_known_hosts_file": str(clients.config().with_name("known_hosts")),
            "ssh_user": "root",
        }
        (folder / "inventory.py").write_text(f"rigs = [({NAME!r}, {data!r})]\n")
        (folder / "deploy.py").write_text(_DEPLOY)
        publish(host, DEMOS)
        yield Desk(folder, host)


def test_a_package_comes_in_exactly_the_version_asked_for_and_then_stays(desk: Desk) -> None:
    first = desk.run(install={"rigdemo": "2.0"})
    log = desk.does("cat /var/log/dpkg.log")
    again = desk.run(install={"rigdemo": None})

    assert first.code == 0, first.said
    assert first.announced("install") == [("rigdemo", None, "2.0")]
    assert desk.version("rigdemo") == "2.0"
    assert again.told["packages"] == {kind: [] for kind in again.told["packages"]}
    assert desk.does("cat /var/log/dpkg.log") == log
    assert "rigdemo" in desk.does("cat /var/lib/rigops/packages.json")


def test_a_downgrade_and_the_removal_of_a_rival_are_seen_before_they_happen(desk: Desk) -> None:
    desk.does("apt-get -qq -y install rigdemo=10.0 rigdemo-rival")

    ran = desk.run(install={"rigdemo": "1.0", "rigdemo-new": None})

    assert ran.code == 0, ran.said
    assert ran.announced("downgrade") == [("rigdemo", "10.0", "1.0")]
    assert ran.announced("remove") == [("rigdemo-rival", "1.0", None)]
    assert {name for name, *_ in ran.announced("install")} == {"rigdemo-new", "rigdemo-lib"}
    assert desk.version("rigdemo") == "1.0"
    assert desk.version("rigdemo-rival") == ""
    assert desk.does("ls /var/lib/rigops") == "packages.json\n"
    record = json.loads(desk.does("cat /var/lib/rigops/packages.json"))
    asked = {one["name"]: one["asked"] for one in record["packages"]}
    assert asked == {"rigdemo": True, "rigdemo-new": True, "rigdemo-lib": False}


def test_a_version_that_does_not_exist_is_blocked_with_the_nearest(desk: Desk) -> None:
    ran = desk.run(install={"rigdemo": "3.0"})

    assert ran.code != 0
    assert "apt knows no rigdemo 3.0 (nearest: 2.0, 10.0)" in ran.blocked
    assert ran.blocked in ran.said


def test_a_held_package_stays_unless_its_hold_may_be_broken_and_is_held_again(desk: Desk) -> None:
    desk.does("apt-get -qq -y install rigdemo=2.0 --allow-downgrades && apt-mark hold rigdemo")

    refused = desk.run(install={"rigdemo": "10.0"})
    between = desk.version("rigdemo")
    allowed = desk.run(install={"rigdemo": "10.0"}, change_held=["rigdemo"])

    assert "sudo apt-mark unhold rigdemo" in refused.blocked
    assert between == "2.0"
    assert allowed.code == 0, allowed.said
    assert desk.version("rigdemo") == "10.0"
    assert desk.does("apt-mark showhold") == "rigdemo\n"
    desk.does("apt-mark unhold rigdemo")


def test_somebody_elses_package_work_is_waited_for_until_it_ends_or_time_is_up(desk: Desk) -> None:
    desk.does("apt-get -qq -y --purge remove rigdemo-new rigdemo-lib")
    begin_work(desk.host, 600)
    late = desk.run(install={"rigdemo-lib": None}, lock_wait_s=1)
    assert end_work(desk.host)
    begin_work(desk.host, 4)
    waited = desk.run(install={"rigdemo-lib": None}, lock_wait_s=120)

    assert late.code != 0
    assert "upgrader (process " in late.told["notices"][0][1]
    assert "still has apt's lock after 1 s" in late.said
    assert "ps -fp" in late.said
    assert waited.code == 0, waited.said
    assert desk.version("rigdemo-lib") == "1.5"


def test_an_interrupted_dpkg_is_in_the_way_until_it_may_be_repaired(desk: Desk) -> None:
    desk.does("apt-get -qq -y purge rigdemo-lib; "
              f"dpkg --unpack {FOLDER}/rigdemo-lib_1.5_all.deb")  # fmt: skip

    refused = desk.run(install={"rigdemo": "1.0"})
    repaired = desk.run(install={"rigdemo": "1.0"}, repair=True)

    assert "rigdemo-lib (unpacked and not configured): sudo dpkg --configure -a" in refused.blocked
    assert repaired.code == 0, repaired.said
    assert desk.version("rigdemo-lib") == "1.5"
    assert desk.version("rigdemo") == "1.0"


def test_a_package_that_cannot_be_configured_is_not_left_so_in_silence(desk: Desk) -> None:
    ran = desk.run(install={"rigdemo-fails": None})

    assert ran.code != 0
    assert "error processing package rigdemo-fails" in ran.said
    assert "dpkg did not finish with rigdemo-fails: sudo dpkg --configure -a" in ran.said
    assert "post-installation script" in desk.does("cat /var/lib/rigops/packages.log")
    desk.does("apt-get -qq -y purge rigdemo-fails")


def test_a_full_disk_is_seen_before_anything_begins(desk: Desk) -> None:
    desk.does("mount -t tmpfs -o size=2m tmpfs /var/cache/apt/archives")
    ran = desk.run(install={"rigdemo-heavy": None})
    desk.does("umount /var/cache/apt/archives")

    assert "/var/cache/apt/archives has 2 MB free and this takes 6 MB" in ran.blocked
    assert desk.version("rigdemo-heavy") == ""


def test_a_lost_connection_does_not_end_dpkg_in_the_middle(desk: Desk) -> None:
    with desk.start(install={"rigdemo-loud": None}) as running:
        assert running.stdin is not None
        running.stdin.write("\n")
        running.stdin.flush()
        query = "dpkg-query -W rigdemo-loud"
        until(lambda: "rigdemo-loud" in desk.host.run(query).stdout, "the package")
        desk.does("pkill -KILL -x -f 'sh -s'")  # as when rigops gives up on a command
        running.kill()
    until(lambda: desk.version("rigdemo-loud"), "its end")

    assert desk.version("rigdemo-loud") == "1.0"
    assert "rigdemo-loud" in desk.does("cat /var/lib/rigops/packages.json")
