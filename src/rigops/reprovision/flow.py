"""A reprovision, stage by stage; each looks at the host first."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rigops.capture.document import Capture
from rigops.catalog import Catalog
from rigops.concerns.concern import HostRequest
from rigops.concerns.registry import read as spec_of
from rigops.converge import flow as converge
from rigops.converge.errors import host_error
from rigops.converge.fleet_run import FleetRun
from rigops.converge.request import RebootWhen, RunOptions, Selection
from rigops.converge.result import HostResult
from rigops.dataclass import dataclass
from rigops.errors import HostError, RigopsError, UsageError, rigops_error
from rigops.hosts.access import Chosen, HostAccess
from rigops.hosts.run_records import Beginning, record, record_there
from rigops.inventory.spec import RigSpec
from rigops.record import journal
from rigops.reprovision import state, trust
from rigops.reprovision.before import choose, explain, trusted_keys
from rigops.reprovision.bootstrap import Bootstrap
from rigops.reprovision.compare import ReplacedGpu, compare, replaced_gpus
from rigops.reprovision.data import BackedUpData
from rigops.reprovision.mounts import LostMount, lost_mounts, mount
from rigops.reprovision.moved_settings import lines_to_change, move_settings
from rigops.reprovision.now import describe_now
from rigops.reprovision.result import DeclinedError, ReprovisionResult
from rigops.reprovision.root_shell import as_root
from rigops.reprovision.state import StageTime, State
from rigops.reprovision.trust import Introduction
from rigops.vault.store import Store

if TYPE_CHECKING:
    from rigops.reprovision.console import ReprovisionConsole

_STAGES: Final = (
    "trust", "bootstrap", "disks", "apply", "restore", "host keys", "verify", "compare",
)  # fmt: skip
_UNREACHED: Final = frozenset({"trust"})  # nothing was changed on the host before its end


@dataclass(frozen=True, kw_only=True)
class Reprovision:
    """`captures`: of the host that was, the newest first. `store`: of this machine, with them."""

    request: HostRequest
    captures: Sequence[Capture]
    store: Store
    catalog: Catalog
    inventory_digest: str
    access: HostAccess
    asks_password: bool = False
    yes: bool = False
    reboot: RebootWhen = "auto"
    adopts_parts: bool = False
    accepts_no_trial: bool = False


def run(asked: Reprovision, console: ReprovisionConsole) -> ReprovisionResult:
    return _Run(asked, console).whole()


class _Run:
    def __init__(self, asked: Reprovision, console: ReprovisionConsole) -> None:
        self._asked = asked
        self._console = console
        self._request = asked.request
        self._declared = asked.request.data
        self._adopts_parts = True if asked.adopts_parts else None
        self._captures = asked.captures
        self._state = State()
        self._is_chosen = False  # which capture it is
        self._access = HostAccess(
            sudo_password=asked.access.sudo_password
        )  # of the trusted key alone
        self._login = self._shown_key = ""
        chosen = Chosen(
            asked.request.name, asked.request.target, None, digest=asked.inventory_digest
        )
        self._begun = Beginning(chosen, "reprovision")
        self._blocked: HostError | None = None
        self._result = ReprovisionResult(
            host=asked.request.name, captured_as=asked.captures[0].host, capture="", captured_at=""
        )
        self._use(asked.captures[0])

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
                self._console.tell(f"[{number}/{len(_STAGES)}] {now}")
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
            result.error = host_error(error)
            result.story.append(f"failed in the stage {now}")
        self._record()
        return result

    def _record(self) -> None:
        """In both journals once the login was made; before that there is no way to the host."""
        result = self._result
        if not self._is_chosen:
            return
        worse = [one for one in result.compared if one.verdict == "worse"]
        run = self._begun.ended(
            result.status,
            changes=tuple(result.story),
            reason=result.error.message if result.error else "; ".join(map(str, worse)),
        )
        troubles = record(run)
        if result.ending != "interrupted":
            with suppress(RigopsError), self._access.open(self._request.target) as channel:
                troubles += record_there(run, *channel)
        if troubles:
            self._console.tell(*(f"Warning: {text}" for text in troubles))

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        began, started = journal.now(), time.monotonic()
        outcome = "failed"
        try:
            with self._console.interruptible():
                yield
            outcome = "done"
        finally:
            seconds = round(time.monotonic() - started, 3)
            self._result.stages.append(
                StageTime(
                    stage=name, began=began, ended=journal.now(), seconds=seconds, outcome=outcome
                )
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
        policy = self._asked.access.host_keys
        found = trust.introduce(self._request.target, trusted_keys(self._captures), policy)
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
        policy = self._asked.access.host_keys
        if policy.accepts(found.fingerprint):
            return
        if policy.accept:
            raise trust.not_accepted(found, f"accepted is {', '.join(sorted(policy.accept))}")
        if not self._console.can_answer:
            raise trust.not_accepted(found, "nobody has accepted it")
        if not self._console.trusts(found):
            raise DeclinedError

    # Bootstrap

    def _bootstrap(self) -> None:
        name = self._request.name
        asks = self._asked.asks_password or self._console.can_answer
        with self._console.progress("bootstrap") as progress:

            def ask(login: str, *, again: bool) -> str | None:
                with progress.silent():
                    return self._console.password(login, again=again) if asks else None

            progress.begin(name)
            self._login_files = Bootstrap(
                self._request.target,
                self._capture,
                self._login,
                ask=ask,
                programs=_programs(self._request.spec),
                prefers_password=self._asked.asks_password,
                sudo_password=self._access.sudo_password,
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
        self._console.tell(text)
        self._result.story.append(text)

    # Disks

    def _disks(self) -> None:
        """Those that were not wiped, before a repository on one of them is looked for."""
        with self._access.open(self._request.target) as channel:
            run = as_root(*channel)
            lost = lost_mounts(self._capture, run)
            free = [one for one in lost if one.state == "free"]
            if free and not (self._asked.yes or self._agrees_to_mount(free)):
                self._result.story += [
                    f"{one} was not mounted: it was not confirmed" for one in free
                ]
                free = []
            self._result.story += [mount(one, run) for one in free]
        for one in lost:
            if one.state in {"absent", "taken"}:
                why = "its disk is absent" if one.state == "absent" else "something else is there"
                self._result.story.append(f"{one} was not mounted: {why}")

    def _agrees_to_mount(self, free: Sequence[LostMount]) -> bool:
        names = ", ".join(map(str, free))
        return self._console.agrees(f"Mount {names} again, as captured, now and in /etc/fstab?")

    # Apply

    def _apply(self) -> None:
        result = self._apply_once()
        if (result.error or result.blocked) and self._moves_settings():
            result = self._apply_once()
        if result.error is not None:
            raise rigops_error(message=result.error.message, fix=result.error.fix, host=result.host)
        if result.blocked:
            # Data comes back all the same, and the comparison shows what is wrong.
            reasons = "; ".join(f"{one.concern}: {one.reason}" for one in result.blocked)
            self._blocked = HostError("blocked", reasons, "see rigops plan, and run this again")
            return
        if result.outcome not in {"changed", "converged"}:
            reasons = "; ".join(result.reboot_reasons) or result.outcome
            raise rigops_error(
                message=f"not finished: {reasons}",
                host=result.host,
                fix="run this again with --reboot auto",
            )

    def _apply_once(self) -> HostResult:
        asked = self._asked
        with self._fleet_run(
            yes=asked.yes, reboot=asked.reboot, accept_no_trial=asked.accepts_no_trial
        ) as (fleet, approver):
            ending = converge.apply(fleet, approver)
            (result,) = fleet.results
            self._result.apply = result
        if unrecorded := converge.record(fleet, self._console.tell):
            raise RigopsError(unrecorded)
        self._result.story += result.story
        if ending.is_declined:
            raise DeclinedError
        if ending.is_interrupted:
            raise KeyboardInterrupt
        return result

    def _fleet_run(
        self,
        **options: Any,  # noqa: ANN401 - fields of RunOptions
    ) -> AbstractContextManager[tuple[FleetRun, converge.Approver]]:
        digest = self._asked.inventory_digest
        asked = RunOptions(
            selection=Selection(), inventory_digest=digest, access=self._access, **options
        )
        return self._console.fleet_run([self._request], asked)

    def _moves_settings(self) -> bool:
        """A declaration of a lost card goes to the one in its slot, on consent.

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
            self._console,
            self._access,
            yes=self._asked.yes,
            restored=self._state.restored,
            remember=remember,
            story=self._result.story,
        )

    # Verify

    def _verify(self) -> None:
        """Declared is live: a second plan has nothing to do."""
        with self._fleet_run(command="plan") as (fleet, _):
            fleet.plan()
            (result,) = fleet.results
        if result.error is not None:
            raise rigops_error(message=result.error.message, fix=result.error.fix, host=result.host)
        if result.pending:
            left = ", ".join(one.subject for one in result.plan.changes) or "a reboot"
            raise rigops_error(
                message=f"still not as declared after apply: {left}",
                host=result.host,
                fix="see rigops plan",
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
            replace(self._request, target=replace(self._request.target, user=self._login)),
            self._asked.store,
            self._asked.catalog,
            self._access,
            self._console,
        )

    def _adopts(self, replaced: Sequence[ReplacedGpu]) -> bool:
        """Asked once."""
        if self._adopts_parts is None:
            cards = ", ".join(f"{one.after} for {one.before} at {one.address}" for one in replaced)
            self._adopts_parts = self._console.agrees(f"Replaced parts: {cards}. Is that so?")
        return self._adopts_parts


def _programs(spec: RigSpec) -> dict[str, str]:
    """Packages that only the backups need."""
    needed = {}
    if spec.borg is not None and spec.borg.managed and spec.borg.repository:
        needed["borg"] = "borgbackup"
    if spec.snapshots is not None and spec.snapshots.subvolumes:
        needed["btrfs"] = "btrfs-progs"
    return needed
