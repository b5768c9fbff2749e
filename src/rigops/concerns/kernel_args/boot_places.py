"""Where kernel arguments stand for every boot to come, and the work that changes them there."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Protocol

from rigops.concerns.kernel_args.bootloader import grub
from rigops.concerns.kernel_args.bootloader.choice import Refused, configuration_of
from rigops.ownership import Present, WantedFile
from rigops.ownership.file_work import Effect, replaced, target
from rigops.plan.change import Change

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rigops.concerns.kernel_args.bootloader.choice import Configuration
    from rigops.concerns.kernel_args.bootloader.tokens import Edit
    from rigops.ownership import Ownership
    from rigops.probe.boot_files import Files
    from rigops.probe.sections.bootloader import Bootloader
    from rigops.probe.sections.rigops_state import RigopsState
    from rigops.record.kernel_arguments import Arguments

CONCERN: Final = "kernel_args"
COMMAND_LINE: Final = "kernel command line"


@dataclass(frozen=True)
class Part:
    """What is wanted of owned files, what else is to be run, and how a plan shows it."""

    wanted: Mapping[str, WantedFile] = field(default_factory=dict)
    contents: Mapping[str, bytes] = field(default_factory=dict)
    effects: Mapping[str, Effect] = field(default_factory=dict)
    anew: tuple[Effect, ...] = ()
    present: Mapping[str, Present | None] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()
    written: tuple[str, ...] = ()  # for the record: ours, in files of somebody else's
    unsettled: tuple[str, ...] | None = None  # and all that may be there while they are changed


class Place(Protocol):
    """May raise CannotEditError."""

    @property
    def title(self) -> str:
        """What a person calls the bootloader."""

    @property
    def foreign(self) -> tuple[str, ...]:
        """The arguments of every normal boot that are not ours."""

    @property
    def written(self) -> tuple[str, ...]:
        """The arguments of ours that stand there now."""

    def having(self, ours: tuple[str, ...]) -> Part:
        """What makes these, and no others of ours, part of every normal boot."""


def place_of(
    boot: Bootloader, owned: Ownership, state: RigopsState, record: Arguments
) -> Place | Refused:
    configuration = configuration_of(boot)
    if isinstance(configuration, Refused):
        return configuration
    if isinstance(configuration, grub.DropIns):
        return DropIn(boot, owned, state)
    return Words(configuration, boot.every_file, record)


@dataclass(frozen=True)
class DropIn:
    """A file of rigops' own that GRUB's generator reads: Debian and its kin."""

    title = grub.DropIns.title

    boot: Bootloader
    owned: Ownership
    state: RigopsState

    @property
    def foreign(self) -> tuple[str, ...]:
        return grub.foreign_arguments(self.boot.files)

    @property
    def written(self) -> tuple[str, ...]:
        """None of a file that somebody changed: what is in it is theirs now."""
        record, found = self.owned.files.get(grub.DROP_IN), self.present
        if record is None or found is None or not record.has_ours(found):
            return ()
        return grub.added_arguments(self.boot.files.get(grub.DROP_IN, ""))

    @property
    def present(self) -> Present | None:
        found = self.state.present.get(grub.DROP_IN)
        text = self.boot.files.get(grub.DROP_IN)
        if found is not None or text is None:
            return found
        return Present(sha256(text.encode()).hexdigest(), grub.DROP_IN_MODE)

    def having(self, ours: tuple[str, ...]) -> Part:
        effect = Effect(grub.REGENERATE)
        content = grub.drop_in(ours).encode() if ours else b""
        before = self.boot.files.get(grub.DROP_IN)
        # An earlier run may have got no further than the file.
        late = any(not _in_menu(self.boot, argument) for argument in ours)
        wanted = {}
        if content:
            digest = sha256(content).hexdigest()
            wanted[grub.DROP_IN] = WantedFile(CONCERN, digest, grub.DROP_IN_MODE)
        found, aim = self.present, wanted.get(grub.DROP_IN)
        is_there = (found.digest, found.mode) if found else None
        concerns_us = aim is not None or grub.DROP_IN in self.owned.files
        changes: tuple[Change, ...] = ()
        if late or (concerns_us and is_there != ((aim.digest, aim.mode) if aim else None)):
            changes = (Change(CONCERN, "file", grub.DROP_IN, before, content.decode() or None),)
        return Part(
            present={grub.DROP_IN: found},
            wanted=wanted,
            contents={grub.DROP_IN: content},
            effects={grub.DROP_IN: effect},
            anew=(effect,) if late else (),
            changes=changes,
        )


@dataclass(frozen=True)
class Words:
    """Words of ours in somebody else's files, or in what a tool of the bootloader's keeps."""

    configuration: Configuration
    files: Files
    record: Arguments

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
        """The record is unsettled while the files are changed, so that the next run ends it."""
        before = self.record.written
        add = tuple(one for one in ours if one not in self.written)
        remove = tuple(one for one in before if one not in ours and one in self._all)
        if not (add or remove or self.record.is_unsettled):
            return Part(written=ours)
        edits = self.configuration.edits(self.files, add=add, remove=remove)
        command = self.configuration.command(self.files, add=ours, remove=remove)
        steps = [_edited(one) for one in edits]
        texts = (*steps, *([command] if command else []))
        changes = [Change(CONCERN, "file", one.path, one.before, one.after) for one in edits]
        line = " ".join(before) or None, " ".join(ours) or None
        return Part(
            anew=tuple(Effect(text) for text in texts),
            changes=tuple(changes) or (Change(CONCERN, "argument", COMMAND_LINE, *line),),
            written=ours,
            unsettled=tuple(dict.fromkeys((*before, *ours))),
        )

    @property
    def _all(self) -> tuple[str, ...]:
        return self.configuration.arguments(self.files)


def _edited(one: Edit) -> str:
    digest = None if one.before is None else sha256(one.before.encode()).hexdigest()
    if one.after is None:
        return f'{target(one.path, digest)}\nrm -f "$at"'
    return replaced(one.path, digest, one.after)


def _in_menu(boot: Bootloader, argument: str) -> bool:
    """Whether every normal entry has it. Recovery entries stay as they are: a way back."""
    normal = [entry for entry in boot.menu or () if not _is_recovery(entry.arguments)]
    return bool(normal) and all(argument in entry.arguments for entry in normal)


def _is_recovery(arguments: tuple[str, ...]) -> bool:
    return not {"single", "recovery"}.isdisjoint(arguments)
