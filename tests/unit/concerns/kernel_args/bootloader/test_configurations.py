"""Each bootloader's files of a realistic machine: what they say, and how they are changed."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

import pytest

from rigops.concerns.kernel_args.bootloader.choice import Blocker, configuration_of
from rigops.concerns.kernel_args.bootloader.tokens import CannotEditError
from rigops.probe.boot_files import Files
from tests.unit import programs
from tests.unit.concerns.kernel_args.bootloader import machines

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from rigops.concerns.kernel_args.bootloader.choice import Configuration
    from rigops.concerns.kernel_args.bootloader.tokens import Edit
    from rigops.probe.sections.bootloader import Bootloader

OURS = ("iommu=pt", "pci=realloc=off")


def chosen(boots: Bootloader) -> Configuration:
    found = configuration_of(boots)
    assert not isinstance(found, Blocker), found.reason
    return found


def after(files: Files, edits: Iterable[Edit]) -> Files:
    texts = dict(files.texts)
    for one in edits:
        assert files.texts.get(one.path) == one.before
        texts.pop(one.path, None)
        if one.after is not None:
            texts[one.path] = one.after
    return Files(texts, files.inexact)


def told(edits: Iterable[Edit]) -> str:
    """As a diff, in which every byte can be seen."""
    lines: list[str] = []
    for one in edits:
        before = [f"{line!r}\n" for line in (one.before or "").splitlines(keepends=True)]
        changed = [f"{line!r}\n" for line in (one.after or "").splitlines(keepends=True)]
        old = one.path if one.before is not None else "/dev/null"
        new = one.path if one.after is not None else "/dev/null"
        lines += difflib.unified_diff(before, changed, old, new, n=0)
    return "".join(lines)


@machines.EACH
def test_the_bootloader_of_a_machine_and_its_arguments_are_known(name: str, tmp_path: Path) -> None:
    boots = machines.probed(name, tmp_path)
    known = machines.machine(name)

    found = chosen(boots)

    assert found.title == known.facts["title"]
    assert sorted(found.arguments(boots.texts)) == sorted(known.arguments)


@machines.EACH
def test_adding_is_what_was_seen_to_be_right(name: str, tmp_path: Path) -> None:
    boots = machines.probed(name, tmp_path)

    edits = chosen(boots).edits(boots.texts, add=OURS)

    assert told(edits) == (machines.FOLDER / name / "adding.diff").read_text()


@machines.EACH
def test_what_was_added_is_configured_and_taking_it_back_restores_every_byte(
    name: str, tmp_path: Path
) -> None:
    boots = machines.probed(name, tmp_path)
    found = chosen(boots)
    changed = after(boots.texts, found.edits(boots.texts, add=OURS))

    if name not in {"pop-os", "fedora", "el8"}:  # there a command changes the entries
        assert set(OURS) <= set(found.arguments(changed))
    assert found.edits(changed, add=OURS) == ()
    restored = dict(after(changed, found.edits(changed, remove=OURS)))
    if name == "debian-systemd-boot":  # the file stays: without it the running arguments would be
        assert (
            restored.pop("/etc/kernel/cmdline") == f"{' '.join(machines.machine(name).arguments)}\n"
        )
    assert restored == dict(boots.texts)


@pytest.mark.parametrize("name", ["arch-grub", "arch-uki", "fedora", "debian-systemd-boot-cmdline"])
def test_what_is_there_is_not_added_again(name: str, tmp_path: Path) -> None:
    boots = machines.probed(name, tmp_path)

    assert chosen(boots).edits(boots.texts, add=("quiet",)) == ()


@machines.EACH
@pytest.mark.parametrize("shell", programs.SHELLS)
def test_every_shell_answers_the_same(name: str, shell: str, tmp_path: Path) -> None:
    known = machines.machine(name)
    known.lay_out(tmp_path)

    assert known.ask(tmp_path, shell) == known.ask(tmp_path)


@machines.EACH
def test_what_to_do_by_hand_names_the_arguments(name: str, tmp_path: Path) -> None:
    text = chosen(machines.probed(name, tmp_path)).by_hand(OURS)

    assert " ".join(OURS) in text
    assert text.endswith("reboot")


def test_a_file_with_a_hidden_secret_is_read_and_not_written(tmp_path: Path) -> None:
    known = machines.machine("archinstall")
    known.lay_out(tmp_path)
    path = "/boot/loader/entries/lts.conf"
    file = tmp_path / path.lstrip("/")
    file.write_text(file.read_text().replace("rw ", "rw mount.password=abc "))
    boots = known.look(tmp_path)

    assert "abc" not in boots.texts[path]
    assert "zswap.enabled=0" in chosen(boots).arguments(boots.texts)
    with pytest.raises(CannotEditError, match=r"lts\.conf cannot be edited"):
        chosen(boots).edits(boots.texts, add=OURS)


def test_grubby_is_not_let_replace_somebody_elses_value(tmp_path: Path) -> None:
    boots = machines.probed("fedora", tmp_path)

    with pytest.raises(CannotEditError, match=r"rootflags=subvol=root, which grubby would replace"):
        chosen(boots).edits(boots.texts, add=("rootflags=degraded",))


def test_a_new_cmdline_never_takes_one_off_arguments_of_the_running_kernel(tmp_path: Path) -> None:
    boots = machines.probed("debian-systemd-boot", tmp_path)

    edits = {one.path: one.after for one in chosen(boots).edits(boots.texts, add=OURS)}

    assert "init=/bin/bash" in boots.texts["/proc/cmdline"]
    assert "init=/bin/bash" not in (edits["/etc/kernel/cmdline"] or "init=/bin/bash")


def test_a_new_cmdline_has_nothing_of_a_trial_boot(tmp_path: Path) -> None:
    known = machines.machine("arch-uki")
    known.lay_out(tmp_path)
    (tmp_path / "etc/kernel/cmdline").unlink()
    (tmp_path / "proc/cmdline").write_text(
        "initrd=\\a.img root=/dev/sda1 rw rigops.trial panic=10\n"
    )
    boots = known.look(tmp_path)

    (edit,) = chosen(boots).edits(boots.texts, add=OURS)

    assert edit.before is None
    assert edit.after == f"root=/dev/sda1 rw {' '.join(OURS)}\n"


@pytest.mark.parametrize("line", ['default_cmdline="/etc/x"', 'default_options="--no-cmdline"'])
def test_a_preset_that_takes_its_arguments_elsewhere_is_left_alone(
    line: str, tmp_path: Path
) -> None:
    known = machines.machine("arch-uki")
    known.lay_out(tmp_path)
    preset = tmp_path / "etc/mkinitcpio.d/linux.preset"
    preset.write_text(f"{preset.read_text()}{line}\n")
    boots = known.look(tmp_path)

    with pytest.raises(CannotEditError, match="another place"):
        chosen(boots).edits(boots.texts, add=OURS)
