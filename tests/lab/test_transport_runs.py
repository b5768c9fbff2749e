"""Running commands: complete output or an error, within the deadline, and nothing left behind."""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rigops.transport import Connection, TransportError, connect
from tests.lab.connecting import KNOWN_ONLY, cut_while_it_sleeps, passes_under_gevent
from tests.lab.sshd import Lab, is_running, lab_with, require_sshd, until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    yield from lab_with(tmp_path)


@pytest.fixture
def connection(lab: Lab) -> Iterator[Connection]:
    with connect(lab.target(), host_keys=KNOWN_ONLY) as connection:
        yield connection


def seconds_word() -> str:
    """An argument for sleep that no other process on this machine has."""
    return f"{300 + secrets.randbelow(600)}.{secrets.randbelow(10**12):012d}"


def test_words_arrive_as_they_were_given(connection: Connection) -> None:
    words = ["$HOME", "a  b", "it's", 'a "quote"', "back\\slash", "new\nline", "*", "", "-n", "ü"]
    answer = connection.run(["printf", "%s|", *words], deadline_s=60)
    assert answer.stdout.decode() == "|".join([*words, ""])


def test_exit_codes_and_both_outputs_come_back(connection: Connection) -> None:
    answer = connection.run(["sh", "-c", "echo out; echo err >&2; exit 7"], deadline_s=60)
    assert (answer.exit_code, answer.stdout, answer.stderr) == (7, b"out\n", b"err\n")
    assert connection.run(["no-such-program-here"], deadline_s=60).exit_code == 127
    assert connection.run(["sh", "-c", "kill -9 $$"], deadline_s=60).exit_code == -1


def test_fifty_megabytes_arrive_whole(connection: Connection) -> None:
    program = "head -c 50000000 /dev/zero | tr '\\0' x"
    answer = connection.run(["sh", "-c", program], deadline_s=60)
    expected = hashlib.sha256(b"x" * 50_000_000).digest()
    assert hashlib.sha256(answer.stdout).digest() == expected
    assert answer.stdout_dropped == 0


def test_output_beyond_the_bound_is_counted_and_not_kept(connection: Connection) -> None:
    program = "head -c 50000000 /dev/zero; head -c 3000000 /dev/zero >&2; exit 5"
    answer = connection.run(["sh", "-c", program], deadline_s=60, max_output=1 << 20)
    assert (len(answer.stdout), answer.stdout_dropped) == (1 << 20, 50_000_000 - (1 << 20))
    assert (len(answer.stderr), answer.stderr_dropped) == (1 << 20, 3_000_000 - (1 << 20))
    assert answer.exit_code == 5


def test_twenty_megabytes_go_there_and_back(connection: Connection) -> None:
    pieces = [os.urandom(1_000_000)] * 20
    answer = connection.run(["cat"], stdin=iter(pieces), deadline_s=60)
    assert answer.stdout == b"".join(pieces)
    answer = connection.run(["wc", "-c"], stdin=b"".join(pieces), deadline_s=60)
    assert answer.stdout.strip() == b"20000000"


def test_a_command_that_does_not_read_its_input_ends_all_the_same(connection: Connection) -> None:
    answer = connection.run(["echo", "done"], stdin=b"x" * 20_000_000, deadline_s=30)
    assert (answer.exit_code, answer.stdout) == (0, b"done\n")


def test_an_input_that_breaks_off_is_an_error_and_not_a_short_input(
    connection: Connection,
) -> None:
    def broken() -> Iterator[bytes]:
        yield b"half"
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        connection.run(["cat"], stdin=broken(), deadline_s=60)
    assert connection.run(["echo", "fine"], deadline_s=60).stdout == b"fine\n"


def test_many_commands_share_one_login(lab: Lab) -> None:
    with connect(lab.target(), host_keys=KNOWN_ONLY) as connection:
        for number in range(3):
            answer = connection.run(["echo", str(number)], deadline_s=60)
            assert answer.stdout == f"{number}\n".encode()
    assert lab.sshd.log.read_text().count("Accepted publickey") == 1


