"""What a host has for borg, as it prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.concerns.borg.facts import SECTION, BorgHost, Mount, parse
from tests.unit.probe.asking import ask
from tests.unit.programs import SHELLS

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """\
== python3 -V
Python 3.11.2
== borg --version
borg 1.2.4
== systemctl --version
systemd 252 (252.39-1~deb12u1)
== command -v
/usr/bin/borg
/usr/bin/ssh
== cat /proc/self/mountinfo
29 1 0:25 /@ / rw,relatime shared:1 - btrfs /dev/sda2 rw,space_cache=v2
60 29 8:17 / /mnt/my\\040disk rw,relatime - ext4 /dev/sdb1 rw
garbage
== readable secrets
600 0:0 /etc/rigops/borg_passphrase.cred
400 1000:0 /etc/rigops/borg_passphrase
== ls of other tools
/etc/borgmatic/config.yaml
== /etc/rigops/borg_key.pub
ssh-ed25519 AAAA rigops@rig
"""


def test_all_of_it_is_read() -> None:
    assert parse(TEXT) == BorgHost(
        python=(3, 11),
        borg=(1, 2, 4),
        borg_answer="borg 1.2.4",
        systemd=252,
        tools=frozenset({"borg", "ssh"}),
        mounts=(Mount("/", "0:25", "btrfs"), Mount("/mnt/my disk", "8:17", "ext4")),
        secrets=frozenset({("/etc/rigops/borg_passphrase.cred", "600")}),
        others=("/etc/borgmatic/config.yaml",),
        public_key="ssh-ed25519 AAAA rigops@rig",
    )


@pytest.mark.parametrize("text", ["", "== borg --version\n", "== x\n\0", "Traceback"])
def test_whatever_comes_is_read(text: str) -> None:
    assert parse(text).borg is None


def test_a_borg_that_answers_otherwise_is_shown() -> None:
    found = parse("== borg --version\nborg 2.0.0b5\n")

    assert (found.borg, found.borg_answer) == ((2, 0, 0), "borg 2.0.0b5")


@pytest.mark.parametrize("shell", SHELLS)
def test_the_section_never_has_the_content_of_a_secret(shell: str, tmp_path: Path) -> None:
    for path in ("borg_passphrase", "borg_passphrase.cred", "borg_key"):
        (tmp_path / "etc/rigops").mkdir(parents=True, exist_ok=True)
        (tmp_path / "etc/rigops" / path).write_text("geheim")
    (tmp_path / "etc/rigops/borg_key.pub").write_text("ssh-ed25519 AAAA rigops@rig\n")
    (tmp_path / "etc/borgmatic").mkdir()
    (tmp_path / "etc/borgmatic/config.yaml").touch()

    answer = ask(SECTION, shell, tmp_path)

    assert answer.is_complete
    assert "geheim" not in answer.text
    found = parse(answer.text)
    assert found.others == ("/etc/borgmatic/config.yaml",)
    assert found.public_key == "ssh-ed25519 AAAA rigops@rig"
    assert "/proc" in {one.target for one in found.mounts}
