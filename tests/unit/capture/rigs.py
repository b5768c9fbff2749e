"""A rig that is safe to wipe, in texts, and what each test has otherwise."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rigops.capture.controller import Controller, Passphrase
from rigops.capture.subject import Subject
from rigops.concerns.borg import record as borg_record
from rigops.concerns.snapshots import record as snapshots_record
from rigops.doctor.examined import Examined
from rigops.probe.bundle import Bundle, Collected
from rigops.probe.sections.rigops_state import OWNED_FILES
from rigops.probe.snapshot import HostSnapshot
from rigops.record import Bios, Driver, Pair, Proven, ProvenGpu
from rigops.record.journal import Run
from rigops.record.lockfile import LockedDriver, LockedHost, LockedPair
from rigops.record.shell import FAILED_PROOF, PROVEN
from rigops.vault.pinned_set import PinnedPackage, PinnedSet
from tests.unit.doctor.examining import catalog, spec
from tests.unit.doctor.test_borg import ID, PLACE, boot, ran, units

if TYPE_CHECKING:
    from collections.abc import Mapping

HOST: Final = "rig"
FIRST, SECOND = "0000:0a:00.0", "0000:42:00.0"
UUIDS: Final = {FIRST: "GPU-1", SECOND: "GPU-2"}
TARGET: Final = "0a1b2c3d-0000-0000-0000-000000000001"
ARGUMENTS: Final = ("root=UUID=aa", "iommu=pt")
BORG: Final[dict[str, Any]] = {
    "repository": PLACE, "paths": ["/home"], "passphrase_command": "pass show rig",
}  # fmt: skip
MOUNTS: Final = f"""\
/dev/nvme0n1p2 / btrfs rw,noatime,subvol=/@ 0 0
/dev/nvme0n1p2 /home btrfs rw,noatime,subvol=/@home 0 0
/dev/nvme0n1p1 /boot/efi vfat rw 0 0
/dev/sda1 /mnt/backup ext4 rw 0 0
/dev/sdb1 /srv/models ext4 rw 0 0
/dev/mapper/vg-scratch {"/scratch"} ext4 rw 0 0
nas:/export /nas nfs4 rw 0 0
"""
_COLUMNS: Final = ("KNAME", "PKNAME", "MAJ:MIN", "TYPE", "SIZE", "FSTYPE", "UUID", "MODEL")
DEVICES: Final = (
    ("nvme0n1", "", "259:0", "disk", "1000", "", "", "Samsung SSD 980"),
    ("nvme0n1p1", "nvme0n1", "259:1", "part", "10", "vfat", "AB-CD", ""),
    ("nvme0n1p2", "nvme0n1", "259:2", "part", "990", "btrfs", "aa", ""),
    ("sda", "", "8:0", "disk", "2000", "", "", "WD"),
    ("sda1", "sda", "8:1", "part", "2000", "ext4", "bb", ""),
    ("sdb", "", "8:16", "disk", "3000", "", "", "WD"),
    ("sdb1", "sdb", "8:17", "part", "3000", "ext4", "cc", ""),
    ("sdc", "", "8:32", "disk", "3000", "", "", "USB"),
    ("sdc1", "sdc", "8:33", "part", "3000", "btrfs", TARGET, ""),
    ("sdd", "", "8:48", "disk", "3000", "", "", ""),
    ("sdd1", "sdd", "8:49", "part", "3000", "LVM2_member", "", ""),
    ("dm-0", "sdd1", "253:0", "lvm", "3000", "ext4", "dd", ""),
)
NODES: Final = """\
103:1 /dev/nvme0n1p1
103:2 /dev/nvme0n1p2
8:1 /dev/sda1
8:11 /dev/sdb1
fd:0 /dev/mapper/vg-scratch
"""
DRIVER: Final = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.261.03  Tue Jul 22\nGCC version: x\n"
)
PACKAGE: Final = PinnedPackage("libcuda1", "535.261.03-1", "amd64", "0" * 64, 10)
LOCKED: Final = LockedHost(
    at="2026-11-20T06:00:00Z",
    driver=LockedDriver("535.261.03", "proprietary"),
    kernel="6.1.0-31-amd64",
    kernel_args=ARGUMENTS,
    gpus=tuple(ProvenGpu(uuid, at, "RTX 3090", 285.0) for at, uuid in UUIDS.items()),
    pairs=(LockedPair(FIRST, SECOND, "ok"), LockedPair(SECOND, FIRST, "ok")),
    sets=(
        PinnedSet(
            version="535.261.03",
            flavor="proprietary",
            at="2026-11-20T06:00:00Z",
            kernel="6.1.0-31-amd64",
            packages=(PACKAGE,),
            index="1" * 64,
        ),
    ),
)
OWN: Final = Controller(
    vault=Path("/vault"),
    key=Path("/vault/borg/rig.key"),
    key_digest="ab",
    passphrase=Passphrase(state="opened", key="ab"),
)
WATCHED: Final = {"driver": "535", "borg": {"managed": False, "unit": "borgmatic.timer"}}
FRESH: Final = {"last_drill": {"at": "2026-11-25T06:00:00Z", "result": "ok", "files": 20}}


def run(outcome: str = "changed", at: str = "2026-11-20T06:00:00Z", command: str = "apply") -> Run:
    return Run(
        host=HOST, at=at, inventory_digest="digest", outcome=outcome, seconds=1, versions={},
        preflight=None, command=command,
    )  # fmt: skip


def proven(**changes: Any) -> Proven:
    found = Proven(
        host=HOST,
        at="2026-11-20T06:00:00Z",
        rigops="0.1",
        inventory_digest="",
        driver=Driver("535.261.03", "proprietary"),
        packages={},
        kernel="6.1.0-31-amd64",
        command_line=ARGUMENTS,
        bios=Bios("", ""),
        gpus=LOCKED.gpus,
        level="L1",
        pairs=tuple(Pair(one.source, one.target, one.verdict, 9.5) for one in LOCKED.pairs),
    )
    return replace(found, **changes)


def smi(cards: Mapping[str, str] = UUIDS) -> str:
    inside = "".join(
        f'<gpu id="0000{at}"><product_name>NVIDIA GeForce RTX 3090</product_name>'
        f"<uuid>{uuid}</uuid><persistence_mode>Enabled</persistence_mode></gpu>\n"
        for at, uuid in cards.items()
    )
    return (
        '<?xml version="1.0" ?>\n<nvidia_smi_log>\n<driver_version>535.261.03</driver_version>\n'
        f"<attached_gpus>{len(cards)}</attached_gpus>\n{inside}</nvidia_smi_log>\n"
    )


def pci(*addresses: str) -> str:
    return "".join(
        f"{one} vendor=0x10de device=0x2204 class=0x030000 rev=a1 driver=nvidia link=16.0,8 "
        f"max=16.0,16 numa=- bar1=268435456 path=/sys/devices/pci0000:00/0000:00:01.1/{one}\n"
        for one in addresses
    )


def identity(*, devices: tuple[tuple[str, ...], ...] = DEVICES, more: str = "") -> str:
    rows = "\n".join(
        " ".join(f'{name}="{value}"' for name, value in zip(_COLUMNS, row, strict=True))
        for row in devices
    )
    return f"== lsblk\n{rows}\n== stat -L of mounted devices\n{NODES}{more}"


def state(
    borg: str | None = "",
    proof: Proven | None = None,
    snapshots: str = "",
    failed: str = "",
) -> str:
    texts = {PROVEN: (proof or proven()).to_json(), FAILED_PROOF: failed}
    if borg is not None:
        texts[borg_record.PATH] = borg or ran(**FRESH)
    if snapshots:
        texts[snapshots_record.PATH] = snapshots
    journal = json.dumps(run().as_json())
    blocks = "".join(f"== {path}\n{text}\n" for path, text in texts.items() if text)
    return f"{blocks}== tail -n 50 /var/lib/rigops/journal.jsonl\n{journal}\n== {OWNED_FILES}\n"


def sent(at: str = "2026-11-25T06:00:00Z", *, nested: Mapping[str, list[str]] | None = None) -> str:
    target = {
        "name": TARGET, "state": "present", "newest_at": {"/home": at}, "seen_at": at, "error": "",
    }  # fmt: skip
    return json.dumps(
        {
            "schema": snapshots_record.SCHEMA,
            "at": at,
            "subvolumes": {"/home": {"newest_at": at, "error": ""}},
            "target": target,
            "nested": dict(nested or {}),
        }
    )


def subject(
    *,
    declared: Mapping[str, object] | None = None,
    controller: Controller = OWN,
    locked: LockedHost | None = LOCKED,
    runs: tuple[Run, ...] = (),
    most_days: int = 2,
    digest: str = "digest",
    **sections: str | None,
) -> Subject:
    """`sections`: with _ for -; None: not collected."""
    texts: dict[str, str | None] = {
        "os_release": 'ID=debian\nVERSION_ID="12"\nVERSION_CODENAME=bookworm\n',
        "uname": "Linux rig 6.1.0-31-amd64 #1 SMP x86_64 GNU/Linux\n",
        "proc_cmdline": f"{' '.join(ARGUMENTS)}\n",
        "boot": boot(),
        "pci": pci(*UUIDS),
        "nvidia_version": DRIVER,
        "nvidia_smi_xml": smi(),
        "storage": f"== /proc/self/mounts\n{MOUNTS}",
        "identity": identity(),
        "rigops_state": state(),
        **sections,
    }
    collected = {
        name.replace("_", "-"): Collected(text, root=True)
        for name, text in texts.items()
        if text is not None
    }
    snapshot = HostSnapshot(Bundle(HOST, None, root=True, sections=collected))
    spec_ = spec(**({"driver": "535", "borg": BORG} if declared is None else declared))
    return Subject(
        host=HOST,
        examined=Examined(snapshot, spec_, catalog()),
        locked=locked,
        controller=controller,
        at="2026-11-25T12:00:00Z",
        runs=runs,
        most_days=most_days,
        digest=digest,
        login="me",
    )


__all__ = ["ID", "PLACE", "boot", "ran", "units"]
