"""A small apt repository of packages that do what a test needs of them, for one running host."""

from __future__ import annotations

import hashlib
import io
import tarfile
from base64 import b64encode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from tests.lab.packages import deb

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping

FOLDER = "/srv/demo-apt"
_SOURCE = f"deb [trusted=yes] copy:{FOLDER} ./"  # copied, as from a network: it takes room
# Holds a lock as apt does. It ends by itself, also if nobody comes for it.
_HOLD = (
    "import fcntl, sys, time\n"
    "lock = open('/var/lib/dpkg/lock-frontend', 'w')\n"
    "fcntl.lockf(lock, fcntl.LOCK_EX)\n"
    "print('held', flush=True)\n"
    "time.sleep(float(sys.argv[1]))\n"
)
_HOLDER = (
    "rm -f /root/held; setsid python3 /root/upgrader {} >/root/held 2>&1 </dev/null & "
    "until grep -q held /root/held; do sleep 0.05; done"
)


class Runs(Protocol):
    """A host of either lab."""

    def run(self, command: str, *, given: str = ...) -> subprocess.CompletedProcess[str]:
        """As root, with this as its standard input."""


@dataclass(frozen=True)
class Demo:
    name: str
    version: str
    fields: Mapping[str, str] = field(default_factory=dict)
    postinst: str = ""
    bytes_: int = 0

    @property
    def file(self) -> str:
        return f"{self.name}_{self.version}_all.deb"

    @property
    def control(self) -> dict[str, str]:
        return {
            "Package": self.name,
            "Version": self.version,
            "Architecture": "all",
            "Maintainer": "The lab <lab@example.invalid>",
            "Description": "does what a test needs",
            **self.fields,
        }

    def packed(self) -> bytes:
        scripts = [deb.File("postinst", self.postinst.encode(), 0o755)] if self.postinst else []
        files = [deb.File(f"usr/share/{self.name}/version", self.version.encode())]
        if self.bytes_:
            files.append(deb.File(f"usr/share/{self.name}/much", bytes(self.bytes_)))
        return deb.pack(self.control, scripts, files)


def publish(host: Runs, demos: list[Demo]) -> None:
    """Have the host know these, and nothing but these, from this repository."""
    stream = io.BytesIO()
    stanzas = []
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for demo in demos:
            data = demo.packed()
            _add(tar, demo.file, data)
            about = {
                "Filename": f"./{demo.file}",
                "Size": str(len(data)),
                "SHA256": hashlib.sha256(data).hexdigest(),
            }
            stanzas.append(deb.control({**demo.control, **about}))
        _add(tar, "Packages", "\n".join(stanzas).encode())
    done = host.run(
        f"rm -rf {FOLDER} && mkdir {FOLDER} && base64 -d | tar -xz -C {FOLDER} --no-same-owner"
        f" && echo '{_SOURCE}' >/etc/apt/sources.list.d/demo.list"
        " && apt-get -q update -o APT::Sandbox::User=root",
        given=b64encode(stream.getvalue()).decode(),
    )
    assert done.returncode == 0, done.stdout + done.stderr


def state(host: Runs, package: str) -> str:
    """In dpkg's own letters: ii is installed, and none is known to nobody."""
    return host.run(f"dpkg-query -W -f '${{db:Status-Abbrev}}' {package}").stdout.strip()


def begin_work(host: Runs, seconds: int) -> None:
    """Somebody else, named upgrader, is at work on packages for so long."""
    host.run("cat >/root/upgrader", given=_HOLD)
    done = host.run(_HOLDER.format(seconds))
    assert done.returncode == 0, done.stderr


def end_work(host: Runs) -> bool:
    """Whether it was still going on."""
    return host.run("pkill -f [/]root/upgrader").returncode == 0


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), 0o644
    tar.addfile(entry, io.BytesIO(data))
