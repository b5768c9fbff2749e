from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.concerns.nvidia_driver.modprobe import kernel_module, modprobe_file
from rigops.concerns.nvidia_driver.pin import preferences, unattended
from rigops.concerns.nvidia_driver.resolver.request import Resolution
from rigops.doctor.views import apt
from rigops.errors import RigopsError
from rigops.inventory.spec.machine import module_options
from rigops.probe.sections import package_holds
from rigops.probe.sections.packages import Package

DEBIAN = Resolution(
    version="535.261.03",
    flavor="proprietary",
    packages={"nvidia-kernel-dkms": "535.261.03-1", "libcuda1": "535.261.03-1"},
    asked=("nvidia-kernel-dkms", "libcuda1"),
    sources={"nvidia-graphics-drivers": ("535.261.03-1",)},
)
OPEN = Resolution(
    version="535.261.03",
    flavor="open",
    packages={"nvidia-open-kernel-dkms": "535.261.03-1", "libcuda1": "535.261.03-1+b1"},
    asked=("nvidia-open-kernel-dkms",),
    sources={
        "nvidia-graphics-drivers": ("535.261.03-1+b1",),
        "nvidia-open-gpu-kernel-modules": ("535.261.03-1",),
    },
)
TESLA = Resolution(
    version="535.274.02",
    flavor="proprietary",
    packages=dict.fromkeys(
        ("nvidia-tesla-535-kernel-dkms", "libnvidia-tesla-535-cuda1"), "535.274.02-1~deb13u1"
    ),
    asked=("nvidia-tesla-535-kernel-dkms",),
    sources={"nvidia-graphics-drivers-tesla-535": ("535.274.02-1~deb13u1",)},
)
UBUNTU = Resolution(
    version="535.171.04",
    flavor="proprietary",
    packages=dict.fromkeys(
        ("nvidia-driver-535", "libnvidia-compute-535", "nvidia-firmware-535-535.171.04"),
        "535.171.04-0ubuntu2",
    ),
    asked=("nvidia-driver-535",),
    sources={"nvidia-graphics-drivers-535": ("535.171.04-0ubuntu2",)},
)
VENDOR = Resolution(
    version="545.29.06",
    flavor="proprietary",
    packages={"libcuda1": "545.29.06-1"},
    beside={"nvidia-persistenced": "545.29.02-1"},
    asked=("libcuda1",),
    sources={
        "nvidia-graphics-drivers": ("545.29.06-1",),
    },
)
ALL = (DEBIAN, OPEN, TESLA, UBUNTU, VENDOR)

INNOCENTS = (
    "cuda-toolkit-12-2",
    "libc6",
    "libcuda1-i386",
    "libcudart12",
    "libnccl2",
    "libnvidia-container-tools",
    "libnvidia-container1",
    "libnvidia-ml-dev",
    "linux-base",
    "linux-firmware",
    "linux-headers-amd64",
    "linux-image-generic",
    "linux-modules-6.8.0-31-generic",
    "nvidia-container-toolkit",
    "nvidia-container-toolkit-base",
    "nvidia-cuda-toolkit",
    "nvidia-driver-535x",
    "nvidia-firmware-535-535x171x04",
    "nvidia-kernel-dkms-extra",
    "nvidia-modprobe",
    "nvidia-settings",
    "python3-nvidia-driver-535",
)
KERNELS = (
    "linux-generic",
    "linux-generic-hwe-24.04",
    "linux-headers-6.8.0-31",
    "linux-headers-amd64",
    "linux-image-6.1.0-47-amd64",
    "linux-image-unsigned-6.8.0-31-generic",
    "linux-kbuild-6.1",
    "linux-modules-extra-6.8.0-31-generic",
    "linux-virtual",
    "proxmox-default-kernel",
    "proxmox-kernel-6.8",
    "pve-headers",
)

RIVALS = (
    "cuda-drivers*:any libnvidia-compute:any linux-modules-nvidia-*:any "
    "linux-objects-nvidia-*:any nvidia-alternative:any nvidia-dkms:any nvidia-dkms-*:any "
    "nvidia-driver:any nvidia-driver-*:any nvidia-headless:any nvidia-headless-*:any "
    "nvidia-kernel-dkms:any "
    "nvidia-kernel-open-dkms:any nvidia-kernel-support:any nvidia-open:any nvidia-open-*:any "
    "src:nvidia-graphics-drivers-*:any src:nvidia-open-gpu-kernel-modules*:any"
)


