"""Files that look like the frame around them: nothing in them becomes another file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rigops.probe.text import blocks
from tests.lab.laptop import Laptop
from tests.shards import ATTACK

if TYPE_CHECKING:
    from tests.lab.conftest import Lab
    from tests.lab.hosts import Host

pytestmark = pytest.mark.shard(ATTACK)

FORGED = ("== /etc/forged", "== sha256sum OWNED")
STATE = "/var/lib/rigops"

# A path, and what is in it; `HEAD` stands for lines that would be heads.
FILES = {
    "a user's NCCL settings": ("/home/rig/.nccl.conf", "NCCL_DEBUG=INFO\nHEAD\nNCCL_P2P_DISABLE=1"),
    "NCCL settings": ("/etc/nccl.conf", "HEAD\nNCCL_P2P_DISABLE=1"),
    "module options": ("/etc/modprobe.d/a.conf", "options nvidia a=1\nHEAD nvidia\n"),
    "limits": ("/etc/security/limits.d/a.conf", "* hard nofile 9\nHEAD"),
    "pins": ("/etc/apt/preferences.d/a", "Package: a\nHEAD\nPin-Priority: 9"),
    "GRUB's settings": ("/etc/default/grub.d/a.cfg", "# a\nHEAD"),
    "the journal": (f"{STATE}/journal.jsonl", '{"host": "a"}\nHEAD'),
    "a record": (f"{STATE}/other.json", "{}\nHEAD"),
    "mounts of old": ("/etc/fstab", "HEAD"),
}


@pytest.fixture(scope="module")
def rig(module_lab: Lab) -> Host:
    (rig,) = module_lab.up("threadripper-3x3090")
    rig.run(f"mkdir -p {STATE} /etc/apt/preferences.d /etc/default/grub.d")
    return rig


@pytest.fixture(scope="module")
def heads(
    rig: Host, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Of each section of a raw bundle, without these lines and with them."""
    laptop = Laptop(tmp_path_factory.mktemp("laptop"))
    laptop.declare({rig.name: {}})
    for path, _ in FILES.values():
        rig.run(f"[ -e {path} ] || : >{path}")
    before = collected(laptop, "before")
    for path, content in FILES.values():
        rig.run(f"cat >{path}", given=content.replace("HEAD", "\n".join(FORGED)))
    return before, collected(laptop, "after")


def collected(laptop: Laptop, name: str) -> dict[str, set[str]]:
    folder = laptop.folder / name
    laptop.doctor("-i", "inventory.py", "--save", str(folder), "--raw")
    sections = json.loads((folder / "meta.json").read_text())["sections"]
    return {name: set(blocks((folder / name).read_text())) for name in sections}


def test_a_line_that_looks_like_a_head_makes_no_file_and_hides_none(
    heads: tuple[dict[str, set[str]], dict[str, set[str]]],
) -> None:
    before, after = heads

    assert any("/etc/nccl.conf" in found for found in after.values())
    for section, found in after.items():
        assert not found & {head.removeprefix("== ") for head in FORGED} - before[section]
        assert before[section] <= found, section
