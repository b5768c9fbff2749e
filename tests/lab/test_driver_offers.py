"""What real apt tells of the driver in the lab's own trees, and what a source more would bring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from rigops.catalog import find_gpu, load
from rigops.concerns.nvidia_driver.facts import DriverOffers
from rigops.concerns.nvidia_driver.resolver.answer import resolve_from
from rigops.concerns.nvidia_driver.resolver.machine import Card, Kernel, Machine
from rigops.concerns.nvidia_driver.resolver.request import Blocker, Request, Resolution
from rigops.inventory.spec.driver import driver
from rigops.packages.facts import AptSnapshot, AptWould
from rigops.packages.sources import asking, deb822, for_snapshots, of_snapshot, with_components
from rigops.probe.sections import os_release
from tests.lab import image
from tests.lab.packages import AT
from tests.lab.test_lab_packages import LISTS, Tree
from tests.shards import LAB_DRIVER

if TYPE_CHECKING:
    from pathlib import Path

    from rigops.concerns.nvidia_driver.apt_offers import Offered
    from rigops.packages.apt_simulated import Simulated

pytestmark = pytest.mark.shard(LAB_DRIVER)


# Times too: nothing was written, not even the same again.
EVERYTHING = (
    "find /etc /var/lib/apt /var/lib/dpkg /var/cache/apt -printf '%p %y %m %U %G %s %T@ %C@ %l\\n'"
    " | sort; find /etc/apt /var/lib/apt -type f -exec sha256sum {} +; ls -A /tmp"
)
# Nobody listens there.
UNREACHABLE = (
    ("URIs", "http://127.0.0.1:9/debian"),
    ("Suites", "bookworm"),
    ("Components", "non-free"),
)
# As NVIDIA has its own: all in one flat suite, whose Release file names no codename. It has the 535
# of the distribution too, in the very same version.
VENDOR = f"""\
mkdir -p /srv/vendor; cd /srv/vendor; ln -s {AT}/debian/pool pool
for suite in bookworm newest; do
    for component in contrib non-free non-free-firmware; do
        cat {AT}/debian/dists/$suite/$component/binary-amd64/Packages; echo
    done
done >Packages
printf '%s\\n' 'Origin: NVIDIA' 'Label: NVIDIA CUDA' 'Date: Thu, 01 Jan 2026 00:00:00 UTC' SHA256: \
    " $(sha256sum <Packages | cut -d ' ' -f 1) $(stat -c %s Packages) Packages" >Release
