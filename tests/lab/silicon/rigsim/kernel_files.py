"""Single files of /proc that tell of drivers: the machine's own, with the simulated ones added."""

from pathlib import Path

from . import mounts, paths

_SPLIT_FROM = 550
_PROPRIETARY, _OUT_OF_TREE, _UNSIGNED = 1, 1 << 12, 1 << 13
_TAINT = "sys/kernel/tainted"


def lay_out() -> None:
    """Puts copies over the kernel's own, so that a driver can be added and taken away."""
    folder = paths.RUN / "trees"
    for name, text in (("devices", paths.read(paths.PROC / "devices")), (_TAINT, "0")):
        copy = folder / f"proc-{Path(name).name}"
        copy.write_text(text + "\n")
        mounts.bind(copy, paths.PROC / name)


def _majors(version: str) -> list[str]:
    frontend = ["nvidia-frontend"]
    if int(version.partition(".")[0]) >= _SPLIT_FROM:
        frontend = ["nvidia", "nvidia-modeset", "nvidiactl"]
    return [*(f"195 {name}" for name in frontend), "241 nvidia-nvlink", "511 nvidia-uvm"]


def _without_driver() -> list[str]:
    return [line for line in paths.read(paths.PROC / "devices").split("\n") if "nvidia" not in line]


def _write(name: str, text: str) -> None:
    """In place: what is bound over a file follows it only so."""
    path = paths.PROC / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def driver_loaded(version: str, *, is_open: bool) -> None:
    lines = _without_driver()
    end = lines.index("") if "" in lines else len(lines)
    lines[end:end] = _majors(version)
    _write("devices", "\n".join(lines) + "\n")
    taint = _OUT_OF_TREE | _UNSIGNED | (0 if is_open else _PROPRIETARY)
    _write(_TAINT, f"{int(paths.read(paths.PROC / _TAINT) or 0) | taint}\n")


def driver_unloaded() -> None:
    """A taint stays until the next boot."""
    _write("devices", "\n".join(_without_driver()) + "\n")
