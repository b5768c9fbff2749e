"""nvidia-smi: arguments, the ways to fail, and which output is wanted."""

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from . import driver as kernel_driver
from . import (
    kernel_log,
    modules,
    paths,
    settings,
    smi_change,
    smi_print,
    smi_query,
    smi_table,
    smi_topo,
)
from .rig import Gpu, Rig, load
from .smi_change import Change
from .smi_view import Driver, View

_INVALID, _NO_DEVICE, _NO_DRIVER, _LOST, _MISMATCH = 2, 6, 9, 15, 18
_COMBINATION = "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n"
_NO_CONTACT = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that"
    " the latest NVIDIA driver is installed and running.\n"
)
# Option -> its long name, and whether a value follows.
_OPTIONS = {
    "-q": ("query", False), "-x": ("xml-format", False), "-L": ("list-gpus", False),
    "-d": ("display", True), "-i": ("id", True), "-f": ("filename", True),
    "-h": ("help", False), "-pm": ("persistence-mode", True), "-pl": ("power-limit", True),
    "-lgc": ("lock-gpu-clocks", True), "-rgc": ("reset-gpu-clocks", False),
    "-lmc": ("lock-memory-clocks", True), "-rmc": ("reset-memory-clocks", False),
    "-ac": ("applications-clocks", True), "-rac": ("reset-applications-clocks", False),
    "--version": ("version", False), "--query-gpu": ("query-gpu", True),
    "--format": ("format", True), "--help-query-gpu": ("help-query-gpu", False),
    "--query-compute-apps": ("query-compute-apps", True), "--query": ("query", False),
    "-u": ("unit", False), "-l": ("loop", True),
}  # fmt: skip
_LONG = {f"--{name}": (name, value) for name, value in _OPTIONS.values()}


class Failure(Exception):  # noqa: N818 - # what is printed before leaving, not a bug
    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class Request(NamedTuple):
    words: dict[str, str]
    changes: list[Change]


def _parse(arguments: Sequence[str]) -> Request:
    words: dict[str, str] = {}
    changes = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        option, equals, value = word.partition("=")
        known = _OPTIONS.get(option) or _LONG.get(option)
        if known is None:
            raise Failure(_invalid(word), _INVALID)
        name, needs = known
        if needs and not equals:
            if not rest:
                raise Failure(f"ERROR: Option {option} is missing its value.\n", _INVALID)
            value = rest.pop(0)
        if name in smi_change.CHANGES:
            changes.append(Change(name, value))
        else:
            words[name] = value
    return Request(words, changes)


def _invalid(word: str) -> str:
    return f"Invalid combination of input arguments. Option {word} is not recognized.\n"


def _lost(gpu: Gpu, driver: Driver) -> str:
    where = f"GPU{gpu.number}: {gpu.address.upper()}" if driver.splits_draw else (
        f"GPU{gpu.address.upper()}"
    )  # fmt: skip
    return (
        f"Unable to determine the device handle for {where}: GPU is lost."
        "  Reboot the system to recover this GPU\n"
    )


def _matches(gpu: Gpu, wanted: str) -> bool:
    plain = wanted.strip().lower()
    addresses = {gpu.address, gpu.bus_id.lower(), gpu.address[5:]}
    return plain in addresses or plain in (str(gpu.number), gpu.uuid.lower())


def _selected(rig: Rig, wanted: str) -> list[Gpu]:
    if not wanted:
        return list(rig.gpus)
    found = []
    for word in wanted.split(","):
        matches = [gpu for gpu in rig.gpus if _matches(gpu, word)]
        if not matches:
            raise Failure("No devices were found\n", _NO_DEVICE)
        found += matches
    return found


