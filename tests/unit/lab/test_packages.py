"""The lab's packages as tables: that they fit together, before any apt has seen them."""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.lab.errors import LabError
from tests.lab.packages import AT, content, deb, elf, recipe, sources
from tests.lab.packages.archive import COMPONENTS
from tests.shards import LAB_ITSELF

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.lab.packages.recipe import Package, Suite

pytestmark = pytest.mark.shard(LAB_ITSELF)

KERNEL = "6.18.1-Some_machine"
SUITES = recipe.suites(KERNEL)
PACKAGES = [package for suite in SUITES for package in suite.packages]
# What the base image has, as far as anything here leans on it.
IN_THE_IMAGE = {"adduser", "dpkg", "dpkg-dev", "init-system-helpers", "kmod", "libc6", "libgcc-s1"}
IN_THE_IMAGE |= {"make", "patch"}
RELATIONS = ("Pre-Depends", "Depends")


@dataclass(frozen=True)
class Rig:
    os: str = "debian"
    suite: str = "bookworm"
    driver: str | None = None
    components: Sequence[str] = ("main", "contrib", "non-free", "non-free-firmware")
    pocket: str | None = None
    open_modules: bool = False
    held: bool = False
    persistence: bool = False


class NoLibraries:
    def built(self, soname: str, upstream: str) -> bytes:
        return f"{soname} {upstream}".encode()


def suite(repository: str, name: str) -> Suite:
    return next(one for one in SUITES if (one.repository, one.name) == (repository, name))


def package(repository: str, of: str, name: str) -> Package:
    return next(one for one in suite(repository, of).packages if one.name == name)


def related(package: Package) -> Iterator[list[str]]:
    """The names in each relation: any one of them will do."""
    for key in RELATIONS:
        for relation in filter(None, package.fields.get(key, "").split(", ")):
            yield [name.split()[0] for name in relation.split(" | ")]


@pytest.mark.parametrize("repository", COMPONENTS)
def test_every_dependency_is_there_or_in_the_image(repository: str) -> None:
    packages = [one for its in SUITES if its.repository == repository for one in its.packages]
    provided = {name.split()[0] for one in packages
                for name in one.fields.get("Provides", "").split(", ") if name}  # fmt: skip
    known = {one.name for one in packages} | provided | IN_THE_IMAGE

    for one in packages:
        for names in related(one):
            assert set(names) & known, f"{one.name} {one.version}: {names}"


def test_each_version_of_a_package_is_once_in_a_suite() -> None:
    for its in SUITES:
        names = [(one.name, one.version) for one in its.packages]
        assert len(names) == len(set(names)), its.name


def test_components_are_those_of_the_repository() -> None:
    for its in SUITES:
        assert {one.component for one in its.packages} <= set(COMPONENTS[its.repository])


def test_the_words_of_fields_and_content_are_all_filled_in() -> None:
    for one in PACKAGES:
        libraries = NoLibraries()
        files = [*content.scripts(one), *content.files(one, libraries)]
        said = deb.control(one.fields) + "".join(
            f"{file.path} {file.link}\n" + file.data.decode(errors="replace")
            for file in files
            if not file.path.endswith((".ko", ".ko.in"))
        )
        assert not re.findall(r"@[A-Z_]+@|\{[a-z_]*\}", said.replace("${", "")), one.name


def test_what_runs_on_a_host_is_posix_shell() -> None:
    programs = {
        file.data
        for one in PACKAGES
        for file in (*content.scripts(one), *content.files(one, NoLibraries()))
        if file.data.startswith(b"#!")
    }
    for program in programs:
        assert program.startswith(b"#!/bin/sh\n")
        subprocess.run(["sh", "-n"], input=program, check=True)


def test_the_driver_is_tied_to_its_own_version() -> None:
    driver = package("debian", "newer", "nvidia-driver")

    assert driver.fields["Source"] == "nvidia-graphics-drivers"
    assert "nvidia-driver-libs (= 550.163.01-2)" in driver.fields["Depends"]
    assert "nvidia-open-kernel-550.163.01" in driver.fields["Depends"]


