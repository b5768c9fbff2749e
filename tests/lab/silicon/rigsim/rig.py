"""The rig as /etc/rigsim/rig.json declares it."""

import json
from typing import Any, NamedTuple

from . import models, paths
from .models import Model


class Gpu(NamedTuple):
    number: int
    address: str
    model: Model
    uuid: str
    serial: str
    vbios: str
    ports: tuple[str, ...]
    generation: int
    width: int
    numa: int
    bar1_mib: int

    @property
    def bus(self) -> int:
        return int(self.address.split(":")[1], 16)

    @property
    def bus_id(self) -> str:
        """The spelling of nvidia-smi: eight digits of domain, capitals."""
        return "0000" + self.address.upper()


class Rig(NamedTuple):
    name: str
    board: dict[str, str]
    cpu: dict[str, Any]
    iommu: str
    p2p: str
    cuda: str
    corrupt: frozenset[str]
    falls: dict[str, int]
    waits: str
    p2p_by_default: str
    smi: str
    load: str
    persistence: bool
    lost: frozenset[str]
    remap: frozenset[str]
    aer: dict[str, int]
    heat: dict[str, tuple[str, ...]]
    gpus: tuple[Gpu, ...]
    nvlinks: dict[tuple[int, int], int]
    has_secure_boot: bool

    @property
    def is_intel(self) -> bool:
        return bool(self.cpu.get("vendor") == "Intel")

    @property
    def threads(self) -> int:
        return int(self.cpu.get("threads", 8))

    def links_of(self, index: int) -> int:
        return sum(count for pair, count in self.nvlinks.items() if pair[0] == index)


def _gpu(index: int, facts: dict[str, Any], known: dict[str, Model]) -> Gpu:
    model = known[facts["model"]]
    port = facts.get("port") or f"0000:00:{index + 1:02x}.1"
    return Gpu(
        number=index,
        address=facts["address"].lower(),
        model=model,
        uuid=facts["uuid"],
        serial=str(facts.get("serial") or ""),
        vbios=facts.get("vbios", "94.02.42.00.01"),
        ports=tuple(port.lower().split("/")),
        generation=int(facts.get("generation", model.generation)),
        width=int(facts.get("width", 16)),
        numa=int(facts.get("numa", -1)),
        bar1_mib=int(facts.get("bar1_mib", model.bar1_mib)),
    )


def _counted(words: list[str]) -> dict[str, int]:
    parts = (word.partition("+") for word in words)
    return {address.lower(): int(count) for address, _, count in parts}


def _heat(facts: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for word in facts.get("heat", ()):
        address, _, what = word.partition("+")
        found[address.lower()] = (*found.get(address.lower(), ()), what)
    return found


def from_json(text: str) -> Rig:
    facts = json.loads(text)
    known = models.load()
    # The driver counts cards in the order of their addresses, whatever the file's order is.
    order = sorted(range(len(facts["gpus"])), key=lambda at: str(facts["gpus"][at]["address"]))
    nvlinks = {}
    for first, second, count in facts.get("nvlinks", ()):
        pair = order.index(first), order.index(second)
        nvlinks[pair] = nvlinks[pair[::-1]] = count
    return Rig(
        name=facts["name"],
        board=facts.get("board", {}),
        cpu=facts.get("cpu", {}),
        iommu=facts.get("iommu", "translated"),
        p2p=facts.get("p2p", "default"),
        cuda=facts.get("cuda", "ok"),
        corrupt=frozenset(address.lower() for address in facts.get("corrupt", ())),
        falls=_counted(facts.get("falls", ())),
        waits=facts.get("waits", ""),
        p2p_by_default=facts.get("p2p_by_default", "not-granted"),
        smi=facts.get("smi", "ok"),
        load=facts.get("load", "idle"),
        persistence=bool(facts.get("persistence", False)),
        lost=frozenset(address.lower() for address in facts.get("lost", ())),
        remap=frozenset(address.lower() for address in facts.get("remap", ())),
        aer=_counted(facts.get("aer", ())),
        heat=_heat(facts),
        gpus=tuple(_gpu(index, facts["gpus"][at], known) for index, at in enumerate(order)),
        nvlinks=nvlinks,
        has_secure_boot=facts.get("secure_boot") == "on",
    )


def load() -> Rig:
    return from_json(paths.RIG.read_text())
