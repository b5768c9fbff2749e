"""Who else writes on the kernel line: named with file and line, and with which word counts."""

from __future__ import annotations

import pytest

from rigops.concerns.kernel_args import kernel_line
from rigops.concerns.kernel_args.bootloader import grub

CLOUD = "/etc/default/grub.d/50-cloudimg-settings.cfg"
RESET = '# Cloud Image specific\nGRUB_TIMEOUT=0\nGRUB_CMDLINE_LINUX_DEFAULT="console=ttyS0"\n'


def defaults(line: str, *, variable: str = "GRUB_CMDLINE_LINUX_DEFAULT") -> dict[str, str]:
    return {grub.DEFAULTS: f'GRUB_DEFAULT=0\n# iommu=soft\n{variable}="quiet {line}"\n'}


def test_a_users_own_translation_is_named_and_outdone() -> None:
    (text,) = kernel_line.conflicts(["iommu=pt"], defaults("iommu=nopt"))

    assert "iommu=nopt is configured too (/etc/default/grub, line 3)" in text
    assert "the last on its line, here iommu=pt" in text


def test_a_later_file_has_the_last_word() -> None:
    later = {
        "/etc/default/grub.d/zz-mine.cfg": (
            '# mine\nGRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT iommu.passthrough=0"\n'
        )
    }
    (text,) = kernel_line.conflicts(["iommu=pt"], {**defaults("splash"), **later})

    assert "(/etc/default/grub.d/zz-mine.cfg, line 2)" in text
    assert "here iommu.passthrough=0" in text


@pytest.mark.parametrize("off", ["iommu=off", "intel_iommu=off", "amd_iommu=off"])
def test_an_iommu_that_is_off_leaves_passthrough_nothing_to_do(off: str) -> None:
    (text,) = kernel_line.conflicts(["iommu=pt"], defaults(off, variable="GRUB_CMDLINE_LINUX"))

    assert off in text
    assert "iommu=pt does nothing" in text


def test_of_intels_on_and_off_the_last_counts() -> None:
    (text,) = kernel_line.conflicts(["intel_iommu=on"], defaults("intel_iommu=off"))

    assert "here intel_iommu=on" in text


def test_words_that_both_count_are_told_as_that() -> None:
    (text,) = kernel_line.conflicts(["iommu=pt"], defaults("iommu=soft"))

    assert "reads both" in text


def test_of_an_argument_that_nobody_documented_no_winner_is_promised() -> None:
    (text,) = kernel_line.conflicts(["panic=10"], defaults("panic=30"))

    assert "panic=30" in text
    assert "is not known" in text


@pytest.mark.parametrize(
    ("wanted", "line"),
    [("iommu=pt", "iommu=pt"), ("iommu=pt", "splash"), ("console=ttyS0", "console=tty0")],
)
def test_the_same_word_and_words_that_add_up_are_no_conflict(wanted: str, line: str) -> None:
    assert kernel_line.conflicts([wanted], defaults(line)) == ()


def test_what_a_comment_or_our_own_file_says_is_no_conflict() -> None:
    files = {**defaults("splash"), grub.DROP_IN: grub.drop_in(["iommu=nopt"])}

    assert kernel_line.conflicts(["iommu=pt"], files) == ()


def test_a_cloud_image_that_sets_the_variable_anew_is_named() -> None:
    files = {**defaults("iommu=off"), CLOUD: RESET}
    (text,) = kernel_line.conflicts(["iommu=pt"], files)

    assert f"{CLOUD}, line 3, overwrites GRUB_CMDLINE_LINUX_DEFAULT" in text
    assert "(quiet iommu=off) does not count" in text
    assert kernel_line.blockers(["iommu=pt"], files) == ()


def test_a_file_that_adds_is_no_reset() -> None:
    adds = 'GRUB_CMDLINE_LINUX_DEFAULT="${GRUB_CMDLINE_LINUX_DEFAULT} splash"\n'

    assert kernel_line.conflicts(["iommu=pt"], {**defaults(""), CLOUD: adds}) == ()
    assert kernel_line.blockers(["iommu=pt"], {"/etc/default/grub.d/zz.cfg": adds}) == ()


def test_a_later_reset_would_lose_our_arguments() -> None:
    files = {**defaults(""), "/etc/default/grub.d/zz.cfg": RESET}
    (text,) = kernel_line.blockers(["iommu=pt"], files)

    assert "/etc/default/grub.d/zz.cfg, line 3" in text
    assert "iommu=pt would be lost" in text
    assert "$GRUB_CMDLINE_LINUX_DEFAULT" in text
    assert kernel_line.blockers([], files) == ()


@pytest.mark.parametrize("file", [None, "", 'TUNED_BOOT_CMDLINE=""\n', "# nothing\n"])
def test_a_tuned_without_arguments_of_its_own_is_not_spoken_of(file: str | None) -> None:
    assert kernel_line.tuned_arguments(file, ["iommu=pt"]) == ""


def test_arguments_that_tuned_adds_are_told() -> None:
    file = '# tuned\nTUNED_BOOT_CMDLINE="isolcpus=2,3 skew_tick=1"\nTUNED_BOOT_INITRD_ADD=""\n'

    text = kernel_line.tuned_arguments(file, ["iommu=pt"])
    assert "isolcpus=2,3 skew_tick=1" in text
    assert "tuned-adm" not in text


def test_an_argument_of_tuneds_against_one_of_ours_is_named_with_the_way_out() -> None:
    text = kernel_line.tuned_arguments(
        'TUNED_BOOT_CMDLINE="iommu=off quiet"\n', ["iommu=pt", "pci=realloc"]
    )

    assert "iommu=pt and iommu=off" in text
    assert "`tuned-adm off`" in text
    assert "pci=realloc" not in text
