"""How fast the CPU may run: drivers, governors and limits."""

from __future__ import annotations

import re
from dataclasses import replace

from rigops.dataclass import dataclass
from rigops.probe.section import EVERY_WORD, Section
from rigops.probe.text import lines

POLICIES = "/sys/devices/system/cpu/cpufreq"
BOOST = "/sys/devices/system/cpu/cpufreq/boost"
NO_TURBO = "/sys/devices/system/cpu/intel_pstate/no_turbo"
INTEL_PSTATE = "/sys/devices/system/cpu/intel_pstate/status"
AMD_PSTATE = "/sys/devices/system/cpu/amd_pstate/status"
MODULES = "ls cpufreq_*.ko"

_POLICY = re.compile(r"policy(?P<number>[0-9]{1,5})(?P<fields>(?: [a-z_]+=\S*)+)")
_KHZ = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, kw_only=True)
class Policy:
    """The kHz that the kernel counts in. `least` and `most` are what the hardware can do."""

    number: int
    line: str
    driver: str | None = None
    governor: str | None = None
    preference: str | None = None  # the energy performance preference
    min_khz: int | None = None
    max_khz: int | None = None
    least_khz: int | None = None
    most_khz: int | None = None
    governors: tuple[str, ...] = ()  # that may be had without loading a module
    steps_khz: tuple[int, ...] = ()  # all that the driver can set, where that is a list


@dataclass(frozen=True, kw_only=True)
class CpuFreq:
    """No policies and nothing unparsed: the kernel does not scale here, as in most VMs."""

    policies: tuple[Policy, ...] = ()
    boost: bool | None = None
    loadable: frozenset[str] | None = None  # governors of which the kernel has a module
    unparsed: tuple[str, ...] = ()


def parse(text: str) -> CpuFreq:
    found = CpuFreq()
    head = ""
    # The snippet names the folder even where it is missing.
    unparsed: list[str] = [] if POLICIES in text else [f"no answer of {POLICIES}"]
    policies: list[Policy] = []
    loadable: set[str] = set()
    for raw in lines(text):
        line = raw.strip()
        if line.startswith("== "):
            head = line[3:].strip()
            continue
        if not line:
            continue
        if head == MODULES and line.isidentifier():
            loadable.add(line)
            continue
        shape = _POLICY.fullmatch(line)
        changed = _switch(found, head, line)
        if shape:
            policies.append(_policy(shape, line))
        elif changed is not None:
            found = changed
        else:
            unparsed.append(line)
    return replace(
        found,
        policies=tuple(policies),
        loadable=frozenset(loadable) if f"== {MODULES}" in text else None,
        unparsed=tuple(unparsed),
    )


def _switch(found: CpuFreq, head: str, line: str) -> CpuFreq | None:
    if head in {BOOST, NO_TURBO} and line in {"0", "1"}:
        return replace(found, boost=line == ("1" if head == BOOST else "0"))
    if head in {AMD_PSTATE, INTEL_PSTATE} and line.isalpha():
        return found  # for people
    if line in {"Active: yes", "Active: no"}:
        return replace(found, boost=line.endswith("yes"))
    return None


def _policy(shape: re.Match[str], line: str) -> Policy:
    fields = dict(one.split("=", 1) for one in shape["fields"].split())

    def word(name: str) -> str | None:
        value = fields.get(name, "-")
        return None if value in {"", "-", "<unsupported>", "<unknown>"} else value

    def khz(name: str) -> int | None:
        value = fields.get(name, "")
        return int(value) if _KHZ.fullmatch(value) else None

    return Policy(
        number=int(shape["number"]),
        driver=word("driver"),
        governor=word("governor"),
        preference=word("epp"),
        min_khz=khz("min"),
        max_khz=khz("max"),
        least_khz=khz("least"),
        most_khz=khz("most"),
        governors=tuple(filter(None, (word("governors") or "").split(","))),
        steps_khz=tuple(
            int(one) for one in fields.get("steps", "").split(",") if _KHZ.fullmatch(one)
        ),
        line=line,
    )


_SNIPPET = rf"""
get() {{ value=-; read -r value <"$1" || value=-; [ -n "$value" ] || value=-; }} 2>/dev/null
# Into value, with commas between the words.
get_list() {{
    get "$1"
    # shellcheck disable=SC2086  # several words
    set -- $value
    IFS=,; value=$*; unset IFS
}}
block "{POLICIES}"
for policy in {POLICIES}/policy[0-9]*; do
    [ -d "$policy" ] || continue
    line=${{policy##*/}}
    get "$policy/scaling_driver"; line="$line driver=$value"
    get "$policy/scaling_governor"; line="$line governor=$value"
    get "$policy/energy_performance_preference"; line="$line epp=$value"
    get "$policy/scaling_min_freq"; line="$line min=$value"
    get "$policy/scaling_max_freq"; line="$line max=$value"
    get "$policy/scaling_cur_freq"; line="$line now=$value"
    get "$policy/cpuinfo_min_freq"; line="$line least=$value"
    get "$policy/cpuinfo_max_freq"; line="$line most=$value"
    get_list "$policy/scaling_available_governors"; line="$line governors=$value"
    get_list "$policy/scaling_available_frequencies"; echo "$line steps=$value"
done
block "{MODULES}"
get /proc/sys/kernel/osrelease
for module in "/lib/modules/$value/kernel/drivers/cpufreq"/cpufreq_*.ko*; do
    [ -e "$module" ] || continue
    module=${{module##*/cpufreq_}}
    echo "${{module%%.*}}"
done
show_kernel {BOOST} {NO_TURBO} {INTEL_PSTATE} {AMD_PSTATE}
return 0
"""

SECTION = Section(name="cpufreq", snippet=_SNIPPET, parse=parse, lane="files", technical=EVERY_WORD)
