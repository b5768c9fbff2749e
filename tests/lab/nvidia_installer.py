"""What is played of NVIDIA's installer: it takes a driver away, by the log of its installation.

As far as it goes it does what the real one's published source does. That ends with 0 even where it
did nothing; it leaves what has another checksum than in its log; it puts back what it had moved out
of its way; its log goes last. It runs in a host, as /usr/bin/nvidia-installer.
"""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

KEPT = Path("/var/lib/nvidia")
LOG, FOLDERS = KEPT / "log", KEPT / "dirs"
SAID = Path("/var/log/nvidia-uninstall.log")
HOOK = Path("/usr/lib/nvidia/post-uninstall")
LINK, FILE, EARLIER_LINK = 0, 1, 2  # and from 100 on, files that were moved out of the way
_CHANGED = "{} have been changed since it was created!"
_POLYNOMIAL = 0x04C11DB7


def checksum(content: bytes) -> int:
    """That of its log: cksum's polynomial, begun with ones."""
    if not content:
        return 0
    found = 0xFFFFFFFF
    for byte in content:
        found ^= byte << 24
        for _ in range(8):
            found = (found << 1) ^ (_POLYNOMIAL if found & 0x80000000 else 0)
            found &= 0xFFFFFFFF
    return found


def main(program: str, arguments: list[str]) -> int:
    lines: list[str] = []
    is_done = _run(program, arguments, lines)
    SAID.write_text("".join(f"{line}\n" for line in ["nvidia-installer log file", *lines]))
    for line in lines:
        if line.startswith(("ERROR: ", "WARNING: ")):
            sys.stderr.write(f"\n{line}\n\n")
    return 0 if is_done else 1


def _run(program: str, arguments: list[str], said: list[str]) -> bool:
    if not (Path(program).name == "nvidia-uninstall" or "--uninstall" in arguments):
        said.append("ERROR: this one only uninstalls")
        return False
    if os.geteuid() != 0:
        said.append("ERROR: nvidia-installer must be run as root")
        return False
    if shutil.which("depmod") is None:
        said.append("ERROR: Unable to find the system utility `depmod`")
        return False
    if not LOG.exists():
        said.append("-> There is no NVIDIA driver currently installed.")
        return True
    for path, mode in ((KEPT, 0o700), (LOG, 0o600)):
        if stat.S_IMODE(path.stat().st_mode) != mode:
            said.append(f"ERROR: The permissions of {_CHANGED.format(path)}")
            said.append("ERROR: Uninstallation failed.")
            return True
    _uninstall(said)
    return True


def _uninstall(said: list[str]) -> None:
    lines = LOG.read_text().splitlines()
    version = lines[0].partition("(")[2].rstrip(")")
    if shutil.which("dkms") and _output("dkms", "status", "-m", "nvidia", "-v", version):
        _output("dkms", "remove", "-m", "nvidia", "-v", version, "--all")
    entries = list(_entries(lines[2:]))
    for kind, path, about in entries:
        if kind in (LINK, FILE):
            _take_away(kind, path, about, said)
    for kind, path, about in entries:
        if kind == EARLIER_LINK:
            path.symlink_to(about)
        elif kind not in (LINK, FILE):
            shutil.move(KEPT / str(kind), path)
            path.chmod(int(about.split()[1], 8) & 0o7777)
    _clear()
    if os.access(HOOK, os.X_OK):
        _output(str(HOOK))


def _clear() -> None:
    folders = map(Path, FOLDERS.read_text().split()) if FOLDERS.exists() else ()
    for folder in sorted(folders, key=lambda one: len(str(one)), reverse=True):
        if not any(folder.iterdir()):
            folder.rmdir()
    shutil.rmtree(KEPT)
    for line in ("modprobe -r nvidia", "depmod -a", "ldconfig", "systemctl daemon-reload"):
        _output(*line.split())


def _entries(lines: list[str]) -> list[tuple[int, Path, str]]:
    found, rest = [], iter(lines)
    for line in rest:
        kind, _, path = line.partition(": ")
        about = next(rest)
        if int(kind) == EARLIER_LINK:
            next(rest)
        found.append((int(kind), Path(path), about))
    return found


def _take_away(kind: int, path: Path, about: str, said: list[str]) -> None:
    if not os.path.lexists(path):
        is_ours = False
    elif kind == LINK:
        is_ours = path.is_symlink() and str(path.readlink()) == about
    else:
        is_ours = checksum(path.read_bytes()) == int(about)
    if is_ours:
        path.unlink()
    else:
        said.append(f"-> The installed file '{path}' is no longer as it was; it is left alone.")


def _output(*words: str) -> str:
    return subprocess.run(words, check=False, capture_output=True, text=True).stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[0], sys.argv[1:]))
