"""Pinned sets for tests."""

from __future__ import annotations

from hashlib import sha256

from rigops.vault.pinned_set import PinnedPackage, PinnedSet, index_digest, index_text

AT = "2026-11-22T08:00:00Z"


def package(name: str, version: str, content: str = "") -> PinnedPackage:
    data = (content or f"{name} {version}").encode()
    return PinnedPackage(name, version, "amd64", sha256(data).hexdigest(), len(data))


def records(version: str) -> list[tuple[PinnedPackage, dict[str, str]]]:
    """A small driver, as its packages describe themselves."""
    build = f"{version}-1"
    said: list[dict[str, str]] = [
        {
            "Package": "nvidia-kernel-dkms",
            "Source": "nvidia-graphics-drivers",
            "Depends": f"dkms, nvidia-kernel-support (= {build})",
            "Description": "NVIDIA modules, tested up to Linux 6.15",
        },
        {"Package": "nvidia-kernel-support", "Source": "nvidia-graphics-drivers"},
        {"Package": "nvidia-smi", "Depends": f"libnvidia-ml1 (= {build})"},
        {"Package": "libnvidia-ml1", "Provides": "libnvidia-ml.so.1 (= 535)"},
        {"Package": "libcuda1"},
        {"Package": "nvidia-persistenced"},
    ]
    return [
        (package(one["Package"], build), {**one, "Version": build, "Architecture": "amd64"})
        for one in said
    ]


def index_of(version: str) -> str:
    return index_text(records(version))


def pinned_set(version: str, at: str = AT) -> PinnedSet:
    text = index_of(version)
    return PinnedSet(
        version=version,
        flavor="proprietary",
        at=at,
        kernel="6.1.0-47-amd64",
        packages=tuple(one for one, _ in records(version)),
        index=index_digest(text),
    )
