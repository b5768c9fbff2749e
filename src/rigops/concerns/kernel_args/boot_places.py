"""Where kernel arguments of every boot are configured, and the work that changes them there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field, replace
from typing import Final

from rigops.concerns.kernel_args.bootloader import grub, grub_menu
from rigops.concerns.kernel_args.bootloader.choice import Blocker, Configuration, configuration_of
from rigops.dataclass import dataclass
from rigops.ownership.file_work import Effect, replaced
from rigops.ownership.ownership import Ownership, WantedFile, digest
from rigops.plan.change import Change
from rigops.probe.boot_files import Files
from rigops.probe.sections.bootloader import Bootloader, MenuEntry
from rigops.probe.sections.rigops_state import Present, RigopsState
from rigops.record.kernel_arguments import Arguments

CONCERN: Final = "kernel_args"
COMMAND_LINE: Final = "kernel command line"


@dataclass(frozen=True)
class Part:
    """Declared owned files, other commands to run, and their lines in a plan."""

    wanted: Mapping[str, WantedFile] = field(default_factory=dict)
    contents: Mapping[str, bytes] = field(default_factory=dict)
    effects: Mapping[str, Effect] = field(default_factory=dict)
    more_effects: tuple[Effect, ...] = ()
    present: Mapping[str, Present | None] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()
    written: tuple[str, ...] = ()  # for the record: ours, in foreign files
    unsettled: tuple[str, ...] | None = None  # all that may be there while they are changed


def place_of(
    boot: Bootloader, owned: Ownership, state: RigopsState, record: Arguments
) -> BootPlace | Blocker:
    """`foreign`: the arguments of every normal boot that are not ours; `written`: ours that are.

    `having`: the change that makes exactly these part of every normal boot; CannotEditError.
    """
    configuration = configuration_of(boot)
    if isinstance(configuration, Blocker):
        return configuration
    if isinstance(configuration, grub.DropIns):
        earlier = Words(grub.Defaults(), boot.every_file, record, boot.menu)
        return DropIn(boot, owned, state, earlier)
    return Words(configuration, boot.every_file, record, boot.menu)


@dataclass(frozen=True)
class DropIn:
    """A file of rigops' own that GRUB's generator reads: Debian and its kin.

    `earlier`: GRUB's own file, where arguments stay that rigops wrote while GRUB read no other.
    """

    title = grub.DropIns.title

    boot: Bootloader
    owned: Ownership
    state: RigopsState
    earlier: Words

    @property
    def foreign(self) -> tuple[str, ...]:
        others = grub.foreign_arguments(self.boot.files)
        return tuple(one for one in others if one not in self.earlier.written)

    @property
    def written(self) -> tuple[str, ...]:
        return (*self.earlier.written, *drop_in_arguments(self.boot, self.owned, self.state))

    @property
    def present(self) -> Present | None:
        return _present(self.boot, self.state)

    def having(self, ours: tuple[str, ...]) -> Part:
        """Of the earlier ones those go that are not ours any more, or that a later file resets."""
        counting = grub.foreign_arguments(self.boot.files)
        stay = tuple(one for one in self.earlier.written if one in ours and one in counting)
        earlier = self.earlier.having(stay)
        own = self._own(tuple(one for one in ours if one not in stay))
        if not earlier.more_effects:
            return replace(own, written=stay)
        return replace(
            own,
            effects={grub.DROP_IN: Effect()} if own.wanted else own.effects,  # the menu comes last
            more_effects=earlier.more_effects,
            changes=(*earlier.changes, *own.changes),
            written=stay,
            unsettled=earlier.unsettled,
        )

    def _own(self, ours: tuple[str, ...]) -> Part:
        path, effect, found = grub.DROP_IN, Effect(grub.REGENERATE), self.present
        text = grub.drop_in(ours) if ours else ""
        aim = WantedFile(CONCERN, digest(text.encode()), grub.DROP_IN_MODE) if ours else None
        # An earlier run may have got no further than the file.
        is_late = _is_late(self.boot.menu, ours)
        differs = not (found and aim.is_in_place(found)) if aim else found is not None
        changes: tuple[Change, ...] = ()
        if is_late or (differs and (aim or path in self.owned.files)):
            changes = (Change(CONCERN, "file", path, self.boot.files.get(path), text or None),)
        return Part(
            present={path: found},
            wanted={path: aim} if aim else {},
            contents={path: text.encode()},
            effects={path: effect},
            more_effects=(effect,) if is_late else (),
            changes=changes,
        )


@dataclass(frozen=True)
class Words:
    """Arguments of ours in foreign files, or in those of a tool of the bootloader."""

    configuration: Configuration
    files: Files
    record: Arguments
    menu: tuple[MenuEntry, ...] | None

    @property
    def title(self) -> str:
        return self.configuration.title

    @property
    def foreign(self) -> tuple[str, ...]:
        return tuple(one for one in self._all if one not in self.record.written)

    @property
    def written(self) -> tuple[str, ...]:
        return tuple(one for one in self.record.written if one in self._all)

    def having(self, ours: tuple[str, ...]) -> Part:
        """The record is unsettled while files are changed, so that the next run completes it."""
        before = self.record.written
        add = tuple(one for one in ours if one not in self.written)
        remove = tuple(one for one in before if one not in ours and one in self._all)
        first = (self.menu or ())[:1]  # others may be of another system
        is_late = isinstance(self.configuration, grub.Defaults) and _is_late(first, ours)
        if not (add or remove or self.record.is_unsettled or is_late):
            return Part(written=ours)
        edits = self.configuration.edits(self.files, add=add, remove=remove)
        command = self.configuration.command(self.files, add=ours, remove=remove)
        texts = []
        for one in edits:
            there = None if one.before is None else digest(one.before.encode())
            texts.append(replaced(one.path, there, one.after))
        texts += filter(None, [command])
        changes = [Change(CONCERN, "file", one.path, one.before, one.after) for one in edits]
        line = " ".join(before) or None, " ".join(ours) or None
        return Part(
            more_effects=tuple(Effect(text) for text in texts),
            changes=tuple(changes) or (Change(CONCERN, "argument", COMMAND_LINE, *line),),
            written=ours,
            unsettled=tuple(dict.fromkeys((*before, *ours))),
        )

    @property
    def _all(self) -> tuple[str, ...]:
        return self.configuration.arguments(self.files)


BootPlace = DropIn | Words


def with_menu_of(others: Iterable[str], place: BootPlace, part: Part) -> Part:
    """Declared arguments that others wrote into GRUB's files after the menu was made of them."""
    menu = place.boot.menu if isinstance(place, DropIn) else place.menu
    is_made = isinstance(place, DropIn) or isinstance(place.configuration, grub.Defaults)
    late = [one for one in others if menu and is_made and one not in menu[0].arguments]
    if part.changes or not late:
        return part
    change = Change(CONCERN, "argument", COMMAND_LINE, None, " ".join(late))
    return replace(part, more_effects=(Effect(grub.REGENERATE),), changes=(change,))


def drop_in_arguments(boot: Bootloader, owned: Ownership, state: RigopsState) -> tuple[str, ...]:
    """None of a changed file: its content is not ours any more. GRUB may not read it any more."""
    record, found = owned.files.get(grub.DROP_IN), _present(boot, state)
    if record is None or found is None or not record.has_ours(found):
        return ()
    return grub.added_arguments(boot.every_file.get(grub.DROP_IN, ""))


def _present(boot: Bootloader, state: RigopsState) -> Present | None:
    found = state.present.get(grub.DROP_IN)
    text = boot.every_file.get(grub.DROP_IN)
    if found is not None or text is None:
        return found
    return Present(digest(text.encode()), grub.DROP_IN_MODE)


def _is_late(menu: Iterable[MenuEntry] | None, ours: Collection[str]) -> bool:
    """Whether the menu lacks some. Recovery entries have none of ours."""
    normal = [one for one in menu or () if not grub_menu.is_recovery(one.arguments)]
    return bool(ours) and not (normal and all(set(ours) <= set(one.arguments) for one in normal))
