"""The kernel logs of this boot and the one before, and the Xid lines of the last 90 days.

`brief` passes on the first lines, the last ones, and between them those that may matter: Xids,
then faults and hardware errors, then the rest, each kind up to a number of its own, so that a
flood of one hides no other. Where $only is exported, lines that do not fit it are as good as not
there. Only the command that reads the log ends at the time limit (TERM); what follows it in the
pipe ends with its input, and so prints what it holds.
"""

from __future__ import annotations

from typing import Final

from rigops.probe.kernel_log.parser import parse
from rigops.probe.kernel_log.words import TECHNICAL, WORDS
from rigops.probe.section import Section

FIRST: Final = 400
LAST: Final = 800
_XIDS: Final = 1500
_FAULTS: Final = 1000
_OTHERS: Final = 2500
_LONGEST: Final = 400

_XID_WORDS: Final = r"NVRM: Xid [(]|fallen off the bus"
_FAULT_WORDS: Final = r"IO_PAGE_FAULT|DMAR: ?\[DMA |Hardware [Ee]rror"
_OTHER_WORDS: Final = "|".join(word.replace("/", r"\/") for word in WORDS)

_BRIEF: Final = rf"""
unset only
late=
trap late=1 TERM
brief() {{
    trap '' TERM
    exec awk '
        function shown(line) {{ print substr(line, 1, {_LONGEST}) }}
        BEGIN {{ only = ENVIRON["only"] }}
        /^[[0-9]/ {{ entries++ }}
        only != "" && $0 !~ only {{ next }}
        ++lines <= {FIRST} {{ shown($0); next }}
        {{
            slot = lines % {LAST}
            if (slot in held) {{
                if (held[slot] ~ /{_XID_WORDS}/) keep = xids++ < {_XIDS}
                else if (held[slot] ~ /{_FAULT_WORDS}/) keep = faults++ < {_FAULTS}
                else if (held[slot] ~ /{_OTHER_WORDS}/) keep = others++ < {_OTHERS}
                else keep = 0
                if (keep) shown(held[slot]); else left++
            }}
            held[slot] = $0
        }}
        END {{
            print "=" entries + 0 >"/proc/self/fd/3"
            if (left) print "\n" ENVIRON["mark"] " == " left " lines left out"
            for (at = lines - {LAST} + 1; at <= lines; at++)
                if (at > {FIRST}) shown(held[at % {LAST}])
        }}
    '
}}

# Ends with the code of the command, or with 124 where the time was up.
log() {{
    block "$*"
    said=$(
        trap : TERM
        {{ {{ "$@" 2>&1; echo "$?" >&3; }} | brief >&4; }} 3>&1
    )
    [ -z "$late" ] || return 124
    code=${{said%%[!0-9]*}}
    return "${{code:-1}}"
}} 4>&1
# Whether it was one, and not the words of an error.
is_log() {{ [ -n "$late" ] || [ "${{said##*=}}" != 0 ]; }}
"""

_JOURNAL = "journalctl -k -b -q --no-pager"

# An empty answer is no log: a login without access to the journal sees an error, or nothing.
# Where the time is up the journal has been read from its beginning: its end is a quick look.
_SNIPPET = rf"""{_BRIEF}
if command -v journalctl >/dev/null; then
    log {_JOURNAL} -o short-iso-precise
    code=$?
    if is_log; then
        [ "$code" != 124 ] || {_JOURNAL} -o short-iso-precise -n 300 2>/dev/null
        return "$code"
    fi
fi
if [ -n "$(dmesg 2>/dev/null | head -n 1)" ]; then
    log dmesg
    return
fi
run {_JOURNAL} -n 1
block dmesg
dmesg 2>&1 | tail -n 3
[ ! -r /var/log/dmesg ] || log cat /var/log/dmesg  # of this boot's first minute only
return 1
"""

SECTION = Section(
    name="kernel-log",
    snippet=_SNIPPET,
    parse=parse,
    timeout_s=18,
    wants_root=True,
    lane="journal",
    is_slow=True,
    technical=TECHNICAL,
)

# A login that sees this boot's kernel log may see the one before, if there is one.
_PREVIOUS_SNIPPET = rf"""{_BRIEF}
command -v journalctl >/dev/null || {{ block "absent: there is no journal"; return 0; }}
newest() {{ exec journalctl -k -b "$1" -q --no-pager -o cat -n 1; }}
why=$(newest -1 2>&1)
code=$?
if [ "$code" = 0 ] && [ -n "$why" ]; then
    log journalctl -k -b -1 -q --no-pager -o short-iso-precise
    return
fi
why=${{why%%"
"*}}
case "$why" in "No journal files were found"*) none=1 ;; *) none= ;; esac
if is_root || [ -n "$none" ] || [ -n "$(newest 0 2>/dev/null)" ]; then
    block "absent: ${{why:-the journal holds this boot only}}"
    return 0
fi
echo "$why"
return 1
"""

KERNEL_LOG_PREVIOUS = Section(
    name="kernel-log-previous",
    snippet=_PREVIOUS_SNIPPET,
    parse=parse,
    timeout_s=18,
    wants_root=True,
    lane="journal",
    is_slow=True,
    technical=TECHNICAL,
)

# `journalctl -k` would mean this boot only, and -q would hide where a boot begins. Log files count
# where the journal forgets at boot.
_HISTORY_SNIPPET = rf"""{_BRIEF}
only='{_XID_WORDS}|NVRM: GPU at PCI:|^-- (Boot|Reboot)|kernel:.* Linux version '
export only
JOURNAL='journalctl _TRANSPORT=kernel --since=-90d --no-pager -o short-iso-precise'
has() {{ [ -e "$1" ]; }}
from_files() {{
    for file; do
        case "$file" in
            *.gz) gzip -dc "$file" ;;
            *.xz) xz -dc "$file" ;;
            *.zst) zstd -dcq "$file" ;;
            *) cat "$file" ;;
        esac || return
    done | tr -d '\000'
}}
persists=
if has /var/log/journal/*/*.journal; then
    persists=1
    log $JOURNAL
    code=$?
    if is_log; then return "$code"; fi
fi
for name in kern.log messages; do
    has "/var/log/$name" || continue
    [ -r "/var/log/$name" ] || return 1
    files=$(find /var/log -maxdepth 1 -name "$name*" -type f -mtime -90 -exec ls -tr {{}} +)
    log from_files $files
    return
done
if [ -z "$persists" ]; then
    log $JOURNAL
    code=$?
    if is_log; then return "$code"; fi
fi
is_root
"""

XID_HISTORY = Section(
    name="xid-history",
    snippet=_HISTORY_SNIPPET,
    parse=parse,
    timeout_s=18,
    wants_root=True,
    lane="journal",
    is_slow=True,
    technical=TECHNICAL,
)
