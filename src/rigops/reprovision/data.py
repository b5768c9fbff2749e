"""Data and host keys of a reinstalled host, from its backups."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from rigops.backup.borg import BorgEngine
from rigops.backup.btrfs import BtrfsEngine
from rigops.backup.engine import BackupError, RestoreRequest
from rigops.backup.engines import Engines
from rigops.capture.document import Capture
from rigops.concerns.concern import HostRequest
from rigops.errors import RigopsError, rigops_error
from rigops.hosts.access import Chosen, HostAccess
from rigops.hosts.engines import EngineOptions, HostAnswer, ask_engines
from rigops.reprovision import trust
from rigops.reprovision.bootstrap import Bootstrap
from rigops.reprovision.restore import (
    NotRestored,
    PlannedRestore,
    is_to_be_healed,
    left_to_its_tool,
    machine_id,
    plan_restores,
    restore_planned,
    show_restored,
)
from rigops.reprovision.result import DeclinedError
from rigops.reprovision.root_shell import RunAsRoot, as_root
from rigops.reprovision.state import restored_key
from rigops.reprovision.trust import Introduction
from rigops.transport import Connection, HostKeyPolicy, Privilege, TransportError
from rigops.transport.errors import clean

if TYPE_CHECKING:
    from rigops.reprovision.console import ReprovisionConsole

Value = TypeVar("Value")

_RUN_S: Final = 60.0
_RELOAD_TRIES, _RELOAD_PAUSE_S = 40, 0.25
_FOLDER: Final = "/etc/ssh"
_FILES: Final = {
    "ssh-ed25519": "ssh_host_ed25519_key",
    "ssh-rsa": "ssh_host_rsa_key",
    "ecdsa-sha2-nistp256": "ssh_host_ecdsa_key",
    "ecdsa-sha2-nistp384": "ssh_host_ecdsa_key",
    "ecdsa-sha2-nistp521": "ssh_host_ecdsa_key",
}
SHOW: Final = 'for file; do ssh-keygen -lf "$file.pub" | cut -d " " -f 2; done'
IS_BESIDE: Final = "ls /etc/ssh/ssh_host_*_key*.before-restore-* >/dev/null 2>&1"
# The keys in the place of the captured ones are this installation's alone.
RELOAD: Final = r"""
set -eu
for file; do chmod 600 "$file"; done
$(command -v sshd || echo /usr/sbin/sshd) -t
systemctl reload ssh 2>/dev/null || systemctl reload sshd
rm -f /etc/ssh/ssh_host_*_key.before-restore-* /etc/ssh/ssh_host_*_key.pub.before-restore-*
"""


class BackedUpData:
    """`restored`: what came back before; `remember` adds to it. `story` gets what was done."""

    def __init__(
        self,
        request: HostRequest,
        capture: Capture,
        bootstrap: Bootstrap,
        console: ReprovisionConsole,
        access: HostAccess,
        *,
        yes: bool,
        restored: Mapping[str, str],
        remember: Callable[[str, str], None],
        story: list[str],
    ) -> None:
        self._request = request
        self._capture = capture
        self._bootstrap = bootstrap
        self._console = console
        self._access = access
        self._yes = yes
        self._restored = restored
        self._remember = remember
        self._story = story
        self._archives_of = "" if capture.host == request.name else capture.host

    def restore(self) -> None:
        """The paths that were on the wiped disk."""
        if left := left_to_its_tool(self._request.spec):
            self._story.append(left)
        if not self._capture.backed_up:
            return
        wanted = []
        for planned in self._planned_restores():
            if isinstance(planned, NotRestored):
                self._story.append(f"{planned.path} was not restored: {planned.why}")
            else:
                if planned.newer:
                    self._confirm_newer(planned)
                wanted.append(planned)
        if wanted:
            self._story += self._ask_engines(
                "restoring",
                lambda engines: [text for one in wanted for text in self._restore(one, engines)],
            )

    def _restore(self, planned: PlannedRestore, engines: Engines) -> Iterator[str]:
        run = as_root(*_connection(engines))
        found = restore_planned(planned, engines)
        was_in_use = show_restored(planned.path, run)
        self._bootstrap.install(*_connection(engines))
        came_from = f"{planned.engine} {found.get('snapshot')} of {planned.at}"
        self._remember(restored_key(machine_id(run), planned.path), came_from)
        aside = f"; what was there is in {found['aside']}" if found.get("aside") else ""
        yield f"restored {planned.path} from {came_from}{aside}"
        if was_in_use:
            yield f"{planned.path} was in use: who uses it still sees the old one"

    def _planned_restores(self) -> Sequence[PlannedRestore | NotRestored]:
        def plan(engines: Engines) -> Sequence[PlannedRestore | NotRestored]:
            run, of = as_root(*_connection(engines)), self._archives_of
            return [*plan_restores(self._capture, engines, run, self._restored, of=of)]

        try:
            return self._ask_engines("looking for backups", plan)
        except BackupError as error:
            if not is_to_be_healed(error.fix):
                raise
            question = f"{error.message}. Sign these archives, of which none is removed?"
            if not (self._yes or self._console.agrees(question)):
                raise
        healed = self._ask_engines("healing", lambda engines: engines.heal(confirmed=True))
        self._story += [f"signed {name}" for name in healed.get("healed", ())]
        return self._ask_engines("looking for backups", plan)

    def _confirm_newer(self, planned: PlannedRestore) -> None:
        path, at, newer = planned.path, planned.at, planned.newer_text
        if not self._console.can_answer:
            raise rigops_error(
                message=f"{path} has files that are newer than the backup of {at}: {newer}",
                host=self._request.name,
                fix="run it at a terminal, or move them away first",
            )
        text = f"{path} has files newer than the backup of {at} ({newer}). "
        if not self._console.agrees(f"{text}Restore it, and move all that is there aside?"):
            raise DeclinedError

    def host_keys(self) -> None:
        """Those of sshd, where the backup has them; then the known key is the captured one."""
        declared = self._request.spec.borg
        if not self._capture.host_keys or declared is None or not declared.host_keys:
            return

        captured = [one.fingerprint for one in self._capture.host_keys]

        def introduced() -> Introduction:
            return trust.introduce(self._request.target, captured, HostKeyPolicy())

        shows_captured = introduced().fingerprint in captured

        def restore(engines: Engines) -> list[str]:
            run, name = as_root(*_connection(engines)), self._request.name
            if not has_captured_keys(self._capture, run):
                borg = next(one for one in engines.every if isinstance(one, BorgEngine))
                restore_host_keys(self._capture, borg, name, run, of=self._archives_of)
            elif shows_captured and not is_still_to_be_put_in_force(run):
                return []
            put_in_force(self._capture, name, run)
            return ["restored the keys of sshd"]

        self._story += self._ask_engines("restoring host keys", restore, engine="borg")
        found = introduce_reloaded(introduced, captured)
        if found.state != "known":
            trust.accept(found)

    def _ask_engines(
        self, doing: str, work: Callable[[Engines], Value], *, engine: str = ""
    ) -> Value:
        request = self._request

        def answer_of(host: Chosen, engines: Engines) -> HostAnswer:
            try:
                return HostAnswer(host=host.name, status="ok", value=work(engines))
            except (BackupError, TransportError):
                raise
            except RigopsError as error:
                raise BackupError(host.name, str(error), error.fix) from error

        chosen = Chosen(request.name, request.target, request.spec)
        options = EngineOptions(access=self._access, engine=engine)
        (answer,) = ask_engines([chosen], options, doing, answer_of, self._console, is_change=True)
        if answer.error is not None:
            raise BackupError(request.name, answer.error.message, answer.error.fix)
        value: Value = answer.value
        return value


def _connection(engines: Engines) -> tuple[Connection, Privilege]:
    found = next(one.program for one in engines.every if isinstance(one, (BorgEngine, BtrfsEngine)))
    return found.connection, found.privilege


def key_files(capture: Capture) -> tuple[str, ...]:
    return tuple(f"{_FOLDER}/{_FILES[one.type]}" for one in capture.host_keys if one.type in _FILES)


def has_captured_keys(capture: Capture, run: RunAsRoot) -> bool:
    files = key_files(capture)
    wanted = [one.fingerprint for one in capture.host_keys if one.type in _FILES]
    answer = run(["sh", "-c", SHOW, "rigops", *files], _RUN_S)
    return answer.stdout.decode(errors="replace").split() == wanted


def restore_host_keys(
    capture: Capture, borg: BorgEngine, host: str, run: RunAsRoot, *, of: str = ""
) -> None:
    """Each file takes its place whole; see put_in_force."""
    for path in _with_public(key_files(capture)):
        borg.restore(RestoreRequest(path=path, in_place=True, of=of), dry_run=False)
    if not has_captured_keys(capture, run):
        raise rigops_error(
            message="the host keys in the backup are not the captured ones",
            host=host,
            fix=f"see {_FOLDER}/*.before-restore-*, which are the keys of the new system",
        )


def is_still_to_be_put_in_force(run: RunAsRoot) -> bool:
    """Whether the keys of the new system are still beside those that were restored."""
    return run(["sh", "-c", IS_BESIDE], _RUN_S).exit_code == 0


def put_in_force(capture: Capture, host: str, run: RunAsRoot) -> None:
    """The running sshd reads them once all are there and right."""
    answer = run(["sh", "-c", RELOAD, "rigops", *key_files(capture)], _RUN_S)
    if answer.exit_code != 0:
        raise rigops_error(
            message=f"sshd does not take the restored host keys: {clean(answer.stderr)}",
            host=host,
            fix="see sshd -t there",
        )


def introduce_reloaded(
    introduce: Callable[[], Introduction], captured: Collection[str]
) -> Introduction:
    """Sshd reloads in its own time, and until then answers by the old keys, or refuses."""
    left = _RELOAD_TRIES
    while True:
        try:
            found = introduce()
            if found.fingerprint in captured:
                return found
            raise trust.not_accepted(found, "it is not the captured one")
        except TransportError:
            if not left:
                raise
        left -= 1
        time.sleep(_RELOAD_PAUSE_S)


def _with_public(files: Sequence[str]) -> Iterator[str]:
    for file in files:
        yield from (file, f"{file}.pub")
