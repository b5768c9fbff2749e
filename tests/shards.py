"""The heavy shards, which `make test` leaves out: minutes of each, and which changes concern it.

`pytest.mark.shard(NAME)` puts a test into a shard. Tests marked `story` run in `make test` as well:
the beginning of a module, on which the rest of it builds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.docs_site.requirements import lacks as lacks_mkdocs
from tests.lab.requirements import lacks as lacks_hosts
from tests.lab.requirements import lacks_containers
from tests.lab.vm.requirements import lacks as lacks_machines
from tests.pages.requirements import lacks as lacks_browser
from tests.real_cuda.requirements import lacks as lacks_compiler
from tests.silicon.requirements import lacks as lacks_card

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

BARE_DEBIAN = "bare-debian"
PROPERTIES = "properties"
FUZZ = "fuzz"
SHELLS = "shells"
PAGES = "pages"
DOCS = "docs"
SILICON = "silicon"
LAB_ITSELF = "lab-itself"
LAB_TRANSPORT = "lab-transport"
LAB_DOCTOR = "lab-doctor"
LAB_PREFLIGHT = "lab-preflight"
LAB_CONCERNS = "lab-concerns"
LAB_APPLY = "lab-apply"
LAB_FLEET = "lab-fleet"
LAB_DRIVER = "lab-driver"
LAB_CONTAINERS = "lab-containers"
LAB_ADVICE = "lab-advice"
LAB_SYMPTOMS = "lab-symptoms"
LAB_SNAPSHOTS = "lab-snapshots"
LAB_BORG = "lab-borg"
LAB_CAPTURE = "lab-capture"
LAB_REPROVISION = "lab-reprovision"
LAB_REPROVISION_CUT = "lab-reprovision-cut"
ATTACK = "attack"
REAL_DRIVER = "real-driver"
PREFLIGHT = "preflight"
REAL_CUDA = "real-cuda"
VM_LAB = "vm-lab"
VM_TRIAL = "vm-trial"
VM_LAYOUTS = "vm-layouts"
VM_POWER = "vm-power"
VM_DRIVER = "vm-driver"
VM_MODULES = "vm-modules"
VM_RIGS = "vm-rigs"
VM_FALLBACK = "vm-fallback"
VM_SNAPSHOTS = "vm-snapshots"
VM_INSTALL = "vm-install"
VM_REPROVISION = "vm-reprovision"

# Hosts mostly wait, so two modules run at once; tests of one module build upon each other.
TWO_MODULES = ("-n", "2", "--dist", "loadfile")
EVERY_CORE = ("-n", "auto", "--maxprocesses", "8")

_CONVERGE = ("src/rigops/converge", "src/rigops/ownership", "src/rigops/plan", "deploys")
_CONCERNS = ("src/rigops/concerns", *_CONVERGE)
_DRIVER = (
    "src/rigops/concerns/nvidia_driver", "src/rigops/concerns/driver_modules",
    "src/rigops/packages", "src/rigops/vault",
)  # fmt: skip
_SNAPSHOTS = ("src/rigops/concerns/snapshots", "src/rigops/backup")
_BORG = ("src/rigops/concerns/borg", "src/rigops/backup")
_CAPTURE = ("src/rigops/capture", "src/rigops/hosts", *_BORG, *_DRIVER)
_REPROVISION = ("src/rigops/reprovision", "src/rigops/capture", "src/rigops/hosts", *_BORG)
_P2P = ("src/rigops/hostside/p2p", "tests/lab/silicon/cuda", "tests/unit/preflight")
_PREFLIGHT = ("src/rigops/preflight", "src/rigops/hostside/p2p")
_CONTAINERS = (
    "src/rigops/hostside", "src/rigops/probe", "src/rigops/doctor", "src/rigops/converge",
    "src/rigops/ownership", "src/rigops/preflight/inside.py",
    "tests/lab/silicon/rigsim/container_hook.py",
)  # fmt: skip
_SYMPTOMS = ("docs/symptoms", "src/rigops/doctor", "src/rigops/concerns")
_COMMANDS = ("src/rigops/doctor", "src/rigops/cli", "src/rigops/hosts")
_TRIAL = ("src/rigops/concerns/kernel_args", "src/rigops/record/trial_boot.py")


@dataclass(frozen=True)
class Shard:
    name: str
    minutes: int  # with two cores that have nothing else to do
    areas: tuple[str, ...]  # a change of a file below one of these is what it would show
    folders: tuple[str, ...] = ("tests/lab",)
    options: tuple[str, ...] = TWO_MODULES
    lacks: Callable[[], str | None] = lacks_hosts


SHARDS = (
    Shard(BARE_DEBIAN, 30, ("Makefile", "pyproject.toml", "tests/bare.py"), options=()),
    Shard(
        PROPERTIES,
        15,
        ("src/rigops/probe", "src/rigops/inventory", "src/rigops/doctor", "src/rigops/catalog"),
        ("tests/unit",),
        EVERY_CORE,
        lambda: None,
    ),
    Shard(
        FUZZ,
        2,  # or what RIGOPS_FUZZ_MINUTES says
        ("src/rigops/probe", "src/rigops/packages", "src/rigops/record", "src/rigops/vault"),
        ("tests/unit",),
        EVERY_CORE,
        lambda: None,
    ),
    Shard(
        SHELLS,
        3,
        ("src/rigops/probe", "src/rigops/hostside", "src/rigops/concerns"),
        ("tests/unit",),
        EVERY_CORE,
        lambda: None,
    ),
    Shard(
        PAGES,
        1,
        ("src/rigops/report/html", "templates/page.css", "tests/pages"),
        ("tests/pages",),
        (),
        lacks_browser,
    ),
    Shard(
        DOCS,
        2,
        ("docs", "mkdocs.yml", "docgen", "pyproject.toml", "tests/docs_site"),
        ("tests/docs_site",),
        (),
        lacks_mkdocs,
    ),
    Shard(LAB_ITSELF, 6, ("tests/lab",), ("tests/lab", "tests/unit/lab")),
    Shard(LAB_TRANSPORT, 2, ("src/rigops/transport",)),
    Shard(LAB_DOCTOR, 6, ("src/rigops/doctor", "src/rigops/probe")),
    Shard(LAB_PREFLIGHT, 6, _PREFLIGHT),
    Shard(LAB_CONCERNS, 11, _CONCERNS),
    Shard(LAB_APPLY, 12, _CONVERGE, options=()),  # 20 hosts at once, near the limit of inotify
    Shard(LAB_FLEET, 9, ("src/rigops/transport", *_CONVERGE), options=()),
    Shard(LAB_DRIVER, 12, (*_DRIVER, "src/rigops/concerns/container_toolkit")),
    Shard(LAB_CONTAINERS, 10, _CONTAINERS, lacks=lacks_containers),
    Shard(LAB_ADVICE, 6, (*_COMMANDS, "tests/lab/rigs"), options=()),
    Shard(LAB_SYMPTOMS, 7, _SYMPTOMS, options=(), lacks=lacks_containers),
    Shard(LAB_SNAPSHOTS, 14, _SNAPSHOTS),
    Shard(LAB_BORG, 25, _BORG),
    Shard(LAB_CAPTURE, 4, _CAPTURE),
    Shard(LAB_REPROVISION, 6, _REPROVISION, options=()),
    Shard(LAB_REPROVISION_CUT, 14, (*_REPROVISION, "src/rigops/transport"), options=()),
    Shard(
        ATTACK,
        30,
        (
            *("src/rigops/probe", "src/rigops/transport", "src/rigops/ownership"),
            *("src/rigops/hostside", "src/rigops/backup/host", "templates"),
            "src/rigops/concerns/snapshots/host",
        ),
        options=(),
    ),
    Shard(REAL_DRIVER, 20, _DRIVER, options=()),
    Shard(PREFLIGHT, 2, (*_PREFLIGHT, *_P2P), ("tests/unit",), EVERY_CORE, lacks_compiler),
    Shard(REAL_CUDA, 1, _P2P, ("tests/real_cuda",), (), lacks_compiler),
    Shard(SILICON, 4, (), ("tests/silicon",), (), lacks_card),  # no area: where there is a card
    Shard(VM_LAB, 18, ("tests/lab/vm", "tests/vm"), ("tests/vm",), (), lacks_machines),
    Shard(VM_TRIAL, 28, _TRIAL, ("tests/vm",), (), lacks_machines),
    Shard(VM_LAYOUTS, 20, _TRIAL, ("tests/vm",), (), lacks_machines),
    Shard(VM_POWER, 28, _CONVERGE, ("tests/vm",), (), lacks_machines),
    Shard(VM_DRIVER, 22, _DRIVER, ("tests/vm",), (), lacks_machines),
    Shard(VM_MODULES, 30, (*_DRIVER, *_TRIAL), ("tests/vm",), (), lacks_machines),
    Shard(VM_RIGS, 25, (*_DRIVER, *_TRIAL), ("tests/vm",), (), lacks_machines),
    Shard(VM_FALLBACK, 10, ("src/rigops/hostside",), ("tests/vm",), (), lacks_machines),
    Shard(
        VM_SNAPSHOTS, 18, (*_SNAPSHOTS, "src/rigops/converge"), ("tests/vm",), (), lacks_machines
    ),
    Shard(
        VM_INSTALL,
        10,
        ("src/rigops/autoinstall", "templates/autoinstall"),
        ("tests/vm",),
        (),
        lacks_machines,
    ),
    Shard(VM_REPROVISION, 22, _REPROVISION, ("tests/vm",), (), lacks_machines),
)
NAMES = tuple(shard.name for shard in SHARDS)


def named(name: str) -> Shard:
    return SHARDS[NAMES.index(name)]


def touched(files: Iterable[str]) -> list[Shard]:
    """Those with a changed file, the shortest first."""
    changed = set(files)
    found = (shard for shard in SHARDS if _is_touched(shard, changed))
    return sorted(found, key=lambda shard: shard.minutes)


def that_fit(shards: Iterable[Shard], minutes: int) -> list[Shard]:
    """The first that take no longer together."""
    fitting = []
    for shard in shards:
        minutes -= shard.minutes
        if minutes < 0:
            break
        fitting.append(shard)
    return fitting


def _is_touched(shard: Shard, files: set[str]) -> bool:
    return any(
        file == area or file.startswith(f"{area}/") for area in shard.areas for file in files
    )