def test_the_real_socket_has_nodelay(connection: Connection) -> None:
    link = connection._link  # type: ignore[attr-defined]  # looks below the interface on purpose
    (stream,) = link.sockets
    assert stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_threads_may_run_commands_at_once(connection: Connection, tmp_path: Path) -> None:
    answers: dict[int, bytes] = {}
    wait = f"until [ $(ls {tmp_path}/came-* | wc -l) = 4 ]; do sleep 0.05; done"

    def work(number: int) -> None:
        program = f"touch {tmp_path}/came-{number}; {wait}; echo {number}"
        answers[number] = connection.run(["sh", "-c", program], deadline_s=60).stdout

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {number: f"{number}\n".encode() for number in range(4)}


def test_a_command_that_never_ends_is_ended_here_and_there(lab: Lab) -> None:
    connection = connect(lab.target(), host_keys=KNOWN_ONLY)
    stubborn, child = seconds_word(), seconds_word()
    program = f"trap '' TERM; sleep {child} & sleep {stubborn}"
    with pytest.raises(TransportError) as caught:
        connection.run(["sh", "-c", program], deadline_s=5)
    assert caught.value.kind == "timeout"
    assert "running sh did not finish within 5 s" in str(caught.value)
    until(lambda: not is_running(child) and not is_running(stubborn), "both sleeps to end")
    with pytest.raises(TransportError) as caught:
        connection.run(["true"], deadline_s=5)
    assert caught.value.kind == "lost"
    connection.close()


def test_a_connection_cut_in_the_middle_is_lost_and_never_a_short_result(lab: Lab) -> None:
    with connect(lab.target(), host_keys=KNOWN_ONLY) as connection:
        word = seconds_word()
        error = cut_while_it_sleeps(lab, connection, f"echo some; sleep {word}", word)
    assert error.kind == "lost"
    assert "running sh" in str(error)
    connection.close()


def test_a_script_runs_in_one_exec_with_its_own_output_only(connection: Connection) -> None:
    answer = connection.run_script("echo $((6 * 7))\necho oops >&2\nexit 3\n", deadline_s=60)
    assert (answer.exit_code, answer.stdout, answer.stderr) == (3, b"42\n", b"oops\n")
    assert answer.started
    assert answer.complete
    assert answer.login_noise == b""


def test_another_interpreter_reads_the_script(connection: Connection) -> None:
    argv = [sys.executable, "-I", "-"]
    answer = connection.run_script("print(sum(range(10)), end='')", argv=argv, deadline_s=60)
    assert answer.stdout == b"45"
    assert answer.complete


def test_a_script_that_is_killed_is_not_complete(connection: Connection) -> None:
    answer = connection.run_script("echo half; kill -9 $PPID; kill -9 $$", deadline_s=60)
    assert answer.started
    assert not answer.complete
    assert answer.exit_code != 0
    assert answer.stdout == b"half\n"


def test_the_output_of_a_script_is_bounded_too(connection: Connection) -> None:
    answer = connection.run_script("head -c 5000000 /dev/zero", deadline_s=20, max_output=1000)
    assert (len(answer.stdout), answer.stdout_dropped) == (1000, 5_000_000 - 1000)
    assert answer.complete


def test_what_a_login_shell_prints_and_costs_is_kept_apart(tmp_path: Path) -> None:
    noise = (
        "ForceCommand /bin/sh -c 'echo noise; echo more noise >&2; sleep 0.4; "
        'eval "$SSH_ORIGINAL_COMMAND"\''
    )
    for lab in lab_with(tmp_path, noise):
        with connect(lab.target(), host_keys=KNOWN_ONLY) as connection:
            script = connection.run_script("echo out; echo err >&2", deadline_s=60)
            assert (script.stdout, script.stderr) == (b"out\n", b"err\n")
            assert sorted(script.login_noise.splitlines()) == [b"more noise", b"noise"]
            assert script.login_seconds >= 0.4
            plain = connection.run(["echo", "out"], deadline_s=60)
            assert (plain.stdout, plain.stderr) == (b"out\n", b"")


def test_an_account_without_a_shell_says_so(tmp_path: Path) -> None:
    for lab in lab_with(tmp_path, "ForceCommand echo This account is not available.; exit 1"):
        with connect(lab.target(), host_keys=KNOWN_ONLY) as connection:
            script = connection.run_script("echo out", deadline_s=60)
            assert not script.started
            assert script.login_noise == b"This account is not available.\n"
            assert script.exit_code == 1
            assert b"not available" in connection.run(["true"], deadline_s=60).stderr


