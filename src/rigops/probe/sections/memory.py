"""Main memory, for people: how much the kernel has, what is in which slot, what ECC has counted."""

from __future__ import annotations

from rigops.probe.section import EVERY_WORD, Section

_SNIPPET = r"""
show_kernel /proc/meminfo
get() { value=-; [ -r "$1" ] && read -r value <"$1"; [ -n "$value" ] || value=-; } 2>/dev/null
block 'ls /sys/devices/system/edac/mc'
for mc in /sys/devices/system/edac/mc/mc[0-9]*; do
    [ -d "$mc" ] || continue
    get "$mc/ce_count"; ce=$value
    get "$mc/ue_count"; ue=$value
    get "$mc/size_mb"; size=$value
    get "$mc/mc_name"
    echo "${mc##*/} ce=$ce ue=$ue size=$size label=$value"
    for dimm in "$mc"/dimm[0-9]* "$mc"/rank[0-9]*; do
        [ -d "$dimm" ] || continue
        get "$dimm/dimm_ce_count"; ce=$value
        get "$dimm/dimm_ue_count"; ue=$value
        get "$dimm/size"; size=$value
        get "$dimm/dimm_label"
        echo "${mc##*/}/${dimm##*/} ce=$ce ue=$ue size=$size label=$value"
    done
done
if is_root && command -v dmidecode >/dev/null; then run dmidecode -t memory; fi
return 0
"""

SECTION = Section(
    name="memory",
    snippet=_SNIPPET,
    parse=str,
    wants_root=True,
    lane="machine",
    technical=EVERY_WORD,
)
