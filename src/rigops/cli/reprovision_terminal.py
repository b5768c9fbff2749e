"""The questions of reprovision. Ctrl-C ends each, and the run with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Final

import click

from rigops.cli.apply_common import fleet_run
from rigops.cli.terminal import Terminal
from rigops.converge.fleet_run import Interrupts
from rigops.report.terminal import print_lines, visible
from rigops.transport.key_files import fingerprint

if TYPE_CHECKING:
    from rigops.reprovision.trust import Introduction

_AGREED: Final = "yes"


class ReprovisionTerminal(Terminal):
    """Implements rigops.reprovision.console.ReprovisionConsole."""

    fleet_run = staticmethod(fleet_run)
    _interrupts: Interrupts | None = None

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        with Interrupts() as self._interrupts:
            yield

    @contextmanager
    def answering(self) -> Iterator[None]:
        interrupts = self._interrupts
        with interrupts.end_the_question() if interrupts else nullcontext(), super().answering():
            yield

    def trusts(self, found: Introduction) -> bool:
        """By a typed yes, with both keys in sight."""
        print_lines(*_both_keys(found), err=True)
        text = "Type yes to trust the key that it shows now"
        with self.answering():
            answer: str = click.prompt(text, default="", show_default=False, err=True)
        return answer.strip().lower() == _AGREED

    def password(self, login: str, *, again: bool) -> str | None:
        wrong = "Wrong. " if again else ""
        text = f"{wrong}Password of {visible(login)} (Enter: none)"
        given: str = click.prompt(text, hide_input=True, default="", show_default=False, err=True)
        return given or None


def _both_keys(found: Introduction) -> list[str]:
    where = visible(found.server.who)
    lines = [f"The host key of {where} is not the known one:"]
    if found.known:
        old = found.known
        lines.append(f"  known  {old.key_type} {fingerprint(old.blob)}  ({old.file}:{old.line})")
    else:
        lines = [f"The host key of {where} is unknown:"]
        lines += [f"  captured  {one}" for one in found.captured]
    lines.append(f"  shown  {found.shown.key_type} {found.fingerprint}")
    kind = found.shown.key_type.removeprefix("ssh-").split("-")[0]
    lines += [
        "Compare the shown one at the console of the host, or in its installer:",
        f"  ssh-keygen -lf /etc/ssh/ssh_host_{kind}_key.pub",
    ]
    return lines
