"""A rollback of the root: one question, since it is nothing without its reboot."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from rigops.backup.when import parse_when
from rigops.cli.apply_common import EXIT_DECLINED, conclude, failed_hosts, fleet_run, report
from rigops.cli.consent import Reboot, ask
from rigops.cli.output import has_terminal, text_width
from rigops.converge.concerns import Selection
from rigops.converge.request import Confirmed
from rigops.converge.root_rollback import RootRollback
from rigops.errors import usage_error
from rigops.report.plan import plan_lines
from rigops.report.terminal import print_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rigops.cli.progress import Progress
    from rigops.concerns.concern import HostRequest
    from rigops.converge.fleet_run import FleetRun

_WORDS: Final = {"changed": "the root of the snapshot runs", "reboot_owed": "not touched"}


def roll_back_root(
    request: HostRequest,
    inventory_digest: str,
    when: str,
    *,
    yes: bool,
    reboot: str,
    allow_busy: bool,
    accepted_keys: Sequence[str],
    asks_sudo_password: bool,
    as_json: bool,
) -> int:
    if reboot == "never":
        raise usage_error(
            message="the root changes only with a reboot",
            key="--reboot",
            value=reboot,
            accepted="ask or auto",
        )
    at = parse_when(when, datetime.now().astimezone())
    is_interrupted = False
    with fleet_run(
        "rollback",
        [request],
        Selection(),
        inventory_digest=inventory_digest,
        accepted_keys=accepted_keys,
        asks_sudo_password=asks_sudo_password,
        allow_busy=allow_busy,
        make=partial(RootRollback, at=at),
    ) as (run, progress):
        shown: frozenset[str] = frozenset()
        try:
            run.plan()
            shown = failed_hosts(run)
            reboots = _agreed(run, progress, yes=yes, reboot=reboot)
            if reboots is None:
                if as_json:
                    report(run.results, as_json=True)
                return EXIT_DECLINED
            run.carry_out(Confirmed(reboots=reboots, busy=allow_busy))
        except KeyboardInterrupt:
            is_interrupted = True
    return conclude(run, as_json=as_json, is_interrupted=is_interrupted, words=_WORDS, shown=shown)


def _agreed(run: FleetRun, progress: Progress, *, yes: bool, reboot: str) -> frozenset[str] | None:
    """The hosts whose root changes and that are rebooted for it; None: declined."""
    with progress.silent():
        print_lines(*plan_lines(run.results, text_width(sys.stderr)), err=True)
        asked = Reboot.of(run, reboot)
        if not asked.hosts:
            return frozenset()
        if not yes:
            allowed = ask("roll back the root", (), reboot=replace(asked, choice="auto"), yes=False)
            return None if allowed is None else frozenset(asked.hosts)
        if not asked.is_asked:
            return frozenset(asked.hosts)
        if not has_terminal():
            fix = "    fix: pass --reboot auto"
            print_lines("Declined: no terminal to confirm the reboot on.", fix, err=True)
            return None
        allowed = ask("", (), reboot=asked, yes=True)
        return None if not allowed else frozenset(asked.hosts)
