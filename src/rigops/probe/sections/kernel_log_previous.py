"""The kernel log of the boot before this one."""

from __future__ import annotations

from rigops.probe.kernel_log import parse
from rigops.probe.kernel_log.snippet import BRIEF
from rigops.probe.kernel_log.words import TECHNICAL
from rigops.probe.section import Section

# Whoever sees this boot's kernel log may see the one before, if it was kept.
_SNIPPET = rf"""{BRIEF}
command -v journalctl >/dev/null || {{ echo "== absent: there is no journal"; exit 0; }}
newest() {{ journalctl -k -b "$1" -q --no-pager -o cat -n 1 2>/dev/null; }}
if [ -n "$(newest -1)" ]; then
    log journalctl -k -b -1 -q --no-pager -o short-iso-precise
    exit
fi
why=$(journalctl -k -b -1 -q --no-pager -n 1 2>&1 | head -n 1)
case "$why" in "No journal files were found"*) none=1 ;; *) none= ;; esac
if [ "$(id -u)" = 0 ] || [ -n "$none" ] || [ -n "$(newest 0)" ]; then
    echo "== absent: ${{why:-the journal holds this boot only}}"
    exit 0
fi
echo "$why"
exit 1
"""

SECTION = Section(
    name="kernel-log-previous",
    snippet=_SNIPPET,
    parse=parse,
    timeout_s=18,
    wants_root=True,
    lane="journal",
    technical=TECHNICAL,
)
