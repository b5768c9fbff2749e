"""The files for an installer, and what the strict models say of them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from ipaddress import ip_address, ip_interface
from typing import Final

from rigops.autoinstall import preseed, user_data, user_data_model
from rigops.autoinstall.disk_match import SERIAL, Entry, disks_matched
from rigops.autoinstall.installation import Installation
from rigops.autoinstall.networks import Wired
from rigops.capture.document import Disk
from rigops.dataclass import dataclass
from rigops.errors import Problem, RigopsError
from rigops.rendering import render

MARKER: Final = "Made by `rigops autoinstall`"
_SECRET, _OPEN = 0o600, 0o644
_APT_POLICY: Final = (
    "// Written by the installer: unattended-upgrades leaves the NVIDIA driver alone.",
    "Unattended-Upgrade::Package-Blacklist {",
    '  "^nvidia-"; "^libnvidia-"; "^libcuda"; "^cuda-drivers"; "^xserver-xorg-video-nvidia";',
    '  "^linux-(modules|objects|signatures)-nvidia-";',
    "};",
)
_DEBIAN_PACKAGES: Final = ("openssh-server", "sudo", "python3", "pciutils")


@dataclass(frozen=True)
class RenderedFile:
    name: str
    text: str
    mode: int


@dataclass(frozen=True)
class _Static:
    """The address of the installer itself."""

    address: str
    netmask: str
    gateway: str


def files(installation: Installation, captured: Sequence[Disk]) -> tuple[RenderedFile, ...]:
    """RigopsError where a model finds a fault, or another captured disk would be matched."""
    mode = _SECRET if installation.has_secret else _OPEN
    if installation.release.distribution == "ubuntu":
        document = user_data.document(installation, late_commands(installation))
        faults = user_data_model.faults(document)
        entries = [Entry(SERIAL, entry.glob) for entry in installation.target.entries]
        head = (
            f"#cloud-config\n# {MARKER}; edits are overwritten.\n"
            f"# For {_plain(installation.host)}, captured {_plain(installation.captured_at)}: "
            f"Ubuntu {installation.release.version} on {installation.target.name} "
            f"({_plain(installation.target.model)}), which it wipes.\n"
        )
        meta = user_data.as_yaml({"instance-id": f"rigops-{installation.hostname}"})
        rendered = [
            RenderedFile("user-data", head + user_data.as_yaml(document), mode),
            RenderedFile("meta-data", f"# {MARKER}; edits are overwritten.\n{meta}", _OPEN),
        ]
    else:
        text = render_preseed(installation)
        faults = preseed.faults(text)
        entries = [] if faults else preseed.entries(text)
        rendered = [RenderedFile("preseed.cfg", text, mode)]
    faults += _disk_faults(entries, installation.target.name, captured)
    if faults:
        raise RigopsError(
            [
                Problem(message=f"{rendered[0].name}: {fault}", fix="report this fault of rigops",
                        host=installation.host)
                for fault in faults
            ]
        )  # fmt: skip
    return tuple(rendered)


def _disk_faults(entries: Iterable[Entry], target: str, captured: Sequence[Disk]) -> list[str]:
    others = [disk for disk in captured if disk.name != target]
    return [
        f"{entry.property}={entry.glob} matches {other.name}, which is not to be wiped"
        for entry in entries
        for other in disks_matched(entry, others)
    ]


def late_commands(installation: Installation) -> list[str]:
    """Of an Ubuntu installer."""
    commands = [_apt_policy() + "\n"]
    if installation.root == "btrfs":
        in_target = "curtin in-target --target=/target --"
        commands.append(render("autoinstall/subvolumes.sh.j2", in_target=in_target))
    return commands


def render_preseed(installation: Installation) -> str:
    values = _values(installation)
    packages = [*_DEBIAN_PACKAGES, *(["btrfs-progs"] if installation.root == "btrfs" else [])]
    late = render(
        "autoinstall/late-command.sh.j2",
        sh=shlex.quote,
        in_target="in-target",
        interfaces=_interfaces(installation),
        apt_policy=_apt_policy(),
        **values,
    )
    if installation.root == "btrfs":
        late += render("autoinstall/subvolumes.sh.j2", in_target="in-target")
    absent = f"rigops: {_plain(installation.target.name)} is not here. Nothing was written."
    find_disk = render("autoinstall/find-disk.sh.j2", sh=shlex.quote, absent=absent, **values)
    return render(
        "autoinstall/preseed.cfg.j2",
        proxy="",
        packages=packages,
        static=_static(installation),
        find_disk=_continued(find_disk),
        recipe=_continued(render("autoinstall/recipe.j2", **values)),
        late=_continued(late),
        **values,
    )


def _values(installation: Installation) -> dict[str, object]:
    return {
        **vars(installation),
        "marker": MARKER,
        "host": _plain(installation.host),
        "captured_at": _plain(installation.captured_at),
        "model": _plain(installation.target.model),
        "has_boot_partition": installation.has_boot_partition,
    }


def _plain(text: str) -> str:
    """For a comment: nothing that ends it."""
    return "".join(one if one.isprintable() else "?" for one in text)


def _apt_policy() -> str:
    return render("autoinstall/apt-policy.sh.j2", sh=shlex.quote, lines=_APT_POLICY).strip()


def _continued(text: str) -> str:
    """One value of a preseed over many lines."""
    return " \\\n    ".join(line.strip() for line in text.splitlines() if line.strip())


def _static(installation: Installation) -> _Static | None:
    """Of the interface with the default route, where it has no DHCP."""
    chosen = next((one for one in installation.wired if one.gateways), None)
    if chosen is None or any(one.is_dhcp for one in installation.wired):
        return None
    interface = next((i for i in map(ip_interface, chosen.addresses) if i.version == 4), None)  # noqa: PLR2004 - IPv4
    gateway = next((g for g in chosen.gateways if ip_address(g).version == 4), None)  # noqa: PLR2004 - IPv4
    if interface is None or gateway is None:
        return None
    return _Static(str(interface.ip), str(interface.netmask), gateway)


def _interfaces(installation: Installation) -> list[str]:
    """/etc/network/interfaces, which finds a card by its MAC; the name is only its own here."""
    lines = ["source /etc/network/interfaces.d/*", "auto lo", "iface lo inet loopback"]
    for one in installation.wired:
        lines.append(f"auto /mac/{one.mac}={one.name}")
        lines += _stanzas(one, installation) if one.addresses else [f"iface {one.name} inet dhcp"]
    for wifi in installation.wireless:
        lines += [
            f"allow-hotplug {wifi.name}",
            f"iface {wifi.name} inet dhcp",
            f"    wpa-ssid {wifi.ssid}",
            f"    wpa-psk {wifi.secret}",
        ]
    return lines


def _stanzas(one: Wired, installation: Installation) -> list[str]:
    lines = []
    with_gateway: set[int] = set()
    for text in one.addresses:
        version = ip_interface(text).version
        lines.append(f"iface {one.name} {'inet' if version == 4 else 'inet6'} static")  # noqa: PLR2004 - IPv4
        lines.append(f"    address {text}")
        gateway = next((g for g in one.gateways if ip_address(g).version == version), None)
        if gateway and version not in with_gateway:
            with_gateway.add(version)
            lines.append(f"    gateway {gateway}")
            if installation.nameservers:
                lines.append(f"    dns-nameservers {' '.join(installation.nameservers)}")
            if installation.search:
                lines.append(f"    dns-search {' '.join(installation.search)}")
    return lines
