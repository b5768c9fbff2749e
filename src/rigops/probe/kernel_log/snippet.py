"""The shell that brings a log along: never all of a large one, and what was read when time is up.

`brief` passes on the first lines, the last ones, and between them those that may matter: Xids,
then faults and hardware errors, then the rest, each kind up to a number of its own, so that a
flood of one hides no other. Where $only is exported, lines that do not fit it are as good as not
there. Only the command that reads the log ends at the time limit (TERM); what follows it in the
pipe ends with its input, and so prints what it holds.
"""

from __future__ import annotations

from typing import Final

from rigops.probe.kernel_log.words import WORDS

FIRST: Final = 400
LAST: Final = 800
_XIDS: Final = 1500
_FAULTS: Final = 1000
_OTHERS: Final = 2500
_LONGEST: Final = 400

XID_WORDS: Final = r"NVRM: Xid [(]|fallen off the bus"
_FAULT_WORDS: Final = r"IO_PAGE_FAULT|DMAR: ?\[DMA |Hardware [Ee]rror"
_OTHER_WORDS: Final = "|".join(word.replace("/", r"\/") for word in WORDS)

BRIEF: Final = rf"""
unset only
late=
trap late=1 TERM
brief() {{
    (trap '' TERM; exec awk '
        function shown(line) {{ print substr(line, 1, {_LONGEST}) }}
        BEGIN {{ only = ENVIRON["only"] }}
        only != "" && $0 !~ only {{ next }}
        ++lines <= {FIRST} {{ shown($0); next }}
        {{
            slot = lines % {LAST}
            if (slot in held) {{
                if (held[slot] ~ /{XID_WORDS}/) keep = xids++ < {_XIDS}
                else if (held[slot] ~ /{_FAULT_WORDS}/) keep = faults++ < {_FAULTS}
                else if (held[slot] ~ /{_OTHER_WORDS}/) keep = others++ < {_OTHERS}
                else keep = 0
                if (keep) shown(held[slot]); else left++
            }}
            held[slot] = $0
        }}
        END {{
            if (left) print "== " left " lines left out"
            for (at = lines - {LAST} + 1; at <= lines; at++)
                if (at > {FIRST}) shown(held[at % {LAST}])
        }}
    ') | (trap '' TERM; hide)
}}

# Ends with the code of the command, or with 124 where the time was up.
log() {{
    echo "== $*"
    code=$(
        trap : TERM
        {{ {{ "$@" 2>&1; echo "$?" >&3; }} | brief >&4; }} 3>&1
    )
    [ -z "$late" ] || return 124
    return "${{code:-1}}"
}} 4>&1
"""
