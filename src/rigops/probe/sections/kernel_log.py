"""This boot's kernel log."""

from __future__ import annotations

from rigops.probe.kernel_log import parse
from rigops.probe.kernel_log.snippet import BRIEF
from rigops.probe.kernel_log.words import TECHNICAL
from rigops.probe.section import Section

_JOURNAL = "journalctl -k -b -q --no-pager"

# An empty answer is no log: whoever may not read the journal is told so, or is shown nothing.
# Where the time is up the journal has been read from its beginning: its end is a quick look.
_SNIPPET = rf"""{BRIEF}
if [ -n "$({_JOURNAL} -o cat -n 1 2>/dev/null)" ]; then
    log {_JOURNAL} -o short-iso-precise
    code=$?
    [ "$code" != 124 ] || {_JOURNAL} -o short-iso-precise -n 300 2>/dev/null | hide
    exit "$code"
fi
if [ -n "$(dmesg 2>/dev/null | head -n 1)" ]; then
    log dmesg
    exit
fi
run {_JOURNAL} -n 1
run dmesg | tail -n 3
[ ! -r /var/log/dmesg ] || log cat /var/log/dmesg  # of this boot's first minute only
exit 1
"""

SECTION = Section(
    name="kernel-log",
    snippet=_SNIPPET,
    parse=parse,
    timeout_s=18,
    wants_root=True,
    technical=TECHNICAL,
)
