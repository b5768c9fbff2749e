"""GRUB: with drop-ins (Debian, Ubuntu), /etc/default/grub alone (Arch), or BLS entries (Fedora)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Final

from rigops.concerns.kernel_args.bootloader import entries, shell, tokens
from rigops.concerns.kernel_args.bootloader.shell import apart
from rigops.concerns.kernel_args.bootloader.tokens import ByHand, CannotEditError, Edit, Words, edit
from rigops.probe import kernel_arguments as arguments
from rigops.probe.boot_files import GRUB_ENVIRONMENTS, KERNEL_CMDLINE, Files
from rigops.probe.kernel_arguments import name

DEFAULTS: Final = "/etc/default/grub"
DROP_INS: Final = "/etc/default/grub.d"
DROP_IN: Final = f"{DROP_INS}/99-rigops.cfg"
DROP_IN_MODE: Final = 0o644
FOR_EVERY_BOOT: Final = "GRUB_CMDLINE_LINUX"
FOR_NORMAL_BOOTS: Final = "GRUB_CMDLINE_LINUX_DEFAULT"

# grub-mkconfig writes into grub.cfg itself; a crash there leaves half a menu. This one is made
# aside and checked before it takes the place of the old one. GRUB replays no journal: a freeze of a
# separate /boot writes out what is only in the journal.
REGENERATE: Final = apart(
    """\
grub=grub; command -v grub-mkconfig >/dev/null || grub=grub2
folder=/boot/grub
[ -e "$folder/grub.cfg" ] || [ ! -e /boot/grub2/grub.cfg ] || folder=/boot/grub2
size=0; [ ! -e "$folder/grub.cfg" ] || size=$(wc -c <"$folder/grub.cfg")
room "$folder" $((3 * size / 1024 + 64))
new=$folder/grub.cfg.rigops-new
trap 'rm -f "$new" "$new.new"' EXIT  # grub-mkconfig's own is the second
"$grub-mkconfig" -o "$new"
"$grub-script-check" "$new"
sync "$new"
mv -f "$new" "$folder/grub.cfg"
sync "$folder"
case $(findmnt -n -o FSTYPE --mountpoint /boot 2>/dev/null | tail -n 1) in
    ext* | xfs) if fsfreeze -f /boot; then fsfreeze -u /boot; fi ;;
esac
""",
    needs_room=True,
)

_VARIABLE: Final = re.compile(r"^([A-Za-z_][A-Za-z0-9_]*)=(.*)$", re.MULTILINE)
# Some versions of grubby make another kernel the default on the way.
_GRUBBY: Final = """\
room /boot 1024
own=; ! grubby --help 2>&1 | grep -q -e --no-etc-grub-update || own=--no-etc-grub-update
default=$(grubby --default-kernel)
{calls}
[ "$(grubby --default-kernel)" = "$default" ] || grubby --set-default="$default"
sync /boot
"""


class DropIns(ByHand):
    """A file of our own, owned whole, that grub-mkconfig reads after all others."""

    title: Final = "GRUB"
    how = f"add {{}} to {FOR_NORMAL_BOOTS} in {DEFAULTS}, run `update-grub` and reboot"

    def arguments(self, files: Files) -> tuple[str, ...]:
        return arguments.split(_line(_read(files)))

    def edits(self, files: Files, *, add: Words = (), remove: Words = ()) -> tuple[Edit, ...]:
        before = files.get(DROP_IN)
        ours = [one for one in added_arguments(before or "") if one not in remove]
        after = drop_in(dict.fromkeys((*ours, *add))) if ours or add else None
        return (Edit(DROP_IN, before, after),) if after != before else ()

    def command(self, files: Files, *, add: Words = (), remove: Words = ()) -> str:
        del files, add, remove
        return REGENERATE


def foreign_arguments(files: Mapping[str, str]) -> tuple[str, ...]:
    """The arguments of every normal boot that come from files other than ours."""
    return arguments.split(
        _line(_read({path: text for path, text in files.items() if path != DROP_IN}))
    )


def drop_in(wanted: Iterable[str]) -> str:
    words = " ".join(wanted)
    return (
        "# Made by rigops from kernel_args in the inventory; made anew, never edited.\n"
        f'{FOR_NORMAL_BOOTS}="${FOR_NORMAL_BOOTS} {words}"\n'
    )


def added_arguments(drop_in_text: str) -> tuple[str, ...]:
    """Our drop-in's addition to the line before it."""
    values: dict[str, str] = {}
    source(drop_in_text, values)
    return arguments.split(_line(values))


