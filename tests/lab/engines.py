"""The engines and runtimes of containers on hosts with `containers=on`, as Debian packages them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from tests.lab.preloaded import put

if TYPE_CHECKING:
    from tests.lab.hosts import Host

Engine = Literal["docker", "podman"]
Runtime = Literal["runc", "crun"]

ENGINES: Final[tuple[Engine, ...]] = ("docker", "podman")
RUNTIMES: Final[tuple[Runtime, ...]] = ("runc", "crun")
IMAGE: Final = "lab"
SLICES: Final = {"docker": "system.slice", "podman": "machine.slice"}
SCOPES: Final = {"docker": "docker-{}.scope", "podman": "libpod-{}.scope"}
# From an unpacked tree, since no registry can be asked.
_IMPORT = (
    "{0} image inspect {1} >/dev/null 2>&1 || tar -C /srv/container -c . | {0} import - {1} 2>&1"
)


def prepare(host: Host, engine: Engine) -> None:
    """Before the first container; another time it does nothing."""
    put(host, "memlock")
    does(host, _IMPORT.format(engine, IMAGE))


def run(engine: Engine, runtime: Runtime) -> list[str]:
    """The command up to the options of a container."""
    if engine == "docker":
        return ["docker", "run", "--runtime", runtime, "--network", "none"]
    return ["podman", "--runtime", runtime, "run", "--network", "none"]


def does(host: Host, command: str) -> str:
    done = host.run(command)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout.strip()
