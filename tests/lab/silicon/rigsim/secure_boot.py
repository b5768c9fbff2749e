"""A firmware with Secure Boot on: its kernel takes only modules whose key it trusts.

A certificate in the folder below is enrolled; one in the other waits for somebody at the console.
"""

import shutil
import subprocess
from pathlib import Path

from . import paths

ENROLLED = paths.at("/var/lib/rigsim/enrolled")
_VARIABLE = "firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_ATTRIBUTES, _ON = b"\x06\0\0\0", b"\x01"
_MOKUTIL = "usr/bin/mokutil"


def lay_out(trees: Path) -> None:
    variable = trees / _VARIABLE
    variable.parent.mkdir(parents=True, exist_ok=True)
    variable.write_bytes(_ATTRIBUTES + _ON)
    shutil.copy(paths.INSTALLED / "bin/mokutil", paths.ROOT / _MOKUTIL)


def takes(module: Path) -> bool:
    """What the distribution put into the kernel's own folder it has signed too."""
    return "/kernel/" in str(module) or _signed_with(module) in _trusted()


def _signed_with(module: Path) -> str:
    said = subprocess.run(
        ["modinfo", "-F", "sig_key", str(module)], capture_output=True, text=True, check=False
    )
    return said.stdout.strip().replace(":", "").lstrip("0") or "nobody"


def _trusted() -> set[str]:
    found = set()
    for certificate in ENROLLED.glob("*.der"):
        said = subprocess.run(
            ["openssl", "x509", "-inform", "DER", "-in", str(certificate), "-noout", "-serial"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        found.add(said.stdout.strip().partition("=")[2].lstrip("0"))
    return found
