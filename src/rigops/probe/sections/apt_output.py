"""Errors of apt, dpkg, dkms and NVIDIA's installer when an installation fails."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from rigops.dataclass import dataclass
from rigops.probe.section import EVERY_WORD, Section
from rigops.probe.text import lines

ProblemKind = Literal[
    "unmet",  # dependencies that no candidate meets
    "overwrite",  # a file that belongs to another package
    "interrupted",  # dpkg has to be run again
    "locked",  # another program installs
    "missing-file",  # 404: the lists of packages are old
    "no-key",
    "no-package",
    "no-space",
    "headers",
    "compiler",
    "build",
    "no-dkms-conf",
    "secure-boot",
    "nouveau",
    "x-server",
    "load",
    "installer",  # any other error of it
    "package",  # dpkg could not unpack or configure it
    "apt",  # any other error of it
]

# In the order of what explains the others: a package that could not be configured says less than
# why its module was not built.
_KINDS: tuple[tuple[ProblemKind, tuple[str, ...]], ...] = (
    (
        "no-space",
        (
            "No space left on device",
            "kein Speicherplatz mehr",
            "Aucun espace disponible",
            "No queda espacio",
            "Spazio esaurito sul device",
            "\u043d\u0435 \u043e\u0441\u0442\u0430\u043b\u043e\u0441\u044c",
            "\u8bbe\u5907\u4e0a\u6ca1\u6709\u7a7a\u95f4",
        ),
    ),
    (
        "overwrite",
        (
            ", which is also in package ",
            ", welches auch in Paket ",
            ", qui appartient aussi au paquet",
            ", que est\u00e1 tambi\u00e9n en el paquete",
            ", que tamb\u00e9m est\u00e1 no pacote",
            " presente anche nel pacchetto ",
            " \u0443\u0436\u0435 \u0438\u043c\u0435\u0435\u0442\u0441\u044f \u0432 ",
            "\u5b83\u540c\u65f6\u88ab\u5305\u542b\u4e8e\u8f6f\u4ef6\u5305",
        ),
    ),
    (
        "headers",
        (
            "cannot be found at /lib/modules/",
            "kernel headers for this kernel does not seem to be installed",
            "Unable to find the kernel source tree",
        ),
    ),
    (
        "secure-boot",
        (
            "Key was rejected by service",
            "Required key not available",
            "UEFI Secure Boot requires additional configuration",
        ),
    ),
    ("no-dkms-conf", ("Could not locate dkms.conf",)),
    ("nouveau", ("Nouveau kernel driver is currently in use",)),
    ("x-server", ("appear to be running an X server",)),
    ("compiler", ()),
    (
        "build",
        (
            "Bad return status for module",
            "Module nvidia not found",
            'the step: "Building kernel modules"',
        ),
    ),
    ("load", ("ERROR: Unable to load the", "modprobe: ERROR: could not insert 'nvidia")),
    ("interrupted", ()),
    ("locked", ("Could not get lock", "is another process using it?")),
    ("missing-file", ("404  Not Found", "404 Not Found")),
    ("no-key", ("NO_PUBKEY", "EXPKEYSIG", "is not signed.")),
    (
        "no-package",
        (
            "E: Unable to locate package",
            "E: Couldn't find any package",
            "has no installation candidate",
            "E: Version '",
            "kann nicht gefunden werden",
            "E: Impossible de trouver le paquet",
            "E: No se ha podido localizar el paquete",
            "E: Impossibile trovare il pacchetto",
            "\u041d\u0435 \u0443\u0434\u0430\u043b\u043e\u0441\u044c \u043d\u0430\u0439",
            "\u041d\u0435\u0432\u043e\u0437\u043c\u043e\u0436\u043d\u043e \u043d\u0430\u0439",
            "E: \u65e0\u6cd5\u5b9a\u4f4d\u8f6f\u4ef6\u5305",
        ),
    ),
    (
        "unmet",
        (
            "have unmet dependencies",
            "held broken packages",
            "Unmet dependencies",
            "haben unerf\u00fcllte Abh\u00e4ngigkeiten",
            "zur\u00fcckgehaltene defekte Pakete",
            "d\u00e9pendances non satisfaites",
            "paquets d\u00e9fectueux",
            "dependencias incumplidas",
            "paquetes rotos",
            "depend\u00eancias desencontradas",
            "dipendenze non soddisfatte",
            "Dipendenze non soddisfatte",
            "pacchetti danneggiati bloccati",
            "\u043d\u0435\u0443\u0434\u043e\u0432\u043b\u0435\u0442\u0432\u043e\u0440",
            "\u041d\u0435\u0443\u0434\u043e\u0432\u043b\u0435\u0442\u0432\u043e\u0440",
            "\u0441\u043b\u043e\u043c\u0430\u043d\u043d\u044b\u0435",
            "\u0431\u0438\u0442\u044b\u0435",
            "\u672a\u6ee1\u8db3\u7684\u4f9d\u8d56\u5173\u7cfb",
        ),
    ),
    ("package", ("dpkg: error processing", "dpkg: dependency problems", "dpkg: error: ")),
    ("installer", ("ERROR: ",)),
    ("apt", ("E: ", "Error: ", "Error! ")),
)
_AT_THE_START = frozenset({"installer", "apt", "package", "load"})
# Texts that are the same in every language.
_EVERYWHERE: dict[ProblemKind, re.Pattern[str]] = {
    "compiler": re.compile(r"[^\s:]{1,400}:[0-9]{1,9}:(?:[0-9]{1,9}:)? (?:fatal )?error: "),
    "interrupted": re.compile(r"E: .{0,200}dpkg --configure -a"),
    "locked": re.compile(r"E: .{0,200}/(?:var/lib/(?:dpkg|apt/lists)|var/cache/apt/archives)/lock"),
    "package": re.compile(r"dpkg: .{0,200} \(--(?:configure|unpack|install|remove)\)"),
}
_CONSULT = re.compile(r"Consult (?:the )?(?P<path>/\S{1,400}make\.log)\b.*")
_DEPENDENCY = re.compile(r".{0,200}:\s{1,4}(?:Pre)?(?:Depends|Conflicts|Breaks|Recommends): .*")
_DRIVER = "/nvidia"
# modprobe of another's module, whose refusal drv.secureboot tells.
_OF_ANOTHER = re.compile(r"could not insert (?:module )?\W?(?!nvidia)[A-Za-z0-9_]")
_MOST_BELOW = 12
_MOST = 1000


@dataclass(frozen=True, kw_only=True)
class Problem:
    """`below`: lines that belong to it."""

    kind: ProblemKind
    line: str
    below: tuple[str, ...] = ()


@dataclass(frozen=True)
class InstallOutput:
    """In the order of the output; of equal lines the first.

    `make_log`: where dkms wrote why; of several modules, the driver's.
    """

    problems: tuple[Problem, ...] = ()
    make_log: str = ""


def parse(text: str) -> InstallOutput:
    found = lines(text)
    logs = [one["path"] for line in found if (one := _CONSULT.match(line.strip()))]
    of_driver = [one for one in logs if _DRIVER in one]
    return InstallOutput(tuple(_problems(found)), next(iter([*of_driver, *logs]), ""))


def rank(problem: Problem) -> int:
    """The causes first."""
    return next(place for place, (kind, _) in enumerate(_KINDS) if kind == problem.kind)


def _problems(found: Sequence[str]) -> Iterator[Problem]:
    seen: set[str] = set()
    for place, line in enumerate(found):
        kind = None if _OF_ANOTHER.search(line) else _kind(line.strip())
        if kind is None or line.strip() in seen or len(seen) == _MOST:
            continue
        seen.add(line.strip())
        yield Problem(
            kind=kind,
            line=line.strip(),
            below=tuple(_below(kind, found[place + 1 :][:_MOST_BELOW])),
        )


def _kind(line: str) -> ProblemKind | None:
    for kind, words in _KINDS:
        shape = _EVERYWHERE.get(kind)
        if shape and shape.match(line):
            is_it = True
        elif kind in _AT_THE_START:
            is_it = line.startswith(words)
        else:
            is_it = any(one in line for one in words)
        if is_it:
            return kind
    return None


def _below(kind: ProblemKind, following: Sequence[str]) -> Iterator[str]:
    """They are indented, unless a forum took that from them."""
    for line in following if kind in {"unmet", "package"} else ():
        if not line.strip() or not (line[0].isspace() or _DEPENDENCY.fullmatch(line)):
            return
        yield line.strip()


SECTION = Section(name="apt-output", snippet="", parse=parse, technical=EVERY_WORD)
