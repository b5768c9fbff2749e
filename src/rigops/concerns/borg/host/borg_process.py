"""Runs borg: its environment, its log, its progress, and what its end means."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import threading
import time
from collections import deque
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from rigops.backup.host.errors import HostError
from rigops.backup.host.server_access import read_public_key
from rigops.concerns.borg.host.borg_meanings import UNREACHABLE, BorgError, BorgMessage, is_warning
from rigops.concerns.borg.host.borg_settings import BORG_KEY, BORG_KNOWN_HOSTS
from rigops.concerns.borg.host.borg_versions import MODERN_EXIT_CODES, demand_usable
from rigops.concerns.borg.host.passphrase import passphrase_pipe
from rigops.concerns.borg.host.ssh_refusal import ask_ssh

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import IO

    from rigops.concerns.borg.host.borg_settings import BorgSettings
    from rigops.concerns.borg.host.borg_versions import BorgVersion

BORG_FILES = "/var/lib/rigops/borg"
BORG_CACHE = "/var/cache/rigops/borg"
BORG_TEMPORARY = f"{BORG_CACHE}/temporary"  # where there is one; a snapshot may be at /tmp

_BORG_END_S = 60.0  # it rolls back what it has begun
_BORG_SILENCE_S = 3600.0  # with these it says every few seconds that it goes on
_SAY_PROGRESS = ("create", "extract", "delete", "compact", "check")
_MOST_ANSWER = 64 << 20
_LONGEST_LINE, _LONGEST_MESSAGE = 1 << 20, 1 << 12
_WATCH_S = 0.2
_MOST_MESSAGES = 1000  # of the first and of the last ones each
_RSH = (
    "ssh", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=accept-new",
    "-o", f"UserKnownHostsFile={BORG_KNOWN_HOSTS}", "-o", "IdentitiesOnly=yes", "-i", BORG_KEY,
    "-o", "ControlPath=none",
    "-o", "ConnectTimeout=20", "-o", "ServerAliveInterval=30", "-o", "ServerAliveCountMax=4",
)  # fmt: skip
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class BorgAnswer(NamedTuple):
    """`warnings`: files that could not be read, or that changed meanwhile."""

    text: str
    warnings: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        try:
            found = json.loads(self.text)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise HostError("borg gave no answer that can be read", "see `borg --version`")
        return found


class BorgTooSlowError(HostError):
    """It was ended, since its time was over; nothing is known then."""


class Borg:
    """`has_moved`: a person said that the repository is at another place now."""

    def __init__(
        self,
        settings: BorgSettings,
        passphrase: bytes,
        version: BorgVersion,
        *,
        lock_wait_s: int = 30,
        has_moved: bool = False,
    ) -> None:
        self.settings = settings
        self.repository = settings.repository
        self.version = version
        self._passphrase = passphrase
        self._lock_wait_s = lock_wait_s
        self._has_moved = has_moved

    def ask(
        self,
        *words: str,
        cwd: str = "/",
        is_strict: bool = False,
        most_s: float | None = None,
        on_progress: Callable[[dict[str, Any]], None] = lambda _: None,
    ) -> BorgAnswer:
        """All of what it prints; an error of borg's is raised.

        `is_strict`: a warning too. A check that finds damage ends with one.
        """
        with self._started(words, cwd, on_progress) as running:
            running.end_after(most_s)
            text = b"".join(running.pieces()).decode(errors="surrogateescape")
        return BorgAnswer(text, self._warnings_or_raise(running, is_strict=is_strict))

    def lines(self, *words: str, most_s: float | None = None) -> Iterator[dict[str, Any]]:
        """Of a list that may be long; what follows the last one is an error, if there is one."""
        with self._started(words, "/", lambda _: None) as running:
            running.end_after(most_s)
            for line in running.lines():
                with suppress(ValueError):
                    yield json.loads(line)
        self._warnings_or_raise(running)

    @contextmanager
    def _started(
        self, words: Sequence[str], cwd: str, on_progress: Callable[[dict[str, Any]], None]
    ) -> Iterator[_Running]:
        with passphrase_pipe(self._passphrase) as number:
            told = ["--progress"] if words[0] in _SAY_PROGRESS else []
            wait = ("--log-json", "--lock-wait", str(self._lock_wait_s))
            words = (*wait, words[0], *told, *words[1:])
            process = _start_borg(words, cwd, self._environment(number), number)
        running = _Running(process, on_progress)
        try:
            yield running
            running.wait()
        finally:
            running.stop()

    def _environment(self, passphrase_number: int) -> dict[str, str]:
        """All of it: none of what a person has set is inherited."""
        found = {
            "PATH": _PATH,
            "HOME": "/root",
            "LC_ALL": "C.UTF-8",
            "BORG_CONFIG_DIR": BORG_FILES,
            "BORG_CACHE_DIR": BORG_CACHE,
            "TMPDIR": BORG_TEMPORARY,
            "BORG_PASSPHRASE_FD": str(passphrase_number),
            "BORG_RSH": shlex.join(_RSH),
            "BORG_RELOCATED_REPO_ACCESS_IS_OK": "yes" if self._has_moved else "no",
            "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "no",
        }
        if self.version >= MODERN_EXIT_CODES:
            found["BORG_EXIT_CODES"] = "modern"
        return found

    def _warnings_or_raise(self, running: _Running, *, is_strict: bool = False) -> tuple[str, ...]:
        if running.has_run_out:
            raise BorgTooSlowError(
                f"{self.repository}: borg was ended, since it was too slow, or without end", ""
            )
        code, messages = running.code, running.messages
        if code != 0 and (is_strict or not is_warning(code)):
            public_key = read_public_key(BORG_KEY)
            error = BorgError(self.repository, messages, code, public_key)
            if error.state == UNREACHABLE:
                said = [BorgMessage("ERROR", "", one) for one in ask_ssh(_RSH, self.repository)]
                error = BorgError(self.repository, [*said, *messages], code, public_key)
            raise error
        if code == 0:
            return ()
        return tuple(one.text for one in messages if one.level in {"WARNING", "ERROR"})


class _Running:
    """Its log is read meanwhile, so that neither waits for the other."""

    def __init__(
        self, process: subprocess.Popen[bytes], on_progress: Callable[[dict[str, Any]], None]
    ) -> None:
        assert process.stdout is not None  # noqa: S101 - it was asked for
        self._output: IO[bytes] = process.stdout
        self._first: list[BorgMessage] = []
        self._last: deque[BorgMessage] = deque(maxlen=_MOST_MESSAGES)
        self._process = process
        self._on_progress = on_progress
        self._heard_at = time.monotonic()
        self._ends_at = float("inf")
        self._has_ended = threading.Event()
        self.has_run_out = False
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._watch = threading.Thread(target=self._end_when_over, daemon=True)
        self._reader.start()
        self._watch.start()

    @property
    def messages(self) -> list[BorgMessage]:
        return [*self._first, *self._last]

    def end_after(self, most_s: float | None) -> None:
        if most_s is not None:
            self._ends_at = time.monotonic() + most_s

    def pieces(self) -> Iterator[bytes]:
        """Of an answer that ends."""
        left = _MOST_ANSWER
        while left > 0 and (piece := self._output.read(min(left, 1 << 16))):
            self._heard_at = time.monotonic()
            left -= len(piece)
            yield piece
        if left == 0:
            self._run_out()

    def lines(self) -> Iterator[bytes]:
        while line := self._output.readline(_LONGEST_LINE):
            self._heard_at = time.monotonic()
            yield line

    def _end_when_over(self) -> None:
        """A server that is silent for ever ends nothing."""
        while not self._has_ended.wait(_WATCH_S):
            now = time.monotonic()
            if now > min(self._ends_at, self._heard_at + _BORG_SILENCE_S):
                self._run_out()
                return

    def _run_out(self) -> None:
        self.has_run_out = self._process.poll() is None
        self._end()

    @property
    def code(self) -> int:
        return self._process.returncode

    def wait(self) -> None:
        self._process.wait()
        self._reader.join()

    def stop(self) -> None:
        """In order, where it has not ended by itself."""
        self._has_ended.set()
        self._output.close()
        if self._process.poll() is None:
            self._end()
            self._reader.join(_BORG_END_S)

    def _end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(_BORG_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _read_log(self) -> None:
        assert self._process.stderr is not None  # noqa: S101 - a pipe
        with self._process.stderr as log:
            for line in iter(lambda: log.readline(_LONGEST_LINE), b""):
                self._heard_at = time.monotonic()
                self._take(line.decode(errors="replace"))

    def _note(self, level: str, msgid: str, text: str) -> None:
        """However many there are."""
        kept = self._first if len(self._first) < _MOST_MESSAGES else self._last
        if len(text) > _LONGEST_MESSAGE:  # what a traceback is about is at its end
            text = f"{text[: _LONGEST_MESSAGE // 2]}\n{text[-_LONGEST_MESSAGE // 2 :]}"
        kept.append(BorgMessage(level, msgid, text))

    def _take(self, line: str) -> None:
        try:
            found = json.loads(line)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            if line.strip():  # of ssh, or of a borg that fell over
                self._note("ERROR", "", line.strip())
        elif found.get("type") == "log_message":
            level, text = str(found.get("levelname")), str(found.get("message", ""))
            self._note(level, str(found.get("msgid") or ""), text)
        elif found.get("type") in {"archive_progress", "progress_percent"}:
            self._on_progress(found)


def find_borg_version() -> BorgVersion:
    environment = {"PATH": _PATH, "LC_ALL": "C.UTF-8", "TMPDIR": BORG_TEMPORARY}
    process = _start_borg(("--version",), "/", environment)
    text, _ = process.communicate()
    return demand_usable(text.decode(errors="replace"))


def _start_borg(
    words: Sequence[str], cwd: str, environment: dict[str, str], *numbers: int
) -> subprocess.Popen[bytes]:
    """By its whole path: Python goes on to the next `borg` of PATH where one cannot be started."""
    program = shutil.which("borg", path=_PATH)
    if program is None:
        raise HostError("borg is not installed", "install the package borgbackup")
    try:
        return subprocess.Popen(
            [program, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=environment,
            pass_fds=numbers,
        )
    except OSError as error:
        raise HostError(f"{program}: {error.strerror}", "see that it can be started") from error