echo 'deb [trusted=yes] file:/srv/vendor /' >/etc/apt/sources.list.d/cuda.list
apt-get -q update
"""
HOOKS = """\
APT::Update::Pre-Invoke { "touch /var/lib/apt/before"; };
APT::Update::Post-Invoke-Success { "touch /var/lib/apt/after"; };
"""


@dataclass
class Host:
    tree: Tree

    def offers(self, source: str = "", headers: tuple[str, ...] = ()) -> Offered:
        fact = DriverOffers()
        command = fact.command(source=source, headers=headers).get_raw_value()
        return fact.process(self.tree.does(command).splitlines())

    def would(self, words: tuple[str, ...], source: str = "") -> Simulated:
        fact = AptWould()
        command = fact.command(words=words, source=source).get_raw_value()
        return fact.process(self.tree.does(command).splitlines())

    def lacks(self, offered: Offered) -> str | None:
        return with_components(
            offered.sources, os_release.parse(self.tree.does("cat /etc/os-release"))
        )


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Host:
    tree = Tree(tmp_path_factory.mktemp("debian") / "tree", repository, (image.base(),))
    tree.become()
    return Host(tree)


@pytest.fixture
def fresh(tmp_path: Path, repository: Path) -> Host:
    tree = Tree(tmp_path / "tree", repository, (image.base(),))
    tree.become(components=["main"])
    return Host(tree)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Host:
    tree = Tree(tmp_path_factory.mktemp("both") / "tree", repository, (image.base(),))
    tree.become()
    tree.does(VENDOR)
    return Host(tree)


def test_debian_has_every_version_with_its_place_and_newest_kernel(debian: Host) -> None:
    found = debian.offers(headers=("6.1.0-50-amd64", "6.1.0-none"))

    assert [
        (one.version, one.newest_kernel, one.places)
        for one in found.offers.named("nvidia-kernel-dkms")
    ] == [
        ("535.183.01-1", "6.9", ("bookworm/non-free",)),
        ("535.261.03-1", "6.15", ("bookworm/non-free",)),
    ]
    assert found.offers.named("nvidia-open-kernel-dkms")[0].newest_kernel == "6.16"
    assert {one.name for one in found.offers.every if one.name.startswith("linux-")} == {
        "linux-headers-6.1.0-50-amd64"
    }
    assert found.offers.at("libcuda1", "535.261.03") is not None
    assert found.offers.providing("nvidia-kernel-535.183.01")
    assert not found.trouble
    assert debian.lacks(found) is None


def test_ubuntu_has_the_real_535_and_the_one_that_leads_to_580(
    tmp_path: Path, repository: Path
) -> None:
    tree = Tree(tmp_path / "tree", repository, (image.base(),))
    tree.become(os="ubuntu", pocket="on")
    real, trap = Host(tree).offers().offers.named("nvidia-driver-535")

    assert (real.version, real.places) == ("535.171.04-0ubuntu2", ("noble/restricted",))
    assert (trap.version, trap.places) == (
        "535.309.01-0ubuntu0.24.04.2",
        ("noble-updates/restricted",),
    )
    assert [group[0].name for group in trap.depends] == ["nvidia-driver-580"]


def test_a_fresh_install_would_know_the_driver_with_what_it_lacks_and_stays_as_it_is(
    fresh: Host,
) -> None:
    fresh.tree.write("etc/apt/apt.conf.d/50hooks", HOOKS)
    before = fresh.tree.does(EVERYTHING)
    alone = fresh.offers()
    source = fresh.lacks(alone)
    assert source is not None
    beside = fresh.offers(source, headers=("6.1.0-50-amd64",))
    words = ("nvidia-driver=535.261.03-1",)
    without, would = fresh.would(words), fresh.would(words, source)

    assert fresh.tree.does(EVERYTHING) == before
    assert alone.offers.every == ()
    assert alone.has_lists
    assert "Components: contrib non-free non-free-firmware\n" in source
    assert beside.trouble == ()
    assert beside.offers.at("nvidia-driver", "535.261.03") is not None
    assert beside.offers.named("linux-headers-6.1.0-50-amd64")[0].places == ("bookworm/main",)
    assert beside.sources == alone.sources
    assert not without.done
    assert would.done
    assert {step.name: step.after for step in would.steps}["libnvidia-ml1"] == "535.261.03-1"
    assert would.growth > 0
    assert would.room


def test_what_was_simulated_is_what_comes_of_it(fresh: Host) -> None:
    source = fresh.lacks(fresh.offers())
    assert source is not None
    words = ("nvidia-driver=535.261.03-1",)
    beside, before = fresh.offers(source), fresh.would(words, source)
    fresh.tree.write(f"{LISTS}/rigops-driver.sources", source)
    fresh.tree.does("apt-get -q update")

    assert fresh.would(words).printed == before.printed
    assert fresh.offers().offers == beside.offers
    assert fresh.offers(source).offers == beside.offers
    assert fresh.lacks(fresh.offers()) == source


def test_a_source_that_is_not_there_is_trouble_and_takes_nothing_away(debian: Host) -> None:
    found = debian.offers(deb822(UNREACHABLE))

    assert found.trouble
    assert any("127.0.0.1:9" in line for line in found.trouble)
    assert not any("/tmp/" in line for line in found.trouble)
    assert found.offers == debian.offers().offers


def test_lists_that_were_never_fetched_are_missed(fresh: Host) -> None:
    fresh.tree.does("rm -rf /var/lib/apt/lists; mkdir -p /var/lib/apt/lists")
    found = fresh.offers()
    source = fresh.lacks(found)
    assert source is not None

    assert not found.has_lists
    assert fresh.offers(source).offers.at("nvidia-driver", "535.261.03") is not None


def test_nothing_stays_of_one_that_is_ended(fresh: Host) -> None:
    source = deb822((("URIs", "file:/x"), ("Suites", "x/")))
    command = AptWould().command(words=("nvidia-driver",), source=source).get_raw_value()
    fresh.tree.write("root/ask", f"exec {command}\n")
    fresh.tree.write("usr/bin/apt-get", "#!/bin/sh\ntouch /root/asked\nsleep 2\n")
    (fresh.tree.upper / "usr/bin/apt-get").chmod(0o755)
    said = fresh.tree.does(
        "sh /root/ask >/dev/null & until [ -e /root/asked ]; do sleep 0.1; done;"
        " ls -d /tmp/rigops-apt.*; kill $!; wait $! || echo $?; ls -A /tmp"
    )

    assert said.splitlines()[0].startswith("/tmp/rigops-apt.")
    assert said.splitlines()[1:] == ["143"]


@pytest.mark.parametrize(
    ("source", "wanted", "version"),
    [
        ("distribution", "535", "535.261.03"),
        ("vendor", "535", "535.261.03"),
        ("distribution", "580", ""),
        ("vendor", "580", "580.178.04"),
        ("auto", "580", "580.178.04"),
    ],
)
def test_a_driver_comes_from_whom_it_was_declared_to_come_from(
    both: Host, source: str, wanted: str, version: str
) -> None:
    offered = both.offers()
    gpu = find_gpu(load(), "3090").only
    machine = Machine(
        "debian", "12", "apt", cards=(Card("0000:01:00.0", "2204", gpu),),
        kernels=(Kernel("6.1.0-50-amd64"),),
    )  # fmt: skip
    request = Request(driver=driver(wanted), source=source)
    found = resolve_from(machine, request, offered.offers, load())

    assert {one.maker for one in offered.offers.named("libcuda1")[-1].origins} == {"NVIDIA"}
    of_both = offered.offers.at("libcuda1", "535.261.03")
    assert of_both is not None
    assert {one.maker for one in of_both.origins} == {"Debian", "NVIDIA"}
    if not version:
        assert isinstance(found, Blocker)
        assert "the distribution's own package sources have no driver 580" in found.reason
        return
    assert isinstance(found, Resolution), str(found)
    assert found.version == version
    words = tuple(f"{name}={its}" for name, its in found.packages.items())
    would = both.would((*words, *found.also))
    assert would.done
    assert f"{version}-1" in {step.after for step in would.steps if step.name == "libcuda1"}


def test_an_apt_that_knows_no_snapshots_is_found_out(debian: Host) -> None:
    day = "20240401T000000Z"
    system = os_release.parse(debian.tree.does("cat /etc/os-release"))
    asked = for_snapshots(debian.offers().sources, system)
    stanzas = tuple(asking(one, day) for one in asked)
    fact = AptSnapshot()
    command = fact.command(stanzas=stanzas).get_raw_value()
    found = fact.process(debian.tree.does(command).splitlines())

    assert found == ({"bookworm": (f"file:{AT}/debian/",)},)
    assert of_snapshot(asked, day, found) is None
    assert debian.tree.does("ls -A /tmp") == ""
