from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.concerns.preconditions.root import (
    PYTHON,
    SECTION,
    RootFacts,
    parse,
    plain_notice,
    root_snapshot,
)
from tests.unit.probe.asking import ask
from tests.unit.programs import SHELLS

if TYPE_CHECKING:
    from pathlib import Path

BTRFS = "/dev/nvme0n1p2 / btrfs rw,relatime,subvol=/@ 0 0\n"
EXT4 = "/dev/sda1 / ext4 rw,relatime 0 0\n"
SNAPPER = '== /etc/snapper/configs/root\nSUBVOLUME="/"\n'


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (BTRFS, "`rigops apply` does"),
        (BTRFS + SNAPPER, "`snapper -c root create -d 'before rigops'`"),
        ("rootfs / rootfs rw 0 0\n" + BTRFS, "takes no snapshot"),
    ],
)
def test_a_btrfs_root_without_a_snapshot_is_told_with_who_manages_it(said: str, words: str) -> None:
    assert words in plain_notice(parse(f"== /proc/self/mounts\n{said}"))


@pytest.mark.parametrize("said", [EXT4, EXT4 + SNAPPER, "", BTRFS + EXT4])
def test_where_none_could_be_taken_nothing_is_told(said: str) -> None:
    assert plain_notice(parse(f"== /proc/self/mounts\n{said}")) == ""


def test_a_snapper_of_another_subvolume_does_not_manage_the_root() -> None:
    said = BTRFS + '== /etc/snapper/configs/home\nSUBVOLUME="/home"\n'

    assert "snapper" not in plain_notice(parse(f"== /proc/self/mounts\n{said}"))


def test_nothing_that_a_host_may_say_raises() -> None:
    assert parse("\x00== \n/ / /") == RootFacts()
    assert parse("== /proc/self/mounts\nwhat is this") == RootFacts()


@pytest.mark.parametrize("shell", SHELLS)
def test_the_section_sees_the_root_and_snappers_configurations(shell: str, tmp_path: Path) -> None:
    configs = tmp_path / "etc/snapper/configs"
    configs.mkdir(parents=True)
    (configs / "home").write_text('# mine\nSUBVOLUME="/home"\n')
    (configs / "system").write_text('FSTYPE="btrfs"\nSUBVOLUME="/"\nALLOW_USERS="me"\n')

    answer = ask(SECTION, shell, tmp_path)

    found = parse(answer.text)
    assert answer.is_complete
    assert found.snapper == "system"
    assert found.file_system
    assert "ALLOW_USERS" not in answer.text


@pytest.mark.parametrize("shell", SHELLS)
def test_a_host_without_snapper_is_answered_in_whole(shell: str, tmp_path: Path) -> None:
    answer = ask(SECTION, shell, tmp_path)

    assert answer.is_complete
    assert parse(answer.text).snapper is None


@pytest.mark.parametrize(
    ("root", "line", "lacks"),
    [
        (RootFacts(file_system="ext4", tools=frozenset({"btrfs", PYTHON})), "", ""),
        (RootFacts(), "", ""),
        (
            RootFacts(file_system="btrfs", tools=frozenset({"btrfs", PYTHON})),
            "a snapshot of / is taken first",
            "",
        ),
        (
            RootFacts(file_system="btrfs", snapper="root", tools=frozenset({"btrfs", "snapper"})),
            "snapper (root) takes a snapshot of / first",
            "",
        ),
        (  # what is left of a snapper that was removed
            RootFacts(file_system="btrfs", snapper="root", tools=frozenset({"btrfs", PYTHON})),
            "a snapshot of / is taken first",
            "",
        ),
        (RootFacts(file_system="btrfs"), "", "no btrfs and no python3 from 3.8"),
        (RootFacts(file_system="btrfs", tools=frozenset({"btrfs"})), "", "has no python3"),
    ],
)
def test_a_btrfs_root_has_a_snapshot_taken_by_who_can(
    root: RootFacts, line: str, lacks: str
) -> None:
    found = root_snapshot(root)

    assert found.line.startswith(line)
    assert bool(found.line) == bool(line)
    assert lacks in found.lacks
    assert bool(found.lacks) == bool(lacks)