def entries(text: str) -> list[str]:
    """As apt gives them to unattended-upgrades, whose own rule is re.match."""
    found = re.fullmatch(
        r"(?://.*\n)+Unattended-Upgrade::Package-Blacklist \{\n((?:  \".*\";\n)+)\};\n", text
    )
    assert found
    return [line.strip()[1:-2] for line in found[1].splitlines()]


def is_listed(name: str, text: str) -> bool:
    return any(re.match(entry, name) for entry in entries(text))


def stanzas(text: str) -> list[dict[str, str]]:
    lines = [line for line in text.split("\n") if not line.startswith("#")]
    return [
        dict(line.split(": ", 1) for line in stanza.strip().split("\n"))
        for stanza in "\n".join(lines).split("\n\n")
    ]


def priority(text: str, word: str, version: str) -> int | None:
    """Of the first stanza that names this word, `:any` apart, and this version."""
    for one in stanzas(text):
        wanted = one["Pin"].removeprefix("version ")
        fits = version.startswith(wanted[:-1]) if wanted.endswith("*") else version == wanted
        if f"{word}:any" in one["Package"].split() and fits:
            return int(one["Pin-Priority"])
    return None


def test_the_pin_of_debian() -> None:
    assert preferences(DEBIAN) == (
        "# Made by rigops from driver in the inventory; edits are overwritten.\n"
        "# It keeps the NVIDIA driver at 535.261.03. apt installs the versions named here, even\n"
        "# over newer ones; when the package sources have them no more, it installs no others.\n"
        "# The first stanza that matches counts, so the order matters.\n"
        "Explanation: The packages of the driver, from whatever source.\n"
        "Package: libcuda1:any nvidia-kernel-dkms:any\n"
        "Pin: version 535.261.03-1\n"
        "Pin-Priority: 1001\n"
        "\n"
        "Explanation: No other version of these.\n"
        "Package: libcuda1:any nvidia-kernel-dkms:any\n"
        "Pin: version *\n"
        "Pin-Priority: -1\n"
        "\n"
        "Explanation: Other packages of the same sources.\n"
        "Package: src:nvidia-graphics-drivers:any\n"
        "Pin: version 535.261.03-1\n"
        "Pin-Priority: 1001\n"
        "\n"
        "Explanation: No other version of these.\n"
        "Package: src:nvidia-graphics-drivers:any\n"
        "Pin: version *\n"
        "Pin-Priority: -1\n"
        "\n"
        "Explanation: Other branches, flavours and builds of the driver.\n"
        f"Package: {RIVALS}\n"
        "Pin: version 535.261.03-*\n"
        "Pin-Priority: 1001\n"
        "\n"
        "Explanation: No other version of these.\n"
        f"Package: {RIVALS}\n"
        "Pin: version *\n"
        "Pin-Priority: -1\n"
    )


def test_packages_of_one_driver_may_differ_in_their_revision() -> None:
    text = preferences(OPEN)

    assert priority(text, "libcuda1", "535.261.03-1+b1") == 1001
    assert priority(text, "libcuda1", "535.261.03-1") == -1
    assert priority(text, "nvidia-open-kernel-dkms", "535.261.03-1") == 1001
    assert priority(text, "src:nvidia-open-gpu-kernel-modules", "550.163.01-2") == -1


def test_a_source_with_several_revisions_may_have_each_of_them() -> None:
    text = preferences(
        Resolution(
            version="1.2",
            flavor="open",
            packages={"a": "1.2-1", "b": "1.2-1+b1"},
            asked=("a",),
            sources={"s": ("1.2-1", "1.2-1+b1")},
        )
    )

    assert [priority(text, "src:s", f"1.2-{one}") for one in ("1", "1+b1", "2")] == [1001, 1001, -1]
    assert [priority(text, "a", f"1.2-{one}") for one in ("1", "1+b1")] == [1001, -1]


def test_where_the_branch_is_in_the_names_everything_with_it_is_of_this_version() -> None:
    text = preferences(UBUNTU)

    for glob in ("*nvidia*-535", "*nvidia*-535-*"):
        assert priority(text, glob, "535.171.04-0ubuntu2") == 1001
        assert priority(text, glob, "535.309.01-0ubuntu0.24.04.2") == -1
        assert priority(text, glob, "6.8.0-31.31") == -1  # the prebuilt modules have the kernel's
    assert "*nvidia*-" not in preferences(DEBIAN) + preferences(TESLA)


def test_what_a_tesla_driver_shares_with_the_other_is_free() -> None:
    text = preferences(TESLA)

    assert "src:nvidia-graphics-drivers:any" not in text
    assert priority(text, "src:nvidia-graphics-drivers-*", "550.163.01-2") == -1
    assert priority(text, "nvidia-alternative", "550.163.01-2") == -1


