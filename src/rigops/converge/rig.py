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

from rigops.converge import distribution, proof, trial
from rigops.converge.agreement import not_now
from rigops.converge.concerns import Selection, blocked, keys_of
from rigops.converge.debts import added_arguments, debts
from rigops.converge.deploying import Deploying
from rigops.converge.forgetting import forget
from rigops.converge.keeping import as_kept, is_whole, keep, not_kept, store
from rigops.converge.remember import entry, remember
from rigops.converge.result import Blocked, HostResult, Withheld
from rigops.converge.trial_boot import TrialBoot
from rigops.converge.troubles import DeployError, NoRootError, trouble
from rigops.converge.visit import Visit
from rigops.errors import RigopsError
from rigops.guarding import clock
from rigops.nccl_conf import PATH as NCCL_CONF
from rigops.owned.lines import companion
from rigops.record import driver
from rigops.transport import HostKeyPolicy, TransportError, connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rigops.converge.agreement import Agreement, PreflightWhen
    from rigops.converge.engine import Engine, Planned
    from rigops.converge.result import Outcome
    from rigops.converge.wanted import Run, Wanted
    from rigops.record import Proven, journal

_FRESH_S: Final = 60.0  # for so long a plan is taken for the truth
_SHOWN_AS: Final = {companion(NCCL_CONF): NCCL_CONF}


