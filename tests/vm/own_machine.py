"""A machine that builds and loads modules of the owner's: its DKMS, kernels and kmod are real.

The driver is the lab's, but for its open modules: those are a stub with code, so that the kernel
itself takes them, or the owner's. Debian's own files say how they are loaded as it boots.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import tarfile
from base64 import b64encode
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests import own_tree
from tests.lab import bootstrap, cache, layers
from tests.lab.driver_rig import GOOD, NEWEST
from tests.lab.packages import AT, FILE, deb, source
from tests.lab.vm import image
from tests.lab.vm.machines import System
from tests.vm.driver_packages import BY_ITS_DISK, does
from tests.vm.reinstalling import SystemDisk

if TYPE_CHECKING:
    from collections.abc import Iterator

STOCK, OWN = 1, 2  # the marks of the two sets
LATER: Final = "/srv/later"  # the package of a kernel that is not installed yet

_SUITES: Final = {GOOD: (bootstrap.SUITE,), NEWEST: (bootstrap.SUITE, "newest")}
_BUILDER: Final = "nvidia-open-kernel-dkms"
_NAME: Final = "nvidia-current-open"
_MORE: Final = (
    "dkms", "build-essential", "linux-headers-amd64", "linux-headers-rt-amd64",
)  # fmt: skip
_PARTS: Final = ("", "-modeset", "-drm", "-uvm", "-peermem")
_LOADED: Final = f"""\
install nvidia modprobe -i {_NAME} $CMDLINE_OPTS
install nvidia-modeset modprobe nvidia ; modprobe -i {_NAME}-modeset $CMDLINE_OPTS
install nvidia-drm modprobe nvidia-modeset ; modprobe -i {_NAME}-drm $CMDLINE_OPTS
install nvidia-uvm modprobe nvidia ; modprobe -i {_NAME}-uvm $CMDLINE_OPTS
install nvidia-peermem modprobe nvidia ; modprobe -i {_NAME}-peermem $CMDLINE_OPTS
"""
_AT_BOOT: Final = "nvidia-drm\nnvidia-uvm\nnvidia-peermem\n"
# As udev would for a card: the simulation's cards are none to it.
_IN_ORDER: Final = """\
mkdir -p /etc/systemd/system/lab-cards.service.d
printf '[Unit]\\nAfter=systemd-modules-load.service\\n' \\
    >/etc/systemd/system/lab-cards.service.d/after-modules.conf
"""
_INSTALL: Final = f"""\
set -e
export DEBIAN_FRONTEND=noninteractive
apt-get -q -y install -o APT::Sandbox::User=root --no-install-recommends \\
    nvidia-driver {_BUILDER} nvidia-smi libcuda1 nvidia-persistenced
