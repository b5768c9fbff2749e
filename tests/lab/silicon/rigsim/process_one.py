"""What process 1 makes of the kernel's command line.

In a container systemd reads its own arguments instead, so this does in its place what systemd would
have done with those of a machine.
"""

import subprocess
from pathlib import Path

_UNITS = Path("/run/systemd/system")
_CONDITION = "ConditionKernelCommandLine"


def _values(command_line: str, name: str) -> list[str]:
    prefix = name + "="
    return [word[len(prefix) :] for word in command_line.split() if word.startswith(prefix)]


def _systemctl(*arguments: str) -> None:
    subprocess.run(("systemctl", "--no-block", *arguments), check=False)


def _met(unit: str) -> None:
    """The unit's condition on the command line, which systemd would find unmet, holds."""
    folder = _UNITS / f"{unit}.d"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rigsim.conf").write_text(f"[Unit]\n{_CONDITION}=\n")


def obey(command_line: str) -> None:
    wanted = _values(command_line, "systemd.wants")
    masked = _values(command_line, "systemd.mask")
    if not wanted and not masked:
        return
    _UNITS.mkdir(parents=True, exist_ok=True)
    for unit in masked:
        (_UNITS / unit).symlink_to("/dev/null")
    for unit in wanted:
        _met(unit)
    _systemctl("daemon-reload")
    for unit in masked:
        _systemctl("stop", unit)
    for unit in wanted:
        _systemctl("start", unit)
