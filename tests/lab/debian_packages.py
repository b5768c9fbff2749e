"""Packages of Debian that few tests want: fetched once, and installed on the hosts of these."""

from __future__ import annotations

import io
import shutil
import tarfile
from base64 import b64encode
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from tests.lab import bootstrap, cache, image

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab.hosts import Host

_FOLDER: Final = "/srv/debian-packages"
_LIST: Final = "/etc/apt/sources.list.d/debian-packages.list"
# Of what they need, apt takes what is not there; the source of that is gone afterwards.
_INSTALL: Final = """
set -eu
mkdir {folder} && base64 -d | tar -x -C {folder} --no-same-owner
cd {folder} && dpkg-scanpackages . 2>/dev/null >Packages
echo 'deb [trusted=yes] file:{folder} ./' >{list}
apt-get -q update
DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install {names}
rm -r {list} {folder}
apt-get -q update
"""


def install(host: Host, *names: str) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for deb in sorted(_debs(names).glob("*.deb")):
            tar.add(deb, deb.name)
    script = _INSTALL.format(folder=_FOLDER, list=_LIST, names=" ".join(names))
    done = host.run(script, given=b64encode(stream.getvalue()).decode())
    assert done.returncode == 0, done.stdout + done.stderr


def _debs(names: tuple[str, ...]) -> Path:
    """They and all that they need, as the base image's own source has them."""
    digest = sha256(" ".join((bootstrap.SUITE, *names)).encode()).hexdigest()[:16]

    def fetch(new: Path) -> None:
        image.tell(f"fetching {' and '.join(names)}, once")
        tree = new / "tree"
        skipped = "--skip=essential/unlink,download/empty,cleanup/apt"
        bootstrap.make(" ".join(names), tree, names, "--variant=extract", skipped)
        (tree / "var/cache/apt/archives").rename(new / "debs")
        shutil.rmtree(tree)

    return cache.built("debs", digest, fetch) / "debs"