ls /lib/modules/*/updates/dkms/{_NAME}-peermem.ko
"""


def system(driver: str = GOOD, layout: str = "home") -> System:
    """With this stock driver, and no rigops yet."""
    makers = (Path(__file__), Path(own_tree.__file__))
    identity = [str(image.base(layout, _MORE)), str(layers.repository())]
    identity += [driver, *(path.read_text() for path in makers)]
    digest = sha256(json.dumps(identity).encode()).hexdigest()[:16]
    folder = cache.built("vm-own-modules", digest, lambda new: _build(new, layout, _SUITES[driver]))
    return System(folder / "disk.raw", image.host_key(layout, _MORE))


def _build(new: Path, layout: str, suites: tuple[str, ...]) -> None:
    disk = SystemDisk(new / "disk.raw", layout)
    base = str(image.base(layout, _MORE))
    subprocess.run(["cp", "--sparse=always", base, str(disk.path)], check=True)
    _send(disk, AT, _archive(suites))
    does(disk, f"cat >/{FILE}", given="\n".join(source("debian", one) for one in suites))
    does(disk, "apt-get -q update -o APT::Sandbox::User=root")
    does(disk, _INSTALL)
    does(disk, BY_ITS_DISK + _IN_ORDER)
    _send(disk, LATER, list(_later_kernel(disk, new / "later")))


def _send(disk: SystemDisk, folder: str, files: list[deb.File]) -> None:
    stream = BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz", compresslevel=1) as tar:
        for one in files:
            entry = tarfile.TarInfo(one.path)
            entry.size = len(one.data)
            tar.addfile(entry, BytesIO(one.data))
    does(
        disk,
        f"mkdir -p {folder} && base64 -d | tar -xz -C {folder} --no-same-owner",
        given=b64encode(stream.getvalue()).decode(),
    )


def _archive(suites: tuple[str, ...]) -> list[deb.File]:
    """The lab's, with this builder, and without the lab's DKMS, which compiles nothing."""
    root = layers.repository()
    found = {
        str(path.relative_to(root)): path.read_bytes()
        for part in ("debian/pool", *(f"debian/dists/{suite}" for suite in suites))
        for path in (root / part).rglob("*")
        if path.is_file()
    }
    for path in [path for path in found if path.endswith("/Packages")]:
        stanzas = [
            _with_stub(stanza, found) if f"Package: {_BUILDER}\n" in stanza else stanza
            for stanza in found[path].decode().split("\n\n")
            if not stanza.lstrip().startswith("Package: dkms\n")
        ]
        text = "\n\n".join(stanzas).encode()
        release = "/".join([*path.split("/")[:3], "Release"])
        before = sha256(found[path]).hexdigest(), len(found[path])
        for old, new in zip(before, (sha256(text).hexdigest(), len(text)), strict=True):
            found[release] = found[release].replace(str(old).encode(), str(new).encode())
        found[path] = text
    return [deb.File(path, data) for path, data in found.items()]


def _with_stub(stanza: str, found: dict[str, bytes]) -> str:
    """The same package with modules that are compiled; its list has what it is now."""
    fields = dict(re.findall(r"(?m)^([A-Za-z0-9-]+): (.*(?:\n .*)*)", stanza))
    version = fields["Version"].partition("-")[0]
    if version not in _SUITES:
        return stanza
    name = fields.pop("Filename")
    del fields["Size"], fields["SHA256"]
    data = deb.pack(fields, list(_scripts(version)), list(_stub(version)))
    found[f"debian/{name}"] = data
    about = {"Filename": name, "Size": str(len(data)), "SHA256": sha256(data).hexdigest()}
    return deb.control({**fields, **about}).rstrip("\n")


def _scripts(version: str) -> Iterator[deb.File]:
    content = layers.CHECKOUT / "tests/lab/packages/content/driver-dkms/DEBIAN"
    for path in sorted(content.iterdir()):
        text = path.read_text().replace("@DKMS_NAME@", _NAME).replace("@UPSTREAM@", version)
        yield deb.File(path.name, text.encode(), 0o755)


def _stub(version: str) -> Iterator[deb.File]:
    """Its cores are compiled with the rest, since its source has no need to hide any."""
    lines = [f'PACKAGE_NAME="{_NAME}"', f'PACKAGE_VERSION="{version}"', 'AUTOINSTALL="yes"']
    lines += ["MAKE[0]=\"'make' KERNEL_UNAME=${kernelver} modules\"", 'CLEAN="true"']
    for number, part in enumerate(_PARTS):
        lines += [
            f'BUILT_MODULE_NAME[{number}]="nvidia{part}"',
            f'DEST_MODULE_NAME[{number}]="{_NAME}{part}"',
            f'DEST_MODULE_LOCATION[{number}]="/updates/dkms"',
        ]
    folder = f"usr/src/{_NAME}-{version}"
    yield deb.File(f"{folder}/dkms.conf", "\n".join([*lines, ""]).encode())
    for path, text in own_tree.files(version, STOCK).items():
        parts = path.split("/")
        if parts[0] == "kernel-open":
            yield deb.File(f"{folder}/{path.removeprefix('kernel-open/')}", text.encode())
        elif parts[-1] == "core.c":
            core = "nv-kernel" if parts[1] == "nvidia" else "nv-modeset-kernel"
            yield deb.File(f"{folder}/{parts[1]}/{core}.c", text.encode())
    yield deb.File("etc/modprobe.d/nvidia.conf", _LOADED.encode())
    yield deb.File("etc/modules-load.d/nvidia.conf", _AT_BOOT.encode())


def _later_kernel(disk: SystemDisk, work: Path) -> Iterator[deb.File]:
    """Debian's own, packed anew: an emulated processor takes minutes to decompress it."""
    kernel = does(disk, "ls -d /usr/src/linux-headers-*-rt-amd64").removeprefix(
        "/usr/src/linux-headers-"
    )
    work.mkdir()
    lists = work / "lists"
    (lists / "partial").mkdir(parents=True)
    lines = [
        f"deb {bootstrap.archive()} {bootstrap.SUITE} main",
        f"deb {bootstrap.archive(security=True)} {bootstrap.SUITE}-security main",
    ]
    (work / "sources.list").write_text("\n".join([*lines, ""]))
    apt = shlex.join([
        "apt-get", "-q", "-o", f"Dir::Etc::sourcelist={work}/sources.list",
        "-o", "Dir::Etc::sourceparts=-", "-o", f"Dir::State::lists={lists}",
        "-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache=",
        "-o", "APT::Sandbox::User=root",
    ])  # fmt: skip
    package = f"linux-image-{kernel}"
    steps = [f"{apt} update", f"{apt} download {package}", f"dpkg-deb -R {package}_*.deb tree"]
    steps.append(f"dpkg-deb --root-owner-group -Znone -b tree {package}.deb")
    subprocess.run(["sh", "-ec", "\n".join(steps)], check=True, cwd=work, stdout=subprocess.DEVNULL)
    yield deb.File("kernel.deb", (work / f"{package}.deb").read_bytes())
    subprocess.run(["rm", "-r", str(work)], check=True)
