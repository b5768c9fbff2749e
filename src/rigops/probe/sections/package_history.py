"""Which GPU packages and kernels were changed, and when: the package managers' logs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal

from rigops.dataclass import dataclass
from rigops.probe.section import EVERY_WORD, Section
from rigops.probe.text import blocks, lines

Action = Literal["install", "upgrade", "downgrade", "reinstall", "remove"]

_RELEVANT: Final = "nvidia|cuda|nvcuvid|nouveau|dkms|linux-(image|headers|modules)|kernel"
_NAMES = re.compile(rf"(?:{_RELEVANT}|^linux(?:-lts|-zen)?$)")
_ACTIONS: Final[dict[str, Action]] = {
    "install": "install", "installed": "install", "upgrade": "upgrade", "upgraded": "upgrade",
    "downgrade": "downgrade", "downgraded": "downgrade", "reinstall": "reinstall",
    "reinstalled": "reinstall", "remove": "remove", "removed": "remove", "purge": "remove",
    "erase": "remove", "erased": "remove",
}  # fmt: skip

# Copies of apt's log may have lost the ends of their lines.
_APT_FIELD = re.compile(
    r"(?:^|(?<=[\s)]))(Start-Date|Commandline|Requested-By|Install|Upgrade|Downgrade|Reinstall"
    r"|Remove|Purge|Error|End-Date): ?"
)
_APT_ITEM = re.compile(
    r"(?<![a-z0-9+.:-])(?P<name>[a-z0-9][a-z0-9+.-]{0,127})(?::[a-z0-9]{1,32})?"
    r" \((?P<versions>[^()]*)\)"
)
_DPKG = re.compile(
    r"(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?P<action>install|upgrade|remove|purge) "
    r"(?P<name>[a-z0-9][a-z0-9+.-]*)(?::[a-z0-9]+)? (?P<before>\S+) (?P<after>\S+)\s*",
    re.ASCII,
)
_PACMAN = re.compile(
    r"\[(?P<at>[0-9T:+ -]{10,30})\] \[ALPM\] "
    r"(?P<action>installed|upgraded|downgraded|reinstalled|removed) "
    r"(?P<name>\S+) \((?P<versions>[^()]*)\)"
)
_RPM = re.compile(
    r"(?P<at>\d{4}-\d\d-\d\dT[0-9:+Z-]{6,14}) \S+ "
    r"(?P<action>Installed|Upgrade|Upgraded|Downgrade|Downgraded|Reinstalled|Erase): "
    r"(?P<name>\S+?)-(?P<version>[^-\s]+-[^-\s]+)\.[a-z0-9_]+\s*",
    re.ASCII,
)
_BLANKS = re.compile(r"\s+")


@dataclass(frozen=True)
class Change:
    """`at` is the host's own time, as the log writes it; None: the log has none."""

    at: str | None
    package: str
    before: str | None
    after: str | None
    line: str


@dataclass(frozen=True)
class PackageHistory:
    changes: tuple[Change, ...] = ()  # in the order of each log
    unparsed: tuple[str, ...] = ()

    def last(self, package: str) -> Change | None:
        return max(
            (one for one in self.changes if one.package == package),
            key=lambda one: one.at or "",
            default=None,
        )


def parse(text: str) -> PackageHistory:
    changes: list[Change] = []
    unparsed: list[str] = []
    for body in blocks(text).values() or (text,):
        read, strange = _log(lines(body))
        changes += read
        unparsed += strange
    return PackageHistory(tuple(dict.fromkeys(changes)), tuple(unparsed))


def _log(output: list[str]) -> tuple[list[Change], list[str]]:
    changes: list[Change] = []
    unparsed: list[str] = []
    apt = _Apt()
    for line in output:
        if not line.strip():
            continue
        if (one := _simple(line)) is not None:
            changes += [one] if _NAMES.search(one.package) else []
        elif _APT_FIELD.search(line):
            changes += apt.read(line)
        else:
            unparsed.append(line)
    return changes, unparsed


