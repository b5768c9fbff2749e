"""A machine with the owner's modules, and what tests ask of it and of its kernel."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tests import own_tree
from tests.vm.cutting import cut_at, cut_when, switch_on
from tests.vm.trying import PATIENCE_S, REBOOT_TIMEOUT_S, Tended

if TYPE_CHECKING:
    from collections.abc import Mapping

ARGUMENT: Final = "rigops.nvidia=own"
FOLDER: Final = "/var/lib/rigops/driver-modules"
MODPROBE: Final = "/etc/modprobe.d/00-rigops-nvidia-modules.conf"
FAILED: Final = "/var/lib/rigops/failed_modules.json"


@dataclass(frozen=True)
class Rig(Tended):
    driver: str
    tree: Mapping[str, str]

    def own(self, **more: object) -> None:
        folder = self.laptop.folder / "tree"
        for name, text in self.tree.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        declared: dict[str, Any] = {"p2p": "required", **more}
        self._declare(driver_modules=str(folder), **declared)

    def stock(self) -> None:
        self._declare(p2p="measure")

    def _declare(self, **more: object) -> None:
        cards = len(self.machine.record.cards)
        slowly = {"reboot_timeout": 2 * REBOOT_TIMEOUT_S}  # a minute to load modules, beside others
        self.declare("iommu=pt", driver=self.driver, gpus=cards, **slowly, **more)

    def run(self, *words: str) -> tuple[int, Mapping[str, Any]]:
        said = self.rigops(*words, "--json")
        assert said.out, said.err
        (host,) = said.json()["hosts"]
        return said.code, host

    def applied(self, *options: str) -> tuple[int, Mapping[str, Any]]:
        return self.run("apply", "--yes", "--reboot", "auto", *options)

    def cut(self, condition: str = "", stage: str = "") -> None:
        """In an apply: when the machine comes to this condition, or the apply to this stage."""
        words = ("apply", "--yes", "--reboot", "auto", "-i", "inventory.py")
        running = self.laptop.start(*words)
        try:
            if condition:
                cut_when(self.machine, condition, PATIENCE_S)
            else:
                cut_at(self.machine, running, stage)
            running.wait(PATIENCE_S)
        finally:
            running.end()
        switch_on(self.machine)

    @property
    def loaded(self) -> int:
        """The tree that all five modules are of."""
        said = self.machine.ssh("dmesg")
        found = dict(re.findall(r"(nvidia\S*) of tree (\d)", said))
        assert set(found) == set(own_tree.MODULES), said[-2000:]
        (tree,) = set(found.values())
        return int(tree)

    @property
    def proven(self) -> Mapping[str, str]:
        found: dict[str, str] = json.loads(self.machine.ssh("cat /var/lib/rigops/proven.json"))
        return found

    @property
    def is_whole(self) -> bool:
        return self.machine.ssh("dpkg --audit; systemctl --failed --no-legend") == ""

    def own_files(self) -> str:
        return self.machine.ssh(
            f"ls -d {FOLDER} {MODPROBE} {FAILED} /usr/local/libexec/rigops/*_modules 2>/dev/null;"
            "ls -d /var/lib/dkms/rigops* /usr/src/rigops* /var/tmp/rigops* 2>/dev/null;"
            "lsinitramfs /boot/initrd.img-$(uname -r) | grep 00-rigops || :"
        )
