"""In which words nvidia-smi fails, and which card it names then."""

from __future__ import annotations

import pytest

from rigops.probe import address
from rigops.probe.sections import nvidia_smi_xml

HANDLE = "Unable to determine the device handle for"
NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that"
    " the latest NVIDIA driver is installed and running.\n"
)
OLD_NO_DRIVER = """\
NVIDIA-SMI has failed because it couldn't communicate with NVIDIA driver.
Make sure that latest NVIDIA driver is installed and running.
"""
MISMATCH = """\
Failed to initialize NVML: Driver/library version mismatch
NVML library version: 535.113
"""
NO_LIBRARY = """\
NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the driver
Please also try adding directory that contains libnvidia-ml.so to your system PATH.
"""


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (NO_DRIVER, "no-driver"),
        (OLD_NO_DRIVER, "no-driver"),
        ("NVIDIA-SMI has failed because it couldn’t communicate with the driver\n", "no-driver"),  # noqa: RUF001 - as forums print it
        ("Failed to initialize NVML: Driver Not Loaded\n", "no-driver"),
        ("Failed to initialize NVML: Driver/library version mismatch\n", "mismatch"),
        (MISMATCH, "mismatch"),
        (MISMATCH.replace("\n", "\r\n"), "mismatch"),
        ("No devices were found\n", "no-devices"),
        (NO_LIBRARY, "no-library"),
        (f"{HANDLE} GPU 0000:0F:00.0: Unknown Error\n", "lost"),
        (f"{HANDLE} gpu 00000000:24:00.0: Not Found\n", "not-started"),
        (f"{HANDLE} GPU1: 0000:24:00.0: Not Found\n", "not-started"),
        ("sh: 1: nvidia-smi: not found\n", "not-installed"),
        ("bash: nvidia-smi: command not found\n", "not-installed"),
        ("Command 'nvidia-smi' not found, but can be installed with:\n", "not-installed"),
        ("", "not-installed"),
        (" \r\n", "not-installed"),
        ("Failed to initialize NVML: Unknown Error\n", "other"),
        ("Unable to determine number of available units\n", "other"),
        ("ERROR: Option -x is missing its value. Please run 'nvidia-smi -h' for help.\n", "other"),
        ("<nvidia_smi_log><error_string>bad luck</error_string></nvidia_smi_log>", None),
    ],
)
def test_each_wording_has_its_kind(text: str, kind: str | None) -> None:
    report = nvidia_smi_xml.parse(text)

    assert report.failure == kind
    assert report.gpus == ()
    assert bool(report.failure_lines) == bool(kind and text.strip())
    assert bool(report.unparsed) == (kind is None)


def test_what_goes_on_in_the_next_line_belongs_to_the_failure() -> None:
    for text in (MISMATCH, OLD_NO_DRIVER, NO_LIBRARY):
        assert nvidia_smi_xml.parse(text).failure_lines == tuple(text.splitlines())
    assert nvidia_smi_xml.parse(MISMATCH.splitlines()[1]).unparsed


@pytest.mark.parametrize(
    ("named", "lost"),
    [
        ("GPU 0000:0F:00.0: Unknown Error", "0000:0f:00.0"),
        ("GPU0000:0F:00.0: Unknown Error", "0000:0f:00.0"),
        ("GPU0: 0000:24:00.0: Unknown Error", "0000:24:00.0"),
        ("GPU 0001:24:00.0: GPU is lost.  Reboot the system to recover this GPU", "0001:24:00.0"),
        ("GPU 0F:00.0: Unknown Error", "0000:0f:00.0"),
        ("GPU0: 0F:00.0: Unknown Error", "0000:0f:00.0"),
        ("GPU0: Unknown Error", None),
        ("GPU : Unknown Error", None),
        ("gpu at some place", None),
    ],
)
def test_the_lost_card_is_named_in_every_spelling(named: str, lost: str | None) -> None:
    report = nvidia_smi_xml.parse(f"{HANDLE} {named}\n")

    assert report.failure == "lost"
    assert report.lost == ((lost,) if lost else ())
    assert not report.is_complete


def test_two_lost_cards_are_two_and_one_that_is_named_twice_is_one() -> None:
    once = f"{HANDLE} GPU 0000:0F:00.0: Unknown Error\n"
    text = once + f"{HANDLE} GPU 0000:10:00.0: Unknown Error\n" + once

    assert nvidia_smi_xml.parse(text).lost == ("0000:0f:00.0", "0000:10:00.0")


def test_a_known_kind_comes_before_an_unknown_one() -> None:
    text = "Failed to initialize NVML: Unknown Error\nNo devices were found\n"

    assert nvidia_smi_xml.parse(text).failure == "no-devices"


def test_a_failure_after_some_cards_of_the_text_keeps_them() -> None:
    text = "Attached GPUs : 2\nGPU 00000000:01:00.0\n    Fan Speed : 30 %\n"

    report = nvidia_smi_xml.parse(f"{text}{HANDLE} GPU 0000:02:00.0\n")
    assert [card.fan_percent for card in report.gpus] == [30]
    assert (report.failure, report.lost, report.is_complete) == ("lost", ("0000:02:00.0",), False)


@pytest.mark.parametrize("text", ["\0rubbish \x1b[", "<foo>bar</foo>", "42\n", "lspci: 1\n : 2\n"])
def test_rubbish_is_neither_a_card_nor_a_failure_and_is_kept(text: str) -> None:
    report = nvidia_smi_xml.parse(text)

    assert (report.gpus, report.failure, report.is_complete) == ((), None, False)
    assert report.unparsed


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("0000:03:00.0", "0000:03:00.0"),
        ("00000000:41:00.0", "0000:41:00.0"),
        ("PCI:0000:68:00", "0000:68:00.0"),
        ("GPU0000:0F:00.0", "0000:0f:00.0"),
        ("GPU0: 0000:24:00.0", "0000:24:00.0"),
        ("GPU 12: 00000001:24:00.1", "0001:24:00.1"),
        ("GPU 0000:0a:00.0", "0000:0a:00.0"),
        ("GPU0001:0A:00.0", "0001:0a:00.0"),
        (" 0a:00.0\n", "0000:0a:00.0"),
        ("00010000:01:00.0", "10000:01:00.0"),
        ("GPU0: 24:00.0", None),
        ("0a:00.8", None),
        ("card0", None),
        ("", None),
        (" " * 100_000, None),
    ],
)
def test_addresses(text: str, normal: str | None) -> None:
    assert address.normal(text) == normal