def test_a_server_that_opens_no_more_sessions_says_so(tmp_path: Path) -> None:
    for lab in lab_with(tmp_path, "MaxSessions 0"):
        with connect(lab.target(), host_keys=KNOWN_ONLY) as connection:
            with pytest.raises(TransportError) as caught:
                connection.run(["true"], deadline_s=60)
            assert caught.value.kind == "refused"
            assert "MaxSessions" in caught.value.problems[0].fix


@contextmanager
def odd_server(*says: bytes, pause: float = 0.0) -> Iterator[int]:
    """Accepts, says these pieces, and then nothing until the client goes, or ten minutes."""
    gone = threading.Event()

    def work() -> None:
        link, _ = listener.accept()
        with link:
            for piece in says:
                if gone.wait(pause):
                    return
                try:
                    link.sendall(piece)
                except OSError:
                    return
            gone.wait(600)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)
        thread = threading.Thread(target=work)
        thread.start()
        yield listener.getsockname()[1]
        gone.set()
        thread.join()


@pytest.mark.parametrize("says", [[], [b"SSH-"] * 6000], ids=["nothing", "dribbles"])
def test_a_server_that_never_gets_to_the_point_costs_no_more_than_the_deadline(
    lab: Lab, says: list[bytes]
) -> None:
    with odd_server(*says, pause=0.1) as port:
        start = time.monotonic()
        with pytest.raises(TransportError) as caught:
            connect(lab.target(port=port), deadline_s=3, host_keys=KNOWN_ONLY)
        took = time.monotonic() - start
    assert 3 <= took < 3 + 30
    assert caught.value.kind == "timeout"
    assert "the SSH handshake did not finish within 3 s" in str(caught.value)
    assert str(port) in str(caught.value)


def test_a_server_that_is_no_ssh_server_is_refused_in_clean_words(lab: Lab) -> None:
    with odd_server(b"HTTP/1.0 400 \x1b[31mBad\r\n" * 101) as port:
        with pytest.raises(TransportError) as caught:
            connect(lab.target(port=port), deadline_s=60, host_keys=KNOWN_ONLY)
        assert caught.value.kind == "lost"
        assert "\x1b" not in str(caught.value)


def test_nothing_is_left_of_a_closed_connection(lab: Lab) -> None:
    files = len(list(Path("/proc/self/fd").iterdir()))
    threads = threading.active_count()
    connection = connect(lab.target(), host_keys=KNOWN_ONLY)
    connection.run(["true"], deadline_s=60)
    connection.close()
    connection.close()
    assert threading.active_count() == threads
    assert len(list(Path("/proc/self/fd").iterdir())) == files
    until(lambda: not lab.sshd.sessions(), "the server's side to end")


_UNDER_GEVENT = """
def one(number):
    with connect(target, host_keys=HostKeyPolicy()) as connection:
        answer = connection.run(["sh", "-c", f"{together} all 5; echo {number}"], deadline_s=60)
        script = connection.run_script("cat >/dev/null; echo x", deadline_s=60)
        echo = connection.run(["cat"], stdin=b"y" * 3_000_000, deadline_s=60)
        return int(answer.stdout), script.complete, len(echo.stdout)

def local():
    with connect(LOCAL, host_keys=HostKeyPolicy()) as connection:
        words = ["sh", "-c", f"{together} all 5; cat"]
        return connection.run(words, stdin=b"z", deadline_s=60).stdout

def late():
    with connect(target, host_keys=HostKeyPolicy()) as connection:
        try:
            connection.run(["sleep", "600"], deadline_s=3)
        except TransportError as error:
            return error.kind

jobs = [gevent.spawn(one, number) for number in range(4)]
jobs += [gevent.spawn(local), gevent.spawn(late)]
gevent.joinall(jobs, raise_error=True)
assert [job.value for job in jobs[:4]] == [(n, True, 3_000_000) for n in range(4)], jobs
assert [job.value for job in jobs[4:]] == [b"z", "timeout"]
"""


def test_hosts_are_worked_on_at_the_same_time_under_gevent(lab: Lab) -> None:
    require_sshd()
    passes_under_gevent(lab, _UNDER_GEVENT)
