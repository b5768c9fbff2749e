"""Runs the tool of a backup as root, with the environment and the credentials of its unit.

As a service of its own, so that systemd reads secrets where the unit has them. What the unit has
in itself goes by a file in memory: no argument and no file on a disk has it.
"""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import contextmanager, suppress
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from rigops.concerns.snapshots.host.btrfs import HostError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rigops.concerns.borg.host.tool_unit import ToolUnit

_CREDENTIALS = "/run/credentials"
_IN_URL = re.compile(r"(://[^/@\s:]*):[^/@\s]*@")
_SECRET_NAME = re.compile(r"PASS|SECRET|TOKEN|KEY")
_QUOTED = re.compile(r'(["\\`$])')
_RAISED = re.compile(r"^borg\.(?P<name>[^\s:]{1,200}): (?P<text>.+)$", re.MULTILINE)
_LEAST_SECRET = 4  # characters: a shorter one would hide half of the text
_NOISE = (
    "Error running ",
    "Command '",
    "Need some help",
    "summary:",
    "An error occurred",
    "ignoring error for",
)


class ToolAnswer(NamedTuple):
    code: int
    text: str
    errors: str


class ToolError(HostError):
    """`is_locked`: somebody else works there, and nothing is known of the backups."""

    def __init__(self, tool: str, unit: str, errors: str) -> None:
        self.is_locked = bool(re.search(r"\block(ed)?\b", errors, re.IGNORECASE))
        by_hand = f"run {tool} itself on the host, as `systemctl cat {unit}` has it"
        fix = f"wait until {unit} has ended" if self.is_locked else by_hand
        super().__init__(f"{tool}: {meaning_of(errors)}", fix)


class ToolRun:
    """`options`: those of the unit that every command needs."""

    def __init__(self, unit: ToolUnit, options: Sequence[str]) -> None:
        self.unit = unit
        self._options = tuple(options)
        self._numbers = count(1)

    def ask(self, *words: str) -> ToolAnswer:
        with self._started(words) as running:
            text = running.process.stdout.read().decode(errors="surrogateescape")
            return ToolAnswer(running.process.wait(), text, running.read_errors())

    def demand(self, *words: str) -> str:
        answer = self.ask(*words)
        if answer.code != 0:
            said = answer.errors or self._clean(answer.text)
            raise ToolError(self.unit.tool, self.unit.service, said)
        return answer.text

    def lines(self, *words: str) -> Iterator[str]:
        """Of a list that may be long; its error follows the last one."""
        with self._started(words) as running:
            for line in running.process.stdout:
                yield line.decode(errors="surrogateescape").rstrip("\n")
            if running.process.wait() != 0:
                raise ToolError(self.unit.tool, self.unit.service, running.read_errors())

    @contextmanager
    def _started(self, words: Sequence[str]) -> Iterator[_RunningTool]:
        name = f"rigops-unmanaged-{os.getpid()}-{next(self._numbers)}.service"
        held: list[int] = []
        errors = _hold(held, b"")
        try:
            process = subprocess.Popen(
                [
                    *("systemd-run", "--quiet", "--pipe", "--wait", "--collect"),
                    *("--service-type=exec", f"--unit={name}"),
                    f"--description=rigops reads the backups of {self.unit.name}",
                    *(f"--property={one}" for one in self._properties(name, held)),
                    "--",
                    *self._moved(self._unit_words, name),
                    *(one.replace("$", "$$") for one in words),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
            try:
                yield _RunningTool(process, errors, self._clean)
            finally:
                _stop(process, name)
        finally:
            for number in held:
                os.close(number)

    @property
    def _unit_words(self) -> tuple[str, ...]:
        return (self.unit.words[0], *self._options)

    def _properties(self, name: str, held: list[int]) -> Iterator[str]:
        settings = self.unit.settings
        environment = self._moved(map(str, settings.get("Environment") or ()), name)
        yield f"EnvironmentFile={_path_of(_hold(held, _environment_file(environment)))}"
        for path, is_optional in settings.get("EnvironmentFiles") or ():
            yield f"EnvironmentFile={'-' if is_optional else ''}{path}"
        for setting in ("PassEnvironment", "UnsetEnvironment"):
            if settings.get(setting):
                yield f"{setting}={' '.join(settings[setting])}"
        for setting in ("LoadCredential", "LoadCredentialEncrypted"):
            for identity, path in settings.get(setting) or ():
                yield f"{setting}={identity}:{path}" if path else f"{setting}={identity}"
        for setting, content in (
            ("LoadCredential", "SetCredential"),
            ("LoadCredentialEncrypted", "SetCredentialEncrypted"),
        ):
            for identity, numbers in settings.get(content) or ():
                yield f"{setting}={identity}:{_path_of(_hold(held, bytes(numbers)))}"
        if settings.get("WorkingDirectory"):  # systemd says ! where a unit has -
            yield f"WorkingDirectory={re.sub('^!', '-', settings['WorkingDirectory'])}"

    def _moved(self, words: Iterable[str], name: str) -> list[str]:
        """The credentials of this service have another place than those of the unit."""
        old, new = (f"{_CREDENTIALS}/{one}/" for one in (self.unit.service, name))
        return [one.replace(old, new) for one in words]

    def _clean(self, text: str) -> str:
        """Without what the unit has as a secret in itself."""
        text = _IN_URL.sub(r"\1:***@", text)
        for one in self.unit.settings.get("Environment") or ():
            name, _, value = str(one).partition("=")
            if _SECRET_NAME.search(name) and len(value) >= _LEAST_SECRET:
                text = text.replace(value, "***")
        return text


class _RunningTool:
    def __init__(self, process: subprocess.Popen[bytes], errors: int, clean: Any) -> None:  # noqa: ANN401
        self.process: Any = process  # with its output, since it was asked for
        self._errors = errors
        self._clean = clean

    def read_errors(self) -> str:
        size = os.fstat(self._errors).st_size
        return str(self._clean(os.pread(self._errors, size, 0).decode(errors="replace")))


def meaning_of(errors: str) -> str:
    """The line that says what is wrong. Pure."""
    lines = [one.strip() for one in errors.splitlines() if one.strip()]
    for raised in _RAISED.finditer(errors):  # a borg that fell over
        if "Error" in raised["name"] or "Exception" in raised["name"]:
            return raised["text"].strip()
    telling = [one for one in lines if not any(noise in one for noise in _NOISE)]
    return next(iter(telling or lines), "it failed without a message")


def _environment_file(environment: Iterable[str]) -> bytes:
    """As systemd reads it back, whatever is in a value. Pure."""
    rows = []
    for one in environment:
        name, _, value = one.partition("=")
        quoted = _QUOTED.sub(r"\\\1", value)
        rows.append(f'{name}="{quoted}"\n')
    return "".join(rows).encode(errors="surrogateescape")


def _hold(held: list[int], content: bytes) -> int:
    number = os.memfd_create("rigops")
    held.append(number)
    os.write(number, content)
    return number


def _path_of(number: int) -> str:
    return f"/proc/{os.getpid()}/fd/{number}"


def _stop(process: subprocess.Popen[bytes], name: str) -> None:
    """The service too, where it has not ended by itself."""
    if process.stdout is not None:
        process.stdout.close()
    while process.poll() is None:  # it may be about to start just now
        subprocess.run(
            ["systemctl", "stop", name],
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )
        with suppress(subprocess.TimeoutExpired):
            process.wait(1)
