"""The NVIDIA kernel modules that are on disk, for the running kernel and for every other."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rigops.dataclass import dataclass
from rigops.probe.section import EVERY_WORD, Section
from rigops.probe.text import blocks, lines, stripped

_HEAD = re.compile(r"modinfo(?: -k (?P<kernel>\S+))? nvidia\S*")
_FILES_HEAD = re.compile(r"find /lib/modules/(?P<kernel>[^/\s]+) -name \S+")
_FIELD = re.compile(r"(?P<name>[a-z_]{1,20}):\s*(?P<value>.*)")
_FIELDS = frozenset({"filename", "version", "license", "sig_key"})
_SIGNATURE = frozenset({"signer", "sig_id", "sig_key", "sig_hashalgo", "signature"})
_MISSING = re.compile(r"modinfo: (?:ERROR: )?(?:[Mm]odule \S+ not found|could not find module)")
_FILE = re.compile(r"/\S+/nvidia[a-z0-9_-]*\.ko(?:\.[a-z0-9]+)?")


@dataclass(frozen=True, kw_only=True)
class ModuleOnDisk:
    """`kernel` None is the running one. `is_signed` None: not reported."""

    kernel: str | None
    version: str | None = None
    license: str | None = None
    sig_key: str | None = None
    filename: str | None = None
    is_signed: bool | None = None
    line: str = ""

    @property
    def is_open(self) -> bool | None:
        """The open modules are under two licenses, the proprietary one under NVIDIA's."""
        return "GPL" in self.license if self.license else None


@dataclass(frozen=True)
class NvidiaModinfo:
    """`kernels_without`: those for which modinfo finds no such module; None is the running one."""

    modules: tuple[ModuleOnDisk, ...] = ()
    kernels_without: tuple[str | None, ...] = ()
    unparsed: tuple[str, ...] = ()

    def module_for(self, running: str | None) -> ModuleOnDisk | None:
        """The module of the running kernel, whose release may not be known."""
        return next((one for one in self.modules if one.kernel in {None, running}), None)


def parse(text: str) -> NvidiaModinfo:
    modules: list[ModuleOnDisk] = []
    without: list[str | None] = []
    unparsed: list[str] = []
    headed = blocks(text)
    bodies: Mapping[str, str] = headed or {"modinfo nvidia": text}
    for head, body in bodies.items():
        asked, listed = _HEAD.fullmatch(head), _FILES_HEAD.fullmatch(head)
        shape = asked or listed
        if not shape:
            unparsed.append(head)
            continue
        found = (_asked if asked else _listed)(shape["kernel"], body)
        if found:
            modules.append(found)
        elif listed or any(_MISSING.match(line) for line in lines(body)):
            without.append(shape["kernel"])
        else:
            unparsed += [line for line in lines(body) if line.strip()]
    return NvidiaModinfo(tuple(modules), tuple(without), tuple(unparsed))


def _asked(kernel: str | None, body: str) -> ModuleOnDisk | None:
    fields: dict[str, str] = {}
    names: set[str] = set()
    cited = ""
    for line in lines(body):
        shape = _FIELD.match(line)
        if not shape:
            continue
        names.add(shape["name"])
        if shape["name"] in _FIELDS:
            fields.setdefault(shape["name"], shape["value"].strip())
            cited = line if shape["name"] == "version" else cited or line
    if not {"filename", "version", "vermagic"} & names:
        return None
    # modinfo prints a signature after vermagic, so less than that proves nothing.
    signed = True if _SIGNATURE & names else False if "vermagic" in names else None
    return ModuleOnDisk(kernel=kernel, is_signed=signed, line=cited.strip(), **fields)


def _listed(kernel: str | None, body: str) -> ModuleOnDisk | None:
    path = next(filter(_FILE.fullmatch, stripped(body)), None)
    return ModuleOnDisk(kernel=kernel, filename=path, line=path) if path else None


# Debian's module is nvidia-current, or nvidia-tesla-… and the like, and modinfo knows no alias of
# theirs. Another kernel's modules only kmod's modinfo can find, not that of busybox.
_SNIPPET = r"""
[ -d /lib/modules ] || return 0
{ read -r running </proc/sys/kernel/osrelease || running=$(uname -r); } 2>/dev/null
show_module() { # KERNEL NAME: what modinfo said of it, which may be an error
    block "modinfo -k $1 $2"
    set -f; IFS='
'
    for line in $said; do
        case $line in
            signature:*) ;;
            filename:* | version:* | license:* | srcversion:* | vermagic:* | sig[a-z_]*:* | \
                modinfo:*) say "$line" ;;
        esac
    done
    set +f; unset IFS
}
looked() { # it takes the place of its shell
    exec find "/lib/modules/$1" \( -name "nvidia.ko*" -o -name "nvidia-current*.ko*" \
        -o -name "nvidia-open.ko*" -o -name "nvidia-tesla*.ko*" -o -name "nvidia-legacy*.ko*" \) \
        ! -name "*-drm.ko*" ! -name "*-modeset.ko*" ! -name "*-uvm.ko*" ! -name "*-peermem.ko*" \
        2>/dev/null
}
seen=
for folder in "/lib/modules/$running" /lib/modules/*; do
    kernel=${folder##*/}
    case " $seen " in *" $kernel "*) continue ;; esac
    seen="$seen $kernel"
    [ -d "$folder/kernel" ] || [ -e "$folder/modules.dep" ] || continue
    said=; if command -v modinfo >/dev/null; then said=$(modinfo -k "$kernel" nvidia 2>&1); fi
    case $said in
        filename:*) show_module "$kernel" nvidia ;;
        *"ERROR: Module nvidia "*)
            name=$(looked "$kernel"); name=${name%%.ko*}; name=${name##*/}
            [ -z "$name" ] || said=$(modinfo -k "$kernel" "$name" 2>&1)
            show_module "$kernel" "${name:-nvidia}" ;;
        *)  # that of busybox knows only the running kernel
            block "find $folder -name nvidia*.ko*"
            (looked "$kernel") ;;
    esac
done
return 0
"""

SECTION = Section(
    name="nvidia-modinfo",
    snippet=_SNIPPET,
    parse=parse,
    timeout_s=12,
    lane="files",
    technical=EVERY_WORD,
)
