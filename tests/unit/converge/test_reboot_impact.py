from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.converge import reboot_impact
from rigops.converge.reboot_impact import Job, ShutdownInhibitor, User
from rigops.probe.bundle import Bundle, Collected
from tests.unit.probe.snippets import called, run, tree
from tests.unit.programs import SHELLS

if TYPE_CHECKING:
    from pathlib import Path

    from rigops.probe.section import Section

PEOPLE = """\
== own session
7
== loginctl
Id=7
Name=me
RemoteHost=10.0.0.2
Class=user
State=active
Timestamp=Sat 2026-11-21 22:25:06 UTC

Id=3
Name=ann
TTY=tty2
Display=:0
RemoteHost=
Class=user
State=online
Timestamp=Fri 2026-11-20 09:00:00 UTC

Id=4
Name=bob
TTY=pts/1
RemoteHost=10.0.0.9
Class=user
State=closing
Timestamp=Fri 2026-11-20 10:00:00 UTC

Id=c1
Name=gdm
TTY=tty1
Class=greeter
State=online

Id=5
Name=ann
Class=manager
State=active
== who
ann      tty2         Nov 20 09:00 (:0)
eve      pts/4        2026-11-21 08:15 (10.0.0.5)
== locks
a(ssssuu) 3 "sleep" "NetworkManager" "turn off" "delay" 0 900 "shutdown:sleep" "J\\303\\274rgen \\"x\\"" "a long job" "block" 1000 41 "shutdown" "Unattended Upgrades" "Stop ongoing upgrades" "delay" 0 12
"""  # noqa: E501 - as busctl prints it
PROCESSES = """\
== cat /proc/[0-9]*/stat
pid=75 state=D cpu=0 wchan=os_acquire_rwlock_read comm=nvidia-smi
pid=80 state=D cpu=0 wchan=io_schedule comm=dd
== ls -l /proc/[0-9]*/fd
pid=41 comm=python3
pid=50 comm=nvidia-persiste
pid=60 comm=Xorg
"""
OWNERS = """\
== uptime
12188.96 13509.33
== ticks
100
== began
41 838896
60 100
x y
== owners
41 ann
60 root
"""


def bundle(**texts: str) -> Bundle:
    return Bundle("rig", None, root=True, sections={k: Collected(v) for k, v in texts.items()})


def test_users_are_the_sessions_of_people_without_the_one_that_asks() -> None:
    assert reboot_impact.users(PEOPLE) == (
        User(name="ann", tty="tty2", since="Fri 2026-11-20 09:00:00 UTC"),
        User(
            name="bob", tty="pts/1", since="Fri 2026-11-20 10:00:00 UTC", where="10.0.0.9",
            logged_out=True,
        ),
        User(name="eve", tty="pts/4", since="2026-11-21 08:15", where="10.0.0.5"),
    )  # fmt: skip


def test_locks_are_read_whatever_their_words_contain() -> None:
    found = reboot_impact.inhibitors(PEOPLE.partition("== locks\n")[2])

    assert [lock.who for lock in found] == ["NetworkManager", 'Jürgen "x"', "Unattended Upgrades"]
    assert [lock.blocks for lock in found] == [False, True, False]
    assert found[1] == ShutdownInhibitor(
        what="shutdown:sleep", who='Jürgen "x"', why="a long job", mode="block", pid=41
    )


def test_a_weak_lock_does_not_block_and_nor_does_one_on_sleep() -> None:
    weak = ShutdownInhibitor(what="shutdown", who="a", why="b", mode="block-weak", pid=1)
    asleep = ShutdownInhibitor(what="sleep:idle", who="a", why="b", mode="block", pid=1)

    assert not weak.blocks
    assert not asleep.blocks


def test_everything_that_a_reboot_interrupts_is_told_the_gravest_first() -> None:
    seen = reboot_impact.read(
        bundle(
            people=PEOPLE,
            processes=PROCESSES,
            owners=OWNERS,
            containers="== docker\nollama\n== podman\nweb\nollama\n",
        )
    )

    assert seen.busy_gpus == (Job(pid=41, name="python3", user="ann", seconds=3800),)
    assert [task.pid for task in seen.wedged] == [75]
    assert [line.partition(" (")[0] for line in seen.lines()] == [
        "nvidia-smi",
        "a GPU is used by python3",
        'Jürgen "x"',
        "Unattended Upgrades",
        "ann is logged in",
        "bob has logged out, but left something running",
        "eve is logged in",
        "a desktop is shown by Xorg",
        "running containers: ollama, web",
    ]
    assert "a GPU is used by python3 (41) of ann, for 1 h 3 min" in seen.lines()


def test_an_empty_host_has_nothing_to_tell() -> None:
    texts = {"processes": "", "people": "", "containers": "", "owners": ""}

    assert reboot_impact.read(bundle(**texts)).lines() == ()


