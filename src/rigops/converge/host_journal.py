"""What a run leaves on a host until its release: a line of the journal, and the proven state."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import TYPE_CHECKING, Final

from rigops.atomic_file import SHELL_SETTLE
from rigops.converge.errors import DeployError
from rigops.converge.proof import PROVEN, pairs_of
from rigops.ownership.owned_lines import shown_path
from rigops.ownership.ownership import Ownership
from rigops.probe.sections.rigops_state import STATE
from rigops.record import journal
from rigops.record.journal_shell import APPEND, JOURNAL, NOT_A_FILE, READ

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rigops.converge.connector import HostChannel
    from rigops.converge.request import RunOptions
    from rigops.converge.result import HostResult
    from rigops.probe.sections.rigops_state import RigopsState
    from rigops.record import Proven

_DEADLINE_S: Final = 60.0
_TORN: Final = f"the last line of {JOURNAL} was torn; it is ended, so no other line is lost with it"
# The proof first: a journal that names a passed preflight must not be without it.
_RECORD: Final = f"""
{SHELL_SETTLE}{APPEND}record() {{
    set -eu
    umask 022
    mkdir -p {STATE}
    if [ -n "$1" ]; then
        printf %s "$1" | base64 -d >{PROVEN}.rigops-new
        settle {PROVEN}
    fi
    append {JOURNAL} "$2"
}}
record "$1" "$2"
"""
_FORGET: Final = f"""
{READ}lines {JOURNAL} || exit
rm -rf {STATE} /usr/local/libexec/rigops /run/rigops
"""


def entry(
    result: HostResult, options: RunOptions, seconds: float, versions: Mapping[str, str]
) -> journal.Run:
    found = result.preflight
    return journal.Run(
        host=result.host,
        at=options.at,
        inventory_digest=options.inventory_digest,
        outcome=result.outcome,
        seconds=seconds,
        versions=versions,
        preflight=journal.Preflight(found.status, found.level or "", pairs_of(found))
        if found
        else None,
    )


def record(channel: HostChannel, run: journal.Run, proven: Proven | None) -> str:
    """What a person should know of the journal, if anything."""
    text = b64encode(proven.to_json().encode()).decode() if proven else ""
    line = json.dumps(run.as_json())
    done = channel.run(["sh", "-c", _RECORD, "rigops", text, line], b"", _DEADLINE_S)
    if done.exit_code != 0:
        output = " ".join(done.stderr.decode(errors="replace").split())
        fix = f"move {JOURNAL} away there" if NOT_A_FILE in output else ""
        raise DeployError(f"the run could not be recorded there: {output}", fix=fix)
    return _TORN if b"torn" in done.stdout.split() else ""


def forget(channel: HostChannel, state: RigopsState | None) -> tuple[bytes, ...]:
    """Remove all that rigops has there. The lines of the host's journal.

    Only where nothing is owned any more: without the record nobody would undo it.
    """
    if state is None:
        raise DeployError("what rigops owns there could not be read")
    if left := sorted(Ownership.of(state).files):
        names = ", ".join(map(shown_path, left))
        raise DeployError(
            f"{names}: changed by somebody else, so not removed. Remove by hand what rigops wrote "
            "there, then release the host again"
        )
    done = channel.run(["sh", "-c", _FORGET], b"", _DEADLINE_S)
    if done.exit_code != 0:
        output = " ".join(done.stderr.decode(errors="replace").split())
        raise DeployError(f"{STATE} could not be removed: {output}")
    return tuple(line for line in done.stdout.split(b"\n") if line)
