"""What a rig is made of: rigs/*.toml, with settings laid over."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_DNS, uuid5

from tests.lab.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tests.lab.settings import Settings

_TOML = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
_FOLDER = Path(__file__).parent / "rigs"


@dataclass(frozen=True)
class Board:
    vendor: str
    name: str
    bios_version: str


@dataclass(frozen=True)
class Cpu:
    vendor: str
    model: str
    threads: int
    max_khz: int


@dataclass(frozen=True)
class Gpu:
    address: str
    model: str
    uuid: str
    serial: str
    vbios: str
    port: str
    generation: int
    width: int
    numa: int = 0


@dataclass(frozen=True)
class Rig:
    name: str
    board: Board
    cpu: Cpu
    gpus: tuple[Gpu, ...]
    iommu: str
    p2p_by_default: str
    nvlinks: tuple[tuple[int, ...], ...] = ()
    os: str = "debian"
    suite: str = "bookworm"  # of Debian
    components: tuple[str, ...] = ("main", "contrib", "non-free", "non-free-firmware")
    users: tuple[str, ...] = ("rig",)
    driver: str | None = None
    open_modules: bool = False
    held: bool = False
    persistence: bool = False
    disks: int = 0
    pocket: str | None = None
    p2p: str = "default"
    cuda: str = "ok"
    smi: str = "ok"
    lost: tuple[str, ...] = ()
    corrupt: tuple[str, ...] = ()
    falls: tuple[str, ...] = ()
    waits: str = ""
    load: str = "idle"
    remap: tuple[str, ...] = ()
    aer: tuple[str, ...] = ()
    heat: tuple[str, ...] = ()
    secure_boot: str = "off"
    containers: str = "off"

    def with_settings(self, settings: Settings) -> Rig:
        """This rig as `up` or `set` asks for it; what an empty value means is the rig's own."""
        own = {key: value for key, value in settings.items() if key not in {"latency", "cut"}}
        changes: dict[str, Any] = {key: value for key, value in own.items() if value}
        cards = {gpu.address for gpu in self.gpus}
        ports = {port for gpu in self.gpus for port in gpu.port.split("/")}
        known = dict.fromkeys(("lost", "corrupt", "falls", "remap", "heat"), cards)
        known["aer"] = cards | ports
        for key in own.keys() & known.keys():
            changes[key] = self._addressed(key, own[key], known[key])
        if changes.get("driver") == "none":
            changes["driver"] = None
        if "pocket" in own and self.pocket is None:
            raise LabError(f"pocket={own['pocket']}: {self.name} has no older pocket")
        return replace(self, **changes)

    def _addressed(self, key: str, text: str, known: Collection[str]) -> tuple[str, ...]:
        wanted = tuple(text.split(",")) if text else ()
        unknown = [word for word in wanted if word.partition("+")[0] not in known]
        if unknown:
            what = "port or card" if key == "aer" else "card"
            raise LabError(
                f"{key}={text}: {self.name} has no {what} at {unknown[0].partition('+')[0]},"
                f" only {', '.join(sorted(known))}"
            )
        return wanted

    def hardware(self) -> str:
        """What the host finds in /etc/rigsim/rig.json."""
        keys = (
            "name", "os", "board", "cpu", "iommu", "p2p", "cuda", "smi", "lost", "corrupt",
            "falls", "waits", "load", "remap", "aer", "heat", "p2p_by_default", "persistence",
            "gpus", "nvlinks", "secure_boot",
        )  # fmt: skip
        whole = asdict(self)
        return json.dumps({key: whole[key] for key in keys}, indent=1) + "\n"


def names() -> list[str]:
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def load(name: str, owner: str = "") -> Rig:
    """A rig by name; the identities of its cards are those of the host that owns them."""
    if name not in names():
        raise LabError(f"there is no rig {name!r}; there are {', '.join(names())}")
    data = _TOML.loads((_FOLDER / f"{name}.toml").read_text())
    card = data.pop("card", {})
    gpus = tuple(
        _gpu({**card, **gpu}, owner or name, index) for index, gpu in enumerate(data.pop("gpus"))
    )
    nvlinks = tuple(tuple(link) for link in data.pop("nvlinks", []))
    board, cpu = Board(**data.pop("board")), Cpu(**data.pop("cpu"))
    plain: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in data.items()
    }
    return Rig(name=name, board=board, cpu=cpu, gpus=gpus, nvlinks=nvlinks, **plain)


def _gpu(data: Mapping[str, Any], owner: str, index: int) -> Gpu:
    identity = f"{owner}/{index}"
    serial = str(int(sha256(identity.encode()).hexdigest(), 16))[:13]
    return Gpu(uuid=f"GPU-{uuid5(NAMESPACE_DNS, identity)}", serial=serial, **data)
