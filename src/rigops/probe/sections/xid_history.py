"""Xid lines of all boots of the last 90 days."""

from __future__ import annotations

from rigops.probe.kernel_log import parse
from rigops.probe.kernel_log.snippet import BRIEF, XID_WORDS
from rigops.probe.kernel_log.words import TECHNICAL
from rigops.probe.section import Section

# `journalctl -k` would mean this boot only, and -q would hide where a boot begins. Log files count
# where the journal forgets at boot.
_SNIPPET = rf"""{BRIEF}
only='{XID_WORDS}|^-- (Boot|Reboot)|kernel:.* Linux version '
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
shown=
[ -z "$(journalctl _TRANSPORT=kernel -q --no-pager -o cat -n 1 2>/dev/null)" ] || shown=1
if [ -n "$shown" ] && has /var/log/journal/*/*.journal; then log $JOURNAL; exit; fi
for name in kern.log messages; do
    has "/var/log/$name" || continue
    [ -r "/var/log/$name" ] || exit 1
    files=$(find /var/log -maxdepth 1 -name "$name*" -type f -mtime -90 -exec ls -tr {{}} +)
    log from_files $files
    exit
done
if [ -n "$shown" ]; then log $JOURNAL; exit; fi
[ "$(id -u)" = 0 ]
"""

SECTION = Section(
    name="xid-history",
    snippet=_SNIPPET,
    parse=parse,
    timeout_s=18,
    wants_root=True,
    lane="journal",
    technical=TECHNICAL,
)
