"""A host under rigops' care, and what tests of its concerns ask of it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.lab import clients
from tests.lab.applying import INVENTORY, QUIETLY, only
from tests.lab.sshd import until

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.lab.hosts import Host
    from tests.lab.laptop import Laptop

DEPLOYS = Path(__file__).resolve().parents[2] / "deploys"
_REBOOT = "touch /run/before && (sleep 0.2; systemctl reboot) >/dev/null 2>&1 &"
_UP = "test ! -e /run/before && systemctl is-system-running --wait"


@dataclass(frozen=True)
class Tended:
    laptop: Laptop
    host: Host

    def declare(self, **declared: object) -> None:
        """For rigops, and for plain pyinfra, which needs to be told of known_hosts."""
        known_hosts = str(clients.config().with_name("known_hosts"))
        self.laptop.declare({self.host.name: {**declared, "ssh_known_hosts_file": known_hosts}})

    def plan(self, code: int = 0, **declared: object) -> Mapping[str, Any]:
        self.declare(**declared)
        said = self.laptop.rigops("plan", "--json", *INVENTORY)
        assert said.code == code, said.out + said.err
        return only(said)

    def finding(self, check: str, **declared: object) -> Mapping[str, Any]:
        self.declare(**declared)
        return self.laptop.doctor(*INVENTORY).seen(self.host.name).one(check)

    def does(self, command: str) -> str:
        done = self.host.run(command)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def apply(self, code: int = 0, *options: str, **declared: object) -> Mapping[str, Any]:
        """What it says of the host; it has to end with this code."""
        self.declare(**declared)
        said = self.laptop.rigops("apply", *options, "--json", *QUIETLY)
        assert said.code == code, said.out + said.err
        return only(said)

    def pyinfra(self, deploy: Path, *options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [Path(sys.executable).with_name("pyinfra"), "inventory.py", deploy, *options],
            cwd=self.laptop.folder,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    def pyinfra_twice(self, deploy: str) -> None:
        """The second run is on a host that has it all."""
        for _ in range(2):
            done = self.pyinfra(DEPLOYS / deploy, "-y")
            assert done.returncode == 0, done.stderr

    def reboot(self) -> None:
        """Until another boot has started all that it starts."""
        ordered = self.host.run(_REBOOT)
        assert ordered.returncode == 0, ordered.stderr
        until(lambda: self.host.run(_UP).stdout != "", "another boot")


def settings(host: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """What a plan or an apply says of settings, each with the value before and after."""
    return {
        one["subject"]: (one["before"].strip(), one["after"].strip())
        for one in host["changes"]
        if one["kind"] == "setting"
    }
