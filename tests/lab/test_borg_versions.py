"""From the borg of Debian 12 to that of Debian 13: what was renamed is healed, and never lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.lab.borg_14 import install_14, use_14
from tests.lab.borg_host import BORG, LIVE, PROGRAM, REPOSITORY, BorgHost
from tests.lab.test_restore import below
from tests.shards import LAB_BORG

if TYPE_CHECKING:
    from tests.lab.conftest import Lab

pytestmark = pytest.mark.shard(LAB_BORG)

RIG: Final = "epyc-8x4090"
RENAMED: Final = "epyc-20261101T060000Z"


@pytest.fixture(scope="module")
def on(module_lab: Lab) -> BorgHost:
    found = BorgHost(module_lab.one(RIG))
    found.install()
    install_14(found)
    return found


@pytest.mark.parametrize("has_state", [True, False], ids=["known", "after a reinstall"])
def test_a_renamed_archive_is_to_be_healed_and_then_restores(
    on: BorgHost, *, has_state: bool
) -> None:
    on.begin(keep="")
    was = on.look(LIVE)
    on.does(f"{BORG} create {REPOSITORY}::old {LIVE}; {BORG} rename {REPOSITORY}::old {RENAMED}")
    use_14(on)
    if not has_state:
        on.does("rm -r /var/lib/rigops/borg* /var/cache/rigops")
    on.declare(keep="", check_every_days=0)

    drilled = on.run("drill")
    ran = on.run("backup")
    restored = on.run("restore", "--path", LIVE, "--at", RENAMED, "--to", "/root/found")

    for one in (drilled, ran, restored):
        assert one.code == 1
        assert "to be healed" in one.text, one.text
        assert "are not lost" in one.text
    assert on.state()["last_drill"]["result"] == "to be healed"
    assert on.state()["repository"]["state"] == "to be healed"
    assert "warn" in on.does(f"{PROGRAM} check | grep borg.repository")
    shown = on.run("heal")
    assert (shown.code, shown.result) == (0, {"to_heal": [RENAMED], "healed": []})
    assert on.run("heal", "--yes").result == {"to_heal": [], "healed": [RENAMED]}
    done = on.restore(LIVE, "--at", RENAMED, "--to", "/root/found")
    assert below(on.look(done["restored_to"])) == below(was)
    on.does("rm -r /root/found")
    following = on.run("backup")
    assert following.code == 0, following.text
    assert RENAMED in on.state()["repository"]["seen_archives"]
    assert on.state()["repository"]["last_borg"] == "1.4.0"
    assert on.run("drill").code == 0


def test_every_command_works_with_modern_exit_codes(on: BorgHost) -> None:
    on.begin(keep="1h")
    on.does(f"{BORG} create {REPOSITORY}::{RENAMED} {LIVE}")
    use_14(on)

    for words in (("init",), ("backup",), ("backup",), ("list",), ("drill",), ("export-key",)):
        ran = on.run(*words)
        assert ran.code == 0, (words, ran.text, ran.stderr)
    assert RENAMED not in on.archives()  # pruned
    was = on.look(LIVE)
    on.does(f"rm -r {LIVE}/thesis")
    on.restore(f"{LIVE}/thesis", "--in-place")

    assert below(on.look(LIVE)) == below(was)
    on.does(f"mkdir {REPOSITORY}/lock.exclusive; touch {REPOSITORY}/lock.exclusive/other@1.99-0")
    assert "locked by other (process 99)" in on.run("backup").text
    on.does(f"{BORG} break-lock {REPOSITORY}; umount /mnt/backup")
    assert "is absent" in on.run("backup").text
