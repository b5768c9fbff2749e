"""For people: how the disks judge themselves, and how wide the links of the NVMe ones are."""

from __future__ import annotations

from rigops.probe.section import EVERY_WORD, Section

_SMARTCTL = "smartctl -n standby -j -a "
_NVME = "nvme smart-log -o json "

# Each disk gets its own time, so that one that does not answer costs only itself; one that sleeps
# is left asleep.
_SNIPPET = rf"""
get() {{ value=-; [ -r "$1" ] && read -r value <"$1"; [ -n "$value" ] || value=-; }} 2>/dev/null
block 'ls /sys/class/nvme'
for disk in /sys/class/nvme/nvme*; do
    [ -d "$disk" ] || continue
    get "$disk/address"; address=$value
    get "$disk/device/current_link_speed"; speed=${{value%% *}}
    get "$disk/device/current_link_width"; link=$speed,$value
    get "$disk/device/max_link_speed"; speed=${{value%% *}}
    get "$disk/device/max_link_width"; most=$speed,$value
    get "$disk/model"
    echo "${{disk##*/}} address=$address link=$link max=$most model=$value"
done
is_root || return 0
brief() {{ if command -v timeout >/dev/null; then timeout 3 "$@"; else "$@"; fi; }}
for disk in /sys/block/sd* /sys/block/nvme* /sys/block/hd*; do
    [ -e "$disk/device" ] || continue
    disk=/dev/${{disk##*/}} ask=
    if command -v smartctl >/dev/null; then ask='{_SMARTCTL}'
    elif [ "${{disk#/dev/nvme}}" != "$disk" ] && command -v nvme >/dev/null; then ask='{_NVME}'
    fi
    [ -n "$ask" ] || continue
    block "$ask$disk"
    brief $ask"$disk" 2>&1 | grep -v '"serial_number"' | head -c 60000
    echo
done
return 0
"""

SECTION = Section(
    name="smart",
    snippet=_SNIPPET,
    parse=str,
    wants_root=True,
    timeout_s=20,
    lane="machine",
    technical=EVERY_WORD,
)