def test_its_tools_stay_as_the_driver_does_whatever_version_they_have() -> None:
    text = preferences(VENDOR)

    assert priority(text, "nvidia-persistenced", "545.29.02-1") == 1001
    assert priority(text, "nvidia-persistenced", "580.178.04-1") == -1
    assert "nvidia-persistenced" in unattended(VENDOR)
    assert priority(text, "libcuda1", "580.178.04-1") == -1


@pytest.mark.parametrize("resolution", ALL)
def test_every_stanza_that_allows_is_followed_by_one_that_forbids_the_rest(
    resolution: Resolution,
) -> None:
    found = stanzas(preferences(resolution))
    allowed: set[str] = set()
    for one in found:
        words = one["Package"].split()
        assert all(word.endswith(":any") for word in words)  # without it i386 goes its own way
        if one["Pin"] == "version *":
            assert one["Pin-Priority"] == "-1"
            assert allowed <= set(words)
            allowed.clear()
        else:
            assert one["Pin-Priority"] == "1001"
            allowed |= set(words)
    assert not allowed


@pytest.mark.parametrize("resolution", ALL)
def test_the_doctor_sees_what_is_pinned_and_blacklisted(resolution: Resolution) -> None:
    said = f"== /etc/apt/preferences.d/rigops-nvidia.pref\n{preferences(resolution)}"
    pins = package_holds.parse(said).pins
    for name, version in resolution.packages.items():
        assert apt.pins_down(Package(name, version, "amd64", "ii"), pins)
        assert apt.blacklists(name, entries(unattended(resolution)))


def test_the_blacklist_of_debian() -> None:
    assert unattended(DEBIAN) == (
        "// Made by rigops from driver in the inventory; edits are overwritten.\n"
        "// unattended-upgrades must not replace the driver's libraries under its loaded module.\n"
        "// The entries join those of other files; each is a regular expression that is matched\n"
        "// from the beginning of a package's name.\n"
        "Unattended-Upgrade::Package-Blacklist {\n"
        '  "^libcuda1([^a-z0-9.+-]|$)";\n'
        '  "^nvidia-kernel-dkms([^a-z0-9.+-]|$)";\n'
        '  "^linux-(modules|objects|signatures)-nvidia-";\n'
        "};\n"
    )


@pytest.mark.parametrize("resolution", ALL)
def test_every_name_of_the_driver_is_blacklisted_and_no_other(resolution: Resolution) -> None:
    text = unattended(resolution)
    for name in resolution.packages:
        assert is_listed(name, text)
        assert is_listed(f"{name}:i386", text)  # as python-apt calls it on an amd64 machine
    assert [one for one in INNOCENTS if is_listed(one, text)] == []
    assert is_listed("linux-modules-nvidia-535-generic", text)
    assert is_listed("linux-signatures-nvidia-6.8.0-31-generic", text)


NAMES = st.from_regex(r"[a-z0-9][a-z0-9.+-]{1,20}", fullmatch=True)


@given(ours=st.sets(NAMES, min_size=1, max_size=5), other=NAMES)
def test_a_name_is_blacklisted_exactly_if_it_is_of_the_driver(ours: set[str], other: str) -> None:
    text = unattended(
        Resolution(version="1.2", flavor="open", packages=dict.fromkeys(ours, "1.2-1"), asked=())
    )

    assert all(is_listed(name, text) for name in ours)
    near = [f"{name}{end}" for name in ours for end in ("x", "-x", ".x", "+x")]
    prebuilt = re.compile("linux-(modules|objects|signatures)-nvidia-")
    for name in (other, *near, *(f"x{name}" for name in ours)):
        assert is_listed(name, text) is (name in ours or prebuilt.match(name) is not None)


def test_kernels_are_blacklisted_only_when_asked() -> None:
    alone, both = unattended(UBUNTU), unattended(UBUNTU, kernels=True)

    assert [one for one in KERNELS if is_listed(one, alone)] == []
    assert [one for one in KERNELS if not is_listed(one, both)] == []
    for name in ("linux-base", "linux-firmware", "linux-libc-dev", "linux-cpupower", "libc6"):
        assert not is_listed(name, both)
    assert "from driver and kernel_hold in the inventory" in both


@pytest.mark.parametrize(
    ("resolution", "module"),
    [
        (DEBIAN, "nvidia-current"),
        (OPEN, "nvidia-current-open"),
        (TESLA, "nvidia-tesla-535"),
        (UBUNTU, "nvidia"),
    ],
)
def test_debian_renames_the_modules(resolution: Resolution, module: str) -> None:
    assert kernel_module(resolution.packages) == module


