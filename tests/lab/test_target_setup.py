"""What lets a host's key in on the server that its snapshots are sent to, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.lab import hosts
from tests.lab.applying import INVENTORY
from tests.lab.laptop import Laptop
from tests.lab.seed import SSHD_PORT
from tests.lab.tended import Tended
from tests.shards import LAB_SNAPSHOTS

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.shard(LAB_SNAPSHOTS)

NAME: Final = "target-setup"
SERVER: Final = "/server/backup"
KEYS: Final = "/root/.ssh/authorized_keys"
ASK: Final = (
    f"ssh -T -p {SSHD_PORT} -i /etc/rigops/snapshots_key -o BatchMode=yes"
    " -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
)
DECLARED: Final[dict[str, Any]] = {
    "snapshots": {"subvolumes": ["/data/models"], "send_to": f"root@127.0.0.1:{SERVER}"}
}


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tended]:
    """It is its own server, on its second disk."""
    with hosts.running([f"epyc-8x4090={NAME}"]) as (host,):
        rig = Tended(Laptop(tmp_path_factory.mktemp("laptop")), host)
        rig.does(
            "mkdir -p /data /server && mount /dev/sda /data && mount /dev/sdb /server && "
            "btrfs -q subvolume create /data/models"
        )
        yield rig


def test_before_the_key_is_made_it_is_said(rig: Tended) -> None:
    rig.declare(**DECLARED)

    said = rig.laptop.rigops("snapshots", NAME, "--target-setup", *INVENTORY)

    assert (said.code, said.out) == (1, "")
    assert f"rigops apply --limit {NAME} makes the key" in said.err


def test_the_script_installs_the_program_and_binds_the_key_to_it(rig: Tended) -> None:
    rig.apply(**DECLARED)
    before = rig.does(f"mkdir -p /root/.ssh && echo '# mine' >>{KEYS} && cat {KEYS}")
    said = rig.laptop.rigops("snapshots", NAME, "--target-setup", *INVENTORY)
    assert said.code == 0, said.err

    for _ in range(2):
        assert rig.host.run("sh", given=said.out).stdout.endswith(f"may be sent to {SERVER}\n")

    assert rig.does(f"cat {KEYS}").startswith(before)
    assert rig.does(f"grep -c rigops-snapshots {KEYS}") == "1"
    assert rig.host.run(f"{ASK} {rig.host.address} folders").returncode == 0
    refused = rig.host.run(f"{ASK} {rig.host.address} cat /etc/shadow")
    assert refused.returncode != 0
    assert "root:" not in refused.stdout


def test_a_host_that_sends_to_no_server_needs_none(rig: Tended) -> None:
    rig.declare(snapshots={"subvolumes": ["/data/models"]})

    said = rig.laptop.rigops("snapshots", NAME, "--target-setup", *INVENTORY)

    assert said.code == 2
    assert "are not sent to a server" in said.err
