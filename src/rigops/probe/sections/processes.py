"""Processes on the cards, and those that wait or spin in the kernel because of them."""

from __future__ import annotations

import re

from rigops.dataclass import dataclass
from rigops.probe.section import Section
from rigops.probe.text import blocks, matches, stripped

_TASKS = "cat /proc/[0-9]*/stat"
_HOLDERS = "ls -l /proc/[0-9]*/fd"
_PS = re.compile(r"ps\b.*")

_TASK = re.compile(
    r"pid=(?P<pid>[0-9]{1,10}) state=(?P<state>[A-Z]) cpu=(?P<cpu>-?[0-9]{1,6})"
    r" wchan=(?P<wchan>\S*) comm=(?P<comm>.*)"
)
_HOLDER = re.compile(r"pid=(?P<pid>[0-9]{1,10}) comm=(?P<comm>.*)")
_PS_ROW = re.compile(
    r"(?P<pid>[0-9]{1,10})\s+[0-9]{1,10}\s+(?P<state>[A-Z])\S*\s+(?P<cpu>[0-9]{1,5})(?:\.[0-9]+)?"
    r"\s+(?P<wchan>\S+)\s+(?P<comm>\S.*)"
)
_PS_HEAD = re.compile(r"\s*PID\s+PPID\s+STAT?\s+%?CPU\s+WCHAN\s+COMM\w*\s*")
_OF_DRIVER = re.compile(r"nv_|nvidia|_nv[0-9]|rm_|os_acquire|uvm_")
_THREAD = re.compile(r"nv_queue.*|irq/[0-9]+-nvidia.*|nvidia.*|nv_.*")


@dataclass(frozen=True, kw_only=True)
class Task:
    """By its short name only: a command line may hold secrets. `wchan`: where it waits."""

    pid: int
    state: str
    cpu_percent: int
    wchan: str
    comm: str
    line: str

    @property
    def waits_for_driver(self) -> bool:
        """It cannot be ended, and it is the driver that it waits for."""
        by_name = self.comm.startswith("nvidia-smi") or bool(_THREAD.fullmatch(self.comm))
        return self.state == "D" and (by_name or bool(_OF_DRIVER.search(self.wchan)))

    @property
    def is_driver_thread(self) -> bool:
        return self.comm.startswith(("nv_queue", "irq/")) and bool(_THREAD.fullmatch(self.comm))


@dataclass(frozen=True, kw_only=True)
class Holder:
    pid: int
    comm: str
    line: str


@dataclass(frozen=True)
class Processes:
    """`holders`: processes with a node of NVIDIA's open; without root only one's own are seen.

    None: not collected. `tasks`: in state D, or threads of the driver.
    """

    holders: tuple[Holder, ...] | None = None
    tasks: tuple[Task, ...] | None = None
    unparsed: tuple[str, ...] = ()


def parse(text: str) -> Processes:
    holders: list[Holder] | None = None
    tasks: list[Task] | None = None
    unparsed: list[str] = []
    for head, body in (blocks(text) or {"ps": text}).items():
        output = stripped(body)
        if head == _HOLDERS:
            shapes, left = matches(_HOLDER, output)
            holders = [Holder(pid=int(one["pid"]), comm=one["comm"], line=one[0]) for one in shapes]
            unparsed += left
        elif head == _TASKS or _PS.fullmatch(head):
            rows = [line for line in output if not _PS_HEAD.fullmatch(line)]
            found = [(line, _task(line)) for line in rows]
            if head == _TASKS or rows != output or any(task for _, task in found):
                tasks = [*(tasks or ()), *(task for _, task in found if task)]
            unparsed += [line for line, task in found if not task]
        else:
            unparsed.append(head)
    return Processes(
        tuple(holders) if holders is not None else None,
        tuple(tasks) if tasks is not None else None,
        tuple(unparsed),
    )


def _task(line: str) -> Task | None:
    shape = _TASK.fullmatch(line) or _PS_ROW.fullmatch(line)
    if shape is None:
        return None
    return Task(
        pid=int(shape["pid"]),
        state=shape["state"],
        cpu_percent=int(shape["cpu"]),
        wchan=shape["wchan"],
        comm=shape["comm"].strip(),
        line=line,
    )


# A moment in state D is nothing: only what is in it twice, a second apart, is reported. In the same
# second it is measured how busy the driver's threads are, in hundredths, as the kernel counts.
_SNIPPET = rf"""
[ -e /proc/self/stat ] || return
look() {{ # PID: sets comm, or fails
    # Its user chooses its name, line feeds and brackets included.
    {{
        read -r line && while read -r more; do line="$line $more"; done
    }} 2>/dev/null <"/proc/$1/stat" || return
    comm=${{line%)*}} comm=${{comm#*"("}}
}}
ticks() {{ # PID…: of those in state D and of the driver's threads, as PID:STATE:TICKS
    exec awk 'BEGIN {{
        RS = "\001" # a name may have line feeds
        for (at = 1; at < ARGC; at++) {{
            file = "/proc/" ARGV[at] "/stat"
            if ((getline text <file) > 0 && match(text, /.*\) /)) {{
                name = substr(text, 1, RLENGTH - 2)
                split(substr(text, RLENGTH + 1), rest, " ") # utime and stime are 12 and 13
                if (rest[1] == "D" || name ~ /\(nv_queue|\(irq\/.*nvidia/)
                    print ARGV[at] ":" rest[1] ":" rest[12] + rest[13]
            }}
            close(file)
        }}
    }}' "$@" 2>/dev/null
}}
left=5 # tries: mawk gives up where a process ends while it is read
try_again() {{ left=$((left - 1)); [ "$left" -gt 0 ]; }}
cd /proc/ || return
until waiting=$(ticks [0-9]*); do try_again || return; done
cd /
block "{_TASKS}"
now=
[ -z "$waiting" ] || {{
    sleep 1
    for one in $waiting; do set -- "$@" "${{one%%:*}}"; done
    until now=$(ticks "$@"); do try_again || return; done
}}
count=0
for one in $now; do
    pid=${{one%%:*}} state=${{one#*:}}; state=${{state%:*}}
    for before in $waiting; do [ "${{before%%:*}}" != "$pid" ] || break; done
    case "${{before#*:}}:$state" in
        D:*:D | [!D]:*) ;;
        *) continue ;;
    esac
    look "$pid" || continue
    wchan=-; {{ read -r wchan <"/proc/$pid/wchan"; }} 2>/dev/null
    spent=$((${{one##*:}} - ${{before##*:}}))
    echo "pid=$pid state=$state cpu=$spent wchan=${{wchan:--}} comm=$comm"
    count=$((count + 1)); [ "$count" -lt 200 ] || break
done
block "{_HOLDERS}"
[ -e /proc/driver/nvidia ] || [ -e /dev/nvidiactl ] || return 0
for pid in $(ls -l /proc/[0-9]*/fd 2>/dev/null | awk '
    $0 ~ "^/proc/[0-9]+/fd:$" {{ pid = $1; sub("/fd:$", "", pid); sub(".*/", "", pid) }}
    index($0, " -> /dev/nvidia") && !(pid in found) && n++ < 200 {{ found[pid]; print pid }}
'); do
    look "$pid" && echo "pid=$pid comm=$comm"
done
return 0
"""

_TECHNICAL = f"{_TASKS} {_HOLDERS} pid ppid state wchan comm nvidia-smi nv_queue irq os_acquire uvm"

SECTION = Section(
    name="processes",
    snippet=_SNIPPET,
    parse=parse,
    wants_root=True,
    lane="machine",
    technical=_TECHNICAL,
)