def test_nvidias_own_packages_for_debian_rename_nothing() -> None:
    packages = {"nvidia-kernel-dkms": "595.45.04-1", "nvidia-driver-cuda": "595.45.04-1"}
    nvidias = replace(DEBIAN, version="595.45.04", packages=packages)

    assert kernel_module(nvidias.packages) == "nvidia"


def test_the_modprobe_file_of_debian() -> None:
    declared = module_options(
        {
            "nvidia": {
                "NVreg_EnableGpuFirmware": 0,
                "NVreg_RegistryDwords": "RMForceStaticBar1=1;A=2",
            },
            "nvidia_uvm": {"uvm_disable_hmm": True},
            "nvidia-current-drm": {"modeset": 1},
            "vfio_pci": {"disable_vga": 1},
        }
    )

    assert modprobe_file(DEBIAN, declared, "nvidia-current") == (
        "# Made by rigops from driver and module_options; made anew, never edited.\n"
        "# It keeps the cards for NVIDIA's driver 535.261.03. The initramfs has a copy of it.\n"
        "blacklist nouveau\n"
        "blacklist lbm-nouveau\n"
        "blacklist nova\n"
        "blacklist nova_core\n"
        "alias nouveau off\n"
        "alias lbm-nouveau off\n"
        "alias nova off\n"
        "alias nova_core off\n"
        "options nouveau modeset=0\n"
        "options nvidia-current NVreg_EnableGpuFirmware=0 "
        "NVreg_RegistryDwords=RMForceStaticBar1=1;A=2\n"
        "options nvidia-current-uvm uvm_disable_hmm=1\n"
        "options nvidia-current-drm modeset=1\n"
        "options vfio_pci disable_vga=1\n"
    )


@pytest.mark.parametrize(
    ("declared", "module", "line"),
    [
        ("nvidia", "nvidia", "options nvidia a=1"),
        ("nvidia", "nvidia-current-open", "options nvidia-current-open a=1"),
        ("nvidia-drm", "nvidia-current-open", "options nvidia-current-open-drm a=1"),
        ("nvidia_peermem", "nvidia-tesla-535", "options nvidia-tesla-535-peermem a=1"),
        ("nvidia-current-uvm", "nvidia", "options nvidia-uvm a=1"),
        ("nvidia-current", "nvidia-current-open", "options nvidia-current-open a=1"),
        ("nvidia-current-open-modeset", "nvidia-current", "options nvidia-current-modeset a=1"),
        ("nvidia-fs", "nvidia-current", "options nvidia-fs a=1"),
    ],
)
def test_options_go_to_what_the_module_is_called_there(
    declared: str, module: str, line: str
) -> None:
    assert modprobe_file(DEBIAN, ((declared, (("a", "1"),)),), module).splitlines()[-1] == line


def test_two_names_of_one_module_make_one_line() -> None:
    options = (("nvidia", (("a", "1"), ("b", "1"))), ("nvidia-current", (("b", "2"),)))

    assert modprobe_file(DEBIAN, options, "nvidia-current").endswith(
        "modeset=0\noptions nvidia-current a=1 b=2\n"
    )


@pytest.mark.parametrize(
    "option", [("a", "1\ninstall nvidia /bin/sh"), ("a", "1 b=2"), ("a\nb", "1"), ("", "1")]
)
def test_an_option_does_not_become_more_than_itself(option: tuple[str, str]) -> None:
    with pytest.raises(RigopsError, match="cannot be written"):
        modprobe_file(DEBIAN, (("nvidia", (option,)),), "nvidia-current")
    with pytest.raises(RigopsError, match="cannot be written"):
        modprobe_file(DEBIAN, (("nvidia\n", (("a", "1"),)),), "nvidia-current")


@pytest.mark.parametrize(
    ("name", "version", "source"),
    [
        ("a\n\nPackage: *", "1-1", "s"),
        ("a b", "1-1", "s"),
        ('a";', "1-1", "s"),
        ("*", "1-1", "s"),
        ("a", "1-1\nPin-Priority: 1001", "s"),
        ("a", "1*", "s"),
        ("a", "1-1", "s:any"),
        ("a", "1-1", "*"),
    ],
)
def test_what_a_host_says_does_not_become_another_stanza(
    name: str, version: str, source: str
) -> None:
    strange = Resolution(
        version="1",
        flavor="open",
        packages={name: version},
        asked=(),
        sources={source: (version,)},
    )
    with pytest.raises(RigopsError, match="cannot be written"):
        preferences(strange)
    if name != "a":
        with pytest.raises(RigopsError, match="cannot be written"):
            unattended(strange)
