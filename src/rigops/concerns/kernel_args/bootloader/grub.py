"""GRUB: with drop-ins as Debian and Ubuntu have it, or with /etc/default/grub alone, as on Arch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rigops.concerns.kernel_args.bootloader import shell
from rigops.concerns.kernel_args.bootloader.configuration import Edit, apart, edit
from rigops.concerns.kernel_args.bootloader.tokens import assigned
from rigops.probe import kernel_arguments as arguments

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rigops.concerns.kernel_args.bootloader.shell import Value
    from rigops.probe.boot_files import Files

DEFAULTS: Final = "/etc/default/grub"
DROP_INS: Final = "/etc/default/grub.d"
DROP_IN: Final = f"{DROP_INS}/99-rigops.cfg"
DROP_IN_MODE: Final = 0o644
FOR_EVERY_BOOT: Final = "GRUB_CMDLINE_LINUX"
FOR_NORMAL_BOOTS: Final = "GRUB_CMDLINE_LINUX_DEFAULT"

# grub-mkconfig writes into grub.cfg itself; a crash there leaves half a menu. This one is made
# aside and checked before it takes the place of the old one. GRUB replays no journal: a freeze of a
# separate /boot writes out what would only be in that.
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


class DropIns:
    """A file of our own, owned whole, that grub-mkconfig reads after all others."""

    title: Final = "GRUB"

    def arguments(self, files: Files) -> tuple[str, ...]:
        return arguments.split(_line(_read(files)))

    def edits(
        self, files: Files, *, add: Iterable[str] = (), remove: Iterable[str] = ()
    ) -> tuple[Edit, ...]:
        before = files.get(DROP_IN)
        gone = frozenset(remove)
        ours = [one for one in added_arguments(before or "") if one not in gone]
        ours = list(dict.fromkeys((*ours, *add)))
        after = drop_in(ours) if ours else None
        return (Edit(DROP_IN, before, after),) if after != before else ()

    def command(self, files: Files, *, add: Iterable[str] = (), remove: Iterable[str] = ()) -> str:
        del files, add, remove
        return REGENERATE

    def by_hand(self, wanted: Iterable[str]) -> str:
        return (
            f"add {' '.join(wanted)} to {FOR_NORMAL_BOOTS} in {DEFAULTS}, run `update-grub` and "
            "reboot"
        )


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
    """What our drop-in adds to whatever was there before."""
    values: dict[str, str] = {}
    source(drop_in_text, values)
    return arguments.split(_line(values))


def source(text: str, values: dict[str, str]) -> None:
    """The assignments of a shell file, in order. What a program computes is not known."""
    for one in shell.read(text).assignments:
        before = values.get(one.name, "") if one.appends else ""
        values[one.name] = before + _known(one.value, values)


def _read(files: Mapping[str, str]) -> dict[str, str]:
    """As grub-mkconfig reads them."""
    values: dict[str, str] = {}
    ours = [path for path in files if path == DEFAULTS or _is_drop_in(path)]
    for path in sorted(ours, key=lambda path: (path != DEFAULTS, path)):
        source(files[path], values)
    return values


def _is_drop_in(path: str) -> bool:
    return path.rpartition("/")[0] == DROP_INS and path.endswith(".cfg")


def _line(values: Mapping[str, str]) -> str:
    return " ".join(values.get(one, "") for one in (FOR_EVERY_BOOT, FOR_NORMAL_BOOTS))


def _known(value: Value, values: Mapping[str, str]) -> str:
    return "".join(
        values.get(unit.reference, "") if unit.reference else unit.letter for unit in value.units
    )


class Defaults:
    title: Final = "GRUB without drop-ins"

    def arguments(self, files: Files) -> tuple[str, ...]:
        return foreign_arguments(_defaults(files))

    def edits(
        self, files: Files, *, add: Iterable[str] = (), remove: Iterable[str] = ()
    ) -> tuple[Edit, ...]:
        return edit(
            files,
            DEFAULTS,
            assigned(FOR_NORMAL_BOOTS),
            f'{FOR_NORMAL_BOOTS}=""',
            add=add,
            remove=remove,
        )

    def command(self, files: Files, *, add: Iterable[str] = (), remove: Iterable[str] = ()) -> str:
        del files, add, remove
        return REGENERATE

    def by_hand(self, wanted: Iterable[str]) -> str:
        return (
            f"add {' '.join(wanted)} to {FOR_NORMAL_BOOTS} in {DEFAULTS}, run "
            "`grub-mkconfig -o /boot/grub/cfg` (where it is called so, `grub2-mkconfig -o "
            "/boot/grub2/cfg`) and reboot"
        )


def _defaults(files: Files) -> dict[str, str]:
    return {DEFAULTS: files[DEFAULTS]} if DEFAULTS in files else {}
