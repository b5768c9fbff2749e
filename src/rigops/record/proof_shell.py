"""The proof of a host and its failure, as sh writes them there with the journal's line."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Final

from rigops.atomic_file import SHELL_SETTLE
from rigops.probe.sections.rigops_state import STATE
from rigops.record.journal_shell import APPEND, JOURNAL

if TYPE_CHECKING:
    from rigops.record.failed_proof import FailedProof
    from rigops.record.proven import Proven

PROVEN: Final = f"{STATE}/proven.json"
FAILED_PROOF: Final = f"{STATE}/failed_proof.json"

# Files that are on the disk before the journal names them. A proof goes only once its failure is
# certain.
_RECORD: Final = f"""
{SHELL_SETTLE}{APPEND}write() {{ # PATH TEXT
    printf %s "$2" | base64 -d >"$1.rigops-new"
    settle "$1"
}}
is_recorded() {{ # FAILED
    [ -e {FAILED_PROOF} ] && [ "$(cat {FAILED_PROOF})" = "$(printf %s "$1" | base64 -d)" ]
}}
may_write() {{ # LINE ONLY_OVER: a failure, where another may be recorded
    [ -e {FAILED_PROOF} ] || return 0
    if [ -n "$2" ]; then is_recorded "$2"; else [ -n "$1" ]; fi
}}
record() {{ # PROVEN FAILED LINE ONLY_OVER: texts in base64, or empty; FAILED `none`: it is over
    set -eu
    umask 022
    mkdir -p {STATE}
    [ -z "$1" ] || write {PROVEN} "$1"
    case $2 in
        '') if [ -n "$4" ] && is_recorded "$4"; then rm -f {FAILED_PROOF}; fi ;;
        none) rm -f {FAILED_PROOF} ;;
        *)
            if may_write "$3" "$4"; then write {FAILED_PROOF} "$2"; fi
            [ -z "$3" ] || rm -f {PROVEN}
            ;;
    esac
    [ -z "$3" ] || append {JOURNAL} "$3"
}}
record "$1" "$2" "$3" "$4"
"""


def recording(
    line: str = "",
    *,
    proven: Proven | None = None,
    failed: FailedProof | None = None,
    only_over: FailedProof | None = None,
    has_passed: bool = False,
) -> list[str]:
    """The command, which root runs. It prints `torn` where the journal's last line has no end.

    `line`: of the journal; without it the preflight has only begun, and an earlier failure stays.
    `only_over`: the record that the preflight began with, where no other may be replaced.
    """
    texts = [
        b64encode(one.to_json().encode()).decode() if one else ""
        for one in (proven, failed, only_over)
    ]
    failure = "none" if has_passed else texts[1]
    return ["sh", "-c", _RECORD, "rigops", texts[0], failure, line, texts[2]]
