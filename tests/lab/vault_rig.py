"""A host with a proven driver, and what tests ask of its vault and the controller's."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.lab.applying import INVENTORY, only
from tests.lab.packages import FILE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.lab.driver_rig import Rig

FIRST, SECOND = "535.183.01", "535.261.03"
VAULT = "/var/lib/rigops/vault"
SOURCE = "/etc/apt/sources.list.d/rigops-vault.list"
AUTO = ("--yes", "--reboot", "auto", "--json", *INVENTORY)
PURGE = """
apt-mark showhold | xargs -r apt-mark unhold
DEBIAN_FRONTEND=noninteractive apt-get -q -y purge --autoremove \
    $(dpkg-query -W -f '${source:Package}|${Package}\\n' |
        sed -nE 's/^nvidia-(graphics-drivers|modprobe|persistenced|settings|xconfig)\\|//p')
rm -rf /var/lib/rigops /usr/local/libexec/rigops /etc/apt/preferences.d/rigops* \
    /etc/apt/apt.conf.d/*rigops* /etc/modprobe.d/rigops* /etc/kernel/*.d/*rigops* \
    /etc/systemd/system/nvidia-persistenced.service
"""


@dataclass(frozen=True)
class VaultRig:
    rig: Rig

    def applied(self, code: int = 0, **declared: object) -> Mapping[str, Any]:
        """With the proof that counts, which other tests leave out."""
        self.rig.declare(**declared)
        said = self.rig.laptop.rigops("apply", *AUTO)
        assert said.code == code, said.out + said.err
        return only(said)

    def rolled_back(self, code: int = 0) -> Mapping[str, Any]:
        said = self.rig.laptop.rigops("rollback", self.rig.host.name, *AUTO)
        assert said.code == code, said.out + said.err
        return only(said)

    @property
    def lock(self) -> Path:
        return self.rig.laptop.folder / "inventory.lock.json"

    @property
    def locked(self) -> Mapping[str, Any]:
        (host,) = json.loads(self.lock.read_text())["hosts"]
        return dict(host)

    def stored(self, digest: str) -> Path:
        folder = self.rig.laptop.folder / "data" / "rigops" / "vault" / "sha256"
        return folder / digest[:2] / digest[2:]

    def sets(self) -> list[Mapping[str, Any]]:
        document = json.loads(self.rig.does(f"cat {VAULT}/vault.json"))
        assert document["schema"] == "rigops.vault/1"
        return list(document["sets"])

    def pool(self) -> dict[str, str]:
        said = self.rig.does(f"cd {VAULT} && sha256sum pool/*")
        return {line.split()[1]: line.split()[0] for line in said.splitlines()}

    def package(self, name: str, version: str) -> Mapping[str, Any]:
        (one,) = (its for its in self.locked["packages"] if its["version"] == version)
        (found,) = (its for its in one["packages"] if its["name"] == name)
        return dict(found)

    def without_sources(self) -> None:
        """Nobody has any package any more, and nothing of apt's remembers where it was."""
        self.rig.does(f"rm -f /{FILE}; : >/etc/apt/sources.list; apt-get -q update; apt-get clean")
        assert self.rig.host.run("apt-cache madison nvidia-driver").stdout == ""

    def nothing_is_left_of_the_source(self) -> bool:
        return not self.rig.there(
            "/etc/apt/sources.list.d/rigops*", "/var/lib/apt/lists/*rigops*", f"{VAULT}/Packages"
        ) and not self.rig.there(f"{VAULT}/pool/*.rigops-new", f"{VAULT}/work.*")