def source(text: str, values: dict[str, str]) -> None:
    """The assignments of a shell file, in order. Computed values are not known."""
    for one in shell.read(text).assignments:
        before = values.get(one.name, "") if one.appends else ""
        known = (unit.letter or values.get(unit.reference, "") for unit in one.value.units)
        values[one.name] = before + "".join(known)


def _read(files: Mapping[str, str]) -> dict[str, str]:
    """As grub-mkconfig reads them."""
    values: dict[str, str] = {}
    for path in sorted(files, key=lambda path: (path != DEFAULTS, path)):
        if path == DEFAULTS or (path.rpartition("/")[0] == DROP_INS and path.endswith(".cfg")):
            source(files[path], values)
    return values


def _line(values: Mapping[str, str]) -> str:
    return " ".join(values.get(one, "") for one in (FOR_EVERY_BOOT, FOR_NORMAL_BOOTS))


class Defaults(ByHand):
    title: Final = "GRUB without drop-ins"
    how = (
        f"add {{}} to {FOR_NORMAL_BOOTS} in {DEFAULTS}, run `grub-mkconfig -o /boot/grub/cfg` "
        "(where it is called so, `grub2-mkconfig -o /boot/grub2/cfg`) and reboot"
    )

    def arguments(self, files: Files) -> tuple[str, ...]:
        return foreign_arguments({DEFAULTS: files.get(DEFAULTS, "")})

    def edits(self, files: Files, *, add: Words = (), remove: Words = ()) -> tuple[Edit, ...]:
        variable, line = tokens.assigned(FOR_NORMAL_BOOTS), f'{FOR_NORMAL_BOOTS}=""'
        return edit(files, DEFAULTS, variable, line, add=add, remove=remove)

    def command(self, files: Files, *, add: Words = (), remove: Words = ()) -> str:
        del files, add, remove
        return REGENERATE


class Bls(ByHand):
    """Fedora and its kin: a file for each entry, changed through grubby."""

    title: Final = "GRUB with BLS entries"
    how = 'run `grubby --update-kernel=ALL --args="{}"` and reboot'

    def arguments(self, files: Files) -> tuple[str, ...]:
        found = entries.normal(files)
        if not found:
            return foreign_arguments(files)
        return entries.common_arguments(found, _variables(files))

    def edits(self, files: Files, *, add: Words = (), remove: Words = ()) -> tuple[Edit, ...]:
        """The source for kernels to come: grubby's command is for the present ones."""
        _refuse_to_replace(files, add)
        found: list[Edit] = []
        if DEFAULTS in files:
            variable, line = tokens.assigned(FOR_EVERY_BOOT), f'{FOR_EVERY_BOOT}=""'
            found += edit(files, DEFAULTS, variable, line, add=add, remove=remove)
        if KERNEL_CMDLINE in files:
            found += edit(files, KERNEL_CMDLINE, tokens.bare, add=add, remove=remove)
        return tuple(found)

    def command(self, files: Files, *, add: Words = (), remove: Words = ()) -> str:
        del files
        calls = "\n".join(
            f"grubby --update-kernel=ALL {shlex.quote(f'--{option}={words}')} $own"
            for option, words in (("remove-args", " ".join(remove)), ("args", " ".join(add)))
            if words
        )
        return apart(_GRUBBY.format(calls=calls), needs_room=True) if calls else ""


def _variables(files: Files) -> dict[str, str]:
    """GRUB's own, of which older releases have the arguments of all entries in one."""
    text = next((files[path] for path in GRUB_ENVIRONMENTS if path in files), "")
    return dict(_VARIABLE.findall(text))


def _refuse_to_replace(files: Files, wanted: Words) -> None:
    """Grubby puts NAME=VALUE in the place of any other value of that name."""
    values = {name(one): one for one in wanted if "=" in one}
    for entry in entries.normal(files):
        for there in entry.arguments(_variables(files)):
            new = values.get(name(there), there)
            if new != there:
                reason = f"it has {there}, which grubby would replace by {new}: take it out first"
                raise CannotEditError(reason, entry.path)
