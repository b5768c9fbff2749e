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

# What is on the disk before the journal names it. A proof goes only once its failure is certain.
_RECORD: Final = f"""
{SHELL_SETTLE}{APPEND}write() {{ # PATH TEXT
    printf %s "$2" | base64 -d >"$1.rigops-new"
    settle "$1"
}}
record() {{ # PROVEN FAILED LINE: the texts in base64, or empty; of FAILED `none`: there is none now
    set -eu
    umask 022
    mkdir -p {STATE}
    [ -z "$1" ] || write {PROVEN} "$1"
    case $2 in
        '') ;;
        none) rm -f {FAILED_PROOF} ;;
        *)
            write {FAILED_PROOF} "$2"
            [ -z "$3" ] || rm -f {PROVEN}
            ;;
    esac
    [ -z "$3" ] || append {JOURNAL} "$3"
}}
record "$1" "$2" "$3"
"""


def recording(
    line: str = "",
    *,
    proven: Proven | None = None,
    failed: FailedProof | None = None,
    has_passed: bool = False,
) -> list[str]:
    """The command, which root runs. It prints `torn` where the journal's last line has no end.

    `line`: of the journal; without it the preflight has only begun.
    """
    texts = [b64encode(one.to_json().encode()).decode() if one else "" for one in (proven, failed)]
    return ["sh", "-c", _RECORD, "rigops", texts[0], "none" if has_passed else texts[1], line]
