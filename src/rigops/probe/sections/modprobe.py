"""Options and blacklists of the GPU modules; for people, also how old each initramfs is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from rigops.dataclass import dataclass
from rigops.probe.section import Section
from rigops.probe.text import Stamp, blocks, lines, stamps

HMM: Final = "/sys/module/nvidia_uvm/parameters/uvm_disable_hmm"
TIMES: Final = "stat initramfs"

_FOLDERS = (
    "/etc/modprobe.d/", "/run/modprobe.d/", "/usr/local/lib/modprobe.d/",
    "/usr/lib/modprobe.d/", "/lib/modprobe.d/",
)  # fmt: skip
_OTHER_WORDS = frozenset({"softdep", "alias", "install", "remove", "config"})
_OFF = re.compile(r"(?:/usr)?/bin/(?:false|true)|/dev/null|:")
_YES = {"Y": True, "1": True, "N": False, "0": False}


@dataclass(frozen=True)
class ModuleOption:
    module: str  # with _ for -, as the kernel compares
    name: str
    value: str | None
    file: str
    line: str


@dataclass(frozen=True)
class Blacklisted:
    """`kind`: how it is kept out: blacklist, alias … off, or install … /bin/false."""

    module: str
    kind: str
    file: str
    line: str


@dataclass(frozen=True, kw_only=True)
class Modprobe:
    options: tuple[ModuleOption, ...] = ()
    blacklists: tuple[Blacklisted, ...] = ()
    files: tuple[Stamp, ...] = ()  # of /etc/modprobe.d, that name GPU modules
    uvm_disable_hmm: bool | None = None  # None: nvidia_uvm is not loaded, or has no such parameter
    uvm_disable_hmm_line: str = ""
    unparsed: tuple[str, ...] = ()

    def value(self, module: str, name: str) -> str | None:
        """The options that the module is loaded with: of several, the last counts."""
        wanted = module.replace("-", "_")
        values = [one.value for one in self.options if (one.module, one.name) == (wanted, name)]
        return values[-1] if values else None


def parse(text: str) -> Modprobe:
    found = blocks(text)
    options: list[ModuleOption] = []
    blacklists: list[Blacklisted] = []
    unparsed = [
        head for head in found if head not in {HMM, TIMES} and not head.startswith(_FOLDERS)
    ]
    for file, body in _in_force(found).items():
        for line in lines(body):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            read = _options(words, file, line)
            options += read
            kept_out = _blacklisted(words, file, line)
            blacklists += [kept_out] if kept_out else []
            if not read and not kept_out and words[0] not in _OTHER_WORDS:
                unparsed.append(line)
    times, strange = stamps(found.get(TIMES, ""))
    output = found.get(HMM, "").strip()
    return Modprobe(
        options=tuple(options),
        blacklists=tuple(blacklists),
        files=tuple(one for one in times if not one.path.startswith("/boot/")),
        uvm_disable_hmm=_YES.get(output),
        uvm_disable_hmm_line=output,
        unparsed=(*unparsed, *strange),
    )


def _in_force(found: Mapping[str, str]) -> dict[str, str]:
    """In the order of their names; of files of one name, the first folder's hides the others."""
    by_name: dict[str, str] = {}
    for folder in _FOLDERS:
        for path in found:
            if path.startswith(folder):
                by_name.setdefault(path.removeprefix(folder), path)
    return {by_name[name]: found[by_name[name]] for name in sorted(by_name)}


def _options(words: list[str], file: str, line: str) -> list[ModuleOption]:
    if words[0] != "options" or len(words) < 3:  # noqa: PLR2004 - options MODULE NAME=VALUE…
        return []
    module = words[1].replace("-", "_")
    output = line.strip()
    pairs = (word.partition("=") for word in words[2:])
    return [
        ModuleOption(module, name, value if equals else None, file, output)
        for name, equals, value in pairs
    ]


def _blacklisted(words: list[str], file: str, line: str) -> Blacklisted | None:
    kind = words[0]
    is_out = (
        (kind == "blacklist" and len(words) > 1)
        or (kind == "alias" and words[2:3] == ["off"])
        or (kind == "install" and bool(words[2:]) and _OFF.fullmatch(words[2]) is not None)
    )
    if not is_out:
        return None
    return Blacklisted(words[1].replace("-", "_"), kind, file, line.strip())


# Lines that end with a backslash go on. A file of /etc is named even where it says nothing of
# these modules, since it hides one of the same name elsewhere.
_SNIPPET = rf"""
code=0
set --
for file in {" ".join(f"{folder}*.conf" for folder in _FOLDERS)}; do
    [ -f "$file" ] || continue
    case $file in /lib/*) if [ -L /lib ]; then continue; fi ;; esac
    if [ -r "$file" ]; then set -- "$@" "$file"; else code=1; fi
done
[ $# = 0 ] || awk '
    function head() {{ if (!named) print "\n" ENVIRON["mark"] " == " file; named = 1 }}
    function take() {{
        if (line ~ /^[^#]*(nvidia|nouveau|nova|vfio)/ && ++count <= 100) {{
            head(); print line
        }}
        line = ""
    }}
    BEGIN {{
        for (at = 1; at < ARGC; at++) {{
            file = ARGV[at]; named = count = 0
            if (index(file, "/etc/") == 1 || index(file, "/run/") == 1) head()
            while ((getline more < file) > 0) {{
                line = line more
                if (sub(/\\$/, " ", line)) last = "\\"; else take()
            }}
            if (line != "") {{ sub(/ $/, "\\", line); take() }}
            close(file)
        }}
    }}
' "$@"
block "{TIMES}"
if command -v stat >/dev/null; then
    set --
    for file in /etc/modprobe.d/*.conf; do
        [ ! -f "$file" ] || set -- "$@" "$file"
    done
    named=
    [ $# = 0 ] || named=$(grep -l -E 'nvidia|nouveau|nova|vfio' "$@" 2>/dev/null)
    set --
    for file in /boot/initrd.img-* /boot/initramfs-* /boot/initrd-*; do
        [ ! -f "$file" ] || set -- "$@" "$file"
    done
    set -f; IFS='
'
    set -- "$@" $named
    set +f; unset IFS
    [ $# = 0 ] || stat -c '%Y %n' "$@"
fi
show_kernel {HMM}
return $code
"""

_TECHNICAL = (
    f"{HMM} {TIMES} {' '.join(_FOLDERS)} options blacklist alias softdep install remove config "
    "/boot/initramfs- /boot/initrd.img- /bin/true /bin/false /dev/null .conf "
    "nvidia-drm nvidia-modeset nvidia-uvm nvidia-peermem nvidia_drm nvidia_modeset nvidia_uvm "
    "nvidia_peermem nouveau nova_core vfio-pci vfio_pci"
)

SECTION = Section(
    name="modprobe", snippet=_SNIPPET, parse=parse, lane="files", technical=_TECHNICAL
)
