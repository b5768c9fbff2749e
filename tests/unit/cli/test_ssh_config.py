from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.conftest import Rigops

INVENTORY = """
rigs = [
    ("threadripper", {
        "ssh_hostname": "192.168.1.20", "ssh_user": "me", "ssh_port": 2222,
        "ssh_key": "/home/me/my keys/id_ed25519", "ssh_forward_agent": True,
    }),
    "t180",
    ("@ssh/10.0.0.7", {"ssh_user": "root"}),
    "@local",
    "@docker/debian:12",
]
"""


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    path = tmp_path / "inventory.py"
    path.write_text(INVENTORY)
    return path


@pytest.mark.skipif(shutil.which("ssh") is None, reason="ssh is not installed")
def test_openssh_reads_the_configuration_as_the_inventory_means_it(
    rigops: Rigops, inventory: Path, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.write_text(rigops("ssh-config", "-i", str(inventory)).out)

    def option(host: str, name: str) -> str:
        asked = subprocess.run(
            ["ssh", "-G", "-F", str(config), host], capture_output=True, text=True, check=True
        )
        lines = [line.partition(" ") for line in asked.stdout.splitlines()]
        return next(value for key, _, value in lines if key == name)

    assert option("threadripper", "hostname") == "192.168.1.20"
    assert option("threadripper", "user") == "me"
    assert option("threadripper", "port") == "2222"
    assert option("threadripper", "identityfile") == "/home/me/my keys/id_ed25519"
    assert option("threadripper", "forwardagent") == "yes"
    assert option("t180", "hostname") == "t180"
    assert option("t180", "forwardagent") == "no"
    assert option("10.0.0.7", "user") == "root"


@pytest.mark.skipif(shutil.which("ssh") is None, reason="ssh is not installed")
def test_the_inventory_goes_before_the_configuration_that_it_includes(
    rigops: Rigops, tmp_path: Path
) -> None:
    included, inventory = tmp_path / "included", tmp_path / "inventory.py"
    included.write_text("Host *\n  UserKnownHostsFile /elsewhere\n  Port 22\n  User you\n")
    data = {"ssh_config_file": str(included), "ssh_port": 2222, "ssh_known_hosts_file": "/mine"}
    inventory.write_text(f"rigs = [('rig', {data!r})]\n")
    config = tmp_path / "config"
    config.write_text(rigops("ssh-config", "-i", str(inventory)).out)

    asked = ["ssh", "-G", "-F", str(config), "rig"]
    said = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.splitlines()

    assert {"userknownhostsfile /mine", "port 2222", "user you"} <= set(said)


@pytest.mark.skipif(shutil.which("ssh") is None, reason="ssh is not installed")
def test_the_name_of_the_inventory_gets_all_that_the_configuration_has_for_its_hostname(
    rigops: Rigops, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh, config, block = str(shutil.which("ssh")), tmp_path / "config", tmp_path / "block"
    config.write_text(
        f"Include {block}\n"
        "Host nas\n  HostName 10.0.0.5\n  Port 2222\n  ProxyJump you@bastion\n"
        '  IdentityFile /k/%n\n  IdentityFile "/my keys/k"\n  UserKnownHostsFile /a /b\n'
        "  User me\n  ForwardAgent yes\nHost *\n  User everywhere\n  Compression yes\n"
    )
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/ssh").write_text(f'#!/bin/sh\nexec {ssh} -F {config} "$@"\n')
    (tmp_path / "bin/ssh").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    hosts = [("rig", {"ssh_hostname": "nas"}), ("other", {"ssh_hostname": "nas", "ssh_user": "x"})]
    (tmp_path / "inventory.py").write_text(f"rigs = {hosts!r}\n")

    def settings(host: str) -> set[str]:
        asked = [ssh, "-G", "-F", str(config), host]
        said = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
        return {one.replace("%n", "nas") for one in said.splitlines()}

    for _ in range(2):  # the block that is in force changes nothing
        block.write_text(rigops("ssh-config").out)

        every = settings("nas")
        assert {"port 2222", "identityfile /my keys/k", "userknownhostsfile /a /b"} <= every
        kept = {one for one in every if not one.startswith(("host ", "forwardagent", "user "))}
        assert kept <= settings("rig")
        assert settings("other") >= {*kept, "user x"}
        assert "user me" in settings("rig")
        assert "forwardagent no" in settings("rig")  # rigops lends no agent

    assert "everywhere" not in block.read_text()
    (rig, _) = rigops("ssh-config", "--json").json()["hosts"]
    assert rig["configured"]["IdentityFile"] == ["/k/nas", "/my keys/k"]


ODD = {
    "quote": {"ssh_key": "/home/me/it's a key"},
    "only-quote": {"ssh_key": "/home/me/it's"},
    "backslash": {"ssh_key": "/home/me/key\\"},
    "comment": {"ssh_key": "/home/me/#key"},
    "token": {"ssh_key": "/home/me/%h/100%"},
    "zone": {"ssh_hostname": "fe80::1%eth0"},
    "fe80::2%eth0": {},
}


@pytest.mark.skipif(shutil.which("ssh") is None, reason="ssh is not installed")
def test_odd_values_mean_to_openssh_what_they_mean_in_the_inventory(
    rigops: Rigops, tmp_path: Path
) -> None:
    (tmp_path / "inventory.py").write_text(f"rigs = {list(ODD.items())!r}\n")
    config = tmp_path / "config"
    config.write_text(rigops("ssh-config").out)

    for host, data in ODD.items():
        asked = subprocess.run(
            ["ssh", "-G", "-F", str(config), host], capture_output=True, text=True, check=True
        )
        read = dict(line.partition(" ")[::2] for line in asked.stdout.splitlines())
        if "ssh_key" in data:  # -G shows it before tokens are replaced
            assert read["identityfile"].replace("%%", "%") == data["ssh_key"]
            assert read["identityfile"].count("%") == 2 * data["ssh_key"].count("%")
        else:
            assert read["hostname"] == data.get("ssh_hostname", host)


def test_names_of_other_hosts_cannot_add_lines(rigops: Rigops, tmp_path: Path) -> None:
    (tmp_path / "inventory.py").write_text('rigs = ["rig", "@docker/a\\nHost *\\n  User evil"]\n')

    said = rigops("ssh-config")

    assert [line for line in said.out.splitlines() if line.startswith(("Host", " "))] == [
        "Host rig"
    ]


def test_hosts_that_ssh_does_not_reach_are_named_with_the_reason(
    rigops: Rigops, inventory: Path
) -> None:
    said = rigops("ssh-config", "-i", str(inventory))

    assert "# @local is not here: this machine." in said.out
    assert "# @docker/debian:12 is not here: connector docker, not ssh." in said.out
    unreached = rigops("ssh-config", "-i", str(inventory), "--json").json()["unreached"]
    assert [host["host"] for host in unreached] == ["@local", "@docker/debian:12"]


def test_the_default_inventory_comes_from_the_environment_or_the_folder(
    rigops: Rigops, inventory: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from_folder = rigops("ssh-config")
    inventory.rename(tmp_path / "other.py")
    monkeypatch.setenv("RIGOPS_INVENTORY", str(tmp_path / "other.py"))
    from_environment = rigops("ssh-config")

    assert from_folder.code == from_environment.code == 0
    assert "Host threadripper" in from_folder.out
    assert "Host threadripper" in from_environment.out


def test_nothing_is_written_without_being_asked_for(
    rigops: Rigops, inventory: Path, tmp_path: Path
) -> None:
    rigops("ssh-config", "-i", str(inventory))

    assert not (tmp_path / "home").exists()


def test_mount_units_are_written_once_for_every_ssh_host(
    rigops: Rigops, inventory: Path, tmp_path: Path
) -> None:
    said = rigops("ssh-config", "-i", str(inventory), "--sshfs", "my rigs", "--json")

    units = sorted((tmp_path / "home/.config/systemd/user").iterdir())
    assert [unit.name for unit in units] == [
        "rigops-sshfs-10.0.0.7.service",
        "rigops-sshfs-t180.service",
        "rigops-sshfs-threadripper.service",
    ]
    text = units[2].read_text()
    assert f'"192.168.1.20:" "{tmp_path}/my rigs/threadripper"' in text
    assert '-o "User=me" -o "Port=2222" -o "IdentityFile=\\"/home/me/my keys/id_ed25519\\""' in text
    assert json.loads(said.out)["hosts"][0]["mount_point"] == f"{tmp_path}/my rigs/threadripper"
    assert "systemctl --user enable --now" in said.err
    before = [unit.stat().st_mode for unit in units]
    assert rigops("ssh-config", "-i", str(inventory), "--sshfs", "my rigs").code == 0
    assert [unit.stat().st_mode for unit in units] == before


def test_a_unit_of_somebody_elses_is_not_overwritten(
    rigops: Rigops, inventory: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "home/.config/systemd/user"
    folder.mkdir(parents=True)
    (folder / "rigops-sshfs-t180.service").write_text("[Service]\n")

    said = rigops("ssh-config", "-i", str(inventory), "--sshfs", "rigs")

    assert said.code == 2
    assert "rigops-sshfs-t180.service" in said.err
    assert [path.read_text() for path in folder.iterdir()] == ["[Service]\n"]


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)
def test_systemd_accepts_a_unit_whatever_stands_in_the_paths(
    rigops: Rigops, tmp_path: Path
) -> None:
    key = "/home/me/a key, 100% mine $HOME \\\\ it's"
    (tmp_path / "inventory.py").write_text(
        f'rigs = [("box", {{"ssh_key": "{key}", "ssh_hostname": "fe80::1"}})]\n'
    )
    assert rigops("ssh-config", "--sshfs", "a % b").code == 0
    unit = tmp_path / "home/.config/systemd/user/rigops-sshfs-box.service"
    text = unit.read_text()

    # A program that is installed for certain, and a bus that is not needed.
    unit.write_text(text.replace("sshfs -f", "true -f").replace("fusermount3", "true"))
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "rigops-sshfs-box.service" not in checked.stderr, checked.stderr
    assert r'"IdentityFile=\"/home/me/a key\\, 100%%%% mine $$HOME \\\\\\\\ it' in text
    assert '"[fe80::1]:"' in text
