"""What is judged by a redacted bundle is what was judged by the original."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

from rigops.doctor.registry import examine
from rigops.probe.bundle import Bundle, Collected
from rigops.probe.snapshot import HostSnapshot
from tests.unit import recorded
from tests.unit.doctor.examining import catalog
from tests.unit.probe.bundles.kernel_lines import HOSTS, kernel_logs
from tests.unit.probe.bundles.redacting import changed_by_redaction, without_names

if TYPE_CHECKING:
    from rigops.doctor.finding import Finding

IN_THE_SHARD = settings().max_examples > 1000
EXAMPLES = 10_000 if IN_THE_SHARD else 30

XID = "NVRM: Xid (PCI:0000:41:00): 79, pid=1234, name=python3, GPU has fallen off the bus.\n"


def log(text: str, host: str = "rig") -> Bundle:
    return Bundle(host, None, root=True, sections={"kernel-log": Collected(text, root=True)})


def xids(bundle: Bundle) -> list[Finding]:
    found = examine(HostSnapshot(bundle), None, catalog())
    return [one for one in found if one.id == "xid"]


@pytest.mark.parametrize(
    "before",
    [
        "NVRM: GPU Board Serial Number: ",
        "NVRM: GPU Board Serial Number:\t",
        "usb usb3: SerialNumber: 0000:41:00.0",
        "usb usb3: SerialNumber: 0000:41:00",
        "usb usb3: SerialNumber: Xid",
        "dmi: Serial Number: 0x62",
        "hostname: 535.54.03",
        "wpa_supplicant: ESSID:0000:41:00",
        "cfg: access-points:",
        "cfg: passwords = [",
        "cfg: auth: [",
        "-----BEGIN PRIVATE KEY-----",
    ],
)
def test_an_xid_after_a_label_is_still_that_xid(before: str) -> None:
    for stamp in ("", "[   12.345678] ", "Jan 31 18:00:00 rig kernel: "):
        bundle = log(f"{stamp}{before}\n{stamp}{XID}")
        (found,) = xids(without_names(bundle))

        assert (found.status, found.subject) == ("fail", "gpu 0000:41:00.0"), stamp
        assert XID.strip() in found.evidence[0].line
        assert changed_by_redaction(bundle) is None, stamp


INIT = "[    0.123456] NVRM: GPU 0000:0a:00.0: RmInitAdapter failed! (0x22:0x56:884)"


@pytest.mark.parametrize(
    "line",
    [
        f"NVRM: GPU Board Serial Number: {XID}",
        f"Serial Number:{XID}",
        f"token={XID}",
        f"auth: [{XID}",
        f"password {XID}",
        f"root@{XID}",
    ],
)
def test_an_xid_on_the_line_of_a_label_is_still_that_xid(line: str) -> None:
    assert "Xid (PCI:0000:41:00): 79" in without_names(log(line)).sections["kernel-log"].text


@pytest.mark.parametrize("name", ["0000:0c:00.3", "0c:00.3", "00000000:0C:00.0", "0x62", "535.54"])
def test_what_a_label_calls_a_name_is_not_replaced_elsewhere(name: str) -> None:
    said = f"xhci_hcd {name}: xHCI\nat {name}\n"

    left = without_names(log(f"usb1: SerialNumber: {name}\nESSID:{name}\nHOSTNAME={name}\n{said}"))

    assert left.sections["kernel-log"].text.endswith(said)


def test_a_serial_number_beside_an_address_still_goes() -> None:
    text = "0000:41:00.0 Serial Number: S466NX0M1234\n0000:41:00.0 S466NX0M1234\n"

    assert without_names(log(text)).sections["kernel-log"].text == (
        "0000:41:00.0 Serial Number: serial-1\n0000:41:00.0 serial-1\n"
    )


def test_the_character_that_marks_an_address_in_between_is_only_a_character() -> None:
    text = f"x\n\ue000\n{XID}/home/margarete\n\ue000\n"

    assert without_names(log(text)).sections["kernel-log"].text == text.replace(
        "margarete", "user-1"
    )


@pytest.mark.parametrize(
    "text",
    [
        "Authorization:\r\n",
        "Lockdown: udevd: unsigned module loading is restricted; see man 7 password \n",
        f"{INIT}\nJan 31 18:00:00 nvidia kernel: usb usb3: SerialNumber:\n{INIT}\n",
        "token=[\n  access-points:\n",
        f"keys: [\n\tone,\n\ttwo\n{XID}",
        f"{XID.strip()} -----BEGIN PRIVATE KEY-----\n{XID.strip()} -----BEGIN PRIVATE KEY-----x\n",
    ],
)
def test_an_empty_value_a_host_named_nvidia_an_unfinished_list_and_equal_lines_change_nothing(
    text: str,
) -> None:
    assert changed_by_redaction(log(text)) is None


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("tokens = [\n  one,\n  two\n]\nx\n", "tokens = [***\n***\n***\n]\nx\n"),
        (
            "-----BEGIN PRIVATE KEY-----\nMIIEvQ\nABCD==\n-----END PRIVATE KEY-----\n",
            "-----BEGIN PRIVATE KEY-----***\n***\n***\n-----END PRIVATE KEY-----\n",
        ),
    ],
)
def test_a_secret_of_several_lines_leaves_as_many(text: str, left: str) -> None:
    assert without_names(log(text)).sections["kernel-log"].text == left


@settings(max_examples=EXAMPLES)
@given(kernel_logs(), HOSTS)
def test_any_kernel_log_is_judged_the_same_without_names(text: str, host: str) -> None:
    assert changed_by_redaction(log(text, host)) is None


@settings(max_examples=EXAMPLES // 5)
@given(kernel_logs(), kernel_logs(), kernel_logs())
def test_any_logs_of_several_boots_are_judged_the_same_without_names(
    current: str, previous: str, history: str
) -> None:
    texts = {"kernel-log": current, "kernel-log-previous": previous, "xid-history": history}
    sections = {name: Collected(text, root=True) for name, text in texts.items()}

    assert changed_by_redaction(Bundle("rig", None, root=True, sections=sections)) is None


@pytest.mark.parametrize("folder", sorted(recorded.DEMO.iterdir()), ids=lambda folder: folder.name)
def test_the_rigs_of_the_demo_are_judged_the_same_without_names(folder: object) -> None:
    assert changed_by_redaction(Bundle.read(recorded.DEMO / str(folder))) is None
