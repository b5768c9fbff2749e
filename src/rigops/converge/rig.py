"""One host on its way through the stages of an apply. Whatever it raises is its own trouble.

Every stage looks at the host as it is, so that an apply that was interrupted anywhere is finished
by the next one.
"""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gevent import GreenletExit

from rigops.converge import distribution, occupants, proof, seeing, trial
from rigops.converge.agreement import not_now
from rigops.converge.concerns import Selection, blocked, keys_of
from rigops.converge.connector import Seat
from rigops.converge.debts import added_arguments, debts
from rigops.converge.forgetting import forget
from rigops.converge.lock import take, work_argv
from rigops.converge.reboot import order_only, reboot
from rigops.converge.remember import entry, remember
from rigops.converge.result import Blocked, HostResult, Stage, Withheld
from rigops.converge.troubles import DeployError, NoRootError, trouble
from rigops.errors import RigopsError
from rigops.guarding import clock
from rigops.nccl_conf import PATH as NCCL_CONF
from rigops.operations.consent import Consent
from rigops.operations.trying import Way
from rigops.owned.lines import companion
from rigops.transport import HostKeyPolicy, Privilege, TransportError, connect, with_password

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from rigops.converge.agreement import Agreement, PreflightWhen
    from rigops.converge.engine import Engine, Planned
    from rigops.converge.lock import Lock
    from rigops.converge.occupants import Occupants
    from rigops.converge.result import Outcome
    from rigops.converge.seeing import Sight
    from rigops.converge.wanted import Run, Wanted
    from rigops.record import Proven, journal
    from rigops.transport import Connection

REBOOT_TIMEOUT_S: Final = 900
_LOCK_S: Final = 600.0
_LAST_RESORT_S: Final = 120.0
_FRESH_S: Final = 60.0  # for so long a plan is taken for the truth
_ANSWER_S: Final = 20.0
_SHOWN_AS: Final = {companion(NCCL_CONF): NCCL_CONF}

# Root where the login is root, else sudo: decided on the host, without a question to it first.
_FREE: Final = Privilege(
    "free",
    (
        "sh",
        "-c",
        'if [ "$(id -u)" = 0 ]; then exec "$@"; else exec sudo -n -- "$@"; fi',
        "rigops",
    ),
)


