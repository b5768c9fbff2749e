"""Errors of apt, dpkg, dkms or NVIDIA's installer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from rigops.doctor import views
from rigops.doctor.check import Check
from rigops.doctor.checks import module
from rigops.doctor.finding import Finding, fix_by_hand
from rigops.doctor.views import driver_advice
from rigops.doctor.views.program_runs import cited
from rigops.probe.kernel_log import stamps
from rigops.probe.sections import apt_output
from rigops.probe.sections.apt_output import SECTION as APT_OUTPUT
from rigops.probe.sections.pasted import SECTION as PASTED

if TYPE_CHECKING:
    from rigops.doctor.examined import Examined
    from rigops.doctor.finding import Status
    from rigops.probe.sections.apt_output import InstallOutput, Problem, ProblemKind

_NVIDIA: Final = ("nvidia", "cuda")
_BACKGROUND: Final = re.compile(
    r"[Pp]ackage[Kk]itd?\[[0-9]{1,9}\]: (?=.{0,400}(?P<rest>(?:\n.{0,400}){0,30}))"
)
_LOOK: Final = "`apt-get check` and `dpkg --audit` name the packages; begin with the first"


class _Meaning(NamedTuple):
    summary: str
    why: str
    by_hand: str


_MEANINGS: Final[dict[ProblemKind, _Meaning]] = {
    "no-space": _Meaning(
        "there is no space left",
        "The package was unpacked in part, or the module not written.",
        "look at `df -h / /boot /var`; `apt-get clean` and `apt-get autoremove --purge` (old "
        "kernels) make space, then `dpkg --configure -a`",
    ),
    "overwrite": _Meaning(
        "two packages have the same file",
        "Packages of two drivers, or of two sources (Ubuntu, NVIDIA's repository, a PPA), are "
        "mixed.",
        "remove the driver that is not wanted, with all its packages (`dpkg -l '*nvidia*'`), then "
        "`apt-get -f install`",
    ),
    "headers": _Meaning(
        "the headers of the kernel are not installed",
        "A module is built against the headers of exactly the kernel that is to load it.",
        "`apt-get install linux-headers-$(uname -r)`, then `dkms autoinstall`",
    ),
    "secure-boot": _Meaning(
        "Secure Boot wants the module signed with an enrolled key",
        "The firmware lets the kernel load only modules whose key was enrolled at its own screen.",
        "finish the enrolment: `mokutil --import` the key of DKMS, reboot, choose Enroll MOK at "
        "the machine's own screen; or turn Secure Boot off in the firmware's setup",
    ),
    "no-dkms-conf": _Meaning(
        "DKMS has a module without its source",
        "An older driver was removed in part: its folder in /var/lib/dkms leads to sources that "
        "are gone, and DKMS stops there at every kernel.",
        "delete the folder that the line names below /var/lib/dkms, then `dkms autoinstall`",
    ),
    "nouveau": _Meaning(
        "nouveau drives the cards",
        "Two drivers cannot have one card.",
        "blacklist nouveau (`blacklist nouveau`, `options nouveau modeset=0` in /etc/modprobe.d), "
        "`update-initramfs -u`, reboot",
    ),
    "x-server": _Meaning(
        "a graphical session uses the old driver",
        "A module that is in use cannot be replaced.",
        "`systemctl isolate multi-user.target` and install again; better, install the packages of "
        "the distribution, and reboot",
    ),
    "compiler": _Meaning(
        "the module does not compile for this kernel",
        "A driver that is older than the kernel does not know its interfaces.",
        "install a driver that knows this kernel (`rigops drivers`), or boot the kernel that has a "
        "module",
    ),
    "build": _Meaning(
        "the module was not built",
        "The kernel comes up without a driver, and dpkg leaves the packages half configured. A "
        "driver that is older than the kernel often does not compile.",
        "{log} says why: give it to doctor. Install a driver that knows this kernel (`rigops "
        "drivers`), or boot the kernel that has a module",
    ),
    "load": _Meaning(
        "the module was built and cannot be loaded",
        "nouveau has the cards, Secure Boot refuses the module, it is for another kernel, or it "
        "does not support these cards: the kernel log says which.",
        "give doctor the output of `dmesg`; NVIDIA's .run and packages of the distribution exclude "
        "each other: `nvidia-uninstall`, then install the packages",
    ),
    "interrupted": _Meaning(
        "an installation was interrupted",
        "Until it is finished, apt installs nothing.",
        "`dpkg --configure -a`, then `apt-get -f install`",
    ),
    "locked": _Meaning(
        "another program is installing packages",
        "Mostly unattended-upgrades, which ends by itself.",
        "wait until it ends (`ps -fp PID` of the process that the line names); do not delete the "
        "lock",
    ),
    "missing-file": _Meaning(
        "the lists of packages are older than the archive",
        "The version that they name was replaced.",
        "`apt-get update`, then again",
    ),
    "no-key": _Meaning(
        "apt does not trust a source",
        "Its key is missing, was changed or has expired, and apt ignores its packages: an older "
        "driver may look like the newest.",
        "for NVIDIA's repository reinstall the package cuda-keyring, then `apt-get update`",
    ),
    "no-package": _Meaning(
        "no source has this package or version",
        "The name is of another release or distribution, a component (non-free, restricted) is "
        "not enabled, or the version was replaced.",
        "`apt-get update`, then `apt-cache policy` of the package; Debian: enable contrib, "
        "non-free and non-free-firmware",
    ),
    "unmet": _Meaning(
        "the packages that were asked for do not fit together",
        "Packages of one driver need each other in exactly one version. A hold, a pin, a second "
        "source or a half updated mirror keeps one of them back.",
        "`apt-mark showhold` and `apt-cache policy` of the packages in these lines: release the "
        "hold or name all packages in one version",
    ),
    "package": _Meaning(
        "dpkg could not finish a package",
        "It and what depends on it stay unconfigured.",
        "the lines before it say why; then `dpkg --configure -a`",
    ),
    "installer": _Meaning("NVIDIA's installer ended with an error", "", "look at its log"),
    "apt": _Meaning("apt ended with an error", "", _LOOK),
}
# The driver's deploy installs one set of packages in one version and holds it.
_BY_APPLY: Final = frozenset({"overwrite", "compiler", "build", "unmet"})
_ASKS: Final = "Secure Boot requires additional configuration"  # a question, no error
_GENERAL: Final = frozenset({"package", "installer", "apt"})


@Check(
    "pkg.errors",
    needs=(APT_OUTPUT, *views.COUNTS_CARDS, *module.NEEDS),
    needs_gpu=False,
    fixes=("apply+reboot", "hands"),
    cause_rank=5,
)
def errors(examined: Examined) -> list[Finding]:
    """apt, dpkg, dkms and NVIDIA's installer ended without an error.

    Only where their output was given to doctor. Each kind of error is a failure with its line, its
    meaning and its fix; errors that only follow from another one are not repeated.
    """
    answer = examined.snapshot[APT_OUTPUT]
    if answer.collected is None:
        return []
    found = answer.or_empty
    kinds: dict[ProblemKind, list[Problem]] = {}
    background = _background_lines(examined)
    problems = [one for one in found.problems if one.line not in background]
    for problem in sorted(problems, key=apt_output.rank):
        kinds.setdefault(problem.kind, []).append(problem)
    if module.cause_of(examined):  # it says more than what modprobe says of it
        kinds = {
            kind: problems
            for kind, problems in kinds.items()
            if not all(one.line.startswith("modprobe: ") for one in problems)
        }
    causes = [kind for kind in kinds if kind not in _GENERAL] or list(kinds)[:1]
    told = [_finding(examined, found, kinds[kind]) for kind in causes]
    if problems and not told:
        return []
    return told or [Finding("info", "no error of apt, dpkg or dkms is in it")]


def _background_lines(examined: Examined) -> frozenset[str]:
    """Messages of PackageKit that go on below their first line in a log.

    It asks by itself whether there are updates, and complains where there is no network.
    """
    pasted = examined.snapshot.bundle.sections.get(PASTED.name)
    text = pasted.text if pasted and "ackage" in pasted.text else ""
    found: set[str] = set()
    for begin in _BACKGROUND.finditer(text):
        for line in begin["rest"].splitlines():
            if stamps.read(line).form is not None:
                break
            found.add(line.strip())
    return frozenset(found)


def _finding(examined: Examined, found: InstallOutput, problems: list[Problem]) -> Finding:
    kind = problems[0].kind
    meaning = _MEANINGS[kind]
    by_hand = meaning.by_hand.format(log=found.make_log or "DKMS's make.log")
    lines = [line for one in problems for line in (one.line, *one.below)]
    if kind == "build" and found.make_log and "nvidia" not in found.make_log:
        return Finding(
            "warn", "a module that is not NVIDIA's was not built", cited(APT_OUTPUT, lines)
        )
    is_driver = any(word in line.lower() for line in (*lines, found.make_log) for word in _NVIDIA)
    fix = fix_by_hand(by_hand)
    if kind in _BY_APPLY and is_driver and views.driven(examined):
        text = "`rigops apply` installs one driver in one version, holds it and reboots"
        fix = driver_advice.by_deploy(examined, text, by_hand)
    status: Status = "warn" if all(_ASKS in line for line in lines) else "fail"
    return Finding(status, meaning.summary, cited(APT_OUTPUT, lines), why=meaning.why, fix=fix)