class Rig:
    def __init__(self, wanted: Wanted, run: Run, engine: Engine) -> None:
        self.wanted = wanted
        self.result = HostResult(wanted.name)
        self._run = run
        self._visit = Visit(wanted, run, engine, self.result)
        self._deploying = Deploying(self._visit, run, engine, self.result)
        self._ours: tuple[str, ...] = ()  # the arguments that rigops had added before this run

    @property
    def boot_id(self) -> str | None:
        sight = self._visit.sight
        return sight.boot.boot_id if sight and sight.boot else None

    @property
    def was_restarted(self) -> bool:
        return any(stage.stage == "reboot" for stage in self.result.stages)

    @property
    def came_through(self) -> bool:
        """Its reboot: what stands in the way of something else is no fault of that."""
        proof = self.result.preflight
        return self.result.outcome == "changed" and (proof is None or proof.status != "fail")

    @property
    def pinned_driver(self) -> str:
        """The version, as it was last seen; empty where none is pinned."""
        sight = self._visit.sight
        text = sight.state.records.get(driver.PATH) if sight and sight.state else None
        found = driver.pinned(text)
        return found.version if found else ""

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
            self._visit.tell("")

    def interrupted(self) -> None:
        if self._visit.stage_now and self.result.outcome != "interrupted":
            self.result.outcome = "interrupted"
            self.result.story.append(f"interrupted while in the stage {self._visit.stage_now}")

    def fail(self, error: BaseException) -> None:
        self.result.error = trouble(error)
        if self._visit.touched:
            self.result.story.append(f"it failed in the stage {self._visit.stage_now}")
        unreached = isinstance(error, (TransportError, NoRootError)) and not self._visit.touched
        self.result.outcome = "unreachable" if unreached else "failed"

    def close(self) -> None:
        """The lock of an interrupted run stays behind, to tell of it."""
        if self.result.outcome != "interrupted":
            with suppress(RigopsError):
                self._visit.release()
        self._visit.close()

    # Stages before consent

    def plan(self) -> None:
        """Reach the host and see what is to be done. Touches nothing."""
        with self._visit.stage("reach"):
            self._visit.reach()
        with self._visit.stage("probe"):
            self._visit.look()
            self._ours = added_arguments(self._visit.seen.state, self._visit.seen.bootloader)
            if lost := trial.lost(self._visit.seen):
                raise DeployError(lost)
        with self._visit.stage("plan"):
            self._note(self._deploying.plan_of_all(None))
        if self.result.reboot_reasons:
            self._visit.see_who_is_there()
        if not self.result.pending and not self.result.blocked:
            self.result.outcome = "converged"

    def mend(self) -> None:
        """From now on a broken package manager is repaired, and the plan is made for that."""
        self._deploying.mends()
        with self._visit.stage("plan"):
            self._note(self._deploying.plan_of_all(None))
        if self.result.reboot_reasons:
            self._visit.see_who_is_there()

    def agree(self, agreement: Agreement) -> None:
        """From now on removals are what was agreed to, and the plan is made for that."""
        result = self.result
        self._deploying.untried = agreement.untried
        if agreement.removals:
            self._deploying.agreed = tuple(result.undeclared)
        else:
            withheld = result.undeclared.items()
            result.withheld = tuple(Withheld(concern, paths) for concern, paths in withheld)
        if result.withheld or (result.untried and not self._deploying.untried):
            self._note(self._deploying.plan_of_all(self._deploying.agreed))

    # Stages after consent

    def renew(self) -> None:
        """A person may have thought for long: the host may be another by now, or out of reach."""
        if self._visit.since_look_s < _FRESH_S:
            return
        shown = self._shown()
        self._visit.keep_in_touch()
        with self._visit.stage("probe"):
            self._visit.look()
        with self._visit.stage("plan"):
            self._note(self._deploying.plan_of_all(self._deploying.agreed))
        if self._shown() != shown:
            raise DeployError("it is not what it was when the plan was shown: run this again")

    def change(self) -> None:
        """Everything that needs no reboot, and the look whether it holds."""
        if self.result.changes or self.result.packages or self.result.mends:
            self._deploying.apply()
        if self.result.pending:
            self._deploying.verify()
        self.result.outcome = self._outcome()

    def restart(self, agreement: Agreement) -> None:
        """Reboot, change what needs the new kernel, and look whether all of it is live."""
        self._visit.keep_in_touch()  # others may have been rebooted before it, for an hour
        who = self._visit.see_who_is_there()
        reason = not_now(who, agreement)
        if reason:
            self.result.blocked += (Blocked("reboot", (), reason),)
            return
        self._visit.touched = True
        boot = TrialBoot(self._visit, self._deploying, self.result)
        with boot.taken_back_if_refused():
            if self.wanted.target.local:
                self._visit.order_reboot()
                self.result.story.append(
                    trial.after_this(boot.trying, self._visit.reboot_timeout_s)
                )
                return
            self._visit.release()
            self._visit.reboot(who, boot.patience_s)
        if boot.trying:
            boot.judge(who)
        if self._deploying.plan_anew().pending:
            self._deploying.apply()
            self._deploying.verify()
        if owed := self._debts(self._run.selection):
            raise DeployError(
                f"after the reboot {'; '.join(owed)}: another menu entry was booted, perhaps, or "
                "the kernel refused it; see `cat /proc/cmdline`, `sudo dmesg` and the boot menu "
                "there"
            )
        self.result.outcome = "changed"

    def prove(self, when: PreflightWhen) -> None:
        """Preflight, unless the last passed one still speaks for this state."""
        if when == "never" or self.result.outcome not in {"converged", "changed"}:
            return
        seen = self._visit.seen
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
        with self._visit.stage("preflight"):
            self.result.preflight = prove(
                self.wanted.name,
                self._visit.connection,
                self.wanted.spec,
                level="p2p",
                reconnect=lambda: connect(target, host_keys=HostKeyPolicy()),
                progress=self._visit.tell,
            )

    def record(self) -> None:
        """What was done and proven, on the host too. A host that was left alone is not written."""
        found = self.result.preflight
        if (self._visit.touched or found is not None) and self.result.error is None:
            proven = self._observed() if found is not None and proof.passed(found) else None
            if proven is not None and found is not None:
                pairs, level = proof.pairs_of(found), found.level or ""
                proven = replace(proven, pairs=pairs, level=level)
            try:
                with self._visit.stage("record"):
                    self._visit.take_lock()
                    remember(self._visit.seat, self.journal_entry(), proven)
            except TransportError as error:
                if found is None or proof.passed(found):
                    raise
                self.result.story.append(f"its own journal lacks this run, since {error}")
                return
        self._keep()
        self._visit.release()

    def forget(self) -> tuple[bytes, ...]:
        """After everything was taken back. The lines of the host's own journal."""
        with self._visit.stage("forget"):
            self._visit.look()
            self._visit.release()
            return forget(self._visit.seat, self._visit.seen.state, _SHOWN_AS)

    def journal_entry(self) -> journal.Run:
        sight = self._visit.sight
        versions = sight.versions if sight else {}
        return entry(self.result, self._run, round(self._visit.seconds, 3), versions)

    # Steps of stages

    def _shown(self) -> tuple[object, ...]:
        result = self.result
        return (
            result.changes,
            result.packages,
            result.repairs,
            result.reboot_reasons,
            result.blocked,
        )

    def _note(self, planned: Planned) -> None:
        spec, selection = self.wanted.spec, self._run.selection
        refusal = distribution.refusal(self._visit.seen.system, spec)
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
        self._deploying.impossible = {concern for concern, _ in planned.blocked}
        result.changes = tuple(
            one for one in planned.changes if one.concern not in self._deploying.impossible
        )
        result.packages = planned.packages
        result.trying, result.untried = planned.trying, planned.untried
        result.repairs = planned.repairs
        result.reboot_reasons = self._debts(selection)
        result.other_debts = tuple(
            debt for debt in self._debts(Selection()) if debt not in result.reboot_reasons
        )

    def _wrong_clock(self) -> tuple[str, ...]:
        epoch_s = self._visit.seen.boot.epoch_s if self._visit.seen.boot else None
        if epoch_s is None:
            return ()
        wrong = clock.wrong(epoch_s, time.time(), self._visit.since_look_s)
        return (str(wrong),) if wrong else ()

    def _debts(self, selection: Selection) -> tuple[str, ...]:
        """What cannot be configured is not brought by a reboot either."""
        owed = tuple(
            reason
            for concern, reason in self._deploying.owed
            if selection.has(concern) and concern not in self._deploying.impossible
        )
        if not selection.has("kernel_args") or "kernel_args" in self._deploying.impossible:
            return owed
        takes_back = "kernel_args" in self.result.undeclared and not self.result.withheld
        wanted = () if takes_back else self.wanted.spec.kernel_args
        return (*debts(self._visit.seen, wanted, self._ours), *owed)

    def _outcome(self) -> Outcome:
        if self._debts(self._run.selection):
            return "reboot_owed"
        if self.result.blocked and not self.result.pending:
            return "refused"
        return "changed" if self.result.pending else "converged"

    def _keep(self) -> None:
        """The packages of what was proven, and what the lock is to say of it."""
        proven = self._proven()
        if proven is None:
            return
        is_done = is_whole(self._visit.seen.state, store(self.wanted))
        if not is_done or (self._visit.touched and self.pinned_driver):
            try:
                with self._visit.stage("vault"):
                    self._visit.take_lock()
                    kept = keep(self._visit.seat, self._visit.seen, proven, self.wanted)
            except RigopsError as error:  # nothing of what was proven
                kept = not_kept(self._visit.seen, proven, self.wanted, str(error))
        else:
            kept = as_kept(self._visit.seen, proven, self.wanted)
        self.result.lock, self.result.vault = kept.lock, kept.vault
        if kept.vault:
            self.result.story.append(str(kept.vault))

    def _proven(self) -> Proven | None:
        """By this run or one before it; where there is nothing to copy to, that the driver runs."""
        found, now = self.result.preflight, self._observed()
        if now is None or self.result.error or self.result.outcome not in {"converged", "changed"}:
            return None
        if found is not None and proof.passed(found):
            return replace(now, pairs=proof.pairs_of(found), level=found.level or "")
        before = proof.recorded(self._visit.seen.state)
        if found is None and before and proof.still_holds(before, now):
            return before
        has_pairs = len(now.gpus) > 1 and self.wanted.spec.p2p != "skip"
        return None if has_pairs or (found and found.status == "fail") else now

    def _observed(self) -> Proven | None:
        return proof.observed(
            self.wanted.name,
            self._visit.seen,
            at=self._run.at,
            inventory_digest=self._run.inventory_digest,
        )
