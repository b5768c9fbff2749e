"""What a server says that does not take snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.backup.host.errors import HostError
from rigops.concerns.snapshots.host import remote
from rigops.concerns.snapshots.host.remote import RemotePlace

if TYPE_CHECKING:
    from pathlib import Path


def test_what_lets_the_key_in_is_printed_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\necho 'root@nas: Permission denied (publickey).' >&2; exit 255\n")
    ssh.chmod(0o755)
    (tmp_path / "key.pub").write_text("ssh-ed25519 AAAAC3Nz rigops@rig\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(remote, "KEY_FILE", str(tmp_path / "key"))

    with pytest.raises(HostError) as refused:
        RemotePlace("root@nas:/srv/backup").room()

    assert "`rigops snapshots HOST --target-setup | ssh root@nas sh`" in refused.value.fix
    assert refused.value.fix.endswith(
        "on root@nas, append this line to ~/.ssh/authorized_keys: restrict,command="
        '"/usr/local/libexec/rigops-snapshots serve /srv/backup" ssh-ed25519 AAAAC3Nz rigops@rig'
    )
