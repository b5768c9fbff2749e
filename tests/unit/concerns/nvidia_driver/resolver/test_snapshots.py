"""A snapshot by its date alone: taken from where apt has it, else a line to fill in."""

from __future__ import annotations

import pytest

from rigops.concerns.nvidia_driver.resolver.machine import Machine
from rigops.concerns.nvidia_driver.resolver.not_offered import no_snapshot
from rigops.packages.sources import Release, asking, for_snapshots, of_snapshot, parse, uris
from rigops.probe.sections.os_release import OsRelease

DAY = "20240401T000000Z"
DEBIAN = OsRelease(id="debian", version_id="13", codename="trixie")
TEXT = """\
Types: deb deb-src
URIs: http://deb.example.org/debian
Suites: trixie trixie-updates
Components: main
Signed-By: /usr/share/keyrings/a.gpg
Snapshot: enable

Types: deb
URIs: http://sec.example.org/debian-security
Suites: trixie-security
Components: main

Types: deb
URIs: https://vpn.example.net/debian
Suites: trixie
Components: main
"""
RELEASES = {
    ("http://deb.example.org/debian", "trixie"): Release("Debian", "trixie"),
    ("http://deb.example.org/debian", "trixie-updates"): Release("Debian", "trixie-updates"),
    ("http://sec.example.org/debian-security", "trixie-security"): Release(
        "Debian", "trixie-security"
    ),
    ("https://vpn.example.net/debian", "trixie"): Release("Vpn", "trixie"),
}
MAIN, SECURITY = (f"https://snap.example/{name}/{DAY}/" for name in ("debian", "debian-security"))


@pytest.mark.parametrize(
    ("machine", "codename", "suite", "components"),
    [
        (Machine("debian", "12", "apt"), "bookworm", "bookworm", "main contrib non-free"),
        (Machine("ubuntu", "24.04", "apt"), "noble", "noble-updates", "main restricted"),
    ],
    ids=["debian", "ubuntu"],
)
def test_the_line_has_the_suite_and_the_components_of_drivers(
    machine: Machine, codename: str, suite: str, components: str
) -> None:
    blocker = no_snapshot(DAY, machine, codename)

    assert f'"URIs": "<your snapshot service>/{DAY}"' in blocker.fix
    assert f'"Suites": "{suite}"' in blocker.fix
    assert f'"Components": "{components}' in blocker.fix
    assert "which brings" not in blocker.fix


def test_every_suite_of_the_distribution_is_taken_from_where_apt_has_it_that_day() -> None:
    asked = for_snapshots(parse({"/etc/apt/sources.list.d/a.sources": TEXT}, RELEASES), DEBIAN)
    here = "http://deb.example.org/debian/"
    found = (
        {"trixie": (here, MAIN), "trixie-updates": (MAIN, here)},
        {"trixie-security": (SECURITY, "http://sec.example.org/debian-security")},
    )
    text = of_snapshot(asked, DAY, found)

    assert text == (
        "Types: deb\n"
        f"URIs: {MAIN}\n"
        "Suites: trixie trixie-updates\n"
        "Components: main contrib non-free non-free-firmware\n"
        "Signed-By: /usr/share/keyrings/a.gpg\n"
        "Check-Valid-Until: no\n"
        "\n"
        "Types: deb\n"
        f"URIs: {SECURITY}\n"
        "Suites: trixie-security\n"
        "Components: main contrib non-free non-free-firmware\n"
        "Check-Valid-Until: no\n"
    )
    assert uris(text) == (MAIN, SECURITY)


def test_apt_is_asked_with_the_day_and_without_what_the_host_says_of_snapshots() -> None:
    asked = for_snapshots(parse({"/etc/apt/sources.list.d/a.sources": TEXT}, RELEASES), DEBIAN)
    first = asking(asked[0], DAY)

    assert first.count("Snapshot:") == 1
    assert f"Snapshot: {DAY}\n" in first
    assert "Components: main contrib non-free non-free-firmware\n" in first
    assert "vpn.example.net" not in "".join(asking(one, DAY) for one in asked)


@pytest.mark.parametrize(
    "found",
    [
        (),
        ({}, {}),
        # An apt that is too old reads past the field.
        ({"trixie": ("http://deb.example.org/debian/",)}, {"trixie-security": (SECURITY,)}),
        # One suite of three.
        ({"trixie": (MAIN,)}, {"trixie-security": (SECURITY,)}),
        ({"trixie": ("https://snap.example/today/",), "trixie-updates": (MAIN,)}, {}),
    ],
    ids=["nothing", "no suite", "older apt", "not all", "of no day"],
)
def test_without_a_snapshot_of_every_suite_there_is_none(
    found: tuple[dict[str, tuple[str, ...]], ...],
) -> None:
    asked = for_snapshots(parse({"/etc/apt/sources.list.d/a.sources": TEXT}, RELEASES), DEBIAN)

    assert of_snapshot(asked, DAY, found) is None


def test_a_host_that_follows_a_snapshot_already_is_not_taken_for_the_answer() -> None:
    there = f"http://deb.example.org/{DAY}/debian"
    text = f"deb {there} trixie main\n"
    asked = for_snapshots(parse({"/etc/apt/sources.list": text}), DEBIAN)

    assert of_snapshot(asked, DAY, [{"trixie": (f"{there}/",)}]) is None


def test_what_is_stable_today_is_asked_for_by_its_name() -> None:
    text = "deb http://deb.example.org/debian stable main\n"
    releases = {("http://deb.example.org/debian", "stable"): Release("Debian", "trixie")}
    (asked,) = for_snapshots(parse({"/etc/apt/sources.list": text}, releases), DEBIAN)

    assert asked.suites == ("trixie",)
