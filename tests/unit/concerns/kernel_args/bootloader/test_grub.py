from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.concerns.kernel_args.bootloader import grub
from rigops.probe.kernel_arguments import against, split

if TYPE_CHECKING:
    from pathlib import Path

words = st.text("abc=.,", min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        ("quiet splash", ("quiet", "splash")),
        ("  root=UUID=1  ro\tquiet\n", ("root=UUID=1", "ro", "quiet")),
        ('dyndbg="file a.c +p" quiet', ('dyndbg="file a.c +p"', "quiet")),
        ("", ()),
    ],
)
def test_a_command_line_is_split_as_the_kernel_does(line: str, arguments: tuple[str, ...]) -> None:
    assert split(line) == arguments


@pytest.mark.parametrize(
    "text",
    [
        'GRUB_CMDLINE_LINUX_DEFAULT="quiet splash"\n',
        "GRUB_CMDLINE_LINUX_DEFAULT='quiet splash'\n",
        "GRUB_CMDLINE_LINUX_DEFAULT=quiet\\ splash # a comment\n",
        '#GRUB_CMDLINE_LINUX="no"\nGRUB_CMDLINE_LINUX=quiet\nGRUB_CMDLINE_LINUX_DEFAULT=splash\n',
        'GRUB_CMDLINE_LINUX_DEFAULT="quiet \\\nsplash"\n',
        'X=splash\nexport GRUB_CMDLINE_LINUX_DEFAULT="quiet ${X}"\n',
        'GRUB_CMDLINE_LINUX_DEFAULT=no\nGRUB_CMDLINE_LINUX_DEFAULT="quiet splash"\n',
    ],
)
def test_the_defaults_are_read_as_the_shell_reads_them(text: str) -> None:
    assert grub.foreign_arguments({grub.DEFAULTS: text}) == ("quiet", "splash")
    assert _as_sh_reads_it(text) == ["quiet", "splash"]


def test_drop_ins_follow_the_defaults_in_the_order_of_their_names_and_ours_is_left_out() -> None:
    files = {
        "/etc/default/grub.d/50-cloud.cfg": 'GRUB_CMDLINE_LINUX_DEFAULT="console=ttyS0"\n',
        "/etc/default/grub.d/60-more.cfg": (
            'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT more"\n'
        ),
        grub.DROP_IN: grub.drop_in(["iommu=pt"]),
        grub.DEFAULTS: 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\n',
    }

    assert grub.foreign_arguments(files) == ("console=ttyS0", "more")


def test_what_somebody_else_has_already_is_not_ours() -> None:
    split = against(["iommu=pt", "quiet", "pci=realloc"], ["quiet", "iommu=off", "ro"])

    assert split.ours == ("iommu=pt", "pci=realloc")
    assert split.present == ("quiet",)
    assert split.conflicts == ("iommu=off",)


def test_our_drop_in_adds_to_whatever_was_there(tmp_path: Path) -> None:
    drop_in = tmp_path / "ours.cfg"
    drop_in.write_text(grub.drop_in(["iommu=pt", "pci=realloc"]))
    script = f'GRUB_CMDLINE_LINUX_DEFAULT="quiet"; . {drop_in}; echo "$GRUB_CMDLINE_LINUX_DEFAULT"'

    read = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)

    assert read.stdout.split() == ["quiet", "iommu=pt", "pci=realloc"]


@given(st.lists(words), st.lists(words))
def test_every_declared_argument_is_either_ours_or_present(
    declared: list[str], foreign: list[str]
) -> None:
    found = against(declared, foreign)

    assert {*found.ours, *found.present} == set(declared)
    assert not set(found.ours) & set(foreign)
    assert set(found.conflicts) <= set(foreign)


@given(st.text())
def test_no_file_of_any_kind_escapes_as_an_exception(text: str) -> None:
    grub.foreign_arguments({grub.DEFAULTS: text})


def _as_sh_reads_it(text: str) -> list[str]:
    script = text + '\necho "$GRUB_CMDLINE_LINUX $GRUB_CMDLINE_LINUX_DEFAULT"'
    read = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    return read.stdout.split()
