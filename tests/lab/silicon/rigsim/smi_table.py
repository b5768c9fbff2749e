"""What nvidia-smi prints without arguments."""

import time
from collections.abc import Sequence

from .smi_view import NA, Driver, View

_WIDE_FROM = 550
_NARROW, _WIDE = 22, 24
_NAME_WIDTH = 27


def _cut(name: str) -> str:
    return name if len(name) <= _NAME_WIDTH else name[: _NAME_WIDTH - 3] + "..."


def _card(view: View, middle: int) -> list[str]:
    gpu = view.gpu
    on = "On" if view.persistence == "Enabled" else "Off"
    if middle == _NARROW:
        on = f"{on:<3}"
        name = f"  {gpu.number:>2}  {_cut(gpu.model.product):<{_NAME_WIDTH}}    {on} "
    else:
        name = f"  {gpu.number:>2}  {_cut(gpu.model.product):<{_NAME_WIDTH}}    {on:>3} "
    ecc = {"Disabled": "Off", "Enabled": "0"}.get(view.ecc, NA)
    fan = NA if view.fan == NA else view.fan.replace(" ", "")
    power = f"{view.watts:.0f}W / {view.limit:>4.0f}W"
    used = f"{view.used_mib}MiB / {gpu.model.memory_mib:>6}MiB"
    # As wide as the number in its place.
    celsius = f"{view.celsius:>4}C " if view.celsius.isdigit() else "  ERR! "
    second = f" {fan:>3} {celsius}   {view.state:<3} {power:>22} "
    return [
        f"|{name}|{gpu.bus_id + ' Off':>{middle - 1}} | {ecc:>20} |",
        f"|{second}|{used:>{middle - 1}} | {view.percent:>6}%      Default |",
        f"|{'':41}|{'':{middle}}| {NA:>20} |",
        f"+{'-' * 41}+{'-' * middle}+{'-' * 22}+",
    ]


def table(views: Sequence[View], driver: Driver, userspace: str) -> str:
    middle = _WIDE if driver.branch >= _WIDE_FROM else _NARROW
    inner = 41 + 1 + middle + 1 + 22
    version = f"{'NVIDIA-SMI ' + userspace:<34}Driver Version: {driver.version:<{middle - 7}}"
    disp, memory = f"Bus-Id{'Disp.A':>{middle - 8}}", f"{'Memory-Usage':>{middle - 1}}"
    gap = " " * (14 if middle > _NARROW else 8)
    process = f"  GPU   GI   CI{gap}PID   Type   Process name"
    lines = [
        time.strftime("%a %b %e %H:%M:%S %Y       "),
        f"+{'-' * inner}+",
        f"| {version}CUDA Version: {driver.cuda:<9}"[: inner + 1].ljust(inner + 1) + "|",
        f"|{'-' * 41}+{'-' * middle}+{'-' * 22}+",
        f"| GPU  Name                 Persistence-M | {disp} | Volatile Uncorr. ECC |",
        f"| Fan  Temp   Perf          Pwr:Usage/Cap |{memory} | GPU-Util  Compute M. |",
        f"|{'':41}|{'':{middle}}|{'MIG M.':>21} |",
        f"|{'=' * 41}+{'=' * middle}+{'=' * 22}|",
    ]
    for view in views:
        lines += _card(view, middle)
    lines += [
        " " * (inner + 2) if middle == _NARROW else "",
        f"+{'-' * inner}+",
        f"|{' Processes:':<{inner}}|",
        f"|{process:<{inner - 12}} GPU Memory |",
        f"|{'        ID   ID':<{inner - 12}} Usage      |",
        f"|{'=' * inner}|",
        f"|{'  No running processes found':<{inner}}|",
        f"+{'-' * inner}+",
    ]
    return "\n".join(lines) + "\n"
