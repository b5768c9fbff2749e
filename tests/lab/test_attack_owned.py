"""What somebody does to the files and units of rigops, and what plan, apply and release make of it.

A row is a damage by root's shell, and what the next plan has to say; each is mended afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.lab import hosts
from tests.lab.applying import INVENTORY, QUIETLY, only
from tests.lab.laptop import Laptop
from tests.lab.tended import Tended
from tests.shards import ATTACK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.lab.laptop import Said

pytestmark = pytest.mark.shard(ATTACK)

SECRET_URL = "https://alerts.example/s3cret-token"
DECLARED: Final[Mapping[str, Any]] = {
    "acs_redirect": "off",
    "limits": {"nofile": 4096},
    "notify": SECRET_URL,
}
NAME = "rigops-acs.service"
UNIT = f"/etc/systemd/system/{NAME}"
PROGRAM = "/usr/local/libexec/rigops/acs"
SECRET = "/etc/rigops/notify"
LOGINS = "/etc/security/limits.d/90-rigops.conf"
OWNED = "/var/lib/rigops/owned.json"
LONGEST_S = 60


class Rig(Tended):
    def planned(self, *options: str) -> Said:
        said = self.laptop.rigops("plan", *INVENTORY, *options, timeout=LONGEST_S)
        assert "s3cret" not in said.out + said.err
        return said

    def status(self, path: str) -> str:
        return self.does(f"stat -c '%u:%g %a %F' {path}")


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with hosts.running(["threadripper-3x3090=attack-owned"]) as (host,):
        rig = Rig(Laptop(tmp_path_factory.mktemp("laptop")), host)
        rig.apply(0, **DECLARED)
        yield rig


@pytest.mark.parametrize(
    ("path", "damage", "said"),
    [
        pytest.param(PROGRAM, "chown rig {}", "the owner is 1000:0", id="program of a user"),
        pytest.param(UNIT, "chown rig:rig {}", "the owner is 1000:1000", id="unit of a user"),
        pytest.param(LOGINS, "chgrp rig {}", "the owner is 0:1000", id="file of a group"),
        pytest.param(SECRET, "chmod 666 {}", "the mode is 0666, declared 0600", id="open secret"),
        pytest.param(
            SECRET, "echo s3cret-too >>{0}; chmod 644 {0}", "the mode is 0644", id="edited secret"
        ),
        pytest.param(LOGINS, "chmod 000 {}", "the mode is 0000, declared 0644", id="no mode"),
        pytest.param(PROGRAM, "chmod 4755 {}", "the mode is 4755, declared 0755", id="setuid"),
        pytest.param(PROGRAM, "chmod g+w {}", "the mode is 0775", id="program of a group"),
    ],
)
def test_an_owner_or_mode_that_was_changed_is_shown_and_put_right(
    rig: Rig, path: str, damage: str, said: str
) -> None:
    before = rig.status(path)
    rig.does(damage.format(path))

    plan = rig.planned("--exit-code")
    applied = rig.laptop.rigops("apply", *QUIETLY, "-v", "--json")

    assert plan.code == 4
    assert said in plan.out + plan.err
    assert "s3cret" not in rig.planned("--json").out
    assert "s3cret" not in applied.out + applied.err
    assert only(applied)["outcome"] == "changed"
    assert rig.status(path) == before
    assert rig.planned("--exit-code").code == 0


MOVED = "mv {0} {0}.away; "


@pytest.mark.parametrize(
    ("path", "damage", "kind"),
    [
        pytest.param(UNIT, "ln -s {0}.away {0}", "a symbolic link", id="unit: link to itself"),
        pytest.param(UNIT, "mkfifo {0}", "a FIFO", id="unit: FIFO"),
        pytest.param(PROGRAM, "ln -s /nowhere {0}", "a symbolic link", id="program: to nowhere"),
        pytest.param(PROGRAM, "mkdir {0}", "a directory", id="program: directory"),
        pytest.param(SECRET, "ln -s /etc/shadow {0}", "a symbolic link", id="secret: to another"),
        pytest.param(SECRET, "mkfifo {0}", "a FIFO", id="secret: FIFO"),
        pytest.param(SECRET, "mknod {0} c 1 5", "a device", id="secret: endless device"),
    ],
)
def test_what_is_no_file_any_more_is_named_and_neither_followed_nor_replaced(
    rig: Rig, path: str, damage: str, kind: str
) -> None:
    rig.does((MOVED + damage).format(path))
    before = rig.status(path)
    try:
        plan = rig.planned()
        applied = rig.laptop.rigops("apply", *QUIETLY, timeout=LONGEST_S)
        assert rig.status(path) == before
    finally:
        rig.does(f"rm -rf {path}; mv {path}.away {path}")

    assert f"{path} is {kind}, declared a file" in plan.out + plan.err
    assert applied.code == 1
    assert "root:" not in plan.out + plan.err + applied.out + applied.err
    assert rig.planned("--exit-code").code == 0


def test_a_masked_unit_is_named_with_the_command_that_ends_it(rig: Rig) -> None:
    rig.does(f"mv {UNIT} /root/unit; systemctl mask {NAME}")
    try:
        said = rig.planned()
    finally:
        rig.does(f"systemctl unmask {NAME}; mv /root/unit {UNIT}; systemctl enable {NAME}")
    assert f"{NAME} is masked: sudo systemctl unmask {NAME}" in said.out + said.err


def test_a_mask_until_the_next_boot_changes_nothing_below_etc(rig: Rig) -> None:
    rig.does(f"systemctl mask --runtime {NAME}")
    try:
        said = rig.planned("--exit-code")
        enabled = rig.does(f"systemctl is-enabled {NAME}")
    finally:
        rig.does(f"systemctl unmask --runtime {NAME}")
    assert (said.code, enabled) == (0, "enabled")


@pytest.mark.parametrize("folder", ["/etc", "/run"])
def test_a_drop_in_over_a_unit_is_named_and_stays(rig: Rig, folder: str) -> None:
    drop_in = f"{folder}/systemd/system/{NAME}.d/override.conf"
    rig.does(
        f"mkdir -p {drop_in.rpartition('/')[0]}; printf '[Service]\\nNice=5\\n' >{drop_in}; "
        "systemctl daemon-reload"
    )
    try:
        plan, applied = rig.planned(), rig.laptop.rigops("apply", "--json", *QUIETLY)
        rig.does(f"test -f {drop_in}")
    finally:
        rig.does(f"systemctl revert {NAME}; rm -rf {drop_in.rpartition('/')[0]}")

    for said in (plan, applied):
        assert f"{drop_in} changes {NAME}" in said.out + said.err


@pytest.mark.parametrize("damage", ["mkfifo {0}", "ln -s /etc/shadow {0}"])
def test_a_record_that_is_no_file_is_damaged_and_never_followed(rig: Rig, damage: str) -> None:
    rig.does((MOVED + damage).format(OWNED))
    try:
        plan = rig.planned()
        applied = rig.laptop.rigops("apply", *QUIETLY, timeout=LONGEST_S)
    finally:
        rig.does(f"rm -rf {OWNED}; mv {OWNED}.away {OWNED}")

    for said in (plan, applied):
        assert said.code == 1
        assert f"{OWNED} is damaged or incomplete" in said.out + said.err
        assert "root:" not in said.out + said.err
    assert rig.planned("--exit-code").code == 0
