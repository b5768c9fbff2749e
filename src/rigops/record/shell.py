"""Records on a host, as sh reads and writes them there: the journal, a proof and its failure."""

from __future__ import annotations

from base64 import b64encode
from typing import Final

from rigops.atomic_file import SHELL_SETTLE
from rigops.probe.sections.rigops_state import STATE
from rigops.record.proven import FailedProof, Proven

JOURNAL: Final = f"{STATE}/journal.jsonl"
MOST_RUNS: Final = 1000  # that history shows
NOT_A_FILE: Final = "is no regular file"

_MOST_BYTES: Final = 16 * 1024 * 1024

_REQUIRE: Final = f"""\
is_journal() {{ # JOURNAL: it is there, and no run would wait on it
    [ -e "$1" ] || [ -L "$1" ] || return 1
    [ ! -f "$1" ] || [ -L "$1" ] || return 0
    echo "$1 {NOT_A_FILE}" >&2
    exit 1
}}
"""
# A line is one write, so that a kill leaves it whole or out; a power cut may still tear it. Then
# the next one begins a line of its own. Lines are counted, since sh drops the NUL bytes that a file
# system may leave at a torn end.
APPEND: Final = f"""\
{_REQUIRE}append() {{ # JOURNAL LINE: prints `torn` where the former last line has no end
    if is_journal "$1" && [ -s "$1" ] && [ "$(tail -c 1 "$1" | wc -l)" -eq 0 ]; then
        echo torn
        set -- "$1" "
$2"
    fi
    printf '%s\\n' "$2" |
        dd of="$1" bs=1M iflag=fullblock oflag=append conv=notrunc,fsync status=none
}}
"""
_ADD: Final = f"""
{APPEND}set -eu
[ -d {STATE} ] || exit 0
append {JOURNAL} "$1"
"""
# Of what is too long, its end; a line that is cut by that counts as one that cannot be read.
READ: Final = f"""\
{_REQUIRE}lines() {{ # JOURNAL
    ! is_journal "$1" || if [ "$(stat -c %s "$1")" -le {_MOST_BYTES} ]; then
        cat "$1"
    else
        tail -c {_MOST_BYTES} "$1"
    fi
}}
"""


def adding(line: str) -> list[str]:
    """The command, which root runs: nothing where rigops keeps no records. It may print `torn`."""
    return ["sh", "-c", _ADD, "rigops", line]


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
