"""The command that makes a reinstalled host what it was when it was captured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from rigops.capture import store as captures
from rigops.cli.apply_common import fleet_run, host_request
from rigops.cli.hosts import ask_sudo_password_option, host_catalog, host_key_policy, sudo_password
from rigops.cli.options import (
    common,
    inventory_option,
    is_verbose,
    json_option,
    read_inventory,
    words,
)
from rigops.cli.output import has_keyboard, print_json, text_width
from rigops.cli.terminal import Terminal
from rigops.converge.fleet_run import Interrupts
from rigops.converge.request import RebootWhen
from rigops.errors import usage_error
from rigops.hosts.access import HostAccess
from rigops.record import lockfile
from rigops.report.reprovision import reprovision_lines
from rigops.report.terminal import print_lines, visible
from rigops.reprovision.flow import Reprovision, run
from rigops.reprovision.trust import Introduction
from rigops.transport.key_files import fingerprint
from rigops.vault.store import Store


@click.command("reprovision")
@click.argument("host")
@inventory_option
@click.option(
    "--as",
    "captured_as",
    default="",
    metavar="OLD",
    help="HOST takes the place of OLD: use its capture, vault and lockfile entry.",
)
@click.option(
    "--accept-host-key",
    "accepted_keys",
    multiple=True,
    callback=words,
    metavar="SHA256:…",
    help="Trust the new host key if it has exactly this fingerprint.",
)
@click.option(
    "--ask-password",
    "asks_password",
    is_flag=True,
    help="Ask for the login's password at once, not only where no key is accepted.",
)
@click.option(
    "--yes",
    is_flag=True,
    help="Confirm the plan, mounts in /etc/fstab, and signing archives of an older borg; never a "
    "host key, and never a restore over newer data.",
)
@click.option(
    "--reboot",
    type=click.Choice(("ask", "auto", "never")),
    default="auto",
    show_default=True,
    help="Whether the host may reboot where the plan needs it.",
)
@click.option(
    "--adopt-parts",
    is_flag=True,
    help="Another GPU in the slot of a captured one is a replaced part, not a lost one.",
)
@click.option(
    "--accept-no-trial",
    is_flag=True,
    help="Make kernel arguments permanent at once where no trial boot is possible.",
)
@ask_sudo_password_option
@json_option
@common
def command(
    *,
    host: str,
    inventory_path: Path | None,
    captured_as: str,
    accepted_keys: tuple[str, ...],
    asks_password: bool,
    yes: bool,
    reboot: RebootWhen,
    adopt_parts: bool,
    accept_no_trial: bool,
    asks_sudo_password: bool,
    as_json: bool,
) -> int:
    """Make HOST, after a reinstall, what it was when it was captured; compare it line by line.

    Starts from a new system with ssh. Shows the changed host key beside the old one, and sends
    nothing, no password either, before you accept it. Then installs the login (key, sudo, python3),
    applies the inventory with the vault as the first source of packages, and compares. After a
    failure or Ctrl-C, run it again: each stage looks at the host first. Worse: exit 1.

    \b
    Examples:
      rigops reprovision threadripper
      rigops reprovision threadripper --accept-host-key SHA256:…    compared at the console
      rigops reprovision new-rig --as threadripper                  another machine
      rigops reprovision threadripper --yes --adopt-parts --json
    """
    if asks_password and not has_keyboard():
        raise usage_error(
            message="no terminal to type a password on",
            key="--ask-password",
            fix="install your public key on the host, or run it at a terminal",
        )
    inventory = read_inventory(inventory_path)
    request = host_request(inventory, host)
    if request.target.local:
        raise usage_error(message="only a host over ssh can be reprovisioned", host=host)
    captured_as = captured_as or host
    if captured_as != host:
        known = lockfile.read(lockfile.path_of(inventory.path))
        request = replace(request, locked=known.hosts.get(captured_as))
    own = Store.from_declared(request.spec.rigops_vault)
    found = tuple(captures.newest_first(own, captured_as))
    if not found:
        raise usage_error(
            message=f"no capture in {captures.folder_of(own, captured_as)}",
            host=captured_as,
            fix="run rigops apply for a host that was never captured; rigops capture needs the "
            "host as it was",
        )
    asked = Reprovision(
        request=request,
        captures=found,
        store=own,
        catalog=host_catalog(request.spec),
        inventory_digest=inventory.digest,
        access=HostAccess(host_key_policy(accepted_keys), sudo_password(asked=asks_sudo_password)),
        asks_password=asks_password,
        yes=yes,
        reboot=reboot,
        adopts_parts=adopt_parts,
        accepts_no_trial=accept_no_trial,
    )
    result = run(asked, ReprovisionTerminal())
    if as_json:
        print_json(result.as_json())
    else:
        print_lines(*reprovision_lines(result, text_width(), verbose=is_verbose()))
    return result.exit_code


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