def _simple(line: str) -> Change | None:
    before: str | None
    after: str | None
    if shape := _DPKG.fullmatch(line):
        before, after = (None if one == "<none>" else one for one in shape.group("before", "after"))
    elif shape := _PACMAN.fullmatch(line.strip()):
        versions = [one.strip() for one in shape["versions"].split("->")]
        before, after = _pair(_ACTIONS[shape["action"]], versions)
    elif shape := _RPM.fullmatch(line):
        was = shape["action"] in {"Upgraded", "Downgraded", "Erase"}
        before, after = (shape["version"], None) if was else (None, shape["version"])
    else:
        return None
    return Change(shape["at"], shape["name"], before, after, line)


class _Apt:
    """One stanza after another: what is above a list of packages belongs to it."""

    def __init__(self) -> None:
        self.at: str | None = None

    def read(self, line: str) -> Iterator[Change]:
        marks = list(_APT_FIELD.finditer(line))
        ends = [mark.start() for mark in marks[1:]] + [len(line)]
        for mark, end in zip(marks, ends, strict=True):
            name, value = mark[1], line[mark.end() : end].strip()
            if name == "Start-Date":
                self.at = _BLANKS.sub(" ", value) or None
            elif name.lower() in _ACTIONS:
                action = _ACTIONS[name.lower()]
                for item in _APT_ITEM.finditer(value):
                    if _NAMES.search(item["name"]):
                        versions = [one.strip() for one in item["versions"].split(",")]
                        versions = [one for one in versions if one and one != "automatic"]
                        before, after = _pair(action, versions)
                        yield Change(self.at, item["name"], before, after, line)


def _pair(action: Action, versions: list[str]) -> tuple[str | None, str | None]:
    if len(versions) > 1:
        return versions[0], versions[1]
    only = versions[0] if versions else None
    return (only, None) if action == "remove" else (None, only)


# Of apt's log whole stanzas, and of their lists, which may be many kB long, the packages that
# matter; of the others single lines. The newest of each: 40 stanzas, 150 lines.
_LINES: Final = (
    r" (install|upgrade|remove|purge) |\[ALPM\] [a-z]+ed "
    r"|(Installed|Upgraded?|Downgraded?|Reinstalled|Erase): "
)
_SNIPPET = rf"""
code=0
stanzas() {{ # FILE…
    awk -v wanted='{_RELEVANT}' '
        function flush() {{ if (hit) kept[++stanzas] = stanza; stanza = ""; hit = 0 }}
        /^Start-Date:/ {{ flush() }}
        /^(Install|Upgrade|Downgrade|Reinstall|Remove|Purge): / {{
            if ($0 !~ wanted) next
            head = $1; sub(/^[^ ]* /, "")
            n = split($0, items, /\), /); list = ""
            for (i = 1; i <= n; i++) if (items[i] ~ wanted) {{
                sub(/\)$/, "", items[i])
                list = list (list == "" ? "" : ", ") items[i] ")"
            }}
            $0 = head " " list; hit = 1
        }}
        {{ if (length(stanza) < 20000) stanza = stanza substr($0, 1, 2000) "\n" }}
        END {{
            flush()
            for (i = stanzas > 40 ? stanzas - 39 : 1; i <= stanzas; i++) printf "%s", kept[i]
        }}
    ' "$@"
}}
for file in /var/log/apt/history.log.1.gz /var/log/apt/history.log.1 /var/log/apt/history.log; do
    [ -f "$file" ] || continue
    if [ ! -r "$file" ]; then code=1; continue; fi
    block "$file"
    case $file in *.gz) zcat "$file" | stanzas ;; *) stanzas "$file" ;; esac
done
for file in /var/log/dpkg.log.1 /var/log/dpkg.log /var/log/pacman.log /var/log/dnf.rpm.log; do
    [ -f "$file" ] || continue
    if [ ! -r "$file" ]; then code=1; continue; fi
    block "$file"
    awk '/{_LINES}/ && /{_RELEVANT}|\] [a-z]+ linux/ {{ kept[n++ % 150] = substr($0, 1, 500) }}
        END {{ for (i = n > 150 ? n - 150 : 0; i < n; i++) print kept[i % 150] }}' "$file"
done
return $code
"""

SECTION = Section(
    name="package-history", snippet=_SNIPPET, parse=parse, lane="files", technical=EVERY_WORD
)
