"""What NixOS and Arch need to make the same machine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rigops.capture.describe import describe
from rigops.capture.snippet import snippet
from tests.unit.capture.rigs import subject
from tests.unit.doctor.examining import spec

DECLARED: dict[str, Any] = {
    "driver": "535",
    "kernel_args": ["iommu=pt"],
    "gpu_persistence": True,
    "gpu_power_limit": 285,
    "limits": {"memlock": "1GiB", "nofile": 4096, "shm": "8GiB", "removeipc": False},
    "nccl": {"NCCL_P2P_LEVEL": "SYS"},
    "module_options": {"nvidia": {"NVreg_X": "1"}},
}


def made(kind: str, **declared: Any) -> str:
    found = describe(subject())
    cards = tuple(replace(one, power_limit_watts=285.0) for one in found.gpus)
    return snippet(kind, replace(found, gpus=cards), spec(**declared))


def test_nixos_gets_a_module_with_the_very_version_that_was_proven() -> None:
    text = made("nixos", **DECLARED)

    for line in (
        'version = "535.261.03";',
        "open = false;",
        "nvidiaPersistenced = true;",
        'boot.kernelParams = [ "iommu=pt" ];',
        r'boot.extraModprobeConfig = "options nvidia NVreg_X=1\n";',
        '{ domain = "*"; type = "-"; item = "memlock"; value = "1048576"; }',
        r'environment.etc."nccl.conf".text = "NCCL_P2P_LEVEL=SYS\n";',
        "${config.hardware.nvidia.package.bin}/bin/nvidia-smi -i GPU-1 -pl 285",
    ):
        assert line in text
    assert all(text.count(a) == text.count(b) for a, b in ("{}", "[]"))


def test_arch_gets_files_and_where_they_go() -> None:
    text = made("arch", **DECLARED)

    for line in (
        "# driver 535.261.03: of the AUR, nvidia-535xx-dkms nvidia-535xx-utils; see that",
        "IgnorePkg = nvidia-535xx-dkms nvidia-535xx-utils",
        "iommu=pt",
        "# /etc/security/limits.d/90-gpu.conf\n* - memlock 1048576\n* - nofile 4096",
        "ExecStart=/usr/bin/nvidia-smi -i GPU-2 -pl 285",
        (
            "# then: systemctl enable --now --no-reload gpu-power-limit.service"
            " nvidia-persistenced.service"
        ),
    ):
        assert line in text


@pytest.mark.parametrize("kind", ["nixos", "arch"])
def test_what_is_not_declared_is_not_in_it(kind: str) -> None:
    text = made(kind)

    assert "nvidia" not in text.lower()
    assert len(text.splitlines()) < 6


@pytest.mark.parametrize(
    ("declared", "line"),
    [
        ({"driver": "580"}, "package = config.boot.kernelPackages.nvidiaPackages.legacy_580;"),
        ({"driver": "580.95.05"}, 'version = "580.95.05";'),
        ({"driver": "580", "driver_flavor": "open"}, "open = true;"),
    ],
)
def test_another_driver_than_the_proven_one_is_that_which_is_declared(
    declared: dict[str, Any], line: str
) -> None:
    assert line in made("nixos", **declared)


def test_a_text_of_nix_replaces_nothing() -> None:
    text = made("nixos", module_options={"nvidia": {"NVreg_Y": "a"}}, nccl={"NCCL_X": "${y}"})

    assert r"NCCL_X=\${y}" in text
