"""The real unattended-upgrades, for hosts of tests that want it. It never runs by itself."""

from __future__ import annotations

import io
import shutil
import tarfile
from base64 import b64encode
from hashlib import sha256
from typing import TYPE_CHECKING

from tests.lab import bootstrap, cache, image

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab.hosts import Host

PACKAGE = "unattended-upgrades"
FOLDER = "/srv/upgrader"
# As somebody sets it who wants every upgrade that there is, whoever it is from.
_SETTINGS = """\
Unattended-Upgrade::Origins-Pattern { "origin=*"; };
Unattended-Upgrade::MinimalSteps "false";
"""
# Of what it needs, apt takes what is not there; the source of that is gone afterwards.
_INSTALL = f"""
set -eu
ln -s /dev/null /etc/systemd/system/{PACKAGE}.service
mkdir {FOLDER} && base64 -d | tar -x -C {FOLDER} --no-same-owner
cd {FOLDER} && dpkg-scanpackages . 2>/dev/null >Packages
echo 'deb [trusted=yes] file:{FOLDER} ./' >/etc/apt/sources.list.d/upgrader.list
apt-get -q update
DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install {PACKAGE}
cat >/etc/apt/apt.conf.d/99everything <<'END'
{_SETTINGS}END
rm -r /etc/apt/sources.list.d/upgrader.list {FOLDER}
apt-get -q update
"""


def install(host: Host) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for deb in sorted(_debs().glob("*.deb")):
            tar.add(deb, deb.name)
    done = host.run(_INSTALL, given=b64encode(stream.getvalue()).decode())
    assert done.returncode == 0, done.stdout + done.stderr


def _debs() -> Path:
    """It and all that it needs, as the base image's own source has them."""
    digest = sha256(f"{bootstrap.SUITE} {PACKAGE}".encode()).hexdigest()[:16]
    return cache.built("upgrader", digest, _fetch) / "debs"


def _fetch(new: Path) -> None:
    image.tell(f"fetching {PACKAGE}, once")
    tree = new / "tree"
    skipped = "--skip=essential/unlink,download/empty,cleanup/apt"
    bootstrap.make(PACKAGE, tree, [PACKAGE], "--variant=extract", skipped)
    (tree / "var/cache/apt/archives").rename(new / "debs")
    shutil.rmtree(tree)
