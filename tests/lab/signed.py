"""A repository of the lab with a signature, as archives have one, and who trusts it."""

from __future__ import annotations

import shlex
import subprocess
from base64 import b64encode
from typing import TYPE_CHECKING

from tests.lab import layers

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab.hosts import Host

AT = "/srv/signed"
KEYRING = "/usr/share/keyrings/signed.gpg"
SUITES = ("noble", "noble-updates")
_LAY_OUT = f"""
set -eu
mkdir {AT}
cp -r /srv/rigsim-apt/ubuntu/dists {AT}
ln -s /srv/rigsim-apt/ubuntu/pool {AT}
"""


def archive(host: Host, folder: Path) -> None:
    """Have it in the host; `folder` is for the key."""
    folder.mkdir(mode=0o700)
    gpg = ["gpg", "--homedir", str(folder), "--batch", "--quiet", "--passphrase", ""]
    try:
        _does([*gpg, "--quick-generate-key", "The lab <lab@example.invalid>", "default", "sign"])
        _put(host, KEYRING, _does([*gpg, "--export"]))
        done = host.run(shlex.join(("sh", "-c", _LAY_OUT)))
        assert done.returncode == 0, done.stderr
        for suite in SUITES:
            release = layers.repository() / "ubuntu" / "dists" / suite / "Release"
            said = _does([*gpg, "--clearsign", "--output", "-", str(release)])
            _put(host, f"{AT}/dists/{suite}/InRelease", said)
    finally:
        _does(["gpgconf", "--homedir", str(folder), "--kill", "all"])


def source(suite: str) -> str:
    return (
        "Types: deb\n"
        f"URIs: file:{AT}\n"
        f"Suites: {suite}\n"
        "Components: main restricted\n"
        f"Signed-By: {KEYRING}\n"
    )


def _does(command: list[str]) -> bytes:
    return subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True).stdout


def _put(host: Host, path: str, content: bytes) -> None:
    done = host.run(f"base64 -d >{path}", given=b64encode(content).decode())
    assert done.returncode == 0, done.stderr
