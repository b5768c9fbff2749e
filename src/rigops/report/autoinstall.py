"""The plan of an unattended installation, as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from rigops.autoinstall.installation import Installation
from rigops.autoinstall.render import RenderedFile

SCHEMA: Final = "rigops.autoinstall/1"
_GB: Final = 10**9
_NEXT: Final[Mapping[str, tuple[str, ...]]] = {
    "ubuntu": (
        "Next: copy both files to a FAT stick with the label CIDATA. Boot Ubuntu's server",
        "image (24.04.2 or newer), press e in its menu, and add to the kernel's line:",
        "  autoinstall",
    ),
    "debian": (
        "Next: copy the file to a stick with Debian's hd-media/boot.img.gz and a netinst",
        "image. Boot it, press e (Tab with BIOS), and add to the kernel's line:",
        "  auto=true priority=critical file=/hd-media/preseed.cfg",
    ),
}


def autoinstall_lines(
    installation: Installation, folder: Path, files: Sequence[RenderedFile]
) -> Iterator[str]:
    release, target = installation.release, installation.target
    yield f"{installation.host}: {release.distribution.capitalize()} {release.version}"
    size = f", {target.size_bytes // _GB} GB" if target.size_bytes else ""
    yield f"  wipes    {target.name} ({target.model or 'no model'}{size})"
    for entry in target.entries:
        yield f"             {entry.property}={entry.glob}"
    yield f"  root     {_root(installation)}, {installation.firmware.upper()}"
    yield f"  kernel   {installation.kernel.flavor or installation.kernel.package}"
    yield f"  login    {installation.account.name}, {_keys(installation)}, no password"
    for one in installation.wired:
        yield f"  network  {one.name} {one.mac} {', '.join(one.addresses) or 'DHCP'}"
    for wifi in installation.wireless:
        yield f"  network  {wifi.name} Wi-Fi {wifi.ssid}"
    for file in files:
        secret = " (0600: it has the Wi-Fi passphrase)" if file.mode == 0o600 else ""  # noqa: PLR2004 - a mode
        yield f"wrote {folder / file.name}{secret}"
    yield from _NEXT[release.distribution]
    yield "To serve the files by http instead: rigops autoinstall --help"


def autoinstall_document(
    installation: Installation, folder: Path, files: Sequence[RenderedFile]
) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "hosts": [
            {
                "host": installation.host,
                "captured_at": installation.captured_at,
                "distribution": installation.release.distribution,
                "release": installation.release.version,
                "root": installation.root,
                "firmware": installation.firmware,
                "disk": {
                    "name": installation.target.name,
                    "match": [
                        {"property": one.property, "glob": one.glob}
                        for one in installation.target.entries
                    ],
                },
                "kernel": installation.kernel.flavor or installation.kernel.package,
                "user": installation.account.name,
                "interfaces": [
                    {"name": one.name, "mac": one.mac, "addresses": list(one.addresses)}
                    for one in installation.wired
                ],
                "wifi": [one.ssid for one in installation.wireless],
                "files": [str(folder / file.name) for file in files],
                "warnings": list(installation.warnings),
            }
        ],
    }


def _root(installation: Installation) -> str:
    return "btrfs with @ and @home" if installation.root == "btrfs" else "ext4"


def _keys(installation: Installation) -> str:
    count = len(installation.account.keys)
    return f"{count} ssh key{'s' * (count != 1)}"
