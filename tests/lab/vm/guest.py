"""What a machine gets beside Debian: its cards, and the driver over them."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import NAMESPACE_DNS, uuid5

from tests.lab.seed import SILICON
from tests.lab.vm.qemu import CARDS, SLOTS

if TYPE_CHECKING:
    from collections.abc import Sequence

FOLDER = Path(__file__).with_name("inside")
DRIVER = "535.261.03"
TWO = ("GeForce RTX 3090",) * 2
_UNIT = "lab-cards.service"


def rig_file(cards: Sequence[str] = TWO) -> str:
    """P2P is granted, and right only where the IOMMU lets the cards' addresses through."""
    gpus = [
        {
            "address": address, "port": port, "model": model, "generation": 3,
            "uuid": f"GPU-{uuid5(NAMESPACE_DNS, address)}", "vbios": "94.02.42.00.01",
        }
        for address, port, model in zip(CARDS, SLOTS, cards, strict=False)
    ]  # fmt: skip
    rig = {
        "name": "machine", "os": "debian", "cpu": {"vendor": "Intel", "threads": 2},
        "p2p_by_default": "granted", "gpus": gpus,
    }  # fmt: skip
    return json.dumps(rig, indent=1) + "\n"


def write(tree: Path) -> None:
    """Below an empty folder, as it is to lie in the machine."""
    files = {
        f"etc/systemd/system/{_UNIT}": (FOLDER / _UNIT).read_text(),
        # The chipset has one too, and which of them is first is a race.
        "etc/modprobe.d/lab.conf": "blacklist iTCO_wdt\n",
    }
    for name, text in files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tree / "usr/lib/rigsim").mkdir(parents=True)
    (tree / "etc/rigsim").symlink_to("/usr/lib/rigsim/etc")
    wanted = tree / f"etc/systemd/system/sysinit.target.wants/{_UNIT}"
    wanted.parent.mkdir()
    wanted.symlink_to(f"../{_UNIT}")


def pack(target: Path, cards: Sequence[str] = TWO) -> None:
    """The simulation as it is now in the checkout, and the cards it is to play."""
    with tarfile.open(target, "w:gz") as tar:
        for name in ("bin", "rigsim", "models.toml"):
            tar.add(SILICON / name, name, filter=_plain)
        tar.add(FOLDER / "cards", "bin/cards", filter=_plain)
        for name, text in (("rig.json", rig_file(cards)), ("driver", f"{DRIVER}\n")):
            entry = tarfile.TarInfo(f"etc/{name}")
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text.encode()))


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """A file of root's; no byte code of another Python."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    return None if "__pycache__" in entry.name else entry
