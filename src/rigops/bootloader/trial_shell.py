"""The sh that orders a trial boot, and takes the order back, whichever bootloader has it."""

from __future__ import annotations

import shlex
from typing import Final

from rigops.bootloader.ground import ESPS, GRUB_FOLDERS
from rigops.bootloader.trial_marks import ENTRY_ID
from rigops.bootloader.trial_parts import CONFIRMED, LOG

GRUB_SCRIPT: Final = f"/etc/grub.d/42_{ENTRY_ID}"  # after 10_linux, whose functions it calls
ESP_FOLDER: Final = "rigops"
ESP_VARIABLE: Final = "rigops_next"
LOADER_ENTRY: Final = f"{ENTRY_ID}.conf"

_ONE_SHOT: Final = (
    "/sys/firmware/efi/efivars/LoaderEntryOneShot-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
)

_TOOLS: Final = """\
# GRUB replays no journal: what is only in that of /boot would not be there for it. A freeze writes
# all of it out.
trial_settle() {
    sync
    case $(findmnt -n -o FSTYPE --mountpoint /boot 2>/dev/null | tail -n 1) in
        ext* | xfs) fsfreeze -f /boot && fsfreeze -u /boot ;;
    esac
}
trial_menu() { # FOLDER PREFIX: grub.cfg made anew aside, and checked before it counts
    menu=$1/grub.cfg.rigops-new
    if said=$("$2-mkconfig" -o "$menu" 2>&1) && said=$("$2-script-check" "$menu" 2>&1) &&
        sync "$menu" && mv -f "$menu" "$1/grub.cfg"; then
        return
    fi
    rm -f "$menu" "$menu.new"
    echo "$said" >&2
    return 1
}
trial_one_shot() { # what systemd-boot is told to start once
    tail -c +5 "@ONE_SHOT@" 2>/dev/null | tr -d '\\000'
}
trial_disarm() {
    left=
    for prefix in grub grub2; do
        [ -e "/boot/$prefix/grubenv" ] || continue # which a look at it would make
        # An empty one is what GRUB leaves of an order that it has followed.
        "$prefix-editenv" list 2>/dev/null | grep -Eqx "next_entry=(@ID@)?" || continue
        "$prefix-editenv" - unset next_entry || left="next_entry of GRUB's environment"
    done
    for esp in @ESPS@; do
        rm -f "$esp/@ESP_FOLDER@/grubenv" "$esp/loader/entries/@LOADER_ENTRY@"
        rmdir "$esp/@ESP_FOLDER@" 2>/dev/null || :
    done
    case $(trial_one_shot) in
        @ID@*) bootctl set-oneshot '' || left="systemd-boot's entry for the next boot" ;;
    esac
    # Where another step takes the file itself away, it may still be there, or be gone already.
    [ ! -e "@GRUB_SCRIPT@" ] || chmod a-x "@GRUB_SCRIPT@"
    for folder in @GRUB_FOLDERS@; do
        grep -qs -e "--id @ID@ " "$folder/grub.cfg" || continue
        prefix=${folder##*/}
        trial_menu "$folder" "$prefix" || left="the trial entry in $folder/grub.cfg"
    done
    trial_settle || :
    [ -n "$left" ] || return 0
    echo "what is left of a trial boot could not be taken away: $left" >&2
    return 1
}
"""

_ARM: Final = """\
(
trial_no() {
    echo "the trial boot cannot be ordered: $1" >&2
    exit 1
}
trial_end() {
    code=$?
    [ "$code" = 0 ] || trial_disarm || :
    exit "$code"
}
trap trial_end EXIT
rm -f @LOG@ @CONFIRMED@
@STEPS@
trial_settle || trial_no "/boot could not be written out"
)
"""


def _filled(text: str) -> str:
    for name, value in {
        "ID": ENTRY_ID,
        "LOG": LOG,
        "CONFIRMED": CONFIRMED,
        "ESPS": " ".join(ESPS),
        "ESP_FOLDER": ESP_FOLDER,
        "LOADER_ENTRY": LOADER_ENTRY,
        "ONE_SHOT": _ONE_SHOT,
        "GRUB_SCRIPT": GRUB_SCRIPT,
        "GRUB_FOLDERS": " ".join(GRUB_FOLDERS),
    }.items():
        text = text.replace(f"@{name}@", value)
    return text


# Nothing of ours is armed after it; owned files stay to whoever owns them.
DISARM: Final = f"{_filled(_TOOLS)}trial_disarm\n"


def step(command: str, why_not: str) -> str:
    """A step of `armed`. It also ends it where an error alone would not."""
    return f"{{ {command}\n}} || trial_no {shlex.quote(why_not)}"


def armed(*steps: str) -> str:
    return f"{_filled(_TOOLS)}{_filled(_ARM)}".replace("@STEPS@", "\n".join(steps))
