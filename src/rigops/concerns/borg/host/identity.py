"""This machine's identity, collected for the backup."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from rigops.backup.host.errors import as_host_error
from rigops.backup.host.state_file import replace_file

if TYPE_CHECKING:
    from rigops.concerns.borg.host.borg_settings import BorgSettings

IDENTITY = "/var/lib/rigops/identity"

_TOOL_S = 30.0  # a driver that hangs must not stop the backup
_COLLECTED = (
    ("packages", ("dpkg-query", "-W", "-f", "${Package}:${Architecture} ${Version} ${Status}\\n")),
    ("selections", ("dpkg", "--get-selections")),
    ("manual", ("apt-mark", "showmanual")),
    ("holds", ("apt-mark", "showhold")),
    ("gpus", ("nvidia-smi", "--query-gpu=index,pci.bus_id,uuid,serial,name", "--format=csv")),
    ("disks", ("lsblk", "--json", "-o", "NAME,SIZE,TYPE,FSTYPE,UUID,PARTUUID,MOUNTPOINTS,SERIAL")),
    ("kernel", ("uname", "-a")),
    ("borg", ("borg", "--version")),
)
_IDENTITY_PATHS = ("/etc", "/var/lib/rigops")
# These would reveal the key of the archive; the cache is large and rebuilt.
_SECRETS = (
    "/etc/rigops/borg_passphrase", "/etc/rigops/borg_passphrase.cred", "/etc/rigops/borg_key",
    "/var/lib/systemd/credential.secret",
)  # fmt: skip
_SCRATCH = ("/var/lib/rigops/borg", "/var/cache/rigops")
# Public halves too: beside newer keys they would not match.
_HOST_KEYS = "sh:/etc/ssh/ssh_host_*"


def collect_identity() -> None:
    """Files that stay as they are where nothing has changed: then the backup does not read them."""
    folder = Path(IDENTITY)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, words in _COLLECTED:
            text = _output_of(words)
            if text is not None and _read(folder / name) != text:
                replace_file(folder / name, text)
    except OSError as error:
        raise as_host_error("the identity", error) from error


def identity_paths(settings: BorgSettings) -> list[str]:
    if not settings.identity:
        return []
    return [path for path in _IDENTITY_PATHS if not _is_below_any(path, settings.paths)]


def identity_excludes(settings: BorgSettings) -> list[str]:
    """Of every backup: /etc may be declared itself."""
    found = [f"pf:{path}" for path in _SECRETS] + [f"pp:{path}" for path in _SCRATCH]
    found += [f"pp:{settings.folder}"] if settings.folder else []
    return found if settings.host_keys else [*found, _HOST_KEYS]


def _is_below_any(path: str, above: tuple[str, ...]) -> bool:
    return any(path == one or path.startswith(f"{one.rstrip('/')}/") for one in above)


def _output_of(words: tuple[str, ...]) -> str | None:
    try:
        asked = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except OSError:
        return None
    try:
        text, _ = asked.communicate(timeout=_TOOL_S)
    except subprocess.TimeoutExpired:
        asked.kill()  # and not waited for: in the kernel it may never end
        return None
    return text.decode(errors="replace") if asked.returncode == 0 else None


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