class Session:
    """One call, after the driver answered."""

    def __init__(self, rig: Rig, driver: Driver, userspace: str, wanted: str) -> None:
        self.rig = rig
        self.driver = driver
        self.userspace = userspace
        self.gpus = _selected(rig, wanted)
        self.lost = [gpu for gpu in self.gpus if settings.is_lost(gpu)]
        self.views = [View(gpu, rig, driver) for gpu in self.gpus]

    def need_all(self) -> None:
        """Most outputs say nothing about the living when one card is dead."""
        if self.lost:
            raise Failure(_lost(self.lost[0], self.driver), _LOST)

    def listing(self) -> tuple[str, int]:
        lines = [
            _lost(gpu, self.driver)
            if gpu in self.lost
            else f"GPU {gpu.number}: {gpu.model.product} (UUID: {gpu.uuid})\n"
            for gpu in self.gpus
        ]
        return "".join(lines), _LOST if self.lost else 0

    def query(self, fields: str, form: str) -> tuple[str, int]:
        options = form.split(",")
        if options[0] != "csv":
            raise Failure('"--format=" switch is missing. Allowed formats: csv\n', _INVALID)
        try:
            names, lines = smi_query.header(fields, self.driver, options)
        except smi_query.UnknownFieldError as error:
            raise Failure(f'Field "{error}" is not a valid field to query.\n\n', _INVALID) from None
        dead = [_lost(view.gpu, self.driver).rstrip("\n") for view in self.views
                if view.gpu in self.lost]  # fmt: skip
        rows = [smi_query.row(v, names, options) for v in self.views if v.gpu not in self.lost]
        return "\n".join([*dead, *lines, *rows]) + "\n", _LOST if dead else 0

    def full(self, request: Request) -> str:
        self.need_all()
        attached = len(self.rig.gpus)
        if "xml-format" in request.words:
            return smi_print.xml(self.views, self.driver, attached)
        sections = request.words.get("display", "").upper().split(",")
        wanted = [section for section in sections if section]
        return smi_print.text(self.views, self.driver, attached, wanted)

    def table(self) -> str:
        self.need_all()
        return smi_table.table(self.views, self.driver, self.userspace)

    def topo(self, arguments: Sequence[str]) -> str:
        self.need_all()
        if arguments[:1] in (["-m"], ["--matrix"]):
            return smi_topo.matrix(self.rig, self.driver)
        if arguments[:1] in (["-p2p"], ["--p2pstatus"]) and arguments[1:2]:
            kind = arguments[1]
            if kind in ("r", "w", "n", "a", "p"):
                return smi_topo.capabilities(self.rig, kind, self.driver)
        raise Failure(_COMBINATION, _INVALID)

    def nvlink(self, arguments: Sequence[str]) -> str:
        self.need_all()
        if arguments[:1] in (["-s"], ["--status"]):
            return smi_topo.nvlink_status(self.rig, self.gpus)
        if arguments[:1] in (["-e"], ["--errorcounters"]):
            return smi_topo.nvlink_errors(self.rig, self.gpus)
        raise Failure(_COMBINATION, _INVALID)


