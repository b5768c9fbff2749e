"""Whether the firmware, and so the kernel, insists on signed modules."""

from __future__ import annotations

import re

from rigops.dataclass import dataclass
from rigops.probe.section import EVERY_WORD, Section
from rigops.probe.text import blocks, stripped

_MOKUTIL = "mokutil --sb-state"
_VARIABLE = "od -An -t u1 /sys/firmware/efi/efivars/SecureBoot"
_NO_EFI = "ls -d /sys/firmware/efi"
_TAINTED = "/proc/sys/kernel/tainted"
_LOCKDOWN = "/sys/kernel/security/lockdown"

_SAYS = (
    (re.compile(r"SecureBoot enabled"), True),
    (re.compile(r"SecureBoot disabled"), False),
    (re.compile(r"This system doesn't support Secure Boot"), False),
    (re.compile(r"EFI variables are not supported on this system"), False),
)
_NO_VALIDATION = re.compile(r"SecureBoot validation is disabled in shim")
_NOISE = re.compile(
    r"Platform is in Setup Mode|(?:Cannot|Failed to) .*|mokutil: .*"
    r"|.*: (?:not found|Permission denied)"
)
_BYTES = re.compile(r"(?:[0-9]{1,3}\s+){4}(?P<state>[01])")
_LEVEL = re.compile(r"\[(?P<level>none|integrity|confidentiality)\]")


@dataclass(frozen=True, kw_only=True)
class SecureBoot:
    """None: not reported. `line` is what `enabled` was read from."""

    enabled: bool | None = None
    validates: bool = True  # False: shim checks no signatures
    lockdown: str | None = None  # none, integrity or confidentiality
    line: str = ""
    lockdown_line: str = ""
    unparsed: tuple[str, ...] = ()

    @property
    def insists(self) -> bool | None:
        """Whether the kernel takes signed modules only."""
        if self.lockdown in {"integrity", "confidentiality"}:
            return True
        return False if self.enabled and not self.validates else self.enabled


def parse(text: str) -> SecureBoot:
    headed = blocks(text) or {_MOKUTIL: text}
    enabled, line = None, ""
    validates = True
    known = {_MOKUTIL, _NO_EFI, _TAINTED, _LOCKDOWN}
    unparsed = [head for head in headed if head not in known and not head.startswith(_VARIABLE)]
    for row in stripped(headed.get(_MOKUTIL, "")):
        state = next((state for shape, state in _SAYS if shape.fullmatch(row)), None)
        if state is not None:
            enabled, line = state, row
        elif _NO_VALIDATION.fullmatch(row):
            validates = False
        elif not _NOISE.fullmatch(row):
            unparsed.append(row)
    if enabled is None:
        enabled, line = _by_firmware(headed, unparsed)
    level = _LEVEL.search(headed.get(_LOCKDOWN, ""))
    return SecureBoot(
        enabled=enabled,
        validates=validates,
        lockdown=level["level"] if level else None,
        line=line,
        lockdown_line=headed[_LOCKDOWN].strip() if level else "",
        unparsed=tuple(unparsed),
    )


def _by_firmware(headed: dict[str, str], unparsed: list[str]) -> tuple[bool | None, str]:
    for head, body in headed.items():
        if not head.startswith(_VARIABLE):
            continue
        shape = _BYTES.fullmatch(body.strip())
        if shape:
            return shape["state"] == "1", body.strip()
        unparsed.append(body.strip())
    output = headed.get(_NO_EFI, "").strip()
    if "No such file or directory" in output:
        return False, output
    return None, ""


# mokutil reads the variable, whose first four bytes are attributes.
_SNIPPET = f"""
[ -d /sys/kernel ] || return
show_kernel {_TAINTED} {_LOCKDOWN}
if [ ! -d /sys/firmware/efi ]; then
    block "{_NO_EFI}"; say "/sys/firmware/efi: No such file or directory"
    return 0
fi
command -v mokutil >/dev/null && run {_MOKUTIL}
for variable in /sys/firmware/efi/efivars/SecureBoot-*; do
    if [ -r "$variable" ]; then run od -An -t u1 "$variable"; fi
done
return 0
"""

SECTION = Section(
    name="secure-boot", snippet=_SNIPPET, parse=parse, lane="files", technical=EVERY_WORD
)
