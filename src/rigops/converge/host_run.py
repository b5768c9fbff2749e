"""One host on its way through the stages of an apply. Whatever it raises is its own result.

Every stage looks at the host as it is, so that an apply that was interrupted anywhere is finished
by the next one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Final

from gevent import GreenletExit

from rigops.catalog import load_once
from rigops.concerns import registry
from rigops.concerns.concern import HostRequest, ProvenHost
from rigops.concerns.host_records import damaged_records, has_lost_holds, torn_lines
from rigops.concerns.preconditions import clock
from rigops.concerns.preconditions.root import RootSnapshot, root_snapshot
from rigops.converge import gpu_containers, host_journal, proof, trial_boot
from rigops.converge.declarations import declared_keys
from rigops.converge.engine import Engine
from rigops.converge.errors import DeployError, NoRootError, host_error
from rigops.converge.host_journal import holds_of
from rigops.converge.reboot_impact import RebootImpact
from rigops.converge.request import RunOptions, Selection, blocked, host_blocker, keys_of
from rigops.converge.result import Blocker, HostResult, Outcome, Override, Withheld
from rigops.converge.root_snapshot import RefusedSnapshotError, SnapperPair, take_snapshot
from rigops.converge.session import HostSession
from rigops.converge.unfixed import unfixed_checks
from rigops.errors import RigopsError
from rigops.inventory.spec.model import GpuContainers
from rigops.json_fields import readable
from rigops.ownership.owned_lines import shown_path
from rigops.ownership.ownership import Ownership
from rigops.plan.change import Plan
from rigops.preflight.found import PairFound
from rigops.preflight.results import begun, pairs_of, passed
from rigops.probe.collect import ProbeError
from rigops.probe.lost_cards import ADVICE, sentence
from rigops.record import Proven, declared, journal, lockfile
from rigops.record.declared import DeclaredKeys
from rigops.record.lockfile import locked
from rigops.record.proven import STOCK, FailedProof
from rigops.record.shell import JOURNAL
from rigops.transport import HostKeyPolicy, TransportError, connect

_FOR_DRIVER: Final = "not before the driver is installed, which needs a reboot too"
_ROOT_UNKNOWN: Final = "the file system of / could not be read: no snapshot of it is taken first"
FRESH_S: Final = 60.0  # for so long a plan is taken for the truth


class HostRun:
    def __init__(self, request: HostRequest, options: RunOptions, engine: Engine) -> None:
        self.request = request
        self.result = HostResult(request.name)
        self._options = options
        self._session = HostSession(request, options, engine, self.result)
        self._has_lost_holds = False
        self._pair: SnapperPair | None = None
        self._declared: DeclaredKeys | None = None  # of this run
        self._begun: FailedProof | None = None  # before its preflight copied

    @property
    def boot_id(self) -> str | None:
        snapshot = self._session.last_snapshot
        return snapshot.boot.boot_id if snapshot and snapshot.boot else None

    @property
    def was_rebooted(self) -> bool:
        return self._session.rebooted

    @property
    def came_through(self) -> bool:
        """Its reboot: what blocks something else is no fault of that."""
        return self.result.outcome == "changed" and not self.result.has_failed_proof

    def recorded(self, path: str) -> str | None:
        """A record of rigops' own on the host, as it was last seen."""
        snapshot = self._session.last_snapshot
        return snapshot.state.records.get(path) if snapshot and snapshot.state else None

    @property
    def needs_reboot(self) -> bool:
        result = self.result
        return result.error is None and bool(result.reboot_reasons) and not result.reboot_waits

    @property
    def can_act(self) -> bool:
        """Something is to be done, or nothing blocks finding that all is well."""
        return self.result.pending or not self.result.blocked

    @contextmanager
    def keep_errors(self) -> Iterator[None]:
        """Whatever is raised is the result of this host, and no other's."""
        try:
            yield
        except (KeyboardInterrupt, GreenletExit):
            self.interrupted()
            raise
        except BaseException as error:  # noqa: BLE001 - kept as the host's result
            self.fail(error)
        finally:
            self._session.tell("")

    def interrupted(self) -> None:
        if self._session.stage_now and self.result.outcome != "interrupted":
            self.result.outcome = "interrupted"
            self.result.broken_off = self._session.stage_now
            self.result.story.append(f"interrupted in the stage {self._session.stage_now}")

    def fail(self, error: BaseException) -> None:
        self.result.error = host_error(error)
        if self._session.touched:
            stage = self._session.stage_now or self.result.stages[-1].stage
            self.result.broken_off = stage
            self.result.story.append(f"failed in the stage {stage}")
        reaching = (TransportError, NoRootError, ProbeError)
        unreached = isinstance(error, reaching) and not self._session.touched
        self.result.outcome = "unreachable" if unreached else "failed"

    def close(self) -> None:
        """The lock of an interrupted run stays behind, as a note of it."""
        if self.result.outcome != "interrupted":
            with suppress(RigopsError):
                self._end_pair()
            with suppress(RigopsError):
                self._session.release()
        self._session.close()

    # Stages before consent

    def plan(self) -> None:
        """Reach the host and find what is to be done. Touches nothing."""
        self._session.reach()
        snapshot = self._session.probe()
        if lost := trial_boot.lost(snapshot):
            raise DeployError(lost)
        if snapshot.state is not None:
            Ownership.from_state(snapshot.state)  # raises where that is not known
            self._has_lost_holds = has_lost_holds(snapshot.state)
        self._plan()
        if not self.result.pending and not self.result.blocked:
            self.result.outcome = "converged"
            is_new = self.result.preflight_reason or self.recorded(declared.PATH) is None
            if is_new and self._options.command in {"plan", "apply"}:
                self.result.unfixed = unfixed_checks(self._session.channel, self.request)

    def repair(self) -> None:
        """From now on a broken package manager is repaired, and the plan is made for that."""
        self._session.consent = replace(self._session.consent, repair=True)
        self._plan()

    def confirm(self, *, removals: bool, no_trial: bool) -> None:
        """From now on removals are what was confirmed, and the plan is made for that."""
        result, session = self.result, self._session
        session.consent = replace(session.consent, no_trial=no_trial)
        if removals:
            session.consent = replace(session.consent, removals=tuple(result.undeclared))
        else:
            result.withheld = _withheld(result)
        if result.withheld or (result.plan.no_trial and not no_trial):
            self._note(session.plan_all())

    # Stages after consent

    def renew(self) -> None:
        """A person may have thought for long: the host may be another by now, or out of reach."""
        if self._session.since_snapshot_s < FRESH_S:
            return
        shown = self._shown()
        self._session.reach_again()
        self._session.probe()
        with self._session.stage("plan"):
            self._note(self._session.plan_all())
        if self._shown() != shown:
            raise DeployError("it changed since the plan was shown: run this again")

    def change(self) -> None:
        """Everything that needs no reboot, and the probe whether it holds."""
        if self._session.shown.pending:
            try:
                self._take_snapshot()
            except RefusedSnapshotError as error:
                self.result.blocked += (Blocker("snapshot", (), error.reason),)
                self.result.outcome = "refused"
                return
            self._declare()
            self._session.take_lock()
            if said := host_journal.begin(self._session.channel, self.journal_entry()):
                self.result.story.append(said)
            self._judge_earlier_trial()
            self._apply(self.result.plan)
        if self.result.pending:
            after = self._session.verify()
            known = self.result.notices
            self.result.story += [one for one in after.next_steps if one not in known]
            if gpu_containers.changes_driver(self.result.plan):
                self.result.story += gpu_containers.stale_specs(self._session.channel)
        self.result.outcome = self._outcome()
        if self.result.reboot_waits:
            self.result.story.append(f"not rebooted: {self.result.reboot_waits}")

    def _apply(self, plan: Plan) -> None:
        """What containers have of the cards stays theirs, whatever systemd is made to read."""
        if not gpu_containers.reloading(plan):
            self._session.apply()
            return
        told = gpu_containers.protect(self._session.channel, self._containers_are)
        self._session.apply()
        gpu_containers.require_kept(self._session.channel, told)

    def _take_snapshot(self) -> None:
        """Of a btrfs root, which brings it back whatever the changes come to."""
        wanted = self._root_snapshot()
        if not wanted.by:
            return
        with self._session.stage("snapshot"):
            self._session.take_lock()
            self.result.snapshot, self._pair = take_snapshot(self._session.channel, wanted)
        text = f"snapshot of / taken first: {self.result.snapshot}"
        back = f"rigops rollback {self.request.name} --what root"
        self.result.story.append(f"{text}; back to it: {back}" if not self._pair else text)

    def _end_pair(self) -> None:
        pair, self._pair = self._pair, None
        if pair is not None:
            pair.end(self._session.channel)

    def _root_snapshot(self) -> RootSnapshot:
        root = self._session.snapshot.root
        if root is None:
            return RootSnapshot(lacks=_ROOT_UNKNOWN)
        return root_snapshot(root)

    def _declare(self) -> None:
        """Before the changes: also of a run that is cut off it is known what it was about."""
        before, withheld = self._recorded_keys(), {one.concern for one in self.result.withheld}
        self._declared = declared_keys(self.request, self._options, withheld, before)
        if self._declared != before:
            self._session.take_lock()
            host_journal.declare(self._session.channel, self._declared)

    def _recorded_keys(self) -> DeclaredKeys | None:
        state = self._session.snapshot.state
        text = state.records.get(declared.PATH) if state else None
        return readable(DeclaredKeys.from_json, text)

    def _overrides(self) -> Iterator[Override]:
        """Of concerns that change: the others stay as they were declared."""
        recorded = self._recorded_keys()
        if recorded is None:
            return
        who, sizes = self._options.holder.who, self.result.plan.sizes
        for name, author in recorded.overridden(self.request.data, who).items():
            if registry.concern_of(name) in sizes:
                yield Override(name, recorded.keys[name], author.who, author.at)

    def _note_that_it_works(self) -> None:
        """So that `rollback --what config` goes back to no declaration that never worked."""
        now = self._declared or self._recorded_keys()
        works = self.result.exit_code == 0 and self.result.outcome in {"converged", "changed"}
        is_proven = self._observed() is None or self._proven() is not None
        if now and not now.has_worked and works and is_proven:
            self._session.take_lock()
            host_journal.declare(self._session.channel, replace(now, has_worked=True))

    def restart(self) -> None:
        """Reboot, change what needs the new kernel, and verify that all of it is live."""
        session = self._session
        session.reach_again()  # others may have been rebooted before it, for an hour
        impact = session.find_reboot_impact()
        if self._waits_for_jobs(impact):
            return
        session.touched = True
        trial = trial_boot.TrialBoot(session, self.result)
        with trial.undone_if_refused():
            if self.request.target.local:
                self._end_pair()
                session.order_reboot()
                self.result.story.append(
                    trial_boot.after_this(trial.arguments, session.reboot_timeout_s)
                )
                return
            session.release()
            session.reboot(impact, trial.patience_s)
        if trial.arguments:
            trial.judge(self._fails_its_proof)
        after = session.plan_again()
        if after.pending or after.blocked:
            self.result.later = after
            self._apply(after)
            session.verify()
        if reasons := self._reboot_reasons(self._options.selection):
            raise DeployError(
                f"after the reboot {'; '.join(reasons)}: another menu entry was booted, perhaps, "
                "or the kernel refused it; see `cat /proc/cmdline`, `sudo dmesg` and the boot menu "
                "there"
            )
        self.result.outcome = "changed"

    def _judge_earlier_trial(self) -> None:
        """What another run tries by this boot, before this one makes it permanent."""
        arguments = trial_boot.earlier(self._session.snapshot)
        if not arguments:
            return
        reason = trial_boot.failure_of_concern(self._session.snapshot, arguments)
        if reason := reason or self._fails_its_proof(arguments):
            options = self._session.trial_options(given_up=True, failed=reason, tried=arguments)
            self._session.apply("return", options)
            raise DeployError(
                f"the boot that tries {' '.join(arguments)} does not hold: {reason}: reboot it, "
                "and its old arguments are in force"
            )

    def _fails_its_proof(self, arguments: tuple[str, ...]) -> str:
        """Why arguments that one boot tries are not to stay where P2P is required.

        Whatever the copies do to the machine, its next boot is still the one before.
        """
        failed = trial_boot.failed_proof(arguments)
        if self.request.spec.p2p != "required" or not failed:
            return ""
        if not self._why_prove():
            return ""
        self._session.confirm_trial()  # they may take longer than it has left
        self._preflight()
        found = self.result.preflight
        if found is not None and found.status == "unknown":
            raise DeployError(
                f"preflight could not judge the boot that tries {' '.join(arguments)}: nothing is "
                "permanent yet; run this again before it reboots, or its old arguments are in force"
            )
        if not self.result.has_failed_proof:
            return ""
        self.result.outcome = "failed"
        self._record_run()
        return failed

    def prove(self) -> None:
        """Preflight, unless the last passed one still speaks for this state."""
        if self.result.outcome not in {"converged", "changed"} or not self._why_prove():
            return
        if self.result.preflight is not None:  # before what it speaks for became permanent
            return
        before = proof.recorded(self._session.snapshot.state)
        self._preflight()
        if self.result.has_failed_proof and self.request.spec.p2p == "required":
            self._give_up_modules(before)

    def _preflight(self) -> None:
        from rigops.preflight.headline import has_stopgap  # noqa: PLC0415 - seldom needed
        from rigops.preflight.run import prove  # noqa: PLC0415 - seldom needed
        from rigops.preflight.siblings import LastRates  # noqa: PLC0415 - preflight is no part of most runs

        target = self.request.target
        before = proof.recorded(self._session.snapshot.state)
        with self._session.stage("preflight"):
            self.result.preflight = prove(
                self.request.name,
                self._session.connection,
                self.request.spec,
                level="p2p",
                last=LastRates(before.at[:10], before.pairs) if before else None,
                allow_busy=self._options.allow_busy,
                reconnect=lambda: connect(target, host_keys=HostKeyPolicy()),
                before_copies=self._begin_proof,
                progress=self._session.tell,
            )
        declared = dict(self.request.spec.nccl or ())
        self.result.has_stopgap = has_stopgap(self.result.preflight, declared)

    def _give_up_modules(self, before: Proven | None) -> None:
        """Those of the owner, unless a proof spoke for them before: the next boot is stock."""
        now = self._observed()
        failed = trial_boot.failed_proof(now.command_line) if now else ""
        if now is None or now.modules == STOCK or not failed:
            return
        if before and before.modules == now.modules:
            return
        session = self._session
        options = session.trial_options(given_up=True, failed=failed, tried=now.command_line)
        session.apply("return", options)
        self.result.story.append(
            f"{failed}: the next boot loads the stock modules; reboot {self.request.name}"
        )

    def _why_prove(self) -> str:
        """Why the state that the host is in now is to be proven; empty: it is not."""
        snapshot, when = self._session.snapshot, self._options.preflight
        if when != "auto":
            return "--preflight always" if when == "always" else ""
        if self._awaits_driver:
            return ""
        if any(
            one.asks_for_proof(change)
            for change in self.result.plan.changes
            for one in registry.CONCERNS
            if one.name == change.concern
        ):
            return "the path between the GPUs changes"
        if not (self.request.spec.gpus or (snapshot.silicon and snapshot.silicon.has_cards)):
            return ""
        return proof.missing(snapshot.state, self._observed())

    def _announced_preflight(self) -> str:
        """Why preflight would copy between GPUs after an apply, or nothing."""
        silicon = self._session.snapshot.silicon
        if self._session.snapshot.lost.cards:
            return ""
        if (silicon and len(silicon.gpus) == 1) or self.request.spec.p2p == "skip":
            return ""
        is_asked = self._options.preflight != "never" and self.needs_reboot
        return self._why_prove() or ("the state that P2P depends on changes" if is_asked else "")

    @property
    def _awaits_driver(self) -> bool:
        """No driver is loaded, and the concern that would bring one is blocked."""
        driver = self._session.snapshot.driver
        return not (driver and driver.version) and any(
            one.brings_driver and one.name in self._session.blocked_concerns
            for one in registry.CONCERNS
        )

    def _begin_proof(self, at_stake: Sequence[PairFound]) -> None:
        self._session.take_lock()
        entry = self.journal_entry()
        self._begun = begun(at_stake, entry.at, entry.versions)
        host_journal.begin_proof(self._session.channel, self._begun)

    def record(self) -> None:
        """Record changes and proofs, on the host too; nothing on an unchanged host."""
        found = self.result.preflight
        if (self._session.touched or found is not None) and self.result.error is None:
            try:
                self._record_run()
            except TransportError as error:
                if found is None or passed(found):
                    raise
                self.result.story.append(f"its own journal lacks this run, since {error}")
                return
        self._note_that_it_works()
        self._keep()
        if self._session.touched or found is not None:
            self._take_baseline()
        self._session.release()

    def _record_run(self) -> None:
        found = self.result.preflight
        proven = self._observed() if found is not None and passed(found) else None
        if proven is not None and found is not None:
            proven = replace(proven, pairs=pairs_of(found), level=found.level or "")
        with self._session.stage("record"):
            self._session.take_lock()
            entry = self.journal_entry()
            said = host_journal.record(self._session.channel, entry, found, proven, self._begun)
        if said:
            self.result.story.append(said)

    def _take_baseline(self) -> None:
        """Of a proven state, for doctor on this machine."""
        if self._proven() is None:
            return
        from rigops.hosts.baselines import take_after_proof  # noqa: PLC0415 - brings every check

        channel, spec = self._session.channel, self.request.spec
        taken = take_after_proof(
            channel.connection,
            channel.privilege,
            spec,
            load_once(Path(spec.catalog) if spec.catalog else None),
            host=self.request.name,
            by=self._options.command,
        )
        if not taken.is_stored:
            self.result.story.append(taken.text)

    def forget(self, keep: Callable[[Sequence[bytes]], None]) -> None:
        """After everything was undone. `keep` gets the lines of the host's own journal.

        Nothing of the records goes before a last look has found nothing else, and before that.
        """
        if self.result.blocked:
            reasons = "; ".join(one.reason for one in self.result.blocked)
            raise DeployError(f"not everything is undone, so the host is not forgotten: {reasons}")
        session = self._session
        state = session.probe("forget").state
        session.release()
        lost = self._has_lost_holds
        kept = holds_of(state) if state and self._options.keep_holds else ()
        keep(host_journal.last_look(session.channel, state, has_lost_holds=lost, kept_holds=kept))
        host_journal.forget(session.channel)
        self.result.kept_holds = kept

    def journal_entry(self) -> journal.Run:
        snapshot = self._session.last_snapshot
        versions = snapshot.versions if snapshot else {}
        seconds = round(self._session.seconds, 3)
        lock = self.request.lock
        return host_journal.entry(
            self.result,
            self._options,
            seconds,
            versions,
            inventory=str(lockfile.inventory_of(lock).absolute()) if lock else "",
            touched=self._session.touched,
        )

    # Steps of stages

    def _plan(self) -> None:
        result, withholds = self.result, self._options.withholds_removals
        with self._session.stage("plan"):
            self._note(self._session.plan_all(all_removals=not withholds))
        if withholds:
            result.withheld = _withheld(result)
        result.preflight_reason = self._announced_preflight()
        if self.needs_reboot:
            self._session.find_reboot_impact()

    def _shown(self) -> tuple[object, ...]:
        result = self.result
        changes = [one for one in result.plan.changes if one.concern != gpu_containers.NAME]
        return (
            changes,
            result.plan.packages,
            result.plan.repairs,
            result.reboot_reasons,
            result.blocked,
        )

    def _note(self, planned: Plan) -> None:
        spec, selection = self.request.spec, self._options.selection
        blocker = host_blocker(self._session.snapshot.system, spec)
        result = self.result
        first = self._root_snapshot()
        lost = self._lost_cards(planned)
        planned.warnings |= frozenset(lost)
        self.result.gpu_containers = gpu_containers.add_to(
            planned,
            lambda: gpu_containers.find(self._session.channel),
            self._containers_are,
            may_interrupt=self._options.allow_busy,
        )
        result.notices = (
            *lost,
            *self._wrong_clock(),
            *self._damaged_records(),
            *([first.lacks] if first.lacks and planned.pending else []),
            *(text for _, text in planned.notices),
        )
        result.undeclared = {
            concern: tuple(map(shown_path, paths)) for concern, paths in planned.undeclared.items()
        }
        result.blocked = blocked(spec, selection) + tuple(
            Blocker(concern, keys_of(concern, spec), reason) for concern, reason in planned.blocked
        )
        if blocker:
            result.blocked = (Blocker("host", (), blocker), *result.blocked)
            result.plan = self._session.shown = Plan()
            result.root_snapshot = ""
            return
        self._session.blocked_concerns = frozenset(concern for concern, _ in planned.blocked)
        result.plan = planned.without(self._session.blocked_concerns)
        self._session.shown = result.plan
        result.overrides = tuple(self._overrides())
        result.root_snapshot = first.line if result.plan.pending else ""
        result.reboot_reasons = self._reboot_reasons(selection)
        waits = result.reboot_reasons and self._awaits_driver
        result.reboot_waits = _FOR_DRIVER if waits else ""
        result.fails_until_reboot = tuple(
            what
            for concern, what in planned.fails_until_reboot
            if concern not in self._session.blocked_concerns
        )
        result.other_debts = tuple(
            one for one in self._reboot_reasons(Selection()) if one not in result.reboot_reasons
        )

    @property
    def _containers_are(self) -> GpuContainers:
        return self.request.spec.gpu_containers or "protect"

    def _lost_cards(self, planned: Plan) -> tuple[str, ...]:
        """Unless a concern that it blocks names them."""
        words = sentence(self._session.snapshot.lost.cards)
        is_said = not words or any(words in reason for _, reason in planned.blocked)
        return () if is_said else (f"{words}. fix: {ADVICE}",)

    def _wrong_clock(self) -> tuple[str, ...]:
        epoch_s = self._session.snapshot.boot.epoch_s if self._session.snapshot.boot else None
        if epoch_s is None:
            return ()
        wrong = clock.wrong(epoch_s, time.time(), self._session.since_snapshot_s)
        return (str(wrong),) if wrong else ()

    def _damaged_records(self) -> Iterator[str]:
        if (state := self._session.snapshot.state) is not None:
            for record in damaged_records(state):
                yield f"{record.path} cannot be read: {record.effect}"
            if lines := torn_lines(state):
                yield f"{lines} of the last lines of {JOURNAL} cannot be read; all others count"

    def _waits_for_jobs(self, impact: RebootImpact) -> bool:
        """Whether the host is not rebooted although that was confirmed; its result says why."""
        reason = ""
        if impact.busy_gpus and not self._options.allow_busy:
            jobs = ", ".join(map(str, impact.busy_gpus))
            reason = f"no reboot while GPU jobs run ({jobs}): wait for them, or --allow-busy"
        elif impact.wedged and not self._options.force_reboot_wedged:
            reason = (
                "processes hang in the driver, so that shutdown itself may block: with "
                "--force-reboot-wedged the machine is forced down where it does not go by itself"
            )
        if reason:
            self.result.blocked += (Blocker("reboot", (), reason),)
        return bool(reason)

    def _reboot_reasons(self, selection: Selection) -> tuple[str, ...]:
        """A reboot brings only what could be configured."""
        return tuple(
            reason
            for concern, reason in self._session.reboot_reasons
            if selection.has(concern) and concern not in self._session.blocked_concerns
        )

    def _outcome(self) -> Outcome:
        if self._reboot_reasons(self._options.selection):
            return "reboot_owed"
        if self.result.blocked and not self.result.pending:
            return "refused"
        return "changed" if self.result.pending else "converged"

    def _keep(self) -> None:
        """Stores the proven state in the vaults and in the lockfile."""
        proven = self._proven()
        if proven is None:
            return
        host = ProvenHost(
            request=self.request,
            state=self._session.snapshot.state,
            proven=proven,
            was_changed=self._session.touched,
            shell=self._session.locked_channel,
        )
        found = [one.keep(host) for one in registry.in_this_version() if one.keep is not None]
        sets = tuple(chain.from_iterable(one.sets for one in found))
        tree = next(filter(None, (one.tree for one in found)), "")
        self.result.lock = locked(proven, sets, tree)
        for one in filter(None, (one.vault for one in found)):
            self.result.vault = one
            self.result.story.append(str(one))

    def _proven(self) -> Proven | None:
        """By this run or one before it; where there is nothing to copy to, that the driver runs."""
        found, now = self.result.preflight, self._observed()
        if now is None or self.result.error or self.result.outcome not in {"converged", "changed"}:
            return None
        if found is not None and passed(found):
            return replace(now, pairs=pairs_of(found), level=found.level or "")
        before = proof.recorded(self._session.snapshot.state)
        if found is None and before and proof.still_holds(before, now):
            return before
        has_pairs = len(now.gpus) > 1 and self.request.spec.p2p != "skip"
        return None if has_pairs or (found and found.status == "fail") else now

    def _observed(self) -> Proven | None:
        return proof.observed(
            self.request.name,
            self._session.snapshot,
            at=self._options.at,
            inventory_digest=self._options.inventory_digest,
        )


def _withheld(result: HostResult) -> tuple[Withheld, ...]:
    return tuple(Withheld(concern, paths) for concern, paths in result.undeclared.items())
