"""The message of a driver that refuses a card, in the layouts of public reports.

NixOS/nixos-hardware#1880 and #1828, NVIDIA/open-gpu-kernel-modules#696, and forum threads of 2007
to 2026 that were found by the text of the message.
"""

from __future__ import annotations

import pytest

from rigops.probe.kernel_log.parser import parse

PASCAL = """\
[Sun May 17 15:55:50 2026] NVRM: The NVIDIA NVIDIA GeForce GTX 1050 GPU installed in this system is
                           NVRM:  supported through the NVIDIA 580.xx Legacy drivers. Please
                           NVRM:  visit http://www.nvidia.com/object/unix.html for more
                           NVRM:  information.  The 595.71.05 NVIDIA driver will ignore
                           NVRM:  this GPU.  Continuing probe...
[Sun May 17 15:55:50 2026] NVRM: No NVIDIA GPU found.
"""
CUT_BY_A_PAGER = PASCAL.replace("in this system is", "in this system>").replace(
    "[Sun May 17 15:55:50 2026]", "Apr 13 16:41:14 nixos kernel:"
)
NO_VISIT = """\
[   21.262523] NVRM: The NVIDIA NVS 5200M GPU installed in this system is
               NVRM:  supported through the NVIDIA 390.xx Legacy drivers.
               NVRM:  The 460.73.01 NVIDIA driver will ignore
               NVRM:  this GPU.  Continuing probe...
"""
STAMPED = """\
[   11.737433] NVRM: The NVIDIA GeForce FX 5200 GPU installed in this system
   is
[   11.737435] NVRM:  supported through the NVIDIA 173.14.xx Legacy drivers. Please
[   11.737437] NVRM:  visit http://www.nvidia.com/object/unix.html for more
[   11.737438] NVRM:  information.  The 180.44 NVIDIA driver will ignore
[   11.737440] NVRM:  this GPU.  Continuing probe...
"""
ONE_LINE = (
    "kernel: NVRM: The NVIDIA GPU 0000:0a:00.0 (PCI ID: 10de:1DB1) installed in this system is "
    "supported by the NVIDIA 580.xx Legacy drivers. Please visit "
    "http://www.nvidia.com/object/unix.html for more information. The 590.48.01 NVIDIA driver "
    "will ignore this GPU. Continuing probe...\n"
)
RSYSLOG = (
    "Jun  1 07:00:00 rig kernel: NVRM: The NVIDIA Tesla K80 GPU installed in this system is#012"
    "NVRM:  supported through the NVIDIA 470.xx Legacy drivers. Please#012NVRM:  visit "
    "http://www.nvidia.com/object/unix.html for more#012NVRM:  information.  The 535.54.03 "
    "NVIDIA driver will ignore#012NVRM:  this GPU.  Continuing probe...\n"
)
OPEN = """\
[    4.0] NVRM: The NVIDIA GPU 0000:02:00.0 (PCI ID: 10de:1b82)
          NVRM: installed in this system is not supported by open
          NVRM: nvidia.ko because it does not include the required GPU
          NVRM: System Processor (GSP).
          NVRM: Please see the 'Open Linux Kernel Modules' and 'GSP
"""
CLOSED = """\
[    5.559842] NVRM: The NVIDIA GPU 0000:02:00.0 (PCI ID: 10de:2c58)
               NVRM: installed in this system requires use of the NVIDIA open kernel modules.
[    5.559858] NVRM: GPU 0000:02:00.0: RmInitAdapter failed! (0x22:0x56:884)
"""
TOO_NEW = """\
[    8.299192] NVRM: The NVIDIA GPU 0000:3c:00.0 (PCI ID: 10de:2d04)
               NVRM: installed in this system is not supported by the
               NVRM: NVIDIA 550.163.01 driver release.
[    8.299233] nvidia 0000:3c:00.0: probe with driver nvidia failed with error -1
"""
TOO_NEW_OF_OLD = """\
NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:139b)
NVRM: installed in this system is not supported by the 370.28
NVRM: NVIDIA Linux driver release.  Please see 'Appendix
"""
OFF_THE_BUS = """\
[    9.0] NVRM: The NVIDIA GPU 0000:0f:00.0
          NVRM: (PCI ID: 10de:2684) installed in this system has
          NVRM: fallen off the bus and is not responding to commands.
"""


@pytest.mark.parametrize(
    ("text", "refusal", "card", "branch", "driver"),
    [
        (PASCAL, "legacy", "GeForce GTX 1050", "580", "595.71.05"),
        (CUT_BY_A_PAGER, "legacy", "GeForce GTX 1050", "580", "595.71.05"),
        (NO_VISIT, "legacy", "NVS 5200M", "390", "460.73.01"),
        (STAMPED, "legacy", "GeForce FX 5200", "173.14", "180.44"),
        (ONE_LINE, "legacy", "0000:0a:00.0 1db1", "580", "590.48.01"),
        (RSYSLOG, "legacy", "Tesla K80", "470", "535.54.03"),
        (OPEN, "needs-proprietary", "0000:02:00.0 1b82", "", ""),
        (CLOSED, "needs-open", "0000:02:00.0 2c58", "", ""),
        (TOO_NEW, "unsupported", "0000:3c:00.0 2d04", "", "550.163.01"),
        (TOO_NEW_OF_OLD, "unsupported", "0000:01:00.0 139b", "", "370.28"),
    ],
)
def test_a_card_that_the_driver_refuses(
    text: str, refusal: str, card: str, branch: str, driver: str
) -> None:
    (found,) = parse(text).ignored_cards

    named = found.name or f"{found.address} {found.device}"
    assert (found.refusal, named, found.branch, found.driver) == (refusal, card, branch, driver)
    assert found.entries[0].message.startswith("NVRM: The NVIDIA ")


def test_each_card_is_one_of_its_own_and_the_end_may_be_missing() -> None:
    cut = "".join(PASCAL.splitlines(keepends=True)[:2])
    found = parse(NO_VISIT + TOO_NEW + cut).ignored_cards

    assert [(one.refusal, one.branch) for one in found] == [
        ("legacy", "390"),
        ("unsupported", ""),
        ("legacy", "580"),
    ]


def test_a_card_that_fell_off_the_bus_is_none_of_them() -> None:
    log = parse(OFF_THE_BUS)

    assert not log.ignored_cards
    assert [one.address for one in log.xids] == ["0000:0f:00.0"]


def test_the_boot_of_a_refusal_is_known() -> None:
    boots = f"-- Boot aaa --\n{ONE_LINE}-- Boot bbb --\n{ONE_LINE.replace('590.48.01', '595.1')}"
    found = parse(boots).ignored_cards

    assert [one.entries[0].boot for one in found] == [-1, 0]
