"""Hosts that borg is declared for, as facts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rigops.backup.borg_host import CREDENTIAL
from rigops.concerns.borg.facts import BorgHost, Mount
from rigops.concerns.registry import read

if TYPE_CHECKING:
    from rigops.inventory.spec.model import Borg

ID: Final = "0f" * 32
PUBLIC_KEY: Final = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKeyOfTheHost rigops@rig"
HOST: Final = BorgHost(
    python=(3, 11),
    borg=(1, 2, 4),
    borg_answer="borg 1.2.4",
    systemd=252,
    tools=frozenset({"borg", "ssh", "ssh-keygen", "systemd-creds", "systemd-run"}),
    mounts=(Mount("/", "8:1", "ext4"), Mount("/home", "0:30", "btrfs"), Mount("/b", "8:17")),
    secrets=frozenset({(CREDENTIAL, "600")}),
)


def declare(**more: object) -> Borg:
    data = {
        "repository": "/b/rig", "paths": ["/home", "/etc"], "keep": "7d 4w 6m",
        "passphrase_command": "pass show rig",
    }  # fmt: skip
    spec = read({"borg": {name: value for name, value in {**data, **more}.items() if value}})
    assert spec.borg is not None
    return spec.borg