def test_all_that_is_named_535_is_transitional_but_in_the_pocket() -> None:
    real = {one.name for one in suite("ubuntu", "noble").packages if "-535" in one.name}
    empty = [one for one in suite("ubuntu", "noble-updates").packages if one.name in real]

    assert {name for name in real if "535.171" not in name and "-6.8.0-" not in name} == {
        one.name for one in empty
    }
    for one in empty:
        assert one.fields["Depends"] == one.name.replace("535", "580")
        assert not one.content
        assert "Support" not in one.fields


def test_the_kernel_of_the_machine_becomes_a_name_that_dpkg_takes() -> None:
    machine = package("debian", "bookworm", "linux-image-6.18.1-some-machine")

    assert machine.version == "6.18.1-some-machine-1"


def test_the_sources_of_a_rig() -> None:
    assert sources(Rig(driver="535.261.03")) == (
        f"Types: deb\nURIs: file:{AT}/debian\nSuites: bookworm\n"
        "Components: main contrib non-free non-free-firmware\nTrusted: yes\n"
    )


@pytest.mark.parametrize(
    ("rig", "suites"),
    [
        (Rig(driver="535.183.01"), ["bookworm"]),
        (Rig(driver="545.29.06"), ["bookworm", "vendor"]),
        (Rig(driver="580.178.04"), ["bookworm", "newest"]),
        (Rig(suite="trixie"), ["trixie"]),
        (Rig(suite="trixie", driver="550.163.01"), ["trixie"]),
        (Rig(os="ubuntu", pocket="on"), ["noble-updates", "noble"]),
        (Rig(os="ubuntu", pocket="off", driver="535.171.04"), ["noble-updates"]),
    ],
)
def test_the_suites_of_a_rig(rig: Rig, suites: list[str]) -> None:
    assert re.findall("Suites: (.*)", sources(rig)) == suites


def test_a_fresh_install_has_one_component() -> None:
    assert "Components: main\n" in sources(Rig(components=("main",)))


def test_a_driver_that_is_nowhere_is_named_with_those_that_are() -> None:
    with pytest.raises(LabError, match=r"driver=1\.2: the lab's debian has 535\.183\.01, 535\.261"):
        sources(Rig(driver="1.2"))


def test_a_deb_is_an_archive_of_two_archives() -> None:
    one = package("debian", "bookworm", "nvidia-kernel-support")
    files = content.files(one, NoLibraries())
    packed = deb.pack(one.fields, content.scripts(one), files)

    members = _members(packed)
    about = _tar(members["control.tar"])
    inside = _tar(members["data.tar"])

    assert packed == deb.pack(one.fields, content.scripts(one), files)
    assert members["debian-binary"] == b"2.0\n"
    assert "Version: 535.183.01-1\n" in about["./control"]
    assert "/etc/nvidia/current/nvidia-options.conf\n" in about["./conffiles"]
    assert "/etc/modprobe.d/nvidia.conf" not in about["./conffiles"]
    assert "blacklist nouveau" in inside["./etc/nvidia/current/nvidia-blacklists-nouveau.conf"]


def _members(packed: bytes) -> dict[str, bytes]:
    members = {}
    at = len(b"!<arch>\n")
    while at < len(packed):
        name, size = packed[at : at + 16].decode().strip(), int(packed[at + 48 : at + 58])
        members[name] = packed[at + 60 : at + 60 + size]
        at += 60 + size + size % 2
    return members


def _tar(data: bytes) -> dict[str, str]:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        opened = {entry.name: tar.extractfile(entry) for entry in tar if entry.isfile()}
        return {name: file.read().decode() for name, file in opened.items() if file}


def test_a_module_takes_the_name_of_a_kernel_without_growing() -> None:
    unfilled = elf.module([("version", "535.261.03")])
    filled = elf.filled(unfilled, "6.1.0-50-amd64")

    assert unfilled.startswith(b"\x7fELF")
    assert len(filled) == len(unfilled)
    assert b"\0vermagic=6.1.0-50-amd64 SMP preempt mod_unload modversions \0" in filled
    assert b"@@" not in filled
