"""The command that renders files for an unattended installation."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import click

from rigops import atomic_file
from rigops.autoinstall import networks, render
from rigops.autoinstall.installation import Choices, Root, decide
from rigops.autoinstall.releases import VERSIONS, Distribution
from rigops.autoinstall.render import RenderedFile
from rigops.capture import store as captures
from rigops.capture.document import Capture
from rigops.cli.hosts import choose_host, host_catalog
from rigops.cli.options import common, inventory_option, json_option
from rigops.cli.output import has_keyboard, print_json, warn
from rigops.errors import usage_error
from rigops.report.autoinstall import autoinstall_document, autoinstall_lines
from rigops.report.terminal import print_lines
from rigops.transport.clock import Clock
from rigops.transport.public_keys import public_keys, read_public_key
from rigops.transport.route import resolve
from rigops.vault.store import Store

_OPEN_FOLDER = 0o755


@click.command("autoinstall")
@click.argument("host", metavar="HOST")
@click.option(
    "--for",
    "distribution",
    type=click.Choice(["ubuntu", "debian"]),
    required=True,
    help="Whose installer.",
)
@click.option(
    "--release",
    type=click.Choice(VERSIONS),
    help="[default: the host's, else the newest]",
)
@click.option(
    "--root",
    type=click.Choice(["btrfs", "ext4"]),
    default="btrfs",
    show_default=True,
    help="File system of the root; btrfs with the subvolumes @ and @home.",
)
@click.option(
    "--out",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Where to write the files [default: autoinstall-HOST].",
)
@click.option(
    "--disk",
    metavar="ID",
    help="Name or serial number of the captured disk to wipe [default: that of the root].",
)
@click.option(
    "--ssh-key",
    "key_files",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    multiple=True,
    metavar="FILE",
    help="Public key that may log in (repeatable) [default: yours, as ssh finds them].",
)
@click.option(
    "--with-wifi-secret",
    is_flag=True,
    help="Ask for the Wi-Fi passphrase, and write it into the file.",
)
@inventory_option
@json_option
@common
def command(
    *,
    host: str,
    distribution: str,
    release: str | None,
    root: str,
    folder: Path | None,
    disk: str | None,
    key_files: tuple[Path, ...],
    with_wifi_secret: bool,
    inventory_path: Path | None,
    as_json: bool,
) -> None:
    """Write the files of an unattended installation for a captured host.

    They wipe one disk: that of the captured root, found by its serial number. Other disks are
    never matched. Your ssh keys log in, passwords do not; no driver is installed. Needs
    `rigops capture HOST`.

    Ubuntu's installer finds the files on a FAT stick with the label CIDATA, Debian's finds its
    file on the stick that it boots from (hd-media). Either takes them by http too. Add to the
    line of the kernel in the installer's menu:

    \b
      Ubuntu, stick  autoinstall
      Ubuntu, http   autoinstall "ds=nocloud;s=http://ADDRESS/DIR/"
      Debian, stick  auto=true priority=critical file=/hd-media/preseed.cfg
      Debian, http   auto=true priority=critical url=http://ADDRESS/DIR/preseed.cfg

    \b
    Examples:
      rigops autoinstall threadripper --for debian --release 13
      rigops autoinstall t180 --for ubuntu --root ext4 --out t180-files
    """
    chosen = choose_host(host, inventory_path)
    capture = captures.newest(
        Store.from_declared(chosen.spec.rigops_vault if chosen.spec else None), host
    )
    if capture is None:
        raise usage_error(message=f"{host}: not captured", fix=f"rigops capture {host}", host=host)
    installation = decide(
        capture,
        Choices(
            distribution=cast("Distribution", distribution),
            release=release,
            root=cast("Root", root),
            disk=disk,
            user="root" if chosen.target.local else resolve(chosen.target, Clock(20)).end.user,
            keys=_keys(key_files) or public_keys(chosen.target),
            wifi_secret=_wifi_secret(capture) if with_wifi_secret else None,
        ),
        host_catalog(chosen.spec),
    )
    files = render.files(installation, capture.disks)
    folder = folder or Path(f"autoinstall-{installation.hostname}")
    _write(folder, files)
    warn(installation.warnings)
    if as_json:
        print_json(autoinstall_document(installation, folder, files))
    else:
        print_lines(*autoinstall_lines(installation, folder, files))


def _keys(files: Sequence[Path]) -> tuple[str, ...]:
    keys = []
    for file in files:
        key = read_public_key(file)
        if key is None:
            raise usage_error(
                message="not a public ssh key",
                key="--ssh-key",
                value=str(file),
                accepted="a file such as ~/.ssh/id_ed25519.pub",
            )
        keys.append(key)
    return tuple(keys)


def _wifi_secret(capture: Capture) -> str:
    """From the terminal, else the first line of stdin; nobody is asked where there is no Wi-Fi."""
    if not networks.has_wifi(capture.network):
        return ""
    if has_keyboard():
        secret: str = click.prompt("Wi-Fi passphrase", hide_input=True, err=True)
        return secret
    return sys.stdin.readline().rstrip("\n") if sys.stdin else ""


def _write(folder: Path, files: Sequence[RenderedFile]) -> None:
    """All, or none where a foreign file has its name."""
    foreign = [
        file.name
        for file in files
        if (folder / file.name).exists()
        and render.MARKER.encode() not in (folder / file.name).read_bytes()
    ]
    if foreign:
        raise usage_error(
            message=f"{', '.join(foreign)} in {folder}: not written by rigops; not overwritten",
            fix="choose another folder with --out",
        )
    try:
        folder.mkdir(mode=_OPEN_FOLDER, parents=True, exist_ok=True)
        for file in files:
            atomic_file.replace(folder / file.name, file.text, file.mode)
    except OSError as error:  # also of a FAT stick, which has no modes to set
        raise usage_error(
            message=f"{folder}: cannot be written: {error.strerror}",
            fix="write to a folder of this machine with --out, then copy the files",
        ) from error
