"""A machine under rigops' care, and what tests of its boots ask of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.lab.laptop import Laptop, Said
    from tests.lab.vm.machines import Machine

REBOOT_TIMEOUT_S = 180  # an emulated processor takes half a minute to boot, or longer
PATIENCE_S = 900.0
TRACES = """
ls /boot/grub/custom.cfg /etc/grub.d/42_rigops-trial /etc/systemd/system/rigops-trial.service
ls /usr/local/libexec/rigops/trial /var/lib/rigops/trial.log /boot/efi/rigops
grub-editenv list | grep next_entry
grep -l rigops-trial /boot/grub/grub.cfg
find /boot /etc /var/lib/rigops -name '*.rigops-new*'
true
"""


@dataclass(frozen=True)
class Tended:
    machine: Machine
    laptop: Laptop

    def declare(self, *arguments: str, **more: object) -> None:
        declared = {"kernel_args": list(arguments), "reboot_timeout": REBOOT_TIMEOUT_S, **more}
        self.laptop.declare({self.machine.name: {**self.machine.data, **declared}})

    def rigops(self, *words: str) -> Said:
        return self.laptop.rigops(*words, "-i", "inventory.py", timeout=PATIENCE_S)

    def apply(self, *options: str) -> tuple[int, Mapping[str, Any]]:
        said = self.rigops("apply", "--yes", "--preflight", "never", "--json", *options)
        assert said.out, said.err
        (host,) = said.json()["hosts"]
        return said.code, host

    def verdict(self, check: str) -> str:
        """Beside other work the emulated machine may be too slow for one look."""
        looks = (self._look(check) for _ in range(3))
        return next((status for status in looks if status != "unknown"), "unknown")

    def _look(self, check: str) -> str:
        status: str = self.rigops("doctor", "--json").seen().one(check)["status"]
        return status

    @property
    def arguments(self) -> list[str]:
        return self.machine.ssh("cat /proc/cmdline").split()

    def traces(self) -> str:
        """What is left of a trial, or of a change that was cut off."""
        return self.machine.ssh(f"{{ {TRACES} }} 2>/dev/null")
