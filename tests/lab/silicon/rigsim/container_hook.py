"""The legacy way into a container: its cards are allowed behind the back of systemd.

Like libnvidia-container on cgroup v2: each device program of the container's control group gives
way to a copy that allows the cards first, and the nodes are bound into the container's /dev.
"""

import ctypes
import json
import os
import struct
import subprocess
import sys
from pathlib import Path

from . import paths

_BPF = 321  # x86_64
_LOAD, _ATTACH, _DETACH, _FROM_ID, _INFO, _QUERY = 5, 8, 9, 13, 15, 16
_DEVICE_PROGRAM, _TO_DEVICES, _BESIDE_OTHERS = 15, 6, 2
_ATTRIBUTES, _INFO_SIZE, _MOST_PROGRAMS, _MOST_BYTES = 144, 232, 64, 1 << 16
_VARIABLE = "NVIDIA_VISIBLE_DEVICES="
_WITH_EVERY_CARD = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")

_LOAD_HALF, _LOAD_WORD = 0x69, 0x61
_SHIFT_RIGHT, _AND, _MOVE, _MOVE_NUMBER, _EXIT = 0x74, 0x54, 0xBC, 0xB4, 0x95
_UNLESS, _UNLESS_REGISTER = 0x55, 0x5E
_CHARACTER, _READ_WRITE = 2, 6


def _step(code: int, *, to: int = 0, of: int = 0, offset: int = 0, number: int = 0) -> bytes:
    return struct.pack("<BBhi", code, of << 4 | to, offset, number)


# Type, access, major and minor of what is asked for, in the registers 2 to 5; for each card anew,
# since cards are added one after the other.
_QUESTION = (
    _step(_LOAD_HALF, to=2, of=1)
    + _step(_LOAD_WORD, to=3, of=1)
    + _step(_SHIFT_RIGHT, to=3, number=16)
    + _step(_LOAD_WORD, to=4, of=1, offset=4)
    + _step(_LOAD_WORD, to=5, of=1, offset=8)
)


def _allow(major: int, minor: int) -> bytes:
    """A comparison that fails goes on behind these steps."""
    return (
        _step(_UNLESS, to=2, offset=7, number=_CHARACTER)
        + _step(_MOVE, to=2, of=3)
        + _step(_AND, to=2, number=_READ_WRITE)
        + _step(_UNLESS_REGISTER, to=2, of=3, offset=4)
        + _step(_UNLESS, to=4, offset=3, number=major)
        + _step(_UNLESS, to=5, offset=2, number=minor)
        + _step(_MOVE_NUMBER, to=0, number=1)
        + _step(_EXIT)
    )


def main(words: list[str]) -> int:
    """The state of a container on standard input, as the OCI runtime gives it to its hooks."""
    if words != ["prestart"]:
        return 0
    state = json.load(sys.stdin)
    bundle = Path(state["bundle"])
    config = json.loads((bundle / "config.json").read_text())
    nodes = _nodes(_wanted(config["process"]["env"]))
    if nodes:
        _allow_in(_group_of(state["pid"]), nodes)
        _bind(state["pid"], bundle / config["root"]["path"], nodes)
    return 0


def _wanted(environment: list[str]) -> list[str]:
    """Numbers of cards, or `all`."""
    values = [line.partition("=")[2] for line in environment if line.startswith(_VARIABLE)]
    return (
        [word for word in values[-1].split(",") if word not in {"", "void", "none"}]
        if values
        else []
    )


def _nodes(wanted: list[str]) -> list[Path]:
    if not wanted:
        return []
    cards = (
        paths.DEV.glob("nvidia[0-9]*")
        if "all" in wanted
        else [paths.DEV / f"nvidia{word}" for word in wanted]
    )
    return [*sorted(cards), *(paths.DEV / name for name in _WITH_EVERY_CARD)]


def _group_of(pid: int) -> Path:
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        if line.startswith("0::"):
            return Path(f"/sys/fs/cgroup{line[3:]}")
    raise SystemExit(f"nvidia-container-cli: process {pid} is in no cgroup v2")


def _bind(pid: int, root: Path, nodes: list[Path]) -> None:
    script = 'for node; do : >"$root$node"; mount --bind "$node" "$root$node"; done'
    enter = ["nsenter", "--target", str(pid), "--mount", "--", "sh", "-euc", script, "sh"]
    environment = {**os.environ, "root": str(root)}
    subprocess.run([*enter, *map(str, nodes)], check=True, env=environment)


def _allow_in(group: Path, nodes: list[Path]) -> None:
    first = b"".join(_QUESTION + _allow(*_numbers(node)) for node in nodes)
    folder = os.open(group, os.O_RDONLY | os.O_DIRECTORY)
    old = [_program(one) for one in _ids(folder)]
    # Where there is none, the copy ends without an answer, and the kernel refuses it.
    new = [_load(first + code) for _, code in old] or [_load(first + _step(_EXIT))]
    for program, _ in old:
        _call(_DETACH, ("I", folder), ("I", program), ("I", _TO_DEVICES))
    for program in new:
        _call(_ATTACH, ("I", folder), ("I", program), ("I", _TO_DEVICES), ("I", _BESIDE_OTHERS))


def _numbers(node: Path) -> tuple[int, int]:
    number = node.stat().st_rdev
    return os.major(number), os.minor(number)


def _ids(folder: int) -> list[int]:
    ids = (ctypes.c_uint32 * _MOST_PROGRAMS)()
    place = ctypes.addressof(ids)
    _, answer = _call(
        _QUERY, ("I", folder), ("I", _TO_DEVICES), ("Q", 0), ("Q", place), ("I", _MOST_PROGRAMS)
    )
    (count,) = struct.unpack_from("<I", answer, 24)
    return list(ids[:count])


def _program(number: int) -> tuple[int, bytes]:
    """A descriptor of it, and its code."""
    descriptor, _ = _call(_FROM_ID, ("I", number))
    code = ctypes.create_string_buffer(_MOST_BYTES)
    info = ctypes.create_string_buffer(_INFO_SIZE)
    struct.pack_into("<I", info, 20, _MOST_BYTES)
    struct.pack_into("<Q", info, 32, ctypes.addressof(code))
    _call(_INFO, ("I", descriptor), ("I", _INFO_SIZE), ("Q", ctypes.addressof(info)))
    (size,) = struct.unpack_from("<I", info, 20)
    return descriptor, code.raw[:size]


def _load(code: bytes) -> int:
    text, terms = ctypes.create_string_buffer(code), ctypes.create_string_buffer(b"Apache")
    places = ctypes.addressof(text), ctypes.addressof(terms)
    count = len(code) // 8
    descriptor, _ = _call(
        _LOAD, ("I", _DEVICE_PROGRAM), ("I", count), ("Q", places[0]), ("Q", places[1])
    )
    return descriptor


def _call(command: int, *fields: tuple[str, int]) -> tuple[int, bytes]:
    """bpf(2) with these attributes, and what it has written into them."""
    form = "<" + "".join(kind for kind, _ in fields)
    packed = struct.pack(form, *(value for _, value in fields))
    attributes = ctypes.create_string_buffer(packed, _ATTRIBUTES)
    libc = ctypes.CDLL(None, use_errno=True)
    answer = libc.syscall(_BPF, command, attributes, _ATTRIBUTES)
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"bpf command {command}: {os.strerror(number)}")
    return answer, attributes.raw
