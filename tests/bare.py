"""A bare Debian with a fresh clone of this checkout.

python3 -m tests.bare [--suite SUITE] [--user someone] COMMAND

The tree holds python3, pip, make and git. It is built once per suite, in the user's cache; each run
copies it, enters the copy with namespaces of its own and removes it. It uses the package sources of
this machine; the corpus, where there is one, is mounted into it, and at /srv/cache a cache that
outlives the tree. It runs under the python3 of the distribution, without .venv.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from tests.corpus import CORPUS, VARIABLE
from tests.lab import bootstrap, cache

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
SUITES = ("bookworm", "trixie")
PACKAGES = ("python3", "python3-pip", "make", "git", "ca-certificates")
USER = "someone"
CHECKOUT = "rigops"  # in the home of whoever runs the tests

_CORPUS = "/srv/corpus"
# Configuration of pip: on this machine, and in the bare tree.
_PIP_SETTINGS = {
    Path("/etc/pip.conf"): "etc/pip.conf",
    Path.home() / ".config/pip/pip.conf": "etc/xdg/pip/pip.conf",
}
_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
_PASSED_ON = ("PIP_", "RIGOPS_", "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY",
              "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "CI")  # fmt: skip
_ENTER = """
tree=$1 corpus=$2 cache=$3
shift 3
mount --bind "$tree" "$tree"
mount -t proc proc "$tree/proc"
mount --rbind /dev "$tree/dev"
mount --rbind /sys "$tree/sys"
mkdir -p "$tree/srv/cache/rigops-lab"
mount --bind "$cache" "$tree/srv/cache/rigops-lab"
if [ -n "$corpus" ]; then
  mkdir -p "$tree/srv/corpus"
  mount --rbind -o ro "$corpus" "$tree/srv/corpus"
fi
exec chroot "$tree" env -i "$@"
"""


@contextmanager
def tree(suite: str) -> Iterator[Path]:
    """A copy of the bare tree with a clone for root and one for USER; removed afterwards."""
    with cache.locked():  # so that nobody takes a new folder for a leftover
        unused = _leftovers()
        folder = Path(tempfile.mkdtemp(prefix="run.", dir=_folder()))
        unused.append((folder, _lock(folder)))
    root = folder / "root"
    try:
        _run("cp", "--archive", "--reflink=auto", str(_built(suite)), str(root))
        for path, place in _PIP_SETTINGS.items():
            if path.is_file():
                (root / place).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, root / place)
        for file in ("/etc/resolv.conf", _CERTIFICATES):
            shutil.copy(file, root / file.lstrip("/"))
        for home in ("root", f"home/{USER}"):
            _run("git", "clone", "--quiet", str(ROOT), str(root / home / CHECKOUT))
        _run("chroot", str(root), "chown", "-R", f"{USER}:", f"/home/{USER}/{CHECKOUT}")
        yield root
    finally:
        for path, lock in unused:
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)


def command(tree: Path, script: str, user: str = "root") -> list[str]:
    """What runs the script in the user's clone, with its own processes and mounts."""
    home = "/root" if user == "root" else f"/home/{user}"
    environment = {
        **{name: text for name, text in os.environ.items() if name.startswith(_PASSED_ON)},
        "HOME": home,
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    }
    shared = cache.folder() / "shared"  # a cache as well, but of trees only
    shared.mkdir(exist_ok=True)
    corpus = str(CORPUS) if CORPUS.is_dir() else ""
    if corpus:
        environment[VARIABLE] = _CORPUS
    script = f"cd {home}/{CHECKOUT}\n{script}"
    shell = ["sh", "-euc", script]
    if user != "root":
        shell = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", *shell]
    return [
        "unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation=private",
        "sh", "-euc", _ENTER, "sh", str(tree), corpus, str(shared),
        *(f"{name}={text}" for name, text in environment.items()), *shell,
    ]  # fmt: skip


def _folder() -> Path:
    folder = cache.folder() / "bare"
    folder.mkdir(exist_ok=True)
    return folder


def _leftovers() -> list[tuple[Path, int]]:
    """Folders of runs that were killed; their lock is free."""
    found = []
    for path in _folder().glob("run.*"):
        with suppress(OSError):
            found.append((path, _lock(path)))
    return found


def _lock(folder: Path) -> int:
    opened = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(opened)
        raise
    return opened


def _built(suite: str) -> Path:
    digest = sha256(" ".join([suite, *PACKAGES]).encode()).hexdigest()[:16]

    def build(new: Path) -> None:
        add_user = f'chroot "$1" useradd --create-home --shell /bin/sh {USER}'
        bootstrap.make(
            f"a bare {suite}", new / "root", PACKAGES, f"--customize-hook={add_user}", suite=suite
        )

    return cache.built("bare", f"{suite}-{digest}", build) / "root"


def _run(*words: str) -> None:
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python3 -m tests.bare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--suite", choices=SUITES, default=SUITES[0])
    parser.add_argument("--user", choices=("root", USER), default="root")
    parser.add_argument("script")
    asked = parser.parse_args()
    with tree(asked.suite) as root:
        return subprocess.run(
            command(root, asked.script, asked.user), check=False, stdin=subprocess.DEVNULL
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
