"""Runs a program of rigops on a host, in the version of this rigops, and reads its lines."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Final

from rigops.backup.answer_shape import ProgramResult
from rigops.backup.btrfs_lines import ProgramAnswer
from rigops.backup.engine import BackupError, ProgressListener, RestoreRequest
from rigops.dataclass import dataclass
from rigops.hostside.packing import pack
from rigops.transport import Connection, Privilege, TransportError
from rigops.transport.errors import clean

PYTHON: Final = "python3 -I -c"

_FOR_GOOD_S: Final = 10 * 365 * 24 * 3600.0  # a restore of a large disk takes as long as it takes
_BEAT_S: Final = 2.0
_NO_PYTHON: Final = 127

# Its first arguments: how many bytes of its input are the program, and how many after that are a
# secret, which the program gets by a pipe. The end of the rest means that rigops wants it to end,
# or is gone.
_LAUNCHER: Final = """
import json, os, signal, subprocess, sys, threading
size, secret_size, *words = sys.argv[1:]
def take(size):
    found = b""
    while len(found) < size:
        piece = os.read(0, size - len(found))
        if not piece:
            sys.exit("the program came only in part")
        found += piece
    return found
text, secret, passed = take(int(size)), take(int(secret_size)), ()
if secret:
    reading, writing = os.pipe()
    os.write(writing, secret)
    os.close(writing)
    passed = (reading,)
    words += ["--given", str(reading)]
program = subprocess.Popen(
    [sys.executable, "-I", "-", *words], stdin=subprocess.PIPE, pass_fds=passed
)
def pass_on(*_):
    program.poll() is None and program.terminate()
def follow():
    while os.read(0, 4096):
        pass
    pass_on()
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, pass_on)
program.stdin.write(text)
program.stdin.close()
threading.Thread(target=follow, daemon=True).start()
code = program.wait()
print(json.dumps({"ended": code}), flush=True)
"""
_START: Final = """
cd / || exit
command -v python3 >/dev/null || exit 127
{run}
"""


@dataclass
class HostProgram:
    """`run`: shell that runs Python with the arguments. `stop`: once set, it is ended there."""

    host: str
    connection: Connection
    privilege: Privilege
    on_progress: ProgressListener = lambda _: None
    on_notice: Callable[[str], None] = lambda _: None
    stop: threading.Event = field(default_factory=threading.Event)

    def ask(
        self, name: str, *words: str, run: str = f'exec {PYTHON} "$@"', secret: bytes = b""
    ) -> ProgramResult:
        """Its result, or a BackupError. `secret`: up to 4 kB, for a command with `--given`."""
        text = pack(name).text.encode()
        answer = ProgramAnswer(self.on_progress, self.on_notice)
        start = _START.format(run=run)
        sizes = (str(len(text)), str(len(secret)))
        argv = ["sh", "-c", start, name, _LAUNCHER, *sizes, "--json", *words]
        done = self.connection.run_script(
            self._input(text + secret, answer),
            argv=argv,
            privilege=self.privilege,
            deadline_s=_FOR_GOOD_S,
            on_line=answer.hear,
        )
        if not done.started:
            raise TransportError(
                "sudo",
                f"{self.host}: no root there: {clean(done.login_noise) or 'no output'}",
                host=self.host,
                fix="log in as root, allow sudo without a password, or pass --ask-sudo-password",
            )
        if done.exit_code == _NO_PYTHON and answer.ended is None:
            raise BackupError(self.host, "no python3 on the host", "install python3 there")
        return answer.result_or_raise(self.host, done.stderr)

    def _input(self, text: bytes, answer: ProgramAnswer) -> Iterator[bytes]:
        """Stays open for as long as the program is wanted."""
        yield text
        while not answer.over.wait(_BEAT_S if not self.stop.is_set() else 0):
            if self.stop.is_set():
                return
            yield b"\n"


def restore_words(request: RestoreRequest) -> list[str]:
    words = ["--path", request.path]
    for name, value in (("--at", request.at), ("--place", request.place), ("--to", request.to)):
        words += [name, value] if value else []
    return [*words, *(["--in-place"] if request.in_place else [])]
