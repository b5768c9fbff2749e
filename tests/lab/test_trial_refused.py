"""A reboot that a host refuses leaves no order for a boot that nobody would watch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lab import hosts
from tests.lab.applying import left_of_a_trial
from tests.lab.laptop import Laptop
from tests.shards import LAB_CONCERNS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab.hosts import Host

pytestmark = pytest.mark.shard(LAB_CONCERNS)

NAME = "inhibited"
BLOCK = "systemd-run --unit=long-backup systemd-inhibit --what=shutdown --mode=block sleep 600"


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    with hosts.running([f"threadripper-3x3090={NAME}"]) as (host,):
        yield host


def test_an_order_goes_where_the_reboot_is_refused(
    host: Host, tmp_path_factory: pytest.TempPathFactory
) -> None:
    laptop = Laptop(tmp_path_factory.mktemp("laptop"))
    laptop.declare({NAME: {"kernel_args": ["iommu=pt"]}})
    host.run(BLOCK)
    try:
        said = laptop.rigops("apply", "--yes", "--reboot", "auto", "--preflight", "never",
                             "--json", "-i", "inventory.py")  # fmt: skip
    finally:
        host.run("systemctl stop long-backup")

    (found,) = said.json()["hosts"]
    assert (said.code, found["outcome"]) == (1, "failed")
    assert "no reboot was ordered" in found["error"]["message"]
    assert any("in the stage reboot" in line for line in found["story"])
    assert left_of_a_trial(host) == ""