def _wedge() -> None:
    """As in an uninterruptible wait: only KILL ends it here, and nothing on a real machine."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    while True:
        signal.pause()


def _freeze() -> None:
    """A write to a frozen file system waits without an end, and not even KILL ends it."""
    if paths.FROZEN.is_dir():
        (paths.FROZEN / str(os.getpid())).write_bytes(b"x")
    _wedge()


def _driver(rig: Rig, userspace: str) -> Driver:
    loaded = kernel_driver.loaded()
    if not loaded:
        raise Failure(_NO_CONTACT + "\n", _NO_DRIVER)
    if (userspace or loaded) != loaded:
        _tell_of_mismatch(userspace, loaded)
        raise Failure(
            "Failed to initialize NVML: Driver/library version mismatch\n"
            f"NVML library version: {userspace.rpartition('.')[0]}\n",
            _MISMATCH,
        )
    if not rig.gpus:
        raise Failure("No devices were found\n", _NO_DEVICE)
    return Driver(loaded)


def _tell_of_mismatch(userspace: str, loaded: str) -> None:
    """The module says so at every try; once for each version is enough here."""
    told = paths.RUN / f"mismatch-{userspace}"
    if paths.is_root() and not told.exists():
        paths.write(told, "")
        kernel_log.other_client(userspace, loaded)
        kernel_log.import_new()


def _versions(session: Session) -> str:
    return (
        f"NVIDIA-SMI version  : {session.userspace}\n"
        f"NVML version        : {session.userspace.rpartition('.')[0]}\n"
        f"DRIVER version      : {session.driver.version}\n"
        f"CUDA Version        : {session.driver.cuda}\n"
    )


def _processes(session: Session, words: dict[str, str]) -> str:
    """Nothing ever runs on these cards but what a test starts, as settings.jobs finds it."""
    fields = [field.strip() for field in words["query-compute-apps"].split(",")]
    lines = []
    if "noheader" not in words.get("format", ""):
        lines = [", ".join(fields).replace("used_gpu_memory", "used_gpu_memory [MiB]")]
    for gpu in session.gpus:
        for pid in settings.jobs(gpu):
            values = {"gpu_uuid": gpu.uuid, "gpu_bus_id": gpu.bus_id, "pid": str(pid)}
            lines.append(", ".join(values.get(field, "[N/A]") for field in fields))
    return "".join(f"{line}\n" for line in lines)


def _answer(session: Session, request: Request) -> tuple[str, int]:
    words = request.words
    if request.changes:
        session.need_all()
        lines, status = smi_change.apply(request.changes, session.views)
        return "\n".join(lines) + "\n", status
    if "list-gpus" in words:
        return session.listing()
    if "query-gpu" in words:
        return session.query(words["query-gpu"], words.get("format", ""))
    answers: dict[str, Callable[[], str]] = {
        "version": lambda: _versions(session),
        "query-compute-apps": lambda: _processes(session, words),
        "query": lambda: session.full(request),
    }
    for name, answer in answers.items():
        if name in words:
            return answer(), 0
    if words.keys() - {"id"}:
        raise Failure(_COMBINATION, _INVALID)
    return session.table(), 0


def _run(arguments: list[str]) -> tuple[str, int, str]:
    """Text, status and the file that is to receive the text."""
    command = arguments[0] if arguments[:1] in (["topo"], ["nvlink"]) else ""
    wanted = ""
    rest = arguments[1:] if command else arguments
    if command and "-i" in rest:
        at = rest.index("-i")
        wanted = rest[at + 1] if at + 1 < len(rest) else ""
        rest = rest[:at] + rest[at + 2 :]
    request = Request({}, []) if command else _parse(rest)
    if "help" in request.words:
        return "NVIDIA System Management Interface\n\nnvidia-smi [OPTION1 [ARG1]] ...\n", 0, ""
    if "help-query-gpu" in request.words:
        installed = (
            os.environ.get("RIGSIM_USERSPACE") or kernel_driver.loaded() or modules.on_disk()
        )
        return smi_query.help_text(Driver(installed or "535.0")), 0, ""
    rig = load()
    if rig.smi == "wedged":
        _wedge()
    if rig.smi == "unkillable":
        _freeze()
    userspace = os.environ.get("RIGSIM_USERSPACE", "")
    driver = _driver(rig, userspace)
    session = Session(
        rig, driver, userspace or driver.version, wanted or request.words.get("id", "")
    )
    try:
        if command:
            return (session.topo if command == "topo" else session.nvlink)(rest), 0, ""
        return (*_answer(session, request), request.words.get("filename", ""))
    finally:
        settings.close_client(rig)


def _loop_s(arguments: list[str]) -> int:
    """0: once."""
    try:
        return int(_parse(arguments).words.get("loop", 0))
    except (Failure, ValueError):
        return 0


def main(arguments: list[str]) -> int:
    seconds = _loop_s(arguments)
    while True:
        try:
            text, status, file = _run(arguments)
        except Failure as failure:
            text, status, file = str(failure), failure.status, ""
        if file:
            with open(file, "w") as output:  # noqa: PTH123 - # any name a user gives
                output.write(text)
        else:
            sys.stdout.write(text)
        if status or not seconds:
            return status
        sys.stdout.flush()
        time.sleep(seconds)
        # Its columns are named once.
        arguments = [f"{word},noheader" if word == "--format=csv" else word for word in arguments]
