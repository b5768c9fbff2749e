"""The journal on a host, as sh reads it there and adds to it."""

from __future__ import annotations

from typing import Final

from rigops.probe.sections.rigops_state import STATE

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
