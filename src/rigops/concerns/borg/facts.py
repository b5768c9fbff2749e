"""Facts of a host for backups with borg: versions, mounts, and readable secrets."""

from __future__ import annotations

import re
from typing import Final

from rigops.backup.borg_host import CREDENTIAL, CREDENTIAL_NAME, PASSPHRASE
from rigops.concerns.borg.record import PUBLIC_KEY
from rigops.dataclass import dataclass
from rigops.facts.sections import SectionFact
from rigops.probe.mounts import unescaped
from rigops.probe.section import Section
from rigops.probe.text import blocks, lines, matches

PYTHON: Final = "python3 -V"
BORG: Final = "borg --version"
SYSTEMD: Final = "systemctl --version"
TOOLS: Final = "command -v"
MOUNTS: Final = "cat /proc/self/mountinfo"
SECRETS: Final = "readable secrets"
OTHERS: Final = "ls of other tools"

_PYTHON = re.compile(r"Python ([0-9]{1,3})\.([0-9]{1,3})")
_BORG = re.compile(r"borg ([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})")
_SYSTEMD = re.compile(r"systemd ([0-9]{3,4})\b")
_SECRET = re.compile(r"(?P<status>[0-7]{3,4} 0:0) (?P<path>/.*)")
_MOUNT = re.compile(r"\S+ \S+ (?P<device>\S+) \S+ (?P<target>\S+) .*? - (?P<kind>\S+) .*")


@dataclass(frozen=True)
class Mount:
    """`device`: a number that all mounts of one file system share."""

    target: str
    device: str
    kind: str = ""


@dataclass(frozen=True, kw_only=True)
class BorgHost:
    """`secrets`: the mode, by path, of those of root that can be read, a credential decrypted.

    `borg`: of the program of that name; None: it is absent, or answers otherwise.
    """

    python: tuple[int, int] | None = None
    borg: tuple[int, int, int] | None = None
    borg_answer: str = ""
    systemd: int | None = None
    tools: frozenset[str] = frozenset()
    mounts: tuple[Mount, ...] = ()
    secrets: frozenset[tuple[str, str]] = frozenset()
    others: tuple[str, ...] = ()
    public_key: str = ""


def parse(text: str) -> BorgHost:
    found = blocks(text)
    python = _PYTHON.search(found.get(PYTHON, ""))
    answer = next((one for one in lines(found.get(BORG, "")) if one.strip()), "")
    borg = _BORG.match(answer)
    systemd = _SYSTEMD.search(found.get(SYSTEMD, ""))
    return BorgHost(
        python=(int(python[1]), int(python[2])) if python else None,
        borg=(int(borg[1]), int(borg[2]), int(borg[3])) if borg else None,
        borg_answer=answer,
        systemd=int(systemd[1]) if systemd else None,
        tools=frozenset(one.rpartition("/")[2] for one in lines(found.get(TOOLS, ""))),
        mounts=tuple(
            Mount(unescaped(one["target"]), one["device"], one["kind"])
            for one in matches(_MOUNT, lines(found.get(MOUNTS, "")))[0]
        ),
        secrets=frozenset(
            (one["path"], one["status"].partition(" ")[0])
            for one in matches(_SECRET, lines(found.get(SECRETS, "")))[0]
        ),
        others=tuple(one for one in lines(found.get(OTHERS, "")) if one.startswith("/")),
        public_key=next((one for one in lines(found.get(PUBLIC_KEY, "")) if one.strip()), ""),
    )


# The content of a secret is read by nobody: a credential is decrypted into nothing.
_SNIPPET = rf"""
if [ -x /usr/bin/python3 ]; then
    block "{PYTHON}"
    /usr/bin/python3 -V 2>&1
fi
if command -v borg >/dev/null; then
    block "{BORG}"
    borg --version 2>&1 </dev/null | head -n 3 | cut -c 1-200
fi
if [ -d /run/systemd/system ]; then
    block "{SYSTEMD}"
    systemctl --version | head -n 1
fi
block "{TOOLS}"
command -v borg
command -v borg2
command -v ssh-keygen
command -v ssh
command -v systemd-creds
command -v systemd-run
block "{MOUNTS}"
head -n 4000 /proc/self/mountinfo
block "{SECRETS}"
if [ -s {PASSPHRASE} ]; then stat -c '%a %u:%g %n' {PASSPHRASE}; fi
if [ -s {CREDENTIAL} ] && command -v systemd-creds >/dev/null &&
    systemd-creds decrypt --name={CREDENTIAL_NAME} {CREDENTIAL} - >/dev/null 2>&1 </dev/null
then stat -c '%a %u:%g %n' {CREDENTIAL}; fi
block "{OTHERS}"
for file in /etc/borgmatic/config.yaml /etc/borgmatic.d/*.yaml; do
    [ ! -f "$file" ] || printf '%s\n' "$file"
done
if [ -f {PUBLIC_KEY} ]; then show {PUBLIC_KEY}; fi
return 0
"""

SECTION = Section(
    name="borg-host",
    snippet=_SNIPPET,
    parse=parse,
    timeout_s=18,
    wants_root=True,
    lane="files",
    is_exact=True,
)


class BorgHostFact(SectionFact[BorgHost]):
    section = SECTION