class Rig:
    def __init__(self, wanted: Wanted, run: Run, engine: Engine) -> None:
        self.wanted = wanted
        self.result = HostResult(wanted.name)
        self._run = run
        self._engine = engine
        self._privilege = _FREE
        self._connection: Connection | None = None
        self._seat: Seat | None = None
        self._sight: Sight | None = None
        self._lock: Lock | None = None
        self._ours: tuple[str, ...] = ()  # the arguments that rigops had added before this run
        self._agreed: Collection[str] = ()  # removals
        self._untried = True  # new kernel arguments may become permanent where no boot can try them
        self._consent = Consent(interrupt=run.allow_busy)
        self._impossible: set[str] = set()  # concerns that are blocked here
        self._stage_now = ""
        self._began = self._looked_at = time.monotonic()
        self._touched = False

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    @property
    def boot_id(self) -> str | None:
        return self._sight.boot.boot_id if self._sight and self._sight.boot else None

    @property
    def was_restarted(self) -> bool:
        return any(stage.stage == "reboot" for stage in self.result.stages)

    @property
    def came_through(self) -> bool:
        """Its reboot: what stands in the way of something else is no fault of that."""
        proof = self.result.preflight
        return self.result.outcome == "changed" and (proof is None or proof.status != "fail")

    @property
    def owes_reboot(self) -> bool:
        return self.result.error is None and bool(self.result.reboot_reasons)

    @property
    def can_act(self) -> bool:
        """Something is to be done, or nothing stands in the way of finding that all is well."""
        return self.result.pending or not self.result.blocked

    @contextmanager
    def trouble_is_its_own(self) -> Iterator[None]:
        try:
            yield
        except (KeyboardInterrupt, GreenletExit):
            self.interrupted()
            raise
        except BaseException as error:  # noqa: BLE001 - kept as the host's result
            self.fail(error)
        finally:
            self._tell("")

    def interrupted(self) -> None:
        if self._stage_now and self.result.outcome != "interrupted":
            self.result.outcome = "interrupted"
            self.result.story.append(f"interrupted while in the stage {self._stage_now}")

    def fail(self, error: BaseException) -> None:
        self.result.error = trouble(error)
        if self._touched:
            self.result.story.append(f"it failed in the stage {self._stage_now}")
        unreached = isinstance(error, (TransportError, NoRootError)) and not self._touched
        self.result.outcome = "unreachable" if unreached else "failed"

    def close(self) -> None:
        """The lock of an interrupted run stays behind, to tell of it."""
        if self.result.outcome != "interrupted":
            with suppress(RigopsError):
                self._release()
        if self._connection is not None:
            self._connection.close()

    # Stages before consent

    def plan(self) -> None:
        """Reach the host and see what is to be done. Touches nothing."""
        with self._stage("reach"):
            self._reach(self._run.host_keys)
        with self._stage("probe"):
            self._look()
            self._ours = added_arguments(self._seen.state, self._seen.bootloader)
            if lost := trial.lost(self._seen):
                raise DeployError(lost)
        with self._stage("plan"):
            self._note(self._planned(None))
        if self.result.reboot_reasons:
            self._see_who_is_there()
        if not self.result.pending and not self.result.blocked:
            self.result.outcome = "converged"

    def mend(self) -> None:
        """From now on a broken package manager is repaired, and the plan is made for that."""
        self._consent = replace(self._consent, repair=True)
        with self._stage("plan"):
            self._note(self._planned(None))
        if self.result.reboot_reasons:
            self._see_who_is_there()

    def agree(self, agreement: Agreement) -> None:
        """From now on removals are what was agreed to, and the plan is made for that."""
        result = self.result
        self._untried = agreement.untried
        if agreement.removals:
            self._agreed = tuple(result.undeclared)
        else:
            withheld = result.undeclared.items()
            result.withheld = tuple(Withheld(concern, paths) for concern, paths in withheld)
        if result.withheld or (result.untried and not self._untried):
            self._note(self._planned(self._agreed))

    # Stages after consent

    def renew(self) -> None:
        """A person may have thought for long: the host may be another by now, or out of reach."""
        if time.monotonic() - self._looked_at < _FRESH_S:
            return
        shown = self._shown()
        self._keep_in_touch()
        with self._stage("probe"):
            self._look()
        with self._stage("plan"):
            self._note(self._planned(self._agreed))
        if self._shown() != shown:
            raise DeployError("it is not what it was when the plan was shown: run this again")

    def change(self) -> None:
        """Everything that needs no reboot, and the look whether it holds."""
        if self.result.changes or self.result.packages or self.result.mends:
            self._apply()
        if self.result.pending:
            self._verify()
        self.result.outcome = self._outcome()

    def restart(self, agreement: Agreement) -> None:
        """Reboot, change what needs the new kernel, and look whether all of it is live."""
        self._keep_in_touch()  # others may have been rebooted before it, for an hour
        who = self._see_who_is_there()
        reason = not_now(who, agreement)
        if reason:
            self.result.blocked += (Blocked("reboot", (), reason),)
            return
        self._touched = True
        before, ordered = self._seen, self._order_trial()
        trying = ordered.trying
        with self._order_taken_back(trying):
            if self.wanted.target.local:
                with self._stage("reboot"):
                    order_only(self._reached, self._privilege)
                self.result.story.append(trial.after_this(trying, self._reboot_timeout_s))
                return
            self._release()
            self._reboot(who, ordered)
        if trying:
            self._judge(before, trying, who)
        if self._planned_anew().pending:
            self._apply()
            self._verify()
        if owed := self._debts(self._run.selection):
            raise DeployError(
                f"after the reboot {'; '.join(owed)}: another menu entry was booted, perhaps; see "
                "`cat /proc/cmdline` and the boot menu there"
            )
        self.result.outcome = "changed"

    def prove(self, when: PreflightWhen) -> None:
        """Preflight, unless the last passed one still speaks for this state."""
        if when == "never" or self.result.outcome not in {"converged", "changed"}:
            return
        seen = self._seen
        # What lies between the cards is no part of the state that a proof is kept for.
        is_another_path = any(change.kind == "setting" for change in self.result.changes)
        if (
            when == "auto"
            and not is_another_path
            and (
                not (self.wanted.spec.gpus or (seen.silicon and seen.silicon.has_cards))
                or proof.still_holds(proof.recorded(seen.state), self._observed())
            )
        ):
            return
        from rigops.preflight.run import prove  # noqa: PLC0415  seldom needed

        target = self.wanted.target
        with self._stage("preflight"):
            self.result.preflight = prove(
                self.wanted.name,
                self._reached,
                self.wanted.spec,
                level="p2p",
                reconnect=lambda: connect(target, host_keys=HostKeyPolicy()),
                progress=self._tell,
            )

    def record(self) -> None:
        """What was done and proven, on the host too. A host that was left alone is not written."""
        found = self.result.preflight
        if (self._touched or found is not None) and self.result.error is None:
            proven = self._observed() if found is not None and proof.passed(found) else None
            if proven is not None and found is not None:
                pairs, level = proof.pairs_of(found), found.level or ""
                proven = replace(proven, pairs=pairs, level=level)
            try:
                with self._stage("record"):
                    self._take_lock()
                    remember(self._seated, self.journal_entry(), proven)
            except TransportError as error:
                if found is None or proof.passed(found):
                    raise
                self.result.story.append(f"its own journal lacks this run, since {error}")
                return
        self._release()

    def forget(self) -> tuple[bytes, ...]:
        """After everything was taken back. The lines of the host's own journal."""
        with self._stage("forget"):
            self._look()
            self._release()
            return forget(self._seated, self._seen.state, _SHOWN_AS)

    def journal_entry(self) -> journal.Run:
        versions = self._sight.versions if self._sight else {}
        return entry(self.result, self._run, round(self.seconds, 3), versions)

    # Steps of stages

    def _reach(self, policy: HostKeyPolicy) -> None:
        self._connection = connect(self.wanted.target, host_keys=policy)
        if self._run.sudo_password is not None:
            self._privilege = with_password(self._connection, self._run.sudo_password)

    def _keep_in_touch(self) -> None:
        try:
            self._reached.run(["true"], deadline_s=_ANSWER_S)
        except TransportError:
            self._reached.close()
            with self._stage("reach"):
                self._reach(HostKeyPolicy())

    def _shown(self) -> tuple[object, ...]:
        result = self.result
        return (
            result.changes,
            result.packages,
            result.repairs,
            result.reboot_reasons,
            result.blocked,
        )

    def _look(self) -> None:
        seat = Seat(self._reached, self._privilege, work_argv, tell=self._tell)
        name = self.wanted.name
        concerns = [path.stem for path in self._run.deploys]
        sight = seeing.look(self._reached, self._privilege, concerns, self.wanted.spec)
        seat.memo.seed_files(sight.paths, sight.files)
        self._engine.attach(name, seat, sight.known)
        self._seat, self._sight = seat, sight
        self._looked_at = time.monotonic()

    def _planned(self, agreed: Collection[str] | None) -> Planned:
        """Of all deploys: what stands in the way of one may have gone, and is told else."""
        return self._engine.plan(
            self.wanted.name,
            self._run.deploys,
            agreed=agreed,
            consent=self._consent,
            way=self._way(),
        )

    def _note(self, planned: Planned) -> None:
        spec, selection = self.wanted.spec, self._run.selection
        refusal = distribution.refusal(self._seen.system, spec)
        result = self.result
        result.notices = (*self._wrong_clock(), *(text for _, text in planned.notices))
        result.undeclared = {
            concern: tuple(_SHOWN_AS.get(path, path) for path in paths)
            for concern, paths in planned.undeclared.items()
        }
        result.blocked = blocked(spec, selection) + tuple(
            Blocked(concern, keys_of(concern, spec), reason) for concern, reason in planned.blocked
        )
        if refusal:
            result.changes, result.blocked = (), (Blocked("host", (), refusal), *result.blocked)
            return
        self._impossible = {concern for concern, _ in planned.blocked}
        result.changes = tuple(
            one for one in planned.changes if one.concern not in self._impossible
        )
        result.packages = planned.packages
        result.trying, result.untried = planned.trying, planned.untried
        result.repairs = planned.repairs
        result.reboot_reasons = self._debts(selection)
        result.other_debts = tuple(
            debt for debt in self._debts(Selection()) if debt not in result.reboot_reasons
        )

    def _wrong_clock(self) -> tuple[str, ...]:
        epoch_s = self._seen.boot.epoch_s if self._seen.boot else None
        if epoch_s is None:
            return ()
        wrong = clock.wrong(epoch_s, time.time(), time.monotonic() - self._looked_at)
        return (str(wrong),) if wrong else ()

    def _debts(self, selection: Selection) -> tuple[str, ...]:
        """What cannot be configured is not brought by a reboot either."""
        if not selection.has("kernel_args") or "kernel_args" in self._impossible:
            return ()
        takes_back = "kernel_args" in self.result.undeclared and not self.result.withheld
        wanted = () if takes_back else self.wanted.spec.kernel_args
        return debts(self._seen, wanted, self._ours)

    def _apply(self, stage: str = "change", way: Way | None = None) -> None:
        self._take_lock()
        with self._stage(stage):
            self._touched = True
            if trial.is_trial(self._seen):  # before its time is over, in the middle of this
                self._seated.run(trial.CONFIRM, b"", _ANSWER_S)
            self._engine.apply(
                self.wanted.name,
                self._deploys,
                agreed=self._agreed,
                consent=self._consent,
                way=way or self._way(),
                tell=self._tell_of_concern,
            )

    def _planned_anew(self) -> Planned:
        with self._stage("verify"):
            self._look()
            return self._engine.plan(
                self.wanted.name,
                self._deploys,
                agreed=self._agreed,
                consent=self._consent,
                way=self._way(),
            )

    def _reboot(self, who: Occupants, ordered: Planned | None = None) -> None:
        """A trial that fails ends by itself at the deadline, and is followed by one boot more."""
        deadline_s = patience_s = self._reboot_timeout_s
        if ordered and ordered.trying:
            patience_s = 2 * deadline_s + ordered.trial_wait_s + trial.MARGIN_S
        with self._stage("reboot"):
            self._connection = reboot(
                self._reached,
                self.wanted.target,
                self._privilege,
                deadline_s=patience_s,
                waiting=lambda _: self._tell("reboot, waiting for it to come back"),
                last_resort_s=min(_LAST_RESORT_S, deadline_s / 3) if who.wedged else None,
            )

    def _way(self, *, now: bool = False, given_up: bool = False) -> Way:
        return Way(
            deadline_s=round(self._reboot_timeout_s),
            cards=trial.cards(self._seen),
            now=now,
            given_up=given_up,
            untried=self._untried,
        )

    def _order_trial(self) -> Planned:
        """Have the next boot try what is new, and no boot after it."""
        way = self._way(now=True)
        planned = self._engine.plan(
            self.wanted.name, self._deploys, agreed=self._agreed, consent=self._consent, way=way
        )
        if planned.trying:
            self._apply("trial", way)
        return planned

    @contextmanager
    def _order_taken_back(self, trying: tuple[str, ...]) -> Iterator[None]:
        """Where the reboot was refused: a later one that nobody watches is to try nothing.

        To a host that did not come back there is no connection any more.
        """
        try:
            yield
        except RigopsError:
            stage = self._stage_now
            with suppress(RigopsError):
                if trying:
                    self._apply("return", self._way(given_up=True))
                    self._release()
            self._stage_now = stage
            raise

    def _judge(self, before: Sight, trying: tuple[str, ...], who: Occupants) -> None:
        """Only arguments that a boot was seen to come through with become permanent."""
        with self._stage("verify"):
            self._look()
        reason = trial.shortfall(before, self._seen, trying)
        if not reason:
            self.result.story.append(trial.held(trying))
            return
        kept = self._seated.run(["cat", trial.LOG], b"", _ANSWER_S).stdout
        if trial.is_trial(self._seen):
            self._reboot(who)  # its next boot is the old one
            with self._stage("verify"):
                self._look()
        self._apply("return", self._way(given_up=True))
        self._release()
        self.result.story += trial.story(trying, reason, kept.decode(errors="replace"))
        raise DeployError(f"the boot that tried {' '.join(trying)} did not hold: {reason}")

    def _verify(self) -> None:
        """Declared has to be live, not merely written."""
        planned = self._planned_anew()
        if planned.pending:
            subjects = ", ".join(change.subject for change in planned.changes) or "something"
            raise DeployError(f"{subjects} is still not as declared after it was changed")

    def _outcome(self) -> Outcome:
        if self._debts(self._run.selection):
            return "reboot_owed"
        if self.result.blocked and not self.result.pending:
            return "refused"
        return "changed" if self.result.pending else "converged"

    def _take_lock(self) -> None:
        if self._lock is not None and self._lock.held:
            return
        self._lock = take(
            self._reached,
            self._privilege,
            self._run.holder,
            tell=self._tell,
            deadline_s=_LOCK_S,
        )
        if self._lock.notice:
            self.result.story.append(self._lock.notice)

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _see_who_is_there(self) -> Occupants:
        who = occupants.look(self._reached, self._privilege)
        self.result.reboot_hits = who.lines()
        return who

    def _observed(self) -> Proven | None:
        return proof.observed(
            self.wanted.name,
            self._seen,
            at=self._run.at,
            inventory_digest=self._run.inventory_digest,
        )

    @property
    def _reboot_timeout_s(self) -> float:
        return self.wanted.spec.reboot_timeout or REBOOT_TIMEOUT_S

    @property
    def _deploys(self) -> list[Path]:
        return [path for path in self._run.deploys if path.stem not in self._impossible]

    @property
    def _reached(self) -> Connection:
        if self._connection is None:
            raise DeployError("the host was not reached")
        return self._connection

    @property
    def _seated(self) -> Seat:
        if self._seat is None:
            raise DeployError("the host was not looked at")
        return self._seat

    @property
    def _seen(self) -> Sight:
        if self._sight is None:
            raise DeployError("the host was not looked at")
        return self._sight

    def _tell_of_concern(self, concern: str) -> None:
        if any(change.concern == concern for change in self.result.changes):
            self._tell(f"change: {concern}")

    def _tell(self, text: str) -> None:
        self._run.tell(self.wanted.name, text)

    @contextmanager
    def _stage(self, stage: str) -> Iterator[None]:
        self._tell(stage)
        self._stage_now = stage
        began = time.monotonic()
        try:
            yield
        finally:
            self.result.stages.append(Stage(stage, time.monotonic() - began))
        self._stage_now = ""
