"""What the device programs of control groups let processes open, of the devices of NVIDIA.

    device_programs /system.slice/docker-….scope…

On cgroup v2 a device is allowed if every program that is attached says so. The runtime of a
container attaches one, and so does systemd, which makes it again from its own list at a reload. The
programs are read and evaluated here: no open is tried, so nothing is asked of the driver. This text
has no single quotes, since it is an argument of python3 within a text that has them around it.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import stat
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TOP: Final = "/sys/fs/cgroup"
DEVICES: Final = Path("/dev")
MAJORS: Final = Path("/proc/devices")
GENERATOR: Final = Path("/run/systemd/generator")  # made by every reload
DAEMON: Final = Path("/etc/docker/daemon.json")
PODMAN: Final = (Path("/var/lib/containers/storage"), Path("/run/containers/storage"))

_SYSCALLS: Final = {"x86_64": 321, "aarch64": 280}
_FD_BY_ID, _INFO, _QUERY = 13, 15, 16  # commands of bpf(2)
_DEVICE_ATTACH: Final = 6
_CHARACTER: Final = 2
_RIGHTS: Final = {"r": 2, "w": 4}  # as the kernel hands them to a program
_ATTRIBUTES: Final = 144  # bytes of the union that bpf(2) takes
_INFO_BYTES: Final = 232
_MOST_PROGRAMS, _MOST_CODE, _MOST_STEPS, _MOST_DEVICES = 64, 65536, 20000, 512
_MOST_BYTES: Final = 1 << 22  # of a file of an engine
_WORD, _HALF, _JUMP, _EXIT = (
    0x61,
    0x69,
    0x05,
    0x95,
)  # instructions: load a word, half of one; jump; end
_EQUAL, _NOT_EQUAL = 0x10, 0x50  # jumps on a condition
_OR, _AND, _SHIFT, _MOVE = 0x40, 0x50, 0x70, 0xB0
_ALL_ONES: Final = 0xFFFFFFFFFFFFFFFF

_ENGINES: Final = {"docker": "docker", "libpod": "podman", "cri-containerd": "containerd"}
_ID: Final = re.compile("[0-9a-f]{64}")
_NAME: Final = re.compile("/?([A-Za-z0-9][A-Za-z0-9_.-]{0,63})")


class Program(NamedTuple):
    name: str
    is_gpl: bool  # by its license
    code: bytes


class UnreadableError(Exception):
    """A program that is there, and of which rigops cannot tell what it allows."""


def bpf(command: int, attributes: bytes) -> tuple[int, bytes]:
    """The answer, and the attributes as the kernel left them."""
    number = _SYSCALLS.get(os.uname().machine)
    if number is None:
        raise UnreadableError("rigops does not know bpf(2) of this processor")
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(attributes, _ATTRIBUTES)
    answer = libc.syscall(number, command, buffer, _ATTRIBUTES)
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer, buffer.raw


def attached(group: str) -> Iterator[Program]:
    """The device programs of this group itself, not those of the groups around it."""
    ids = (ctypes.c_uint32 * _MOST_PROGRAMS)()
    there = os.open(group, os.O_RDONLY | os.O_DIRECTORY)
    try:
        where = ctypes.addressof(ids)
        asked = struct.pack("<IIIIQI", there, _DEVICE_ATTACH, 0, 0, where, _MOST_PROGRAMS)
        (count,) = struct.unpack_from("<I", bpf(_QUERY, asked)[1], 24)
    finally:
        os.close(there)
    for one in ids[:count]:
        program, _ = bpf(_FD_BY_ID, struct.pack("<I", one))
        try:
            yield _described(program)
        finally:
            os.close(program)


def _described(program: int) -> Program:
    """The numbers are offsets in struct bpf_prog_info."""
    code = ctypes.create_string_buffer(_MOST_CODE)
    info = ctypes.create_string_buffer(_INFO_BYTES)
    struct.pack_into("<I", info, 20, _MOST_CODE)
    struct.pack_into("<Q", info, 32, ctypes.addressof(code))
    bpf(_INFO, struct.pack("<IIQ", program, _INFO_BYTES, ctypes.addressof(info)))
    (length,) = struct.unpack_from("<I", info, 20)
    (shown,) = struct.unpack_from("<Q", info, 32)
    if not shown or not 0 < length <= _MOST_CODE:
        raise UnreadableError("the kernel does not show the instructions of programs")
    name = info.raw[64:80].partition(b"\0")[0].decode("ascii", "replace")
    return Program(name, bool(info.raw[84] & 1), code.raw[:length])


def is_of_systemd(program: Program) -> bool:
    """Before systemd 251 its programs have no name either; those of runc and NVIDIA are no GPL."""
    return program.name == "sd_devices" or (not program.name and program.is_gpl)


def allows(code: bytes, right: int, major: int, minor: int) -> bool:
    """Evaluate the few instructions of which systemd and the runtimes make such programs."""
    context = struct.pack("<III", right << 16 | _CHARACTER, major, minor)
    registers = [0] * 16
    at = 0
    for _ in range(_MOST_STEPS):
        if not 0 <= at < len(code) // 8:
            break
        operation, pair, jump, constant = struct.unpack_from("<BBhi", code, at * 8)
        at += 1
        kind, action, to = operation & 7, operation & 0xF0, pair & 15
        mask = 0xFFFFFFFF if kind in {4, 6} else _ALL_ONES
        value = (registers[pair >> 4] if operation & 8 else constant) & mask
        before = registers[to] & mask
        if operation == _EXIT:
            return bool(registers[0] & 1)
        if operation in {_WORD, _HALF}:
            size = 4 if operation == _WORD else 2
            registers[to] = int.from_bytes(context[jump:][:size], "little")
        elif operation == _JUMP:
            at += jump
        elif kind in {5, 6} and action in {_EQUAL, _NOT_EQUAL}:
            at += jump if (before == value) == (action == _EQUAL) else 0
        elif kind in {4, 7} and action in {_OR, _AND, _SHIFT, _MOVE}:
            results = {_OR: before | value, _AND: before & value, _SHIFT: before >> (value & 63)}
            registers[to] = results.get(action, value)
        else:
            break
    raise UnreadableError("a device program has instructions that rigops does not know")


def allowed(programs: Iterable[Program], devices: Iterable[tuple[int, int]]) -> str:
    """What all of them let open: MAJOR:MINOR=RIGHTS, with commas between."""
    codes = [one.code for one in programs]
    found = []
    for major, minor in devices:
        rights = ""
        for letter, right in _RIGHTS.items():
            if all(allows(code, right, major, minor) for code in codes):
                rights += letter
        if rights:
            found.append(f"{major}:{minor}={rights}")
    return ",".join(found)


def nvidia_devices() -> list[tuple[int, int]]:
    lines = map(str.split, MAJORS.read_text().splitlines())
    majors = {int(one[0]) for one in lines if one[1:] and one[1].startswith("nvidia")}
    found = set()
    for path in (*DEVICES.glob("nvidia*"), *DEVICES.glob("nvidia-caps/*")):
        node = path.stat()
        if stat.S_ISCHR(node.st_mode) and os.major(node.st_rdev) in majors:
            found.add((os.major(node.st_rdev), os.minor(node.st_rdev)))
    return sorted(found)[:_MOST_DEVICES]


def inner_groups(group: str) -> list[str]:
    """Below the slices of the host: the unit, or what is there in its place, down to this group."""
    parts = group.split("/")[1:]
    slices = 0
    while parts[slices].endswith(".slice") and slices < len(parts) - 1:
        slices += 1
    return ["/" + "/".join(parts[: count + 1]) for count in range(slices, len(parts))]


def asked_of(group: str, devices: list[tuple[int, int]]) -> tuple[str, str]:
    """What the programs of the runtime allow, and what those of systemd do."""
    outer, *inner = inner_groups(group)
    of_runtime: list[Program] = []
    of_systemd: list[Program] = []
    is_unit = outer.endswith((".scope", ".service"))
    for one in attached(TOP + outer):
        (of_systemd if is_unit and is_of_systemd(one) else of_runtime).append(one)
    for folder in inner:
        of_runtime += attached(TOP + folder)
    return allowed(of_runtime, devices) if of_runtime else "", allowed(of_systemd, devices)


def container(group: str) -> tuple[str, str]:
    """The engine and the name, by the own files of the engine."""
    ids = _ID.findall(group)
    engine = next((_ENGINES[one] for one in _ENGINES if "/" + one in group), "")
    name: object = ""
    if ids and engine == "docker":
        top = _member(_json(DAEMON), "data-root")
        folder = Path(top if isinstance(top, str) else "/var/lib/docker")
        name = _member(_json(folder / "containers" / ids[-1] / "config.v2.json"), "Name")
    elif ids and engine == "podman":
        files = [path for top in PODMAN for path in top.glob("*-containers/*containers.json")]
        lists = [found for found in map(_json, files) if isinstance(found, list)]
        every = [one for found in lists for one in found if _member(one, "id") == ids[-1]]
        names = [_member(one, "names") for one in every]
        name = next((one[0] for one in names if isinstance(one, list) and one), "")
    shape = _NAME.fullmatch(name) if isinstance(name, str) else None
    return engine, shape.group(1) if shape else ""


def _member(found: object, key: str) -> object:
    return found.get(key) if isinstance(found, dict) else None


def _json(path: Path) -> object:
    try:
        with path.open("rb") as file:
            return json.loads(file.read(_MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return None


def say(line: str) -> None:
    sys.stdout.write(line + "\n")


def main(groups: list[str]) -> None:
    with suppress(OSError):
        say(f"generator {int(GENERATOR.stat().st_mtime)}")
    devices = nvidia_devices()
    for group in groups:
        engine, name = container(group)
        try:
            runtime, of_systemd = asked_of(group, devices)
        except FileNotFoundError:
            continue  # it has ended meanwhile
        except (OSError, UnreadableError) as error:
            say(f"unread {error.strerror if isinstance(error, OSError) else error}")
            runtime = of_systemd = "?"
        say(f"engine={engine} name={name} runtime={runtime} systemd={of_systemd} {group}")


if __name__ == "__main__":
    main(sys.argv[1:])
