"""A reprovision, stage by stage, with progress and questions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rigops.capture import store
from rigops.cli.apply_common import fleet_run, host_requests, record
from rigops.cli.applying import Answers, apply
from rigops.cli.hosts import host_key_policy, sudo_password
from rigops.cli.options import read_inventory
from rigops.cli.output import has_terminal
from rigops.cli.progress import Progress
from rigops.cli.reprovision_data import BackedUpData
from rigops.cli.reprovision_now import describe_now
from rigops.cli.reprovision_questions import DeclinedError, Questions, ask_password
from rigops.concerns.registry import read as spec_of
from rigops.converge.concerns import Selection
from rigops.dataclass import dataclass
from rigops.errors import HostError, Problem, RigopsError, UsageError, usage_error
from rigops.record import lockfile
from rigops.report.terminal import print_lines
from rigops.reprovision import state, trust
from rigops.reprovision.before import choose, explain, trusted_keys
from rigops.reprovision.bootstrap import Bootstrap
from rigops.reprovision.compare import ReplacedGpu, compare, replaced_gpus
from rigops.reprovision.mounts import LostMount, lost_mounts, mount
from rigops.reprovision.moved_settings import lines_to_change, move_settings
from rigops.reprovision.result import ReprovisionResult
from rigops.reprovision.state import StageTime, State
from rigops.transport import HostKeyPolicy, TransportError, connect, with_password
from rigops.transport.privilege import WITHOUT_PASSWORD
from rigops.vault.store import Store

if TYPE_CHECKING:
    from rigops.capture.document import Capture
    from rigops.concerns.concern import HostRequest
    from rigops.converge.result import HostResult
    from rigops.inventory import Inventory
    from rigops.inventory.spec import RigSpec
    from rigops.reprovision.trust import Introduction
    from rigops.transport import Result

_STAGES: Final = (
    "trust", "bootstrap", "disks", "apply", "restore", "host keys", "verify", "compare",
)  # fmt: skip
_UNREACHED: Final = frozenset({"trust"})  # nothing was changed on the host before its end
_OWN_INTERRUPTS: Final = frozenset({"apply", "verify"})  # a run of the fleet sees to Ctrl-C


@dataclass(frozen=True, kw_only=True)
class Options:
    host: str
    inventory_path: Path | None
    captured_as: str
    accepted_keys: frozenset[str]
    asks_password: bool
    asks_sudo_password: bool
    yes: bool
    reboot: str
    adopts_parts: bool
    accepts_no_trial: bool


def run(options: Options) -> ReprovisionResult:
    inventory = read_inventory(options.inventory_path)
    request = _request(inventory, options)
    own = Store.of(request.spec.rigops_vault)
    captures = tuple(store.newest_first(own, options.captured_as))
    if not captures:
        raise usage_error(
            message=f"no capture in {store.folder_of(own, options.captured_as)}",
            host=options.captured_as,
            fix="run rigops apply for a host that was never captured; rigops capture needs the "
            "host as it was",
        )
    return _Run(options, inventory, request, captures, own).whole()


def _request(inventory: Inventory, options: Options) -> HostRequest:
    name = options.host
    if inventory.host(name) is None:
        raise usage_error(
            message="not in the inventory", key="HOST", value=name, fix=inventory.nearest(name)
        )
    found = next((one for one in host_requests(inventory, ()) if one.name == name), None)
    if found is None or found.target.local:
        raise usage_error(message="only a host over ssh can be reprovisioned", host=name)
    if options.captured_as == name:
        return found
    known = lockfile.read(lockfile.path_of(inventory.path))
    return replace(found, locked=known.hosts.get(options.captured_as))


class _Run:
    def __init__(
        self,
        options: Options,
        inventory: Inventory,
        request: HostRequest,
        captures: Sequence[Capture],
        own: Store,
    ) -> None:
        self._options = options
        self._inventory = inventory
        self._request = request
        self._declared = request.data
        self._adopts_parts = True if options.adopts_parts else None
        self._captures = captures
        self._store = own
        self._state = State()
        self._is_chosen = False  # which capture it is
        self._sudo_password = sudo_password(asked=options.asks_sudo_password)
        self._login = self._shown_key = ""
        self._questions = Questions()
        self._blocked: HostError | None = None
        self._result = ReprovisionResult(
            host=request.name, captured_as=captures[0].host, capture="", captured_at=""
        )
        self._use(captures[0])

    def whole(self) -> ReprovisionResult:
        stages: dict[str, Callable[[], None]] = {
            "trust": self._trust,
            "bootstrap": self._bootstrap,
            "disks": self._disks,
            "apply": self._apply,
            "restore": lambda: self._data().restore(),
            "host keys": lambda: self._data().host_keys(),
            "verify": self._verify,
            "compare": self._compare,
        }
        result, now = self._result, ""
        try:
            for number, now in enumerate(_STAGES, 1):
                print_lines(f"[{number}/{len(_STAGES)}] {now}", err=True)
                with self._stage(now):
                    stages[now]()
            result.ending = "failed" if self._blocked else "compared"
            result.error = self._blocked
        except DeclinedError:
            result.ending = "declined"
        except KeyboardInterrupt:
            result.ending = "interrupted"
            result.story.append(f"interrupted in the stage {now}")
        except UsageError:
            raise
        except RigopsError as error:
            result.ending = "unknown" if now in _UNREACHED else "failed"
            result.error = _host_error(error)
            result.story.append(f"failed in the stage {now}")
        return result

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        began, started = _now(), time.monotonic()
        outcome = "failed"
        try:
            with nullcontext() if name in _OWN_INTERRUPTS else self._questions.interruptible():
                yield
            outcome = "done"
        finally:
            seconds = round(time.monotonic() - started, 3)
            self._result.stages.append(
                StageTime(stage=name, began=began, ended=_now(), seconds=seconds, outcome=outcome)
            )
            self._remember(stages=(*self._state.stages, self._result.stages[-1]))
            self._result.total_s = sum(one.seconds for one in self._state.stages)

    def _remember(self, **changes: Any) -> None:  # noqa: ANN401 - fields of the state
        self._state = replace(self._state, **changes)
        if self._is_chosen:
            state.write(Path(self._capture.place), self._state)

    def _use(self, capture: Capture) -> None:
        self._capture = capture
        self._result.capture = capture.place
        self._result.captured_at = capture.at

    # Trust

    def _trust(self) -> None:
        accepted = host_key_policy(self._options.accepted_keys)
        found = trust.introduce(self._request.target, trusted_keys(self._captures), accepted)
        self._login = found.server.user
        self._shown_key = found.fingerprint
        self._use(choose(self._captures, shown_key=self._shown_key))
        if found.state == "known":
            return
        if found.state != "captured":
            self._confirm_key(found)
        for place in trust.accept(found):
            self._result.story.append(f"{place} has the old host key; remove that line")

    def _confirm_key(self, found: Introduction) -> None:
        given = {one.rstrip("=") for one in self._options.accepted_keys}
        if found.fingerprint in given:
            return
        if given:
            raise trust.not_accepted(found, f"accepted is {', '.join(sorted(given))}")
        if not has_terminal():
            raise trust.not_accepted(found, "nobody has accepted it")
        if not self._questions.trusts(found):
            raise DeclinedError

    # Bootstrap

    def _bootstrap(self) -> None:
        name = self._request.name
        with Progress("bootstrap", self._questions.answering) as progress:

            def ask(login: str, *, again: bool) -> str | None:
                if not (self._options.asks_password or has_terminal()):
                    return None
                with progress.silent():
                    return ask_password(login, again=again)

            progress.begin(name)
            self._login_files = Bootstrap(
                self._request.target,
                self._capture,
                self._login,
                ask=ask,
                programs=_programs(self._request.spec),
                prefers_password=self._options.asks_password,
                sudo_password=self._sudo_password,
                tell=lambda text: progress.say(name, text),
            )
            done = self._login_files.run()
            progress.end(name, "; ".join(done) or "the login was there")
        self._result.story += done
        self._choose(self._login_files.machine_id)

    def _choose(self, machine_id: str) -> None:
        """For good: from now on it is written down what was done for this capture."""
        captures = self._captures
        self._use(choose(captures, shown_key=self._shown_key, machine_id=machine_id))
        self._is_chosen = True
        known = state.read(Path(self._capture.place))
        self._remember(stages=(*known.stages, *self._state.stages), restored=known.restored)
        text = explain(self._capture, captures, machine_id)
        print_lines(text, err=True)
        self._result.story.append(text)

    # Disks

    def _disks(self) -> None:
        """Those that were not wiped, before a repository on one of them is looked for."""
        with connect(self._request.target, host_keys=HostKeyPolicy()) as connection:
            privilege = WITHOUT_PASSWORD
            if self._sudo_password is not None:
                privilege = with_password(connection, self._sudo_password)

            def as_root(words: Sequence[str], seconds: float) -> Result:
                return connection.run(words, privilege=privilege, deadline_s=seconds)

            lost = lost_mounts(self._capture, as_root)
            free = [one for one in lost if one.state == "free"]
            if free and not (self._options.yes or self._agreed_to_mount(free)):
                self._result.story += [
                    f"{one} was not mounted: it was not confirmed" for one in free
                ]
                free = []
            self._result.story += [mount(one, as_root) for one in free]
        for one in lost:
            if one.state in {"absent", "taken"}:
                why = "its disk is absent" if one.state == "absent" else "something else is there"
                self._result.story.append(f"{one} was not mounted: {why}")

    def _agreed_to_mount(self, free: Sequence[LostMount]) -> bool:
        names = ", ".join(map(str, free))
        return self._questions.agrees(f"Mount {names} again, as captured, now and in /etc/fstab?")

    # Apply

    def _apply(self) -> None:
        result = self._apply_once()
        if (result.error or result.blocked) and self._moves_settings():
            result = self._apply_once()
        if result.error is not None:
            raise RigopsError(
                Problem(message=result.error.message, fix=result.error.fix, host=result.host)
            )
        if result.blocked:
            # Data comes back all the same, and the comparison shows what is wrong.
            reasons = "; ".join(f"{one.concern}: {one.reason}" for one in result.blocked)
            self._blocked = HostError("blocked", reasons, "see rigops plan, and run this again")
            return
        if result.outcome not in {"changed", "converged"}:
            reasons = "; ".join(result.reboot_reasons) or result.outcome
            raise RigopsError(
                Problem(
                    message=f"not finished: {reasons}",
                    host=result.host,
                    fix="run this again with --reboot auto",
                )
            )

    def _apply_once(self) -> HostResult:
        options = self._options
        with fleet_run(
            "apply",
            [self._request],
            Selection(),
            inventory_digest=self._inventory.digest,
            accepted_keys=(),
            asks_sudo_password=False,
            sudo_password_given=self._sudo_password,
        ) as (fleet, progress):
            answers = Answers(
                yes=options.yes, reboot=options.reboot, accept_no_trial=options.accepts_no_trial
            )
            ending = apply(fleet, progress, answers)
            (result,) = fleet.results
            self._result.apply = result
        if unrecorded := record(fleet):
            raise RigopsError(unrecorded)
        self._result.story += result.story
        if ending.is_declined:
            raise DeclinedError
        if ending.is_interrupted:
            raise KeyboardInterrupt
        return result

    def _moves_settings(self) -> bool:
        """What the inventory says of a card that is gone is for the one in its slot, on consent.

        Which that is, only the driver says, and a new system has none before apply.
        """
        replaced = replaced_gpus(self._capture, self._describe())
        moved = move_settings(self._declared, replaced)
        if moved == self._declared or not self._adopts(replaced):
            return False
        self._request = replace(self._request, data=moved, spec=spec_of(moved))
        return True

    # Data

    def _data(self) -> BackedUpData:
        def remember(key: str, came_from: str) -> None:
            self._remember(restored={**self._state.restored, key: came_from})

        return BackedUpData(
            self._request,
            self._capture,
            self._login_files,
            self._questions,
            yes=self._options.yes,
            sudo_password=self._sudo_password,
            restored=self._state.restored,
            remember=remember,
            story=self._result.story,
        )

    # Verify

    def _verify(self) -> None:
        """Declared is live: a second plan has nothing to do."""
        with fleet_run(
            "plan",
            [self._request],
            Selection(),
            inventory_digest=self._inventory.digest,
            accepted_keys=(),
            asks_sudo_password=False,
            sudo_password_given=self._sudo_password,
        ) as (fleet, _):
            fleet.plan()
            (result,) = fleet.results
        if result.error is not None:
            raise RigopsError(
                Problem(message=result.error.message, fix=result.error.fix, host=result.host)
            )
        if result.pending:
            left = ", ".join(one.subject for one in result.plan.changes) or "a reboot"
            raise RigopsError(
                Problem(
                    message=f"still not as declared after apply: {left}",
                    host=result.host,
                    fix="see rigops plan",
                )
            )

    # Compare

    def _compare(self) -> None:
        after = self._describe()
        replaced = replaced_gpus(self._capture, after)
        adopts = bool(replaced) and self._adopts(replaced)
        self._result.compared = compare(self._capture, after, adopts_parts=adopts)
        self._result.hints += lines_to_change(self._declared, replaced)

    def _describe(self) -> Capture:
        return describe_now(
            self._request,
            self._store,
            self._options.inventory_path,
            login=self._login,
            sudo_password=self._sudo_password,
        )

    def _adopts(self, replaced: Sequence[ReplacedGpu]) -> bool:
        """Asked once."""
        if self._adopts_parts is None:
            cards = ", ".join(f"{one.after} for {one.before} at {one.address}" for one in replaced)
            self._adopts_parts = self._questions.agrees(f"Replaced parts: {cards}. Is that so?")
        return self._adopts_parts


def _programs(spec: RigSpec) -> dict[str, str]:
    """What the backups need, and rigops installs nowhere else: by package."""
    needed = {}
    if spec.borg is not None and spec.borg.managed and spec.borg.repository:
        needed["borg"] = "borgbackup"
    if spec.snapshots is not None and spec.snapshots.subvolumes:
        needed["btrfs"] = "btrfs-progs"
    return needed


def _host_error(error: RigopsError) -> HostError:
    kind = error.kind if isinstance(error, TransportError) else "failed"
    return HostError(kind, str(error), " ".join(one.fix for one in error.problems if one.fix))


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
