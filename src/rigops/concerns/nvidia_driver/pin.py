"""The pin of a host's driver: apt's preferences, and unattended-upgrades' blacklist.

Facts behind them. apt takes the first stanza that matches a version; a pin whose version is gone
counts for nothing, unless a later one forbids all others; and a name means the native architecture
only, unless `:any` follows. unattended-upgrades matches its regular expressions from the beginning
of a name to wherever they end, and a foreign architecture is part of the name (`libcuda1:i386`).

Where it ends, apply says which driver apt would choose without it.
"""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from pyinfra.api.command import StringCommand
from pyinfra.api.facts import FactBase
from pyinfra.api.host import Host

from rigops.catalog.loader import Catalog
from rigops.catalog.versions import parse
from rigops.concerns.nvidia_driver import NAME as CONCERN
from rigops.concerns.nvidia_driver.facts import machine
from rigops.concerns.nvidia_driver.record import PinnedDriver
from rigops.concerns.nvidia_driver.resolver.fitness import bad
from rigops.concerns.nvidia_driver.resolver.request import Resolution
from rigops.errors import Problem, RigopsError
from rigops.facts.sections import section_command, section_value
from rigops.ownership.owned_files import owned_file
from rigops.packages import sources
from rigops.plan.context import notice
from rigops.probe.package_names import RUN_FILE, driver_version
from rigops.probe.section import Section
from rigops.probe.text import lines

PREFERENCES: Final = "/etc/apt/preferences.d/rigops-nvidia.pref"
_UNATTENDED: Final = "/etc/apt/apt.conf.d/52rigops-nvidia"

# apt's candidate of each package is the resolved version.
_ASSERT: Final = """\
pinned() {
    apt-cache policy "$@" | awk '/^[^ ]/ { name = $1; sub(/:$/, "", name) }
        /^  Candidate:/ { print name "=" $2 }'
}
expect_candidates() {
    names=$(for one; do echo "${one%%=*}"; done)
    # shellcheck disable=SC2086  # several names
    found=$(pinned $names)
    for one; do
        case "
$found
" in *"
$one
"*) ;; *)
            echo "in spite of the pin, apt has another candidate than $one; see" \\
                "apt-cache policy ${one%%=*}" >&2
            exit 1 ;;
        esac
    done
}
"""
# Beside the driver of a .run file there is none for it to install.
_NONE: Final = """\
found=$(apt-cache pkgnames | while read -r name; do
    case $name in {globs}) echo "$name" ;; esac
done | sort | xargs -r apt-cache policy | awk '/^[^ ]/ {{ name = $1 }}
    /^  Candidate:/ && $2 != "(none)" {{ print name " " $2 }}' | head -n 5)
[ -z "$found" ] || {{
    echo "in spite of the pin, apt would install packages of a driver:" $found >&2
    exit 1
}}
"""

_ABOVE_INSTALLED: Final = 1001  # apt goes back to an older version only from 1000 on
_NEVER: Final = -1

# Packages that would bring the driver of another branch, flavor or repository.
_RIVALS: Final = (
    "src:nvidia-graphics-drivers-*",  # the bare one builds what Debian's Tesla drivers share
    "src:nvidia-open-gpu-kernel-modules*",
    "cuda-drivers*",
    "libnvidia-compute",
    "nvidia-alternative",  # in Debian every library asks for the one of its own version
    "nvidia-dkms",
    "nvidia-dkms-*",
    "nvidia-driver",
    "nvidia-driver-*",
    "nvidia-headless",
    "nvidia-headless-*",
    "nvidia-kernel-dkms",
    "nvidia-kernel-open-dkms",
    "nvidia-kernel-support",
    "nvidia-open",
    "nvidia-open-*",
    "linux-modules-nvidia-*",
    "linux-objects-nvidia-*",
)
# Packages of any maker that share files with a driver of NVIDIA's own installer.
OF_ANY_DRIVER: Final = (
    "src:nvidia-graphics-drivers*", "src:nvidia-open-gpu-kernel-modules*",
    "libcuda1", "libcudadebugger1", "libnvcuvid1", "libnvidia-ml1", "libnvidia-cfg1*",
    "libnvidia-compute*", "libnvidia-decode*", "libnvidia-encode*", "libnvidia-gl*",
    "nvidia-smi", "nvidia-utils-*", "nvidia-compute-utils-*", "nvidia-firmware-*",
    "xserver-xorg-video-nvidia*", *(one for one in _RIVALS if not one.startswith("src:")),
)  # fmt: skip
_BRANCH_IN_NAME = re.compile(r"(?!.*-tesla-).*nvidia-.*?-(?P<branch>[0-9]{3})(?:-.*)?")

