"""Packages in a whole apply: a dpkg that was interrupted, and somebody else who is at work."""

from __future__ import annotations

import re
import signal
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.lab import demo_deploy
from tests.lab.applying import INVENTORY, by_host, outcomes
from tests.lab.demo_deploy import ASKS, BY_HAND
from tests.lab.demo_packages import FOLDER, Demo, begin_work, end_work, publish, state
from tests.lab.laptop import Laptop
from tests.lab.terminal import Person
from tests.shards import LAB_APPLY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.lab.conftest import Lab
    from tests.lab.hosts import Host
    from tests.lab.laptop import Running, Said

pytestmark = pytest.mark.shard(LAB_APPLY)

WORDS = ("apply", "--preflight", "never", *INVENTORY)
SLOW = "#!/bin/sh\nset -e\nfor n in 1 2 3 4; do sleep 0.5; done\n"
DEMOS = [
    Demo("rigdemo", "1.0"),
    Demo("rigdemo-lib", "1.5"),
    Demo("rigdemo-slow", "1.0", postinst=SLOW),
]
# As a power cut does: in the middle of a script of a package.
BREAK = f"""
dpkg --install {FOLDER}/rigdemo-slow_1.0_all.deb >/dev/null 2>&1 </dev/null &
until pgrep -f "[r]igdemo-slow.postinst" >/dev/null; do sleep 0.05; done
pkill -KILL -x dpkg
while pgrep -f "[r]igdemo-slow.postinst" >/dev/null; do sleep 0.05; done
"""


@dataclass(frozen=True)
class Desk:
    host: Host
    laptop: Laptop

    def declare(self, **wanted: str | None) -> None:
        names = {name.replace("_", "-"): version for name, version in wanted.items()}
        demo_deploy.write(self.laptop.folder, names)

    def apply(self, answers: Mapping[str, str], *words: str) -> Said:
        person = Person(answers, program=demo_deploy.PROGRAM)
        return person.rigops(self.laptop, [*WORDS, *words])

    def state(self, package: str) -> str:
        return state(self.host, package)


@pytest.fixture(scope="module")
def desk(module_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Desk:
    host = module_lab.one("fresh-install")
    desk = Desk(host, Laptop(tmp_path_factory.mktemp("laptop")))
    desk.laptop.declare({host.name: {}})
    publish(host, DEMOS)
    return desk


@pytest.fixture(scope="module")
def broken(desk: Desk) -> Desk:
    done = desk.host.run(BREAK)
    assert done.returncode == 0, done.stderr
    assert desk.state("rigdemo-slow") not in {"ii", ""}
    desk.declare(rigdemo=None)
    return desk


def test_a_no_leaves_an_interrupted_dpkg_with_the_cure_by_hand(broken: Desk) -> None:
    said = broken.apply({ASKS: "n"}, "--json")

    host = by_host(said)[broken.host.name]
    assert (said.code, host["outcome"]) == (1, "refused")
    assert BY_HAND in said.err
    (repair,) = host["repairs"]
    assert "rigdemo-slow" in repair["broken"]
    assert (repair["command"], repair["agreed"]) == ("dpkg --configure -a", False)
    (blocked,) = host["blocked"]
    assert BY_HAND in blocked["reason"]
    assert broken.state("rigdemo-slow") != "ii"
    assert broken.state("rigdemo") == ""


def test_who_only_confirms_the_plan_has_not_agreed_to_a_repair(broken: Desk) -> None:
    said = broken.apply({}, "--yes")

    assert said.code == 1
    assert ASKS not in said.err
    assert BY_HAND in said.err
    assert broken.state("rigdemo-slow") != "ii"


def test_after_a_yes_the_plan_has_the_repair_in_it_and_all_of_it_is_done(broken: Desk) -> None:
    said = broken.apply({ASKS: "1", "Change ": "y"}, "--json")

    assert (said.code, outcomes(said)) == (0, {broken.host.name: "changed"}), said.err
    asked, confirmed = said.err.index(ASKS), said.err.index(f"Change {broken.host.name}?")
    shown = " ".join(said.err[asked:confirmed].split())  # it is wrapped
    assert "first `dpkg --configure -a`, since dpkg did not finish with rigdemo-slow" in shown
    assert BY_HAND not in shown
    assert broken.state("rigdemo-slow") == "ii"
    assert broken.state("rigdemo") == "ii"
    host = by_host(said)[broken.host.name]
    assert host["repairs"][0]["agreed"]
    assert [one["name"] for one in host["packages"]["install"]] == ["rigdemo"]


def test_a_wait_for_somebody_elses_package_work_is_shown_while_it_lasts(desk: Desk) -> None:
    with _waiting(desk, 6) as (running, seen):
        still_held = desk.host.run("pgrep -f [/]root/upgrader").returncode == 0
        said = running.wait()

    assert still_held, "".join(seen) + said.err
    who = r"held by upgrader \(process \d+, begun \d+ s ago\)"
    assert re.fullmatch(rf"{desk.host.name}: waiting up to 600 s for apt's lock, {who}\n", seen[-1])
    assert said.code == 0, said.out + said.err
    assert f"{desk.host.name}: apt is at work" in said.err.splitlines()
    assert desk.state("rigdemo-lib") == "ii"


def test_an_interrupted_wait_ends_on_the_host_too_and_installs_nothing(desk: Desk) -> None:
    desk.host.run("apt-get -qq -y purge rigdemo-lib")
    with _waiting(desk, 60) as (running, _):
        running.process.send_signal(signal.SIGINT)
        said = running.wait()

    ended = desk.host.run(
        "for n in $(seq 600); do pgrep -x flock >/dev/null || exit 0; sleep 0.1; done; exit 1"
    )
    still_held = end_work(desk.host)
    assert said.code == 130
    assert "interrupted; run this again to finish" in said.out
    assert ended.returncode == 0
    assert still_held
    assert desk.state("rigdemo-lib") in {"", "un"}


@contextmanager
def _waiting(desk: Desk, seconds: int) -> Iterator[tuple[Running, list[str]]]:
    """An apply, and what it has said until it waits for somebody who works for so long."""
    desk.declare(rigdemo_lib=None)
    begin_work(desk.host, seconds)
    running = desk.laptop.start(*WORDS, "--yes", program=demo_deploy.PROGRAM)
    try:
        assert running.process.stderr is not None
        seen: list[str] = []
        for line in running.process.stderr:
            seen.append(line)
            if "waiting up to" in line:
                break
        yield running, seen
    finally:
        running.end()
