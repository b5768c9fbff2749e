"""--ack and --unack of doctor: findings of a host that a person knows and lives with."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from functools import wraps
from typing import TYPE_CHECKING, Final, cast

import click

from rigops.cli.hosts import several_hosts
from rigops.cli.options import Command, combined
from rigops.dataclass import dataclass
from rigops.errors import UsageError, rigops_error, usage_error
from rigops.hosts.access import Chosen
from rigops.report.terminal import print_lines

if TYPE_CHECKING:
    from rigops.cli.examiner import Examination
    from rigops.doctor.finding import Finding
    from rigops.record.acknowledged import Acknowledgement

_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

_options = combined(
    click.option(
        "--ack",
        "acknowledges",
        metavar="ID",
        help="Acknowledge the failures and warnings of this check on HOST, with --because.",
    ),
    click.option("--unack", "retracts", metavar="ID", help="Take back what --ack acknowledged."),
    click.option(
        "--subject", metavar="S", help="With --ack or --unack: only of this, as -v shows it."
    ),
    click.option("--because", metavar="TEXT", help="With --ack: why."),
    click.option("--until", metavar="DATE", help="With --ack: the last day of it, as 2026-12-31."),
)


def decision_options(function: Command) -> Command:
    """The command gets them as `decision`; None: none of them is given."""

    @wraps(function)
    def decide(
        *,
        acknowledges: str | None,
        retracts: str | None,
        subject: str | None,
        because: str | None,
        until: str | None,
        **others: object,
    ) -> object:
        decision = None
        if acknowledges or retracts or subject or because or until:
            check = _chosen_check(acknowledges, retracts)
            _refuse(retracts, because, until)
            decision = Decision(check=check, subject=subject, because=because, until=until)
        return function(decision=decision, **others)

    return _options(cast("Command", decide))


def _chosen_check(acknowledges: str | None, retracts: str | None) -> str:
    from rigops.cli.examiner import find_check

    if bool(acknowledges) == bool(retracts):
        raise usage_error(
            message="--subject, --because and --until go with either --ack ID or --unack ID",
            key="--ack",
            fix='rigops doctor HOST --ack ID --because "…"',
        )
    option = "--ack" if acknowledges else "--unack"
    return find_check(acknowledges or retracts or "", option).id


def _refuse(retracts: str | None, because: str | None, until: str | None) -> None:
    if retracts and (because or until):
        raise usage_error(message="takes neither --because nor --until", key="--unack")
    if not retracts and not (because or "").strip():
        raise usage_error(message="needs a reason", key="--ack", fix='add --because "…"')
    if until is not None and not _is_to_come(until):
        raise usage_error(
            message="no day to come", key="--until", value=until, accepted="such as 2026-12-31"
        )


@dataclass(frozen=True, kw_only=True)
class Decision:
    """`because` is None: to retract. `subject` None: of any."""

    check: str
    subject: str | None
    because: str | None
    until: str | None

    @property
    def option(self) -> str:
        return "--unack" if self.because is None else "--ack"

    def refuse_options(self, *, as_json: bool, others: bool) -> None:
        if as_json or others:
            raise usage_error(message="not with --json, --from or --save-baseline", key=self.option)

    def carry_out(
        self, chosen: Sequence[Chosen], probe: Callable[[], Sequence[Examination]]
    ) -> None:
        """A retraction needs no look at the host."""
        if len(chosen) != 1:
            raise several_hosts(self.option, chosen)
        if self.because is None:
            self._retract(chosen[0].name)
            return
        ((_, report),) = probe()
        if report.error is not None:
            raise rigops_error(
                message=f"not checked: {report.error.message}",
                host=report.host,
                fix=report.error.fix,
            )
        self._acknowledge(report.host, report.findings, self.because)

    def _retract(self, host: str) -> None:
        from rigops.record import acknowledged

        known = acknowledged.read(host)
        gone = [one for one in known.findings if self._is_about(one.id, one.subject)]
        if not gone:
            there = {(one.id, one.subject) for one in known.findings}
            raise self._nothing(host, there, "is acknowledged")
        print_lines(f"{host}: counts again:", *(_line(one) for one in gone))
        left = tuple(one for one in known.findings if one not in gone)
        acknowledged.write(replace(known, findings=left))

    def _acknowledge(self, host: str, findings: Sequence[Finding], because: str) -> None:
        """Shows it, then writes it."""
        from rigops.doctor.acknowledging import acknowledge, can_be_acknowledged, covers
        from rigops.record import acknowledged, journal

        able = [one for one in findings if can_be_acknowledged(one)]
        found = [one for one in able if self._is_about(one.id, one.subject)]
        if not found:
            raise self._nothing(host, {(one.id, one.subject) for one in able}, "to acknowledge")
        until = f"until {self.until}" if self.until else "until it changes or comes again"
        print_lines(f"{host}: acknowledged {until}:", *(_line(one) for one in found))
        who, at = journal.who(), journal.now()
        new = [acknowledge(one, who=who, at=at, because=because, until=self.until) for one in found]
        known = acknowledged.read(host)
        left = [one for one in known.findings if not any(covers(one, its) for its in found)]
        acknowledged.write(replace(known, findings=(*left, *new)))
        print_lines(f"Take it back: rigops doctor {host} --unack {self.check}")

    def _is_about(self, check: str, subject: str) -> bool:
        return check == self.check and self.subject in {None, subject}

    def _nothing(self, host: str, there: set[tuple[str, str]], what: str) -> UsageError:
        from rigops.doctor.acknowledging import NEVER

        is_never = self.because is not None and self.check == NEVER
        why = ": a failed proof ends with a preflight that passes" if is_never else ""
        if self.subject is not None and any(check == self.check for check, _ in there):
            named = sorted(subject for check, subject in there if check == self.check)
            key, value = "--subject", self.subject
        else:
            named, key, value = sorted({check for check, _ in there}), self.option, self.check
        return usage_error(
            message=f"nothing {what}{why}",
            host=host,
            key=key,
            value=value,
            accepted=", ".join(named) or "nothing",
        )


def _is_to_come(day: str) -> bool:
    from rigops.record import journal

    if not _DAY.fullmatch(day):
        return False
    try:
        date.fromisoformat(day)
    except ValueError:
        return False
    return day >= journal.now()[:10]


def _line(one: Finding | Acknowledgement) -> str:
    return f"  {one.status}  {one.id}  {one.subject}: {one.summary}"