_END: Final = "([^a-z0-9.+-]|$)"  # with a colon unattended-upgrades would read an architecture
_PREBUILT: Final = "^linux-(modules|objects|signatures)-nvidia-"
_KERNELS: Final = (
    "^linux-(image|headers|modules|kbuild)-",
    "^linux-(generic|lowlatency|virtual|oem|realtime)(-|$)",
    "^(pve|proxmox)-(default-)?(kernel|headers)(-|$)",
)

_NAME = re.compile(r"[a-z0-9][a-z0-9.+-]*")
VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+~:-]*")


def driver_pinned(wanted: Resolution, *, kernels: bool, live: bool) -> None:
    """Have it pinned. `kernels`: pin them too; `live`: all of it is in force already."""
    if wanted.is_run_file:
        effect = _NONE.format(globs="|".join(one for one in OF_ANY_DRIVER if ":" not in one))
    else:
        words = (f"{name}={version}" for name, version in wanted.by_apt.items())
        effect = f"{_ASSERT}{shlex.join(('expect_candidates', *words))}"
    owned_file(
        name=PREFERENCES,
        concern=CONCERN,
        path=PREFERENCES,
        content=preferences(wanted),
        effect=effect,
        live=live,
    )
    owned_file(
        name=_UNATTENDED,
        concern=CONCERN,
        path=_UNATTENDED,
        content=unattended(wanted, kernels=kernels),
    )


def preferences(resolution: Resolution) -> str:
    """For /etc/apt/preferences.d: these versions, and nothing else when they are gone."""
    version = plain(VERSION, resolution.version)
    if resolution.is_run_file:
        return (
            "# Made by rigops from driver in the inventory; edits are overwritten.\n"
            f"# The NVIDIA driver here is {version} from NVIDIA's own installer. Packages of a\n"
            "# driver would put other files in the place of its own, so apt installs none.\n"
        ) + _stanza("The driver's packages, of any version.", OF_ANY_DRIVER, "*", _NEVER)
    names = {plain(_NAME, name): [plain(VERSION, its)] for name, its in resolution.by_apt.items()}
    sources = {
        f"src:{plain(_NAME, source)}": [plain(VERSION, one) for one in its]
        for source, its in resolution.sources.items()
    }
    # Where names have the branch in them, whatever has it: -server, -open, fabricmanager.
    branch = resolution.branch
    shapes = (_BRANCH_IN_NAME.fullmatch(name) for name in names)
    has_branch = any(shape and shape["branch"] == branch for shape in shapes)
    globs = (f"*nvidia*-{branch}", f"*nvidia*-{branch}-*") if has_branch else ()
    rivals = {name: [f"{version}-*"] for name in (*_RIVALS, *globs)}
    head = (
        "# Made by rigops from driver in the inventory; edits are overwritten.\n"
        f"# It keeps the NVIDIA driver at {version}. apt installs the versions named here, even\n"
        "# over newer ones; when the package sources have them no more, it installs no others.\n"
        "# The first stanza that matches counts, so the order matters.\n"
    )
    stanzas = (
        *_only("The packages of the driver, from whatever source.", names),
        *_only("Other packages of the same sources.", sources),
        *_only("Other branches, flavours and builds of the driver.", rivals),
    )
    return head + "\n".join(stanzas)


def unattended(resolution: Resolution, *, kernels: bool = False) -> str:
    """For /etc/apt/apt.conf.d: what unattended-upgrades leaves alone; the kernels too if asked."""
    names = (plain(_NAME, name) for name in sorted(resolution.by_apt))
    escaped = (re.sub(r"[.+]", r"\\\g<0>", name) for name in names)
    entries = [*(f"^{name}{_END}" for name in escaped), _PREBUILT]
    why = "driver"
    if kernels:
        entries += _KERNELS
        why = "driver and kernel_hold"
    lines = "".join(f'  "{entry}";\n' for entry in entries)
    return (
        f"// Made by rigops from {why} in the inventory; edits are overwritten.\n"
        "// unattended-upgrades must not replace the driver's libraries under its loaded module.\n"
        "// The entries join those of other files; each is a regular expression that is matched\n"
        "// from the beginning of a package's name.\n"
        f"Unattended-Upgrade::Package-Blacklist {{\n{lines}}};\n"
    )


