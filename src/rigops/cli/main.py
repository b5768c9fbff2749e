"""The `rigops` command. A command's module is imported only when it runs or prints its help."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

import click
from click.shell_completion import CompletionItem

from rigops import __version__
from rigops.cli.failure import explain
from rigops.report.terminal import clean_streams

# Imported modules stay: looking for garbage in them over and over takes a tenth of the start.
gc.set_threshold(100_000)
# A thread that answers a host does not wait 5 ms, at each packet, for the one that imports.
sys.setswitchinterval(0.0005)

# By job and example.
JOBS = {
    ("Look", "rigops doctor threadripper"): {
        "doctor": "Check hosts; show what is wrong and how to fix it.",
        "drivers": "Show which NVIDIA drivers to use for a GPU, and which never.",
        "power": "Show the power budget of hosts, and what the electricity costs.",
        "history": "Show past runs: who, what they changed, why one failed.",
    },
    ("Change", "rigops plan"): {
        "init": "Probe hosts and write a first inventory.",
        "fix": "Declare what doctor would have declared, then plan.",
        "plan": "Show what apply would change, and what blocks it.",
        "apply": "Apply the inventory to hosts, then test P2P.",
    },
    ("Prove", "rigops preflight threadripper"): {
        "preflight": "Test copies between every pair of GPUs.",
    },
    ("Keep", "rigops restore threadripper /home/me/thesis"): {
        "snapshots": "Show which snapshots exist where, and which go next.",
        "backup": "Take snapshots now, and send what the target lacks.",
        "restore": "Bring back a file, a directory or a whole subvolume.",
        "capture": "Check whether a host is safe to wipe; store what it was.",
        "reprovision": "Make a reinstalled host what it was when captured.",
        "rollback": "Go back to an earlier driver, configuration or root.",
        "release": "Undo everything that rigops owns on a host.",
        "autoinstall": "Write an unattended installation for a captured host.",
        "ssh-config": "Print an OpenSSH configuration for the inventory.",
    },
}
COMMANDS = {name: line for commands in JOBS.values() for name, line in commands.items()}


# They import pyinfra, which has to come before every lock and thread.
_CONVERGE = {"apply", "fix", "plan", "release", "reprovision", "rollback"}


class Commands(click.Group):
    """By name and one line: --help imports no command."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's
        if cmd_name not in COMMANDS:
            return None
        if cmd_name in _CONVERGE:
            importlib.import_module("rigops.converge.early")
        module = importlib.import_module(f"rigops.cli.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            from rigops.inventory.spec.names import did_you_mean

            hint = did_you_mean(args[0], COMMANDS)
            ctx.fail(f"no such command: {args[0]}; {hint or 'see rigops --help'}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        offered = [
            CompletionItem(name, help=line)
            for name, line in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return offered + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        widest = max(map(len, COMMANDS))
        for (job, example), commands in JOBS.items():
            with formatter.section(f"{job}, for example `{example}`"):
                formatter.write_dl([(f"{name:{widest}}", line) for name, line in commands.items()])


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="rigops", message="%(prog)s %(version)s")
def rigops() -> None:
    """Set up, check and keep multi-GPU machines.

    Details and more examples: `rigops COMMAND --help`. Tab completion for bash (also zsh, fish):
    eval "$(_RIGOPS_COMPLETE=bash_source rigops)"
    """


def main(arguments: Sequence[str] | None = None) -> None:
    words = list(sys.argv[1:] if arguments is None else arguments)
    with clean_streams():
        try:
            code = rigops.main(words, prog_name="rigops", standalone_mode=False)
        except BaseException as error:  # noqa: BLE001 - the one place that turns any error into text
            code = explain(error, words)
    sys.exit(code if isinstance(code, int) else 0)


def run() -> None:
    """Without Python's own cleanup, which takes a tenth of the time of an apply."""
    try:
        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0
    else:
        code = 0
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # nobody reads it any more
            if stream is not None:  # closed
                stream.flush()
    os._exit(code)
