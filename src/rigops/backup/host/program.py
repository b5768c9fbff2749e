"""How a program of an engine runs: its words, its output, its signals, and its exit status."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, Any

from rigops.backup.host.errors import HostError, as_host_error
from rigops.backup.host.one_run import Interrupted, end_in_order
from rigops.backup.host.output import Output
from rigops.backup.host.volumes import leave_mounts_of_others

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable


def run_program(parser: argparse.ArgumentParser, commands: Iterable[Callable[[Any], None]]) -> int:
    """`commands`: each adds its words, and `carry_out`, a function (options, output) -> status."""
    parser.add_argument("--json", action="store_true", dest="as_json")
    added = parser.add_subparsers(dest="command", required=True)
    for add in commands:
        add(added)
    options = parser.parse_args()
    if isinstance(sys.stdout, io.TextIOWrapper):  # a file's name may be no text
        sys.stdout.reconfigure(errors="backslashreplace")
    output = Output(as_json=options.as_json)
    os.environ["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    end_in_order()
    try:
        leave_mounts_of_others()
        code: int = options.carry_out(options, output)
    except HostError as error:
        output.error(error)
        return 1
    except Interrupted as interruption:
        return interruption.code
    except BrokenPipeError:  # the reader is gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        output.error(as_host_error(options.command, error))
        return 1
    return code
