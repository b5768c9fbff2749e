"""Common parts of trial boots: files, the sh that arms and disarms them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Final

from rigops.concerns.kernel_args.bootloader.entries import ENTRY_ID
from rigops.concerns.kernel_args.trial_boot.conditions import ESPS, GRUB_FOLDERS, LOADER_VENDOR
from rigops.dataclass import dataclass
from rigops.hostside.packing import MODE, installed_at, pack
from rigops.record.trial_boot import CONFIRMED, LOG
from rigops.rendering import render

PROGRAM: Final = installed_at("trial")
UNIT: Final = f"{ENTRY_ID}.service"
UNIT_FILE: Final = f"/etc/systemd/system/{UNIT}"
HEADER: Final = "# Made by rigops for one trial boot, and taken away after it."

_RETRY_S: Final = 10
GRUB_SCRIPT: Final = f"/etc/grub.d/42_{ENTRY_ID}"  # after 10_linux, whose functions it calls
ESP_FOLDER: Final = "rigops"
ESP_VARIABLE: Final = "rigops_next"
LOADER_ENTRY: Final = f"{ENTRY_ID}.conf"


_TOOLS: Final = """\
# GRUB replays no journal: what is only in that of /boot would not be there for it. A freeze writes
# all of it out.
trial_settle() {
    sync
    case $(findmnt -n -o FSTYPE --mountpoint /boot 2>/dev/null | tail -n 1) in
        ext* | xfs) fsfreeze -f /boot && fsfreeze -u /boot ;;
    esac
}
trial_menu() { # FOLDER PREFIX: a new grub.cfg beside the old one, checked before it counts
    menu=$1/grub.cfg.rigops-new
    if output=$("$2-mkconfig" -o "$menu" 2>&1) && output=$("$2-script-check" "$menu" 2>&1) &&
        sync "$menu" && mv -f "$menu" "$1/grub.cfg"; then
        return
    fi
    rm -f "$menu" "$menu.new"
    echo "$output" >&2
    return 1
}
trial_one_shot() { # the entry that systemd-boot starts once
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
    # Where another step removes the file itself, it may still be there, or be gone already.
    [ ! -e "@GRUB_SCRIPT@" ] || chmod a-x "@GRUB_SCRIPT@"
    for folder in @GRUB_FOLDERS@; do
        grep -qs -e "--id @ID@ " "$folder/grub.cfg" || continue
        prefix=${folder##*/}
        trial_menu "$folder" "$prefix" || left="the trial entry in $folder/grub.cfg"
    done
    trial_settle || :
    [ -n "$left" ] || return 0
    echo "what is left of a trial boot could not be removed: $left" >&2
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


@dataclass(frozen=True)
class TrialFile:
    content: bytes
    mode: int = 0o644


@dataclass(frozen=True)
class Trial:
    """`arm` is sh. Files are rigops' own, and there before `arm` runs.

    `extra_wait_s`: what the bootloader's menus take, in the trial boot and in the one after it.
    """

    files: Mapping[str, TrialFile]
    arm: str
    notices: tuple[str, ...] = ()
    extra_wait_s: int = 0


@dataclass(frozen=True)
class NoTrial:
    """`reason`: why this machine cannot try arguments by one boot, as a clause."""

    reason: str


def watching(deadline_s: int) -> dict[str, TrialFile]:
    """The program and unit that end a trial boot without a confirmation."""
    unit = render(
        f"{UNIT}.j2",
        header=HEADER,
        program=PROGRAM,
        deadline_s=deadline_s,
        retry_s=_RETRY_S,
        tries=max(1, deadline_s // _RETRY_S),
    )
    return {
        PROGRAM: TrialFile(pack("trial").text.encode(), MODE),
        UNIT_FILE: TrialFile(unit.encode()),
    }


def _filled(text: str) -> str:
    for name, value in {
        "ID": ENTRY_ID,
        "LOG": LOG,
        "CONFIRMED": CONFIRMED,
        "ESPS": " ".join(ESPS),
        "ESP_FOLDER": ESP_FOLDER,
        "LOADER_ENTRY": LOADER_ENTRY,
        "ONE_SHOT": f"/sys/firmware/efi/efivars/LoaderEntryOneShot-{LOADER_VENDOR}",
        "GRUB_SCRIPT": GRUB_SCRIPT,
        "GRUB_FOLDERS": " ".join(GRUB_FOLDERS),
    }.items():
        text = text.replace(f"@{name}@", value)
    return text


# Ends the order for one boot. Owned files are not removed by it.
DISARM: Final = f"{_filled(_TOOLS)}trial_disarm\n"


def step(command: str, why_not: str) -> str:
    """A step of `armed`. It also ends it where an error alone would not."""
    return f"{{ {command}\n}} || trial_no {shlex.quote(why_not)}"


def armed(*steps: str) -> str:
    return f"{_filled(_TOOLS)}{_filled(_ARM)}".replace("@STEPS@", "\n".join(steps))