def test_what_did_not_answer_is_told_and_never_taken_for_nothing() -> None:
    late = Collected("", rc=124, timed_out=True)
    answered = {name: Collected("") for name in ("processes", "people", "owners")}
    seen = reboot_impact.read(
        Bundle("rig", None, root=True, sections={**answered, "containers": late})
    )

    assert seen.lines() == ("could not be read: which containers run",)
    assert len(reboot_impact.read(bundle()).unreadable) == 3


def test_what_a_host_says_cannot_control_a_terminal() -> None:
    said = "== docker\n\x1b]0;owned\x07\n"
    (line,) = reboot_impact.read(
        bundle(processes="", people="", owners="", containers=said)
    ).lines()

    assert line.isprintable()


@given(st.text(), st.integers(0, 3))
def test_no_answer_makes_a_parser_raise(noise: str, where: int) -> None:
    texts = {"people": PEOPLE, "processes": PROCESSES, "owners": OWNERS, "containers": "== d\n"}
    name = list(texts)[where]
    for torn in (noise, texts[name][: len(noise) * 7] + noise, f"== locks\na(ssssuu) 1 {noise}"):
        reboot_impact.read(bundle(**{**texts, name: torn})).lines()


LOGIND = """
command() { case $2 in loginctl | who | busctl) ;; *) false ;; esac; }
who() { echo "eve      pts/4        Nov 21 08:15 (10.0.0.5)"; }
busctl() { echo 'a(ssssuu) 1 "shutdown" "APT" "installs packages" "block" 0 12'; }
loginctl() {
    case $1 in
        --no-legend) echo "  3 1000 ann seat0 tty2" ;;
        show-session) printf 'Id=%s\\nName=ann\\nTTY=tty2\\nClass=user\\nState=active\\n' "$2" ;;
    esac
}
"""


def section(name: str) -> Section[Any]:
    return next(one for one in reboot_impact.SECTIONS if one.name == name)


@pytest.mark.parametrize("shell", SHELLS)
def test_people_and_locks_are_asked_for(shell: str, tmp_path: Path) -> None:
    tree(tmp_path, {"proc/self/cgroup": "0::/user.slice/user-0.slice/session-9.scope\n"})

    code, text = run(section("people"), shell, tmp_path, "/proc/self/cgroup", commands=LOGIND)

    assert code == 0
    assert "== own session\n9\n" in text
    assert [user.name for user in reboot_impact.users(text)] == ["ann", "eve"]
    assert "APT" in str(reboot_impact.read(bundle(people=text)).inhibitors[0])


@pytest.mark.parametrize("shell", SHELLS)
def test_podmans_containers_are_named_and_no_daemon_is_started(shell: str, tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "proc/12/comm": "conmon\n",
            "proc/12/cmdline": "/usr/bin/conmon\0-c\0abc\0-n\0web\0--exit\0",
            "proc/13/comm": "bash\n",
        },
    )
    docker = "docker() { echo started; }\n"

    code, text = run(section("containers"), shell, tmp_path, "/proc/", commands=docker)

    assert code == 0
    assert reboot_impact.containers(text) == ("web",)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_docker_that_runs_is_asked(shell: str, tmp_path: Path) -> None:
    tree(tmp_path, {"proc/12/comm": "dockerd\n"})
    docker = 'docker() { printf "ollama\\nvllm\\n"; }\n'

    code, text = run(section("containers"), shell, tmp_path, "/proc/", commands=docker)

    assert code == 0
    assert reboot_impact.containers(text) == ("ollama", "vllm")


@pytest.mark.parametrize("shell", SHELLS)
def test_each_process_has_a_user_and_an_age(shell: str, tmp_path: Path) -> None:
    fields = " ".join(["S", *["0"] * 18, "100", "0"])
    tree(
        tmp_path,
        {"proc/uptime": "61.50 10.0\n", "proc/41/stat": f"41 (a) b) {fields}\n"},
    )

    code, text = run(section("owners"), shell, tmp_path, "/proc/")

    found = reboot_impact.ages(text.replace("/proc/", ""))
    assert code == 0
    assert found[41][1] == 60
    assert found[41][0]


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
@pytest.mark.parametrize("one", reboot_impact.SECTIONS, ids=lambda one: one.name)
def test_shellcheck_has_nothing_to_say_of_a_section(one: Section[Any]) -> None:
    # What is meant: splitting of session ids, and processes found by the shell alone.
    done = subprocess.run(
        ["shellcheck", "--shell=sh", "--exclude=SC2046,SC2086,SC2012,SC2317", "-"],
        input=called(one.snippet),
        text=True,
        capture_output=True,
        check=False,
    )

    assert done.stdout == ""
