"""A host whose root has become read-only, as after an error of its disk: read and left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lab.applying import half_written, only
from tests.lab.laptop import Laptop
from tests.lab.tended import Tended
from tests.lab.tree import Tree
from tests.shards import ATTACK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.lab.conftest import Lab

pytestmark = pytest.mark.shard(ATTACK)

# Every folder of the root, since a root with open files cannot be made so by hand.
READ_ONLY = """
for folder in etc boot usr var tmp root home srv opt; do
    mount --rbind /$folder /$folder && mount -o remount,bind,ro /$folder || exit
done
for folder in etc var/lib tmp root home; do ! touch /$folder/written 2>/dev/null || exit 1; done
"""
WRITABLE = (
    "for folder in etc boot usr var tmp root home srv opt; do umount --lazy /$folder; done; :"
)
NCCL = {"NCCL_DEBUG": "WARN"}
# A row each: what is declared, and so by which way something would be written first.
DECLARED = {
    "a file": {"nccl": NCCL},
    "limits": {"nccl": NCCL, "limits": {"memlock": "4M"}},
    "kernel arguments": {"kernel_args": ["nosmt"]},
    "a driver": {"driver": "535"},
    "a secret": {"notify": "http://127.0.0.1:9/x"},
    "what is there": {},
}


@pytest.fixture(scope="module")
def rig(module_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tended]:
    host = module_lab.one("desktop-3060-1060")
    yield Tended(Laptop(tmp_path_factory.mktemp("laptop")), host)
    host.run(WRITABLE)


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_doctor_sees_the_same_as_before(rig: Tended, shell: str) -> None:
    rig.declare()
    rig.host.run(f"{WRITABLE}; ln -sf {shell} /usr/bin/sh")
    before = rig.laptop.doctor("-i", "inventory.py").seen().verdicts()
    assert rig.host.run(READ_ONLY).returncode == 0

    seen = rig.laptop.doctor("-i", "inventory.py").seen()

    assert seen.verdicts() == before


@pytest.mark.parametrize("declared", DECLARED.values(), ids=DECLARED)
def test_plan_tells_and_apply_refuses_with_the_cure_and_writes_nothing(
    rig: Tended, declared: Mapping[str, object]
) -> None:
    rig.declare(**declared)
    before = Tree(rig.host)

    planned = rig.laptop.rigops("plan", "--json", "-i", "inventory.py")
    applied = rig.laptop.rigops(
        "apply",
        "--yes",
        "--preflight",
        "never",
        "--reboot",
        "never",
        "--json",
        "-i",
        "inventory.py",
    )

    found = only(planned)
    if not declared:
        assert (planned.code, applied.code) == (0, 0)
        return
    assert found["changes"] or found["blocked"], planned.out
    host = only(applied)
    assert applied.code == 1
    if host["outcome"] == "failed":
        assert "Read-only file system" in host["error"]["message"]
        assert "remount,rw" in host["error"]["cure"]
    else:
        assert host["outcome"] == "refused"
        assert host["blocked"]
    assert half_written(rig.host) == []
    changed = before.differences(Tree(rig.host))
    assert {path for path in changed if not path.startswith(("/var/log/", "/run/"))} == set()
