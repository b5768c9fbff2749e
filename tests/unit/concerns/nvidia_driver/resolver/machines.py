"""Machines and requests that the tests speak of in a few words."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rigops.catalog import find_gpu, find_unlisted, load
from rigops.concerns.nvidia_driver.resolver.machine import Card, Kernel, Machine
from rigops.concerns.nvidia_driver.resolver.request import Blocker, Request, Resolution
from rigops.concerns.nvidia_driver.resolver.resolve import resolve
from rigops.inventory.spec.driver import driver

if TYPE_CHECKING:
    from rigops.concerns.nvidia_driver.resolver.offers import Offers

BOOKWORM = Machine(
    distribution="debian",
    release="12",
    manager="apt",
    kernels=(Kernel("6.1.0-50-amd64"),),
    suites=("bookworm",),
    archive="http://archive.example/debian",
    keyring="/usr/share/keyrings/debian-archive-keyring.gpg",
)
TRIXIE = replace(
    BOOKWORM, release="13", kernels=(Kernel("6.12.48+deb13-amd64"),), suites=("trixie",)
)
NOBLE = Machine(
    distribution="ubuntu",
    release="24.04",
    manager="apt",
    kernels=(Kernel("6.8.0-151-generic"),),
    suites=("noble", "noble-updates"),
    archive="http://archive.example/ubuntu",
    keyring="/usr/share/keyrings/ubuntu-archive-keyring.gpg",
)
JAMMY = replace(
    NOBLE, release="22.04", kernels=(Kernel("5.15.0-204-generic"),), suites=("jammy-updates",)
)
ARCH = Machine(distribution="arch", release="", manager="pacman")
FEDORA = Machine(distribution="fedora", release="42", manager="dnf")
ALMA = Machine(distribution="almalinux", release="9.6", manager="dnf")


def with_cards(machine: Machine, *names: str) -> Machine:
    cards = tuple(card(name, at) for at, name in enumerate(names))
    return replace(machine, cards=cards)


def card(name: str, at: int = 0) -> Card:
    gpu = find_gpu(load(), name).only
    assert gpu or name.startswith("10de:"), name
    pci_id = gpu.pci_ids[0] if gpu and gpu.pci_ids else name.removeprefix("10de:")
    return Card(f"0000:{at + 1:02x}:00.0", pci_id, gpu or find_unlisted(load(), int(pci_id, 16)))


def asked(machine: Machine, request: Request, offers: Offers) -> Resolution | Blocker:
    return resolve(machine, request, offers, load())


def declared(text: str) -> Request:
    return Request(driver=driver(text))


def resolved(machine: Machine, request: Request, offers: Offers) -> Resolution:
    found = asked(machine, request, offers)
    assert isinstance(found, Resolution), str(found)
    return found


def refused(machine: Machine, request: Request, offers: Offers) -> Blocker:
    found = asked(machine, request, offers)
    assert isinstance(found, Blocker), f"{found.version}: {found.why}"
    return found
