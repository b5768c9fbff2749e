"""Getting to see a host: with which rights, past which login shells, and what is said when not."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from tests.lab import users
from tests.lab.laptop import Laptop, Running, Said
from tests.lab.sshd import processes_with
from tests.lab.terminal import wait_for_hiding
from tests.lab.users import PASSWORD
from tests.shards import LAB_TRANSPORT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.lab.conftest import Lab
    from tests.lab.hosts import Host

pytestmark = pytest.mark.shard(LAB_TRANSPORT)

WRONG = "C0rrect-horse-4"
ASKING = "sudo\0-k\0-S"
UNREACHED = 3
SLOW_SHELL_S = 1.3

USERS = f"""
{users.added("plain", "asks", "noisy", "slow")}
{users.ASKS}
for user in noisy slow; do echo "$user ALL=(ALL) NOPASSWD: ALL" >/etc/sudoers.d/$user; done
echo 'echo Welcome to the rig; echo "(base) conda" >&2' >/home/noisy/.bashrc
echo 'sleep {SLOW_SHELL_S}' >/home/slow/.bashrc
echo 'LogLevel VERBOSE' >/etc/ssh/sshd_config.d/verbose.conf
systemctl reload ssh
"""


@dataclass(frozen=True)
class Reach:
    laptop: Laptop
    host: Host
    broken: Host
    silent: Host
    cut: Host
    silence: list[Running] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        return list(self.entries(self.laptop.folder))

    def entries(self, folder: Path) -> dict[str, dict[str, object]]:
        other = folder / "other_known_hosts"
        nobody = folder / "no_known_hosts"
        nobody.touch()
        record = self.host.record
        wrong = self.silent.record.host_key
        other.write_text(f"[{record.address}]:{self.host.port} {wrong}\n")
        there: dict[str, object] = {"ssh_hostname": self.host.name}
        bad: dict[str, object] = {"ssh_hostname": self.broken.name}
        return {
            "as-root": there,
            "as-rig": {**there, "ssh_user": "rig"},
            "as-plain": {**there, "ssh_user": "plain"},
            "noisy": {**there, "ssh_user": "noisy"},
            "slow": {**there, "ssh_user": "slow"},
            "unknown-key": {**there, "ssh_known_hosts_file": str(nobody)},
            "changed-key": {**there, "ssh_known_hosts_file": str(other)},
            "no-user": {**there, "ssh_user": "nobody-of-this-name"},
            "no-name": {"ssh_hostname": "no-such-rig.invalid"},
            "no-sshd": {"ssh_hostname": "127.0.0.1", "ssh_port": 1},
            self.silent.name: {},
            self.cut.name: {},
            "broken-as-root": bad,
            "broken-as-plain": {**bad, "ssh_user": "plain"},
        }


@pytest.fixture(scope="module")
def reach(module_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Reach:
    folder = tmp_path_factory.mktemp("laptop")
    host, broken, silent, cut = module_lab.up(
        "desktop-3060-1060", "nvlink-2x3090", "fresh-install", "ubuntu-trap"
    )
    broken.set("lost=0000:0c:00.0")
    silent.set("latency=99999")
    cut.set("cut=30000")  # after the login
    for one in (host, broken):
        done = one.run(USERS)
        assert done.returncode == 0, done.stderr
    reach = Reach(Laptop(folder), host, broken, silent, cut)
    reach.laptop.declare(reach.entries(folder))
    return reach


@pytest.fixture(scope="module")
def said(reach: Reach) -> Iterator[Said]:
    """All of them, good and bad, in one run; but for the one that nobody has to wait for."""
    words = ("doctor", "--json", "-i", "inventory.py")
    reach.silence.append(reach.laptop.start(*words, reach.silent.name, "as-root"))
    others = [name for name in reach.names if name != reach.silent.name]
    yield reach.laptop.rigops(*words, *others)
    for running in reach.silence:
        running.end()


def _error(said: Said, name: str) -> tuple[str, str]:
    host = said.seen(name).host
    assert host["status"] == "unknown"
    assert host["findings"] == []
    return host["error"]["kind"], host["error"]["message"]


def test_root_and_sudo_without_a_password_see_the_same(said: Said) -> None:
    root, user = said.seen("as-root"), said.seen("as-rig")

    assert root.ids("fail", "unknown") == set()
    assert user.verdicts() == root.verdicts()
    assert user.host["notes"] == root.host["notes"] == []


def test_a_user_without_rights_is_told_what_could_not_be_seen(reach: Reach, said: Said) -> None:
    plain = said.seen("as-plain")

    (note,) = plain.host["notes"]
    assert note.startswith("without root: ")
    assert "kernel-log" in note
    assert plain.one("xid")["status"] == "unknown"
    assert plain.one("acs.path")["status"] != "ok"
    alone = reach.laptop.doctor("-i", "inventory.py", "as-plain")
    assert (alone.code, alone.seen().host["status"]) in {(0, "ok"), (0, "warn")}


def test_what_only_root_sees_is_never_well_without_it(said: Said) -> None:
    root, plain = said.seen("broken-as-root"), said.seen("broken-as-plain")

    assert root.one("xid")["status"] == "fail"
    failed = root.ids("fail", "warn", "unknown")
    assert failed & plain.ids("ok") == set()
    assert plain.one("xid")["status"] == "unknown"


def test_no_root_does_without_sudo(reach: Reach, said: Said) -> None:
    without = reach.laptop.doctor("-i", "inventory.py", "--no-root", "as-rig").seen()

    assert without.verdicts() == said.seen("as-plain").verdicts()
    assert without.host["notes"][0].startswith("without root: ")


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("unknown-key", "key_unknown", "SHA256:"),
        ("changed-key", "key_changed", "SHA256:"),
        ("no-user", "auth", "nobody-of-this-name"),
        ("no-name", "dns", "no-such-rig.invalid"),
        ("no-sshd", "refused", "127.0.0.1"),
    ],
)
def test_why_a_host_was_not_reached(said: Said, name: str, kind: str, words: str) -> None:
    found, message = _error(said, name)

    assert found == kind
    assert words in message
    assert "\n" not in message
    assert f"{name}: unknown" in said.err


def test_a_line_that_breaks_is_no_verdict(reach: Reach, said: Said) -> None:
    kind, message = _error(said, reach.cut.name)

    assert kind == "lost", message


def test_a_shell_that_talks_is_read_past_and_named(said: Said) -> None:
    noisy = said.seen("noisy")

    assert noisy.verdicts() == said.seen("as-root").verdicts()
    (note,) = noisy.host["notes"]
    assert note.startswith("the login shell prints text before every command")
    assert "Welcome to the rig" in note


def test_a_slow_shell_is_named_with_its_usual_causes(said: Said) -> None:
    slow = said.seen("slow")

    assert slow.verdicts() == said.seen("as-root").verdicts()
    (note,) = slow.host["notes"]
    assert note.startswith("the login shell took ")
    assert all(word in note for word in (".bashrc", "conda", "pyenv"))


def test_bad_hosts_spoil_nothing_and_the_gravest_decides(reach: Reach, said: Said) -> None:
    assert said.code == 1  # the broken rig's
    mixed = reach.laptop.doctor("-i", "inventory.py", "as-root", "no-sshd", "unknown-key")

    assert mixed.code == UNREACHED
    assert mixed.seen("as-root").verdicts() == said.seen("as-root").verdicts()
    assert mixed.json()["status"] == "unknown"
    only = reach.laptop.doctor("-i", "inventory.py", "unknown-key")
    assert only.code == UNREACHED


def test_an_unknown_key_is_taken_knowingly(reach: Reach, said: Said, tmp_path: Path) -> None:
    _, message = _error(said, "unknown-key")
    fingerprint = next(word for word in message.split() if word.startswith("SHA256:")).rstrip(
        ".,;)"
    )
    known = tmp_path / "known_hosts"
    known.touch()
    laptop = Laptop(tmp_path)
    laptop.declare({"new": {"ssh_hostname": reach.host.name, "ssh_known_hosts_file": str(known)}})

    taken = laptop.doctor("-i", "inventory.py", "--accept-host-key", fingerprint)

    assert taken.code == 0, taken.err
    assert reach.host.record.address in known.read_text()
    assert laptop.doctor("-i", "inventory.py").code == 0


# ---- a sudo that wants a password


@dataclass(frozen=True)
class Typed:
    password: str
    said: Said
    terminal: str
    seen_in_argv: list[int]
    sudo_was_seen: bool  # the watch is quick enough to see who had to be given the password
    sessions: int
    refusals: int


def _count(host: Host, words: str, *match: str) -> int:
    log = host.run(f"journalctl {' '.join(match)} -o cat --no-pager").stdout
    return sum(words in line for line in log.splitlines())


def _type(reach: Reach, password: str) -> Typed:
    """Runs doctor at a terminal, answers its question, and watches every process meanwhile."""
    arguments = ["doctor", "--json", "--ask-sudo-password", "-i", "inventory.py"]
    sessions = _sessions(reach)
    refusals = _refusals(reach)
    master, slave = pty.openpty()
    began = time.monotonic()
    process = subprocess.Popen(
        ["setsid", "--ctty", "--wait", sys.executable, "-m", "rigops", *arguments],
        cwd=reach.laptop.folder / "asking",
        stdin=slave,
        stdout=subprocess.PIPE,
        stderr=slave,
        text=True,
        env=reach.laptop.environment(),
    )
    os.close(slave)
    terminal: list[str] = []
    answering = threading.Thread(target=_answer, args=(master, password, terminal))
    answering.start()
    seen: list[int] = []
    sudos: list[int] = []
    watching = threading.Thread(target=_watch, args=(process, {password: seen, ASKING: sudos}))
    watching.start()
    out, _ = process.communicate(timeout=180)
    answering.join()
    watching.join()
    os.close(master)
    said = Said(process.returncode, out, "".join(terminal), time.monotonic() - began)
    # Each look into the log is a session of its own, told when it has begun: one lies between.
    between = _sessions(reach) - sessions - 2
    refused = _refusals(reach) - refusals
    return Typed(password, said, "".join(terminal), seen, bool(sudos), between, refused)


def _sessions(reach: Reach) -> int:
    return _count(reach.host, "Starting session: command", "-u", "ssh")


def _refusals(reach: Reach) -> int:
    return _count(reach.host, "pam_unix(sudo:auth): authentication failure", "_COMM=sudo")


def _answer(master: int, password: str, terminal: list[str]) -> None:
    asked = False
    while True:
        try:
            text = os.read(master, 4096).decode()
        except OSError:  # nobody has the terminal open any more
            return
        if not text:
            return
        terminal.append(text)
        if not asked and "sudo password" in "".join(terminal):
            asked = True
            wait_for_hiding(master)
            os.write(master, f"{password}\n".encode())


def _watch(process: subprocess.Popen[str], seen: dict[str, list[int]]) -> None:
    """The hosts' processes are the machine's too."""
    while process.poll() is None:
        for text, found in seen.items():
            found.extend(processes_with(text))
        time.sleep(0.005)


@pytest.fixture(scope="module")
def asking(reach: Reach) -> Reach:
    folder = reach.laptop.folder / "asking"
    folder.mkdir()
    Laptop(folder).declare({reach.host.name: {"ssh_user": "asks"}})
    return reach


@pytest.fixture(scope="module", params=[PASSWORD, WRONG], ids=["right", "wrong"])
def typed(request: pytest.FixtureRequest, asking: Reach) -> Typed:
    return _type(asking, request.param)


def _leaked(reach: Reach, secret: str) -> str:
    """Where on the host the secret is found, beside the shadow file that has its hash."""
    return reach.host.run(
        f"journalctl --no-pager -o export | grep -a -c {secret};"
        f" grep -rlsa {secret} /var/log /home /root /tmp /run --exclude-dir=rigsim"
    ).stdout


def test_the_right_password_works_in_three_execs_and_a_wrong_one_is_tried_once(
    typed: Typed, said: Said
) -> None:
    if typed.password == WRONG:
        assert typed.said.code == UNREACHED
        kind, message = _error(typed.said, "")
        assert kind == "sudo"
        assert "refused the password" in message
        assert (typed.sessions, typed.refusals) == (2, 1)
        return
    assert typed.said.code == 0, typed.terminal
    assert typed.said.seen().host["notes"] == []
    assert typed.said.seen().verdicts() == said.seen("as-root").verdicts()
    assert (typed.sessions, typed.refusals) == (3, 0)


def test_the_password_is_seen_nowhere(asking: Reach, typed: Typed) -> None:
    assert typed.sudo_was_seen
    assert typed.seen_in_argv == []
    assert typed.password not in typed.said.out
    assert typed.password not in typed.terminal
    assert _leaked(asking, typed.password).split() == ["0"]
    kept = [path for path in asking.laptop.folder.rglob("*") if path.is_file()]
    assert [path for path in kept if typed.password in path.read_text(errors="replace")] == []
    asking.host.run("logger a-canary; touch /tmp/canary; echo a-canary >/tmp/canary")
    assert "/tmp/canary" in _leaked(asking, "a-canary").split()
    assert "0" not in _leaked(asking, "a-canary").split()


def test_without_a_terminal_no_password_is_asked_for(asking: Reach) -> None:
    refused = asking.laptop.doctor("-i", "inventory.py", "--ask-sudo-password", "as-root")

    assert refused.code == 2
    assert "--ask-sudo-password" in refused.err + refused.out


def test_without_the_password_the_host_is_seen_without_root(asking: Reach) -> None:
    laptop = Laptop(asking.laptop.folder / "asking")

    seen = laptop.doctor("-i", "inventory.py").seen()

    assert "--ask-sudo-password" in seen.host["notes"][0]
    assert seen.one("xid")["status"] == "unknown"


def test_a_line_that_carries_nothing_times_out_and_the_other_host_is_judged(
    reach: Reach, said: Said
) -> None:
    (silence,) = reach.silence
    waited = silence.wait()

    assert waited.code == UNREACHED
    kind, message = _error(waited, reach.silent.name)
    assert kind == "timeout"
    assert "did not finish within" in message
    assert waited.seen("as-root").verdicts() == said.seen("as-root").verdicts()
