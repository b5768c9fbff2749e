"""`rigops doctor --watch` on hosts whose cards get into trouble while it looks."""

from __future__ import annotations

import json
import signal
from contextlib import contextmanager
from threading import Thread
from typing import IO, TYPE_CHECKING, Any, cast

import pytest

from tests.lab.laptop import Laptop
from tests.lab.sshd import until
from tests.lab.terminal import CTRL_C, Person
from tests.shards import LAB_DOCTOR

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.lab.conftest import Lab
    from tests.lab.hosts import Host
    from tests.lab.laptop import Running

pytestmark = pytest.mark.shard(LAB_DOCTOR)

WATCH = ("doctor", "--watch", "1", "-i", "inventory.py")
LOGINS = "journalctl -t sshd --no-pager -q | grep -c Accepted; :"
# Of the program on the host and all that it starts; brackets keep grep from finding itself.
PROGRAMS = "ps -e -o args= | grep -E '[r]igops-watch|[n]vidia-smi|[j]ournalctl -k -f'; :"


class Watching:
    """Its documents, as they come."""

    def __init__(self, running: Running) -> None:
        self.running = running
        self.documents: list[Any] = []
        self.reader = Thread(target=self._read)
        self.reader.start()

    def _read(self) -> None:
        for line in cast("IO[str]", self.running.process.stdout):
            self.documents.append(json.loads(line))

    def cards(self, host: Host) -> dict[str, Any]:
        """By address, as they were last."""
        for document in reversed(self.documents):
            for one in document["hosts"]:
                if one["host"] == host.name and one["cards"]:
                    return {card["address"]: card for card in one["cards"]}
        return {}

    def errors(self, host: Host) -> list[str]:
        return [
            one["error"]["kind"]
            for document in list(self.documents)
            for one in document["hosts"]
            if one["host"] == host.name and "error" in one
        ]

    def end(self) -> int:
        """As `timeout` ends it."""
        self.running.process.send_signal(signal.SIGTERM)
        code = self.running.process.wait(60)
        self.reader.join()
        return code


@contextmanager
def watching(laptop: Laptop) -> Iterator[Watching]:
    running = laptop.start(*WATCH, "--json")
    watched = Watching(running)
    try:
        yield watched
    finally:
        running.process.kill()
        watched.reader.join()
        running.end()


@pytest.fixture(scope="module")
def rigs(module_lab: Lab) -> list[Host]:
    return module_lab.up("threadripper-3x3090", "t180-4xv100")


@pytest.fixture
def laptop(rigs: list[Host], tmp_path: Path) -> Laptop:
    laptop = Laptop(tmp_path)
    first, second = rigs
    laptop.declare({first.name: {}, second.name: {"ssh_user": "rig"}})  # who has sudo
    return laptop


def test_on_a_terminal_the_last_screen_stays_and_ctrl_c_leaves_no_process(
    rigs: list[Host], laptop: Laptop
) -> None:
    person = Person({"0000:86:00.0": CTRL_C}, sees_all=True, columns=110)

    said = person.rigops(laptop, WATCH)

    assert said.code == 0, said.err
    assert "Watched 2 hosts" in said.err
    assert "0000:0a:00.0" in said.err.rpartition("Ctrl-C ends and sums up")[0][-2000:]
    for host in rigs:
        assert host.name in said.err
        assert host.run(PROGRAMS).stdout == ""


def test_what_happens_to_the_cards_is_seen_over_one_connection_each(
    rigs: list[Host], laptop: Laptop
) -> None:
    threadripper, tower = rigs
    before = {host.name: int(host.run(LOGINS).stdout) for host in rigs}
    with watching(laptop) as watched:
        until(lambda: all(map(watched.cards, rigs)), "a sample of each host")
        threadripper.set("aer=0000:00:03.1+40", "heat=0000:0a:00.0+97")
        tower.set("load=step")
        until(lambda: watched.cards(threadripper)["0000:0a:00.0"]["celsius"] == 97, "the heat")
        until(lambda: watched.cards(threadripper)["0000:0a:00.0"]["new_corrected"], "the errors")
        until(lambda: watched.cards(tower)["0000:86:00.0"]["new_xids"] == {"79": 1}, "the Xid")
        until(lambda: not watched.cards(tower)["0000:86:00.0"]["reported"], "the loss")

        code = watched.end()

    total = watched.documents[-1]
    assert (code, total["status"]) == (1, "fail")
    first, second = total["hosts"]
    found = {(one["status"], one["id"], one["subject"]) for one in first["findings"]}
    assert found == {
        ("fail", "tmp.core", "gpu 0000:0a:00.0"),
        ("fail", "clk.throttle", "gpu 0000:0a:00.0"),
        ("warn", "pci.aer.corr", "gpu 0000:0a:00.0"),
    }
    assert {one["id"] for one in second["findings"]} == {"xid", "gpu.lost"}
    for host in rigs:
        assert int(host.run(LOGINS).stdout) - before[host.name] - 1 == 1
        assert host.run(PROGRAMS).stdout == ""


def test_a_host_that_is_lost_is_tried_again_while_the_other_goes_on(
    rigs: list[Host], laptop: Laptop
) -> None:
    lost, other = rigs
    with watching(laptop) as watched:
        until(lambda: all(map(watched.cards, rigs)), "a sample of each host")
        lost.run("kill -KILL $(pgrep -o -f '^sshd: root@notty')")
        until(lambda: watched.errors(lost) == ["lost"], "the loss")
        samples = len(watched.documents)
        until(lambda: len(watched.documents) > samples + 2, "more of the other")
        until(lambda: "error" not in _last(watched, lost), "the host to be back")

        watched.end()

    assert watched.errors(other) == []
    for host in rigs:
        assert host.run(PROGRAMS).stdout == ""


def _last(watched: Watching, host: Host) -> dict[str, Any]:
    for document in reversed(watched.documents):
        for one in document["hosts"]:
            if one["host"] == host.name:
                return cast("dict[str, Any]", one)
    return {}