def _only(why: str, wanted: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """A stanza for each version, with all that may have it, and one that forbids the rest."""
    by_version: dict[str, list[str]] = defaultdict(list)
    for name, versions in sorted(wanted.items()):
        for version in versions:
            by_version[version].append(name)
    for version, names in sorted(by_version.items()):
        yield _stanza(why, names, version, _ABOVE_INSTALLED)
    if wanted:
        yield _stanza("No other version of these.", sorted(wanted), "*", _NEVER)


def _stanza(why: str, names: Iterable[str], version: str, priority: int) -> str:
    of_any_architecture = " ".join(f"{name}:any" for name in names)
    return (
        f"Explanation: {why}\n"
        f"Package: {of_any_architecture}\n"
        f"Pin: version {version}\n"
        f"Pin-Priority: {priority}\n"
    )


def plain(shape: re.Pattern[str], word: str) -> str:
    """A word must not become another line of a file that root's programs read."""
    if shape.fullmatch(word):
        return word
    raise RigopsError(Problem(message=f"{word!a} cannot be written to a file of the driver's"))


_APT_S: Final = 60
_ASK: Final = f"""
links() {{
    mkdir "$scratch/${{1##*/}}"
    for file in "$1"/*; do
        [ ! -f "$file" ] || [ "$file" = "$2" ] || ln -s "$file" "$scratch/${{1##*/}}/"
    done
}}
unpinned() {{
    scratch=$(mktemp -d /tmp/rigops-apt.XXXXXX) || return 0
    trap 'rm -rf "$scratch"' EXIT
    trap 'exit 143' HUP INT TERM
    links {PREFERENCES.rpartition("/")[0]} {PREFERENCES}
    links {sources.FILE.rpartition("/")[0]} {sources.FILE}
    apt-cache -o Dir::Etc::preferencesparts="$scratch/preferences.d" \\
        -o Dir::Etc::sourceparts="$scratch/sources.list.d" \\
        -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= policy "$@" 2>/dev/null |
        awk '/^[^ ]/ {{ name = $1; sub(/:$/, "", name) }} /^  Candidate:/ {{ print name " " $2 }}'
    return 0
}}
"""


def unpinned_section(names: Iterable[str]) -> Section[dict[str, str]]:
    asked = shlex.join(("unpinned", *sorted(names)))
    return Section(
        name="unpinned",
        snippet=f"{_ASK}if command -v apt-cache >/dev/null; then {asked}; fi\nreturn 0\n",
        parse=_parse,
        timeout_s=_APT_S,
    )


def _parse(text: str) -> dict[str, str]:
    rows = (line.split() for line in lines(text))
    return {row[0]: row[1] for row in rows if len(row) == 2}  # noqa: PLR2004 - name and version


class Unpinned(FactBase[dict[str, str]]):
    """Candidates of apt for these packages, by name, without rigops' files."""

    def command(  # type: ignore[mutable-override]  # as all of pyinfra's do
        self, *, names: tuple[str, ...]
    ) -> StringCommand:
        return section_command(unpinned_section(names))

    def process(self, output: list[str]) -> dict[str, str]:
        return section_value(unpinned_section(()), output)

    @staticmethod
    def default() -> dict[str, str]:
        return {}


def report_next_driver(host: Host, pinned: PinnedDriver, catalog: Catalog) -> None:
    """A notice of the version that an upgrade would bring in place of the pinned one."""
    names = tuple(sorted({*pinned.packages} - {RUN_FILE}))
    if not names:
        return
    found: dict[str, str] = host.get_fact(Unpinned, names=names)
    others = {
        version
        for name, candidate in found.items()
        if driver_version(pinned.packages.get(name, "")) == pinned.version
        and (version := driver_version(candidate)) not in {None, pinned.version}
    }
    if not others:
        return
    coming = max(filter(None, others), key=parse)
    text = f"without the pin, apt would upgrade driver {pinned.version} to {coming}"
    if worst := bad(catalog, coming, machine(host, catalog).cards):
        first_sentence = worst.reason.partition(" [")[0].partition(". ")[0]
        text = f"{text}; {first_sentence} (reports: rigops drivers)"
    notice(host, CONCERN, text)
