"""Which driver each machine gets for each declaration, from what real archives offer."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from rigops.concerns.nvidia_driver.resolver.machine import Kernel, RunFile
from tests.unit.concerns.nvidia_driver.resolver.archives import archive
from tests.unit.concerns.nvidia_driver.resolver.machines import (
    ALMA,
    ARCH,
    BOOKWORM,
    FEDORA,
    JAMMY,
    NOBLE,
    TRIXIE,
    declared,
    refused,
    resolved,
    with_cards,
)

if TYPE_CHECKING:
    from rigops.concerns.nvidia_driver.resolver.machine import Machine
    from rigops.concerns.nvidia_driver.resolver.offers import Offers

_BOOKWORM = ("bookworm",)
_SECURITY = ("bookworm", "bookworm-security")
_BOTH = ("bookworm", "trixie")
_NOBLE = ("noble", "noble-updates")
_POCKET = ("noble",)
_UPDATES = ("noble-updates",)
_JAMMY = ("jammy-updates",)
_NOTHING = ()

_RUN_FILE = RunFile("/usr/bin/nvidia-uninstall", "550.54.14")
_HWE = replace(NOBLE, kernels=(Kernel("6.8.0-151-generic"), Kernel("7.0.0-30-generic")))
_BACKPORTS = replace(BOOKWORM, kernels=(Kernel("6.1.0-50-amd64"), Kernel("6.16.3+deb13-amd64")))
_SIGNED = replace(
    NOBLE,
    kernels=(Kernel("6.8.0-31-generic", has_headers=False),),
    secure_boot=True,
    has_key=False,
)
_TWO_KERNELS: dict[str, Any] = {
    "kernels": (Kernel("6.8.0-31-generic"), Kernel("6.8.0-151-generic"))
}
_FRESH = replace(
    BOOKWORM, lacks_components=("contrib", "non-free", "non-free-firmware"), suites=("bookworm",)
)


@dataclass(frozen=True)
class Case:
    machine: Machine
    cards: str
    suites: tuple[str, ...]
    declared: str
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def here(self) -> Machine:
        return with_cards(self.machine, *filter(None, self.cards.split(", ")))

    @property
    def offers(self) -> Offers:
        return archive(*self.suites)

    def __str__(self) -> str:
        more = ",".join(f"{name}={value}" for name, value in self.more.items())
        suites = "+".join(self.suites) or "nothing"
        return f"{self.cards or 'no cards'} on {suites}: {self.declared} {more}".strip()


def _installed(version: str, *names: str, **more: Any) -> dict[str, Any]:
    return {"installed": dict.fromkeys(names, version), **more}


_DEBIAN = ("nvidia-kernel-dkms", "libcuda1", "nvidia-smi", "libnvidia-ml1", "nvidia-alternative")
_AT_261 = replace(BOOKWORM, **_installed("535.261.03-1", *_DEBIAN))
_OPEN_AT_261 = replace(
    BOOKWORM,
    **_installed("535.261.03-1", "nvidia-open-kernel-dkms", *_DEBIAN[1:], flavor="open"),
)
_AT_550 = replace(BOOKWORM, **_installed("550.163.01-2", *_DEBIAN, "libnvidia-gpucomp"))
_NOBLE_AT_171 = replace(
    NOBLE,
    **_installed(
        "535.171.04-0ubuntu2", "nvidia-dkms-535", "nvidia-headless-535", "libnvidia-compute-535",
        flavor="proprietary",
    ),
)  # fmt: skip

# The modules are the proprietary ones where no others are named.
RESOLVED: list[tuple[Case, str]] = [
    (Case(BOOKWORM, "3090, 3090, 3090", _BOOKWORM, "535"), "535.261.03"),
    (Case(BOOKWORM, "3090", _BOOKWORM, "535.261.03"), "535.261.03"),
    (Case(BOOKWORM, "3090", _BOOKWORM, ">=535,<536"), "535.261.03"),
    (Case(BOOKWORM, "3090", _BOOKWORM, "!=535.261.03,>=535"), "535.216.03"),
    (Case(BOOKWORM, "3090", _BOOKWORM, "535.216.03"), "535.216.03"),
    (Case(BOOKWORM, "3090", _SECURITY, "535"), "535.309.01"),
    (Case(BOOKWORM, "3090", _SECURITY, "535.261.03"), "535.261.03"),
    (Case(BOOKWORM, "3090", _SECURITY, "535", {"locked": "535.261.03"}), "535.261.03"),
    (
        Case(BOOKWORM, "3090", _SECURITY, "535", {"locked": "535.261.03", "upgrade": True}),
        "535.309.01",
    ),
    (Case(_AT_261, "3090", _SECURITY, "535"), "535.261.03"),
    (Case(_AT_261, "3090", _SECURITY, "535", {"upgrade": True}), "535.309.01"),
    (Case(_AT_261, "3090", _SECURITY, "535.309.01"), "535.309.01"),
    (Case(BOOKWORM, "3090", _BOOKWORM, "535", {"flavor": "open"}), "535.261.03 open"),
    (Case(BOOKWORM, "3090", _SECURITY, "535", {"flavor": "open"}), "535.261.03 open"),
    (Case(_OPEN_AT_261, "3090", _BOOKWORM, "535"), "535.261.03 open"),
    # The security archive has no open modules of its version: the flavor counts for more.
    (Case(_OPEN_AT_261, "3090", _SECURITY, "535", {"upgrade": True}), "535.261.03 open"),
    (Case(_OPEN_AT_261, "V100 SXM2 16GB", _SECURITY, "535"), "535.261.03"),
    (Case(_OPEN_AT_261, "3090", _SECURITY, "535", {"flavor": "proprietary"}), "535.261.03"),
    (Case(BOOKWORM, "V100 SXM2 16GB, V100 SXM2 16GB", _BOOKWORM, "535"), "535.261.03"),
    (Case(BOOKWORM, "K80", _SECURITY, "470"), "470.256.02"),
    (Case(BOOKWORM, "K80, 3090", _SECURITY, "470"), "470.256.02"),
    (Case(BOOKWORM, "K80", _SECURITY, ">=470"), "470.256.02"),
    (Case(_BACKPORTS, "3090", _SECURITY, "535"), "535.309.01"),
    (Case(_AT_550, "3090", _BOTH, "535"), "535.274.02"),
    (Case(_AT_550, "3090", _BOOKWORM, "535"), "535.261.03"),
    (Case(TRIXIE, "3090", ("trixie",), "535"), "535.274.02"),
    (Case(TRIXIE, "3090", ("trixie",), "550"), "550.163.01"),
    (Case(TRIXIE, "3090", ("trixie",), "550", {"flavor": "open"}), "550.163.01 open"),
    # Known to be good counts for more than newer.
    (Case(TRIXIE, "3090", ("trixie",), ">=535,<600"), "535.274.02"),
    (Case(NOBLE, "3090", _NOBLE, "535"), "535.171.04"),
    (Case(NOBLE, "3090", _POCKET, "535"), "535.171.04"),
    (Case(NOBLE, "3090", _NOBLE, "535", {"flavor": "open"}), "535.171.04 open"),
    (Case(NOBLE, "3090", _NOBLE, "535.161.08"), "535.161.08"),
    (Case(_NOBLE_AT_171, "3090", _NOBLE, "535"), "535.171.04"),
    (Case(_NOBLE_AT_171, "3090", _NOBLE, "580"), "580.178.04"),
    # Without an enrolled key only what the distribution signed, for every kernel that could boot.
    (Case(_SIGNED, "3090", _NOBLE, "535"), "535.171.04"),
    (Case(_SIGNED, "3090", _NOBLE, "535", {"flavor": "open"}), "535.171.04 open"),
    (Case(_SIGNED, "3090", _NOBLE, "535", {"set_": "desktop"}), "535.171.04"),
    (Case(_SIGNED, "3090", _NOBLE, ">=535,<600"), "535.171.04"),
    (Case(replace(NOBLE, secure_boot=True), "3090", _NOBLE, "580"), "580.178.04 open"),
    (Case(replace(NOBLE, secure_boot=True, has_key=True), "3090", _NOBLE, "535"), "535.171.04"),
    (Case(_NOBLE_AT_171, "3090", _NOBLE, "580", {"flavor": "open"}), "580.178.04 open"),
    (Case(_NOBLE_AT_171, "5090", _NOBLE, "580"), "580.178.04 open"),
    (Case(NOBLE, "3090", _NOBLE, "580"), "580.178.04 open"),
    (Case(NOBLE, "3090", _NOBLE, "580", {"flavor": "proprietary"}), "580.178.04"),
    (Case(NOBLE, "V100 SXM2 16GB", _NOBLE, "580"), "580.178.04"),
    (Case(NOBLE, "V100 SXM2 16GB, 3090", _NOBLE, "580"), "580.178.04"),
    (Case(NOBLE, "5090, 3090", _NOBLE, "580"), "580.178.04 open"),
    (Case(NOBLE, "3090", _NOBLE, ">=580"), "580.178.04 open"),
    (Case(NOBLE, "5090", _NOBLE, "595"), "595.99.02 open"),
    (Case(_HWE, "3090", _NOBLE, "580"), "580.178.04 open"),
    (Case(NOBLE, "K80", _NOBLE, "470"), "470.256.02"),
    (Case(JAMMY, "3090", _JAMMY, "545", {"allow_bad": True}), "545.29.06"),
    (Case(JAMMY, "10de:ffff", _JAMMY, "580"), "580.178.04 open"),
    (Case(BOOKWORM, "10de:ffff, 3090", _BOOKWORM, "535"), "535.261.03"),
    (Case(BOOKWORM, "", _BOOKWORM, "535"), "535.261.03"),
    (
        Case(replace(BOOKWORM, secure_boot=True, has_key=True), "3090", _BOOKWORM, "535"),
        "535.261.03",
    ),
]


@pytest.mark.parametrize(("case", "driver"), RESOLVED, ids=str)
def test_a_machine_gets_the_driver(case: Case, driver: str) -> None:
    found = resolved(case.here, replace(declared(case.declared), **case.more), case.offers)

    assert f"{found.version} {found.flavor}".removesuffix(" proprietary") == driver


REFUSED: list[tuple[Case, str, str]] = [
    (Case(replace(NOBLE, suites=_UPDATES), "3090", _UPDATES, "535"),
     ("what is named 535 here is not 535: nvidia-dkms-535 535.309.01-0ubuntu0.24.04.2 is "
     "empty and installs nvidia-dkms-580"),
     ('declare "driver_source": {"URIs": "http://archive.example/ubuntu", "Suites": "noble", '
     '"Components": "main restricted", "Signed-By": "/usr/share/keyrings/ubuntu-archive-'
     'keyring.gpg"}, which brings 535.171.04')),
    (Case(JAMMY, "3090", _JAMMY, "535"),
     "nvidia-dkms-535 535.309.01-0ubuntu0.22.04.2 is empty and installs nvidia-dkms-580",
     '"URIs": "<your snapshot service>/20260501T000000Z", "Suites": "jammy-updates"'),
    (Case(JAMMY, "3090", _JAMMY, "535.309.01"),
     "nvidia-dkms-535 535.309.01-0ubuntu0.22.04.2 is empty and installs nvidia-dkms-580",
     'declare "driver": "580.178.04", which they have'),
    (Case(NOBLE, "3090", _NOBLE, "550"),
     "nvidia-driver-550 550.163.01-0ubuntu0.24.04.2 is empty and installs nvidia-driver-580",
     'declare "driver": "535.171.04" or "580.178.04", which they have'),
    (Case(NOBLE, "3090", _NOBLE, "565"),
     "565.57.01-0ubuntu0.24.04.4 is empty and installs nvidia-dkms-580-server",
     'declare "driver": "535.171.04" or "580.178.04"'),
    (Case(NOBLE, "3090", _NOBLE, "590"),
     "nvidia-dkms-590 590.48.01-0ubuntu0.24.04.5 is empty and installs nvidia-dkms-595",
     'declare "driver": "580.178.04" or "595.99.02"'),
    (Case(JAMMY, "V100 SXM2 16GB", _JAMMY, "525"),
     "525.147.05-0ubuntu2.22.04.1 is empty and installs nvidia-dkms-535 and so nvidia-dkms-580",
     'declare "driver": "580.178.04"'),
    (Case(JAMMY, "3090", _JAMMY, "530"),
     "535.309.01-0ubuntu0.22.04.2 is empty and installs nvidia-dkms-535 and so nvidia-dkms-580",
     "a driver_source (a dict of deb822 fields) of an archive that has it"),
    (Case(JAMMY, "3090", _JAMMY, "545"),
     "is known to be bad for GeForce RTX 3090: Offers peer access that does not deliver",
     'declare "driver": "535" or "580", or "driver_allow_bad": True'),
    (Case(JAMMY, "3090", _JAMMY, "545"), "NVIDIA/nccl#1127 (2023-12-26, RTX 3090;", "580"),
    (Case(BOOKWORM, "3090", _BOOKWORM, "545"), "is known to be bad", "driver_allow_bad"),
    (Case(BOOKWORM, "", _BOOKWORM, "545"), "is known to be bad: Offers", "driver_allow_bad"),
    (Case(NOBLE, "3090", _NOBLE, "535.172.04"),
     "no NVIDIA release 535.172.04 is known",
     'declare "driver": "535.171.04" or "535.183.01", the nearest releases'),
    (Case(BOOKWORM, "3090", _BOOKWORM, "535.183.01"),
     "have no driver 535.183.01, only 470.256.02, 535.216.03, 535.261.03",
     'declare "driver": "535.216.03"'),
    (Case(BOOKWORM, "3090", _BOOKWORM, "580"),
     "have no driver 580, only 470.256.02, 535.216.03, 535.261.03",
     'declare "driver": "535.261.03", which they have, or a driver_source'),
    (Case(BOOKWORM, "3090", _BOOKWORM, "530"),
     "have no driver 530, only 470.256.02, 535.216.03, 535.261.03",
     'declare "driver": "470.256.02" or "535.261.03", which they have'),
    (Case(_FRESH, "3090", _NOTHING, "535"),
     "the package sources of this machine have no NVIDIA driver",
     ('declare "driver_source": "distribution", which adds contrib non-free non-free-firmware'
     " of the archive that this machine uses already, which has 535.261.03")),
    (Case(_FRESH, "3090", _NOTHING, "580"),
     "have no NVIDIA driver",
     "declare a driver_source (a dict of deb822 fields) of an archive that has it"),
    (Case(_FRESH, "3090", _NOTHING, "535", {"source": "distribution"}),
     "have no NVIDIA driver", "declare a driver_source"),
    (Case(NOBLE, "V100 SXM2 16GB", _NOBLE, "590"),
     ("does not drive Tesla V100-SXM2-16GB: 580 is the last branch for Tesla V100-SXM2-16GB "
     "(Volta)"),
     'declare "driver": "535" or "580" (branches 470 to 580 drive all its cards)'),
    (Case(NOBLE, "V100 SXM2 16GB, 3090", _NOBLE, "595"),
     "580 is the last branch for Tesla V100-SXM2-16GB (Volta)",
     'declare "driver": "535" or "580"'),
    (Case(NOBLE, "V100 SXM2 16GB, 5090", _NOBLE, "580"),
     ("the cards of this machine share no driver of branch 580: Tesla V100-SXM2-16GB takes "
     "the proprietary modules, GeForce RTX 5090 takes the open modules"),
     "no branch drives all of them: put the cards into separate machines"),
    (Case(NOBLE, "5090", _NOBLE, "535"),
     "does not drive GeForce RTX 5090: GeForce RTX 5090 is driven from branch 570 on",
     'declare "driver": "580"'),
    (Case(NOBLE, "K80", _NOBLE, "535"), "470 is the last branch for Tesla K80", '"470"'),
    (Case(NOBLE, "K80, 5090", _NOBLE, "470"), "is driven from branch 570 on", "separate machines"),
    (Case(NOBLE, "V100 SXM2 16GB", _NOBLE, "580", {"flavor": "open"}),
     "the open modules of driver 580.178.04 do not drive every card of this machine",
     'declare "driver_flavor": "proprietary", or leave the key out'),
    (Case(NOBLE, "5090", _NOBLE, "580", {"flavor": "proprietary"}),
     "GeForce RTX 5090 takes the open modules", 'declare "driver_flavor": "open"'),
    (Case(TRIXIE, "3090", ("trixie",), "535", {"flavor": "open"}),
     "have only the proprietary modules of driver 535.274.02, and the open ones are needed",
     'declare "driver_flavor": "proprietary", or another driver'),
    (Case(_BACKPORTS, "3090", _BOOKWORM, "535"),
     "535.261.03-1) is known to build up to Linux 6.15, and 6.16.3+deb13-amd64 could boot next",
     "boot an older kernel and remove linux-image-6.16.3+deb13-amd64"),
    (Case(_BACKPORTS, "3090", _SECURITY, "535.261.03"),
     "known to build up to Linux 6.15",
     'declare "driver_flavor": "open", whose modules build there, or boot an older kernel'),
    (Case(_BACKPORTS, "V100 SXM2 16GB", _SECURITY, "535.261.03"),
     "known to build up to Linux 6.15", 'declare "driver": "535.309.01", or boot an older kernel'),
    (Case(_HWE, "3090", _NOBLE, "535"),
     ("(nvidia-dkms-535 535.171.04-0ubuntu2) is known to build up to Linux 6.8, and "
     "7.0.0-30-generic"),
     ('declare "driver": "580.178.04", or boot an older kernel and remove linux-'
     "image-7.0.0-30-generic")),
    (Case(replace(BOOKWORM, secure_boot=True, has_key=False), "3090", _BOOKWORM, "535"),
     "Secure Boot is on, and the key that signs modules built here is not enrolled",
     "sudo mokutil --import /var/lib/dkms/mok.pub"),
    (Case(replace(NOBLE, secure_boot=True), "3090", _NOBLE, "535"),
     ("is not known to be enrolled; the package sources have no signed modules of driver 535 "
     "for 6.8.0-151-generic"),
     ('declare "driver": "580.178.04", whose signed modules they have; where /var/lib/shim-'
     "signed/mok/MOK.der is not there yet, `sudo update-secureboot-policy --new-key`; then "
     "`sudo mokutil --import /var/lib/shim-signed/mok/MOK.der`")),
    (Case(replace(_SIGNED, is_enrolling=True), "3090", _UPDATES, "535"),
     "is not enrolled; the package sources have no signed modules of driver 535 for 6.8.0-31-",
     "reboot, and enroll the key in the blue menu at the machine's own console"),
    (Case(replace(_SIGNED, **_TWO_KERNELS), "3090", _NOBLE, "535"),
     "no signed modules of driver 535 for 6.8.0-31-generic and 6.8.0-151-generic",
     "sudo mokutil --import"),
    (Case(replace(BOOKWORM, run_file=_RUN_FILE), "3090", _BOOKWORM, "535"),
     "NVIDIA's own installer put driver 550.54.14 here",
     ("`rigops apply --remove-foreign-driver` runs its uninstaller first; by hand: `sudo "
     "/usr/bin/nvidia-uninstall --uninstall --silent`")),
    (Case(replace(BOOKWORM, run_file=replace(_RUN_FILE, uninstaller="")), "3090", _BOOKWORM, "535"),
     "NVIDIA's own installer put driver 550.54.14 here",
     "its uninstaller is gone: run `sudo sh NVIDIA-Linux-x86_64-550.54.14.run --uninstall`"),
    (Case(ARCH, "3090", _NOTHING, "580"),
     "rigops installs drivers with apt only, and this machine (Arch) has pacman",
     "nvidia-580xx-dkms nvidia-580xx-utils come from the AUR"),
    (Case(ARCH, "3090", _NOTHING, "580"),
     "apt only", "IgnorePkg = nvidia-580xx-dkms nvidia-580xx-utils linux linux-headers"),
    (Case(ARCH, "3090", _NOTHING, "595"),
     "apt only", "`sudo pacman -S --needed nvidia-open-dkms nvidia-utils linux-headers`"),
    (Case(ARCH, "3090", _NOTHING, "565"), "apt only", "no package of 565 is known for it"),
    (Case(ARCH, "V100 SXM2 16GB", _NOTHING, "595"),
     "580 is the last branch", '"driver": "535" or "580"'),
    (Case(FEDORA, "3090", _NOTHING, "580"),
     "this machine (Fedora 42) has dnf",
     ("versionlock add '*nvidia*580*'`, which holds it at that branch, then `sudo dnf install"
     " nvidia-open`")),
    (Case(FEDORA, "V100 SXM2 16GB", _NOTHING, "580"),
     "apt only", "`sudo dnf install cuda-drivers`"),
    (Case(ALMA, "3090", _NOTHING, "580", {"flavor": "proprietary"}),
     "this machine (Almalinux 9.6) has dnf",
     "install nvidia-driver:580-dkms`, which stays on that branch"),
    (Case(replace(FEDORA, kernels=(Kernel("7.3.1-200.fc44.x86_64"),)), "3090", _NOTHING, "580"),
     "driver 580.178.04 is known to build up to Linux 7.2, and 7.3.1-200.fc44.x86_64 could",
     "sudo dnf versionlock add"),
    (Case(NOBLE, "3090", _POCKET, "550"),
     "have no driver 550, only 470.239.06, 535.161.08, 535.171.04",
     'declare "driver": "535.171.04"'),
    # Where another source would not help either, none is named.
    (Case(replace(_HWE, suites=_UPDATES), "3090", _UPDATES, "535"),
     "what is named 535 here is not 535", 'declare "driver": "580.178.04", which they have'),
    (Case(FEDORA, "3090", _NOTHING, ">=535,<700"),
     "this machine (Fedora 42) has dnf", "sudo dnf versionlock add '*nvidia*580*'"),
    (Case(replace(FEDORA, manager="zypper"), "3090", _NOTHING, "535.261.03"),
     "has zypper", "install driver 535.261.03 (proprietary) and lock it there by hand"),
    (Case(replace(FEDORA, manager=None), "3090", _NOTHING, "390"),
     "has no package manager that is known", "install driver 390 and lock it there by hand"),
]  # fmt: skip


@pytest.mark.parametrize(("case", "reason", "fix"), REFUSED, ids=lambda one: str(one)[:90])
def test_a_machine_is_refused_a_driver(case: Case, reason: str, fix: str) -> None:
    found = refused(case.here, replace(declared(case.declared), **case.more), case.offers)

    assert reason in found.reason
    assert fix in found.fix
    assert found.fix
    for text in (found.reason, found.fix):
        assert "None" not in text
        assert "  " not in text
        assert not text.endswith((".", ":", " "))
