"""What a rig has on its disk before its first boot: a tree between base and host, built once.

`python -m tests.lab.layers ROOT RIG KEY=VALUE…` fills one; it runs in a mount namespace of its own,
so that a build that is killed leaves no mount.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.lab import cache, image, namespace, packages, rigs, settings
from tests.lab.errors import LabError

if TYPE_CHECKING:
    from tests.lab.rigs import Rig

CHECKOUT = Path(__file__).resolve().parents[2]

_INSTALL = Path(__file__).with_name("packages")
_MAKERS = (
    Path(__file__), _INSTALL / "install.py", _INSTALL / "install.sh", _INSTALL / "driver.sh"
)  # fmt: skip


def repository() -> Path:
    """What every host sees at /srv/rigsim-apt."""
    return packages.repository(cache.folder())


def below(rig: Rig, repository: Path) -> tuple[Path, ...]:
    """The trees under a host of this rig, uppermost first."""
    engines = rig.containers == "on"
    base = image.base(rig.suite, engines=engines)
    below = image.digest(rig.suite, engines=engines)
    identity = [_recipe(rig), below, str(repository), *map(Path.read_text, _MAKERS)]
    digest = sha256(json.dumps(identity).encode()).hexdigest()[:16]

    def build(new: Path) -> None:
        image.tell(f"preparing the disk of {rig.name}, once")
        _build(rig, repository, new, base)

    return (cache.built("layer", digest, build) / "upper", base)


def _recipe(rig: Rig) -> dict[str, Any]:
    """All of a rig that its disk depends on."""
    keys = (
        "name",
        "os",
        "suite",
        "components",
        "users",
        "driver",
        "open_modules",
        "held",
        "persistence",
        "pocket",
    )
    whole = asdict(rig)
    return {key: whole[key] for key in keys}


def _build(rig: Rig, repository: Path, new: Path, base: Path) -> None:
    root, upper, work = (new / name for name in ("root", "upper", "work"))
    for folder in (root, upper, work):
        folder.mkdir()
    steps = [
        namespace.overlay((base,), upper, work, root),
        f"mount -t proc proc {root}/proc",
        f"mount --rbind /dev {root}/dev",
        f"mount --bind -o ro {repository} {root}{packages.AT}",
    ]
    settings = [f"driver={rig.driver or 'none'}", f"suite={rig.suite}"]
    settings += [f"pocket={rig.pocket}"] if rig.pocket else []
    fill = [sys.executable, "-m", "tests.lab.layers", str(root), rig.name, *settings]
    steps.append("exec " + shlex.join(fill))
    done = subprocess.run(
        namespace.enter(steps),
        cwd=CHECKOUT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        said = (done.stdout + done.stderr)[-4000:]
        raise LabError(f"the disk of {rig.name} could not be prepared:\n{said}")
    root.rmdir()


def _fill(root: Path, rig: Rig) -> None:
    for user in {"rig"} - set(rig.users):
        _chroot(root, "userdel", "--remove", user)
        (root / "etc/sudoers.d" / user).unlink()
    packages.install(root, rig)


def _chroot(root: Path, *command: str) -> None:
    subprocess.run(["chroot", str(root), *command], check=True, stdin=subprocess.DEVNULL)


def _main() -> None:
    root, name, *words = sys.argv[1:]
    _fill(Path(root), rigs.load(name).with_settings(settings.parse(words)))


if __name__ == "__main__":
    _main()
