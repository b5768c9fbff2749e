"""Lines of kernel logs: what checks look for, and labels with whatever may follow them."""

from __future__ import annotations

from hypothesis import strategies as st

from rigops.probe.kernel_log.words import is_relevant

ADDRESSES = (
    *("0000:0a:00.0", "0000:c1:00.0", "00000000:0A:00.0", "0000:c2:00", "41:00.0"),
    *("0000:0a:00", "0000:c1:00"),
)
EVENTS = (
    "NVRM: Xid (PCI:{}): 79, pid=1234, name=python3, GPU has fallen off the bus.",
    "NVRM: Xid (PCI:{}): 31, pid='<unknown>', name=<unknown>, Ch 00000010",
    "NVRM: Xid (PCI:{}): 119, pid=1, name=x, Timeout after 6s of waiting for RPC response from GPU",
    "NVRM: GPU {}: RmInitAdapter failed! (0x62:0x55:1941)",
    "NVRM: GPU {}: RmInitAdapter failed! (0x22:0x56:884)",
    "NVRM: The NVIDIA GPU {} (PCI ID: 10de:2204) installed in this system has fallen off the bus",
    "NVRM: API mismatch: the client has the version 535.54.03, but",
    "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue",
    "nvidia {}: Unable to change power state from D3cold to D0, device inaccessible",
    "nvidia: module verification failed: signature and/or required key missing",
    "AMD-Vi: Event logged [IO_PAGE_FAULT device={} domain=0x0010 address=0xdeadbeef flags=0x0020]",
    "DMAR: [DMA Write] Request device [{}] fault addr 8f000000 [fault reason 05] PTE Write access",
    "pcieport {}: AER: Multiple Corrected error received: 0000:c1:00.0",
    "nvidia {}: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer",
    "pcieport {}: Surprise Down",
    "pci {}: BAR 1 [mem size 0x10000000 64bit pref]: can't assign; no space",
    "INFO: task nv_queue:1234 blocked for more than 120 seconds.",
    "mce: [Hardware Error]: Machine check events logged",
    "{{1}}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 0",
    "{{1}}[Hardware Error]:  device_id: {}",
    "message repeated 3 times: [ NVRM: Xid (PCI:{}): 79, pid=1 ]",
    "Lockdown: systemd-udevd: unsigned module loading is restricted; see man kernel_lockdown.7",
    "Linux version 6.1.0-18-amd64 (debian-kernel@lists.debian.org)",
    "Command line: BOOT_IMAGE=/vmlinuz iommu=pt",
)
LABELS = (
    *("NVRM: GPU Board Serial Number:", "usb usb3: SerialNumber:", "serial=", "serial no :"),
    *("Asset Tag:", "board_serial :", '"serial": "', "hostname:", "Hostname =", '"host": "'),
    *("HOSTNAME=", "USER=", "for user", "of user", "by user", "sudo:", "sudo[12]:", "uid=1000("),
    *("/home/", "/mnt/", "ESSID:", "ssid", "access-points:", "  access-points:", "root@"),
    *("token=", "key:", "pass:", "PAT:", "auth: [", "keys: [", "_SECRET = [", "password", "-p"),
    *("Authorization:", "bearer", "--token", "WHATEVER=", "-----BEGIN PRIVATE KEY-----"),
    *("UUID=", "by-uuid/", "ssh://", "http://me@", "Requested-By:", "-rw-r--r-- 1", "mysql -p"),
)
VALUES = (
    *("", "Xid", "NVRM", "nvidia", "kernel", "PCI", "GSP", "Board", "Unknown", "error", "device"),
    *("79", "0x62", "535.54.03", "1.2.3.4", "xhci-hcd", "margarete", "S466NX0M1234", "fe80::1"),
    *("1323521012345", "GPU-6f1c9f0e-2a41-8c55-0e3a-6b7b1e1f2d3c", "aa:bb:cc:dd:ee:ff", "NVRM:"),
    *('"', "'", "[", "]", "{", "}"),
)
# Where the only word by which a line matters is somebody's name or secret, both go.
NO_EVIDENCE = tuple(one for one in VALUES if not is_relevant(one))
HOSTS = st.sampled_from(("rig", "nvidia", "kernel", "margarete", "gpu1", "localhost", "Xid"))
SECONDS = st.integers(0, 59)


@st.composite
def _messages(draw: st.DrawFn) -> str:
    address = draw(st.sampled_from(ADDRESSES))
    event = draw(st.sampled_from(EVENTS)).format(address)
    label = draw(st.sampled_from(LABELS)) + draw(st.sampled_from(("", " ", "\t")))
    shape = draw(st.integers(0, 4))
    value = draw(st.sampled_from((*(VALUES if shape else NO_EVIDENCE), address)))
    if shape == 0:
        return f"{label}{value}"
    if shape == 1:  # what is after a label and looks like no name
        proof = draw(st.sampled_from((f"{address}: ", f"NVRM: Xid (PCI:{address}): 79, ")))
        return f"{label}{proof}{value}"
    return f"{event} {label}{value}" if shape == 2 else event


@st.composite
def _stamps(draw: st.DrawFn) -> str:
    host, second = draw(HOSTS), draw(SECONDS)
    return draw(
        st.sampled_from(
            (
                "",
                "> ",
                f"[{second:5d}.123456] ",
                f"[    {second}.000001] kernel: ",
                f"Jan 31 18:00:{second:02d} {host} kernel: ",
                f"Jan 31 18:00:{second:02d} {host} kernel: [   {second}.390511] ",
                f"2026-01-31T18:00:{second:02d}.123456+01:00 {host} kernel: ",
                f"[Sat Jan 31 18:00:{second:02d} 2026] ",
                f"kern  :warn  : [   {second}.087817] ",
                f"6,3964,{second}889126174,-;",
            )
        )
    )


@st.composite
def kernel_logs(draw: st.DrawFn) -> str:
    end = draw(st.sampled_from(("\n", "\n", "\r\n")))
    found = draw(st.lists(st.tuples(_stamps(), _messages()), min_size=1, max_size=8))
    return "".join(f"{stamp}{message}{end}" for stamp, message in found)
