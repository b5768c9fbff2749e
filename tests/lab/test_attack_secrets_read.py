"""Secrets in every place that the probe reads: none of them gets into a bundle, raw or redacted.

A row more is a line in PLACES: a file, and a line of it with SECRET where its secret is.
"""

from __future__ import annotations

import shlex
import tarfile
from typing import TYPE_CHECKING

import pytest

from tests.lab.laptop import Laptop
from tests.shards import ATTACK

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.lab.conftest import Lab

pytestmark = pytest.mark.shard(ATTACK)

PLACES = (
    ("/etc/nccl.conf", "NCCL_DEBUG=INFO OPENAI_KEY=SECRET"),
    ("/etc/nccl.conf", "NCCL_TOKEN=SECRET"),
    ("/etc/profile.d/rig.sh", "export NCCL_DEBUG=INFO GITHUB_PAT=SECRET"),
    ("/etc/profile.d/rig.sh", "NCCL_X=1 curl -H 'Authorization: Bearer SECRET'"),
    ("/etc/environment", "NCCL_SOCKET_IFNAME=eth0 AWS_ACCESS_KEY_ID=SECRET"),
    ("/etc/systemd/system/rig.service", 'Environment="NCCL_DEBUG=INFO" "HF_TOKEN=SECRET"'),
    ("/etc/systemd/system/rig.service", "ExecStart=nvidia-smi -pl 99 --password SECRET"),
    ("/etc/systemd/system/rig.service", "ExecStartPost=nvidia-smi -pl 99 BEARER=SECRET"),
    ("/etc/cron.d/rig", "* * * * * root AUTH=SECRET nvidia-smi -pl 99"),
    ("/etc/fstab", "//nas/a /mnt cifs rw,user=bob%SECRET,noauto 0 0"),
    ("/etc/fstab", "//nas/b /srv cifs username=bob,password=SECRET,noauto 0 0"),
    ("/etc/fstab", "https://me:SECRET@dav.example.net /media davfs noauto 0 0"),
    ("/etc/crypttab", "data UUID=5c1d5a4e-93f7-4b0a-8a5b-0d2a1f6e7c11 none key=SECRET,noauto"),
    ("/etc/default/grub", 'GRUB_CMDLINE_LINUX="rd.luks.key=SECRET iommu=pt"'),
    ("/etc/docker/daemon.json", '{"log-opts": {"splunk-token": "SECRET"}, "runtimes": {}}'),
    ("/etc/apt/sources.list.d/rig.list", "deb https://me:SECRET@apt.example.net/ stable main"),
    ("/etc/apt/apt.conf.d/99rig", 'Acquire::http::Proxy "http://me:SECRET@proxy:3128";'),
    ("/etc/modprobe.d/rig.conf", "options nvidia NVreg_RegistryDwords=x token=SECRET"),
    ("/etc/security/limits.d/rig.conf", "* hard memlock unlimited # password: SECRET"),
    ("/etc/kernel/cmdline", "root=/dev/sda1 cifspass=SECRET"),
    ("/etc/network/interfaces", "iface eth9 inet manual\n  wpa-psk: SECRET"),
    ("/var/log/apt/history.log", "Start-Date: 2026-01-01  10:00:00\nCommandline: x --token SECRET"),
)
SECRETS = [f"geheim{number}Xy9" for number in range(len(PLACES))]


@pytest.fixture(scope="module")
def bundles(module_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, bytes]:
    """All that is in a raw and in a redacted bundle."""
    host = module_lab.one("desktop-3060-1060")
    lines = ["set -e"]
    for (path, line), secret in zip(PLACES, SECRETS, strict=True):
        text = shlex.quote(line.replace("SECRET", secret))
        lines.append(f"mkdir -p $(dirname {path}); printf '%s\\n' {text} >>{path}")
    done = host.run("\n".join(lines), timeout=60)
    assert done.returncode == 0, done.stderr
    laptop = Laptop(tmp_path_factory.mktemp("laptop"))
    laptop.declare({host.name: {}})
    found = {}
    for name, options in (("raw", ["--raw"]), ("redacted", [])):
        laptop.doctor("-i", "inventory.py", "--save", f"{name}.tar.gz", *options)
        found[name] = _content(laptop.folder / f"{name}.tar.gz")
    return found


def _content(archive: Path) -> bytes:
    with tarfile.open(archive) as tar:
        opened = [tar.extractfile(one) for one in tar.getmembers()]
        return b"\n".join(file.read() for file in opened if file)


def test_the_lines_are_read(bundles: Mapping[str, bytes]) -> None:
    """So that the absence of secrets means something."""
    for words in (b"OPENAI_KEY=***", b"GITHUB_PAT=***", b"user=bob%***", b"rd.luks.key=***"):
        assert words in bundles["raw"], words


@pytest.mark.parametrize("name", ["raw", "redacted"])
@pytest.mark.parametrize("secret", SECRETS, ids=[f"{path}: {line}" for path, line in PLACES])
def test_no_secret_is_in_a_bundle(bundles: Mapping[str, bytes], name: str, secret: str) -> None:
    content = bundles[name]
    at = content.find(secret.encode())

    assert at < 0, content[max(0, at - 80) : at + 40]
