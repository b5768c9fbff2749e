"""Names become other names, and nothing else changes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rigops.probe.bundle import Bundle, Collected
from rigops.probe.bundles import bug_report
from rigops.probe.bundles.redaction import Redaction
from rigops.probe.bundles.shapes import without_secrets
from rigops.probe.sections import rigops_state
from tests.unit.patterns import slow_growth
from tests.unit.probe import answers
from tests.unit.probe.bundles.redacting import changed_by_redaction, without_names
from tests.unit.probe.secrets import HIDDEN, KEPT, KEY_BLOCK, MIXED, SECRET

EXAMPLES = settings().max_examples // 3  # each is a whole rig, judged twice
CARD = "GPU-6f1c9f0e-2a41-8c55-0e3a-6b7b1e1f2d3c"
REPORT = Path(__file__).parents[3] / "fixtures/bundles/nvidia-bug-report.log"


def one(text: str, section: str = "kernel-log", host: str = "thebigone") -> str:
    bundle = Bundle(host, None, root=False, sections={section: Collected(text)})
    return without_names(bundle).sections[section].text


@pytest.mark.parametrize(
    ("said", "left"),
    [
        (f"{CARD} {CARD.upper()}", "GPU-00000000-0000-0000-0000-000000000001 " * 2),
        (
            "root=UUID=5c1d5a4e-93f7-4b0a-8a5b-0d2a1f6e7c11 ro",
            "root=UUID=" + "0" * 8 + "-0000-0000-0000-000000000001 ro",
        ),
        ("boot 5c1d5a4e93f74b0a8a5b0d2a1f6e7c11", "boot " + "0" * 31 + "1"),
        (
            "/dev/disk/by-uuid/1A2B-3C4D UUID=1A2B-3C4D",
            "/dev/disk/by-uuid/0000-0001 UUID=0000-0001",
        ),
        ('PARTUUID="deadbeef-02"', 'PARTUUID="00000000-01"'),
        (
            "link/ether 3c:ec:ef:12:34:56 brd ff:ff:ff:ff:ff:ff",
            "link/ether 02:00:00:00:00:01 brd ff:ff:ff:ff:ff:ff",
        ),
        (
            "enx3cecef123456: renamed from eth1, 3C-EC-EF-12-34-56",
            "enx020000000001: renamed from eth1, 02-00-00-00-00-01",
        ),
        (
            "Device Serial Number ac-1f-6b-ff-ff-01-02-03",
            "Device Serial Number 02-00-00-00-00-00-00-01",
        ),
        (
            "from 192.168.1.20 to 10.0.0.7:22, 192.168.1.20/24",
            "from 192.0.2.1 to 192.0.2.2:22, 192.0.2.1/24",
        ),
        ("inet6 fe80::3eec:efff:fe12:3456/64", "inet6 2001:db8::1/64"),
        ("inet6 2a01:4f8:c17:1:2:3:4:5 x", "inet6 2001:db8::1 x"),
        (
            "Serial Number                     : 1323521012345",
            "Serial Number                     : serial-1",
        ),
        ("  <serial>1323521012345</serial>", "  <serial>serial-1</serial>"),
        ("NVRM: GPU Board Serial Number: 1323521012345", "NVRM: GPU Board Serial Number: serial-1"),
        ('"serial_number": "S466NX0M1234", x', '"serial_number": "serial-1", x'),
        (
            "Serial Number: S466NX0M1234\nnvme-Samsung_SSD_S466NX0M1234-part1",
            "Serial Number: serial-1\nnvme-Samsung_SSD_serial-1-part1",
        ),
        (
            "/dev/disk/by-id/ata-WDC_WD40EFRX_WD-WCC4E1234567",
            "/dev/disk/by-id/ata-WDC_WD40EFRX_serial-1",
        ),
        ("/dev/disk/by-id/ata-ST4000_ZDH12345 x", "/dev/disk/by-id/ata-ST4000_serial-1 x"),
        ("LU WWN Device Id: 5 002538 d40a1b2c3", "LU WWN Device Id: 0 000000 000000001"),
        ("wwn-0x5002538d40a1b2c3", "wwn-0x0000000000000001"),
        ("/home/margarete/models", "/home/user-1/models"),
        ("Requested-By: margarete (1000)", "Requested-By: user-1 (1000)"),
        ("drwx------ 2 margarete margarete 4096 x\n", "drwx------ 2 user-1 user-1 4096 x\n"),
        (
            "uid=1000(margarete) /home/margarete /srv/margarete",
            "uid=1000(user-1) /home/user-1 /srv/user-1",
        ),
        ("Jan 31 18:00:00 thebigone kernel: NVRM: x", "Jan 31 18:00:00 host-1 kernel: NVRM: x"),
        (
            "2025-07-13T05:57:55.113798+08:00 nasbox systemd[1]: x",
            "2025-07-13T05:57:55.113798+08:00 host-2 systemd[1]: x",
        ),
        (
            "Sat 2026-01-31 18:00:00 CET nasbox systemd[1]: x",
            "Sat 2026-01-31 18:00:00 CET host-2 systemd[1]: x",
        ),
        ("root=/dev/mapper/thebigone--vg-root", "root=/dev/mapper/host-1--vg-root"),
        ("margarete@nasbox:/srv/backup", "user-1@host-2:path-1"),
        ("(root@buildbox.lan) (gcc)", "(root@host-2) (gcc)"),
        ("ssh://u123:pw@box.example.net:23/./repo more", "ssh://***@host-2:23/path-1 more"),
        ("https://apt.smith.family/debian/ x", "https://host-2/path-1 x"),
        ('ESSID:"Smith\'s net"', 'ESSID:"wifi-1"'),
        ("token=abc x hf_abcdefghijklmnopqrstuvwx", "token=*** x ***"),
    ],
)
def test_a_name_in_each_of_its_places(said: str, left: str) -> None:
    assert one(said).rstrip() == left.rstrip()


def test_what_only_looks_like_a_name() -> None:
    for said in (
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.54.03",
        "Linux version 6.1.0-18-amd64 (debian-kernel@lists.debian.org) (gcc-12 12.2.0)",
        "VBIOS Version : 94.02.42.80.0D",
        "Image Version : G001.0000.03.03",
        "libnccl.so.2.18.3.1 loaded, NCCL version 2.18.3.1+cuda12.1",
        "BIOS Version: 1.2.3.4",
        "0000:0a:00.0 00000000:0A:00.0 PCI:0000:68:00 GPU0000:0F:00.0",
        "12:34:56 2026-01-31T18:00:00Z 31009959:50:08",
        "lo 127.0.0.1/8 ::1/128 0.0.0.0 255.255.255.0 224.0.0.251",
        "serial8250: ttyS0 Serial: 8250/16550 driver, 32 ports",
        "New USB device strings: Mfr=1, Product=2, SerialNumber=3",
        "Serial Number: N/A\nSerial Number : Not Specified\nSerial Number: 0",
        "usb usb3: SerialNumber: NVRM",
        "Asset Tag: To Be Filled By O.E.M.",
        "crw-rw-rw- 1 root video 195, 0 Jan 31 18:00 /dev/nvidia0",
        "getty@tty1.service user@1000.service rootflags=subvol=@home crashkernel=512M@64M",
        "500 https://download.nvidia.com/compute/cuda/repos/debian12/x86_64  Packages",
        'Unattended-Upgrade::Package-Blacklist:: "nvidia";',
        "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c",
        "pool uuid 00000000-0000-0000-0000-000000000000 00:00:00:00:00:00",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "2025-06-24 14:38:40 status installed libdrm-nouveau2:amd64 2.4.114-1",
        "2025-06-24 14:38:40 install libdrm-nouveau2:amd64 <none> 2.4.114-1+b1",
        "2025-06-24 14:38:40 WARN disk: is slow",
        "10de:2204 0x10de de:ad:be:ef bus 0a:00",
        "/home",
        "12.0 15.5% 1.2.3 1.2.3.4.5 1.2.3.999",
    ):  # fmt: skip
        assert one(said) == said


@pytest.mark.parametrize(
    "label",
    ["Serial Number: ", "Asset Tag:", "Hostname =\t", '"serial": ', '"host" :', "ESSID:", "sudo:"],
)
def test_an_empty_value_does_not_take_its_name_from_the_next_line(label: str) -> None:
    said = f'{label}\nMemory : 24 GiB\n"Memory"\n ssid\n'

    assert one(said) == said


def test_versions_of_packages_are_no_addresses() -> None:
    assert one("linux-generic\t6.8.0.45\tamd64\tii \n", "packages") == (
        "linux-generic\t6.8.0.45\tamd64\tii \n"
    )


def test_the_host_is_known_by_each_of_its_names() -> None:
    sections = {
        "uname": Collected("Linux thebigone.smith.net 6.1 #1 x86_64 GNU/Linux\n"),
        "kernel-log": Collected("thebigone.smith.net, thebigone and /mnt/thebigone_data\n"),
        "boot": Collected("trp\n"),
    }
    bundle = without_names(Bundle("trp", None, root=False, sections=sections))

    assert bundle.host == "host-1"
    assert bundle.sections["uname"].text == "Linux host-1 6.1 #1 x86_64 GNU/Linux\n"
    assert bundle.sections["kernel-log"].text == "host-1, host-1 and /mnt/host-1_data\n"


@pytest.mark.parametrize(
    ("host", "left"),
    [
        ("localhost", "localhost"),
        ("margarete@192.168.1.20:22", "user-1@192.0.2.1:22"),
        ("192.168.1.20", "192.0.2.1"),
        ("margarete@nasbox", "user-1@host-1"),
    ],
)
def test_a_host_that_is_called_by_its_target(host: str, left: str) -> None:
    assert without_names(Bundle(host, None, root=False, sections={})).host == left


def test_the_same_name_is_the_same_in_a_whole_set() -> None:
    first = Bundle(
        "left1box", None, root=False, sections={"network": Collected("10.1.1.1 rightbox")}
    )
    second = Bundle(
        "rightbox", None, root=False, sections={"network": Collected("10.1.1.2 10.1.1.1")}
    )

    redaction = Redaction([first, second])
    left, right = map(redaction.bundle, (first, second))

    assert (left.host, right.host) == ("host-1", "host-2")
    assert left.sections["network"].text == "192.0.2.1 host-2"
    assert right.sections["network"].text == "192.0.2.2 192.0.2.1"


def test_a_name_that_is_a_pseudonym_already_is_given_to_nobody_else() -> None:
    assert one("Requested-By: user-1 (1000) /home/margarete") == (
        "Requested-By: user-1 (1000) /home/user-2"
    )
    assert one("10.0.0.1 192.0.2.1") == "192.0.2.2 192.0.2.1"


def test_more_addresses_than_one_network_has() -> None:
    said = " ".join(f"10.0.{number // 250}.{number % 250 + 1}" for number in range(1000))

    assert len(set(one(said).split())) == 1000


def test_owned_files_are_still_the_same_files() -> None:
    digest = "0123456789abcdef" * 4
    owned = json.dumps({"schema": "rigops.owned/1", "files": [{"digest": digest}]})
    text = (
        f"== /var/lib/rigops/owned.json\n{owned}\n"
        f"== {rigops_state.OWNED_FILES}\n644 {digest} /etc/nccl.conf\n"
    )

    assert rigops_state.parse(one(text, "rigops-state")) == rigops_state.parse(text)


def test_a_secret_is_dropped_here_too() -> None:
    for line, left in HIDDEN:
        assert without_secrets(f"{line}\niommu=pt\n") == f"{left}\niommu=pt\n"
        assert without_secrets(left) == left
        found = one(f"{line}\n")
        assert SECRET not in found, line
        assert MIXED not in found, line


def test_what_only_looks_secret_stays() -> None:
    for line in KEPT:
        assert without_secrets(f"{line}\n") == f"{line}\n"


def test_a_private_key_is_dropped_to_its_end_and_no_further() -> None:
    assert without_secrets(f"a=1\n{KEY_BLOCK}") == (
        "a=1\n-----BEGIN OPENSSH PRIVATE KEY-----***\n***\n***\n"
        "-----END OPENSSH PRIVATE KEY-----\niommu=pt\n"
    )
    assert without_secrets("-----BEGIN PRIVATE KEY-----\nabc\n== /etc/x\nquiet\n") == (
        "-----BEGIN PRIVATE KEY-----***\n***\n== /etc/x\nquiet\n"
    )


REAL = replace(
    answers.bundle(
        {
            **answers.BROKEN,
            "kernel-log": "[    0.000000] Linux version 6.1.0-18-amd64\n"
            "Jan 31 18:00:00 rig kernel: NVRM: Xid (PCI:0000:0a:00): 79, pid=1, GPU has fallen\n",
            "nvidia-smi-xml": f"<nvidia_smi_log><gpu><uuid>{CARD}</uuid></gpu></nvidia_smi_log>\n",
        }
    )
)


TECHNICAL = (
    "gpu", "iommu", "nvidia", "debian", "quiet", "nv4", "sda", "pci0000", "x16", "nvidia-driver",
)  # fmt: skip


@st.composite
def rigs(draw: st.DrawFn) -> Bundle:
    """The broken rig of somebody: any name, in the places where names stand."""
    names = st.sampled_from(TECHNICAL) | st.from_regex(r"[a-z][a-z0-9-]{0,12}", fullmatch=True)
    host, user = draw(names), draw(names)
    address = ".".join(str(draw(st.integers(0, 255))) for _ in range(4))
    noise = f"{user}@{host}:/x /home/{user}/y {address} Serial Number: {draw(names)}\n"
    texts = {name: one.text.replace("rig", host) for name, one in REAL.sections.items()}
    texts["uname"] = answers.UNAME.replace("Linux rig", f"Linux {host}")
    texts["rigops-state"] = answers.STATE.replace('"rig"', f'"{host}"')
    for section in ("pci", "iommu-groups", "bootloader", "package-holds", "os-release"):
        texts[section] = REAL.sections[section].text
    texts["kernel-log"] += noise + draw(st.text(max_size=200))
    texts["processes"] = noise
    sections = {name: Collected(text) for name, text in texts.items()}
    lost = draw(st.sets(st.sampled_from(sorted(sections)), max_size=3))
    kept = {name: one for name, one in sections.items() if name not in lost}
    return Bundle(host, None, root=True, sections=kept)


@settings(max_examples=EXAMPLES)
@given(rigs())
@example(REAL)
def test_the_verdict_is_the_same_but_for_names(bundle: Bundle) -> None:
    assert changed_by_redaction(bundle) is None


@settings(max_examples=EXAMPLES)
@given(rigs())
@example(REAL)
def test_to_redact_again_changes_nothing(bundle: Bundle) -> None:
    once = without_names(bundle)

    assert without_names(once) == once


@given(st.text(max_size=300), st.sampled_from(["kernel-log", "uname", "packages", "network"]))
@example("Serial Number: a, b\nssid  \nUUID=10.1.1.1 ://@@ u@h:u@h:", "uname")
@example("Serial Number: " + "0a:1b:" * 40, "kernel-log")
def test_any_text_can_be_redacted_and_redacted_again(text: str, section: str) -> None:
    once = one(text, section)

    assert one(once, section, host="host-1") == once


def test_a_bug_report_is_redacted_too() -> None:
    bundle = bug_report.read([REPORT.read_bytes()], host="x")
    redacted = without_names(bundle)

    assert redacted.host == "host-1"
    everything = "\n".join(one.text for one in redacted.sections.values())
    for name in ("trp64", CARD[4:], "5c1d5a4e", "ac-1f-6b"):
        assert name not in everything
    assert {one.rc for one in redacted.sections.values()} == {
        one.rc for one in bundle.sections.values()
    }


def test_twice_the_log_takes_twice_the_time() -> None:
    for piece in (
        "a", "a.", "1.", ":", "a:", "0a:", "-", "@", "a@", " ", "x=", "/home/", "ssid ", "eyJ",
    ):  # fmt: skip

        def repeated(size: int, piece: str = piece) -> str:
            return piece * (size // len(piece))

        assert slow_growth(one, repeated) is None
