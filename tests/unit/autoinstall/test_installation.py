from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rigops.autoinstall.installation import Choices, Installation, decide
from rigops.capture.document import Declared, Driver, Interface
from rigops.catalog import load
from rigops.errors import UsageError
from tests.unit.autoinstall.captured import (
    BACKUPS,
    BIOS,
    DEBIAN,
    KEY,
    MODELS,
    NVME,
    RIG,
    STATIC,
    UBUNTU,
    WIFI,
    WIRED,
)

if TYPE_CHECKING:
    from rigops.capture.document import Capture


def _decided(capture: Capture, choices: Choices = DEBIAN) -> Installation:
    return decide(capture, choices, load())


def _on(*interfaces: Interface) -> Capture:
    return replace(RIG, network=replace(RIG.network, interfaces=interfaces))


@pytest.mark.parametrize(
    ("disk", "why"),
    [
        ("sdb", "sdb holds backups"),
        ("S5SSNF0R654321", "sda holds data"),
        ("nothing", "no captured disks are 'nothing'"),
    ],
)
def test_a_disk_with_backups_or_data_is_never_the_target(disk: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        _decided(RIG, replace(DEBIAN, disk=disk))


def test_the_roots_disk_with_backups_is_refused_however_it_is_named() -> None:
    rig = replace(RIG, disks=(replace(NVME, holds=("root", "backups")), MODELS))
    for choices in (DEBIAN, replace(DEBIAN, disk="nvme0n1")):
        with pytest.raises(UsageError, match="holds backups"):
            _decided(rig, choices)


def test_the_roots_disk_with_data_is_wiped_only_where_it_is_named() -> None:
    rig = replace(RIG, disks=(replace(NVME, holds=("root", "data")), MODELS))
    with pytest.raises(UsageError, match="holds data"):
        _decided(rig)
    assert _decided(rig, replace(DEBIAN, disk="S5GXNF0R123456")).target.name == "nvme0n1"


def test_a_root_on_two_disks_or_on_none_needs_a_choice() -> None:
    two = replace(RIG, disks=(NVME, replace(MODELS, holds=("root",)), BACKUPS))
    with pytest.raises(UsageError, match="the root is on 2 disks"):
        _decided(two)
    with pytest.raises(UsageError, match="no disk that holds the root"):
        _decided(replace(RIG, disks=(MODELS, BACKUPS)))


def test_an_empty_disk_may_be_chosen() -> None:
    rig = replace(RIG, disks=(NVME, replace(MODELS, holds=())))
    assert _decided(rig, replace(DEBIAN, disk="sda")).target.name == "sda"


@pytest.mark.parametrize(
    ("choices", "version"),
    [(DEBIAN, "12"), (UBUNTU, "26.04"), (replace(DEBIAN, release="13"), "13")],
)
def test_the_release_is_the_chosen_one_or_the_hosts_or_the_newest(
    choices: Choices, version: str
) -> None:
    assert _decided(RIG, choices).release.version == version


def test_a_release_of_the_other_distribution_is_refused() -> None:
    with pytest.raises(UsageError, match="no release 13 of ubuntu"):
        _decided(RIG, replace(UBUNTU, release="13"))


def test_the_newer_kernel_comes_only_where_the_host_had_it_and_the_driver_builds_for_it() -> None:
    had = replace(RIG.system, kernel_packages=("linux-generic-hwe-24.04",))
    new = replace(UBUNTU, release="24.04")
    of = {
        version: _decided(
            replace(RIG, system=had, driver=Driver(version=version, flavor="open")), new
        ).kernel.flavor
        for version in ("535.171.04", "580.178.04")
    }
    assert of["535.171.04"] == "generic"
    assert of["580.178.04"] == "hwe"
    assert _decided(RIG, new).kernel.flavor == "generic"


def test_a_release_whose_kernel_is_too_new_for_the_driver_is_warned_of() -> None:
    old = replace(RIG, driver=Driver(version="535.171.04", flavor="proprietary"))
    assert any("this release has 7.0" in one for one in _decided(old, UBUNTU).warnings)
    none = replace(RIG, driver=None, declared=Declared())
    assert _decided(none, UBUNTU).warnings == ()


def test_the_user_keeps_its_number_and_has_no_groups_that_do_not_exist_yet() -> None:
    account = _decided(RIG).account
    assert (account.name, account.uid, account.groups) == ("me", 1000, ("sudo", "video"))
    assert account.keys == (KEY,)


@pytest.mark.parametrize("keys", [(), ("ssh-ed25519 AAAA\nssh-rsa BBBB",), ("$(id)",)])
def test_without_a_key_there_would_be_no_way_in(keys: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="ssh key"):
        _decided(RIG, replace(DEBIAN, keys=keys))


def test_firmware_that_nobody_knows_is_refused() -> None:
    with pytest.raises(UsageError, match="UEFI or BIOS"):
        _decided(replace(BIOS, system=replace(BIOS.system, firmware=None)))
    assert _decided(replace(RIG, system=replace(RIG.system, firmware=None))).firmware == "uefi"


@pytest.mark.parametrize(
    "value", ['"; reboot; "', "us\nd-i partman/confirm boolean true", "$(id)", ""]
)
def test_what_a_host_says_of_itself_writes_no_lines(value: str) -> None:
    system = replace(RIG.system, timezone=value, locale=value, keyboard=value)
    made = _decided(replace(RIG, system=system))
    assert (made.timezone, made.locale, made.keyboard) == ("Etc/UTC", "en_US.UTF-8", "us")
    with pytest.raises(UsageError, match="no host name"):
        _decided(replace(RIG, system=replace(system, hostname=value or "-")))


def test_an_unsafe_capture_is_warned_of() -> None:
    found = _decided(replace(RIG, status="not safe")).warnings
    assert any("is not safe to wipe" in one for one in found)


def test_a_static_address_stays_and_a_link_local_one_goes() -> None:
    (one,) = _decided(_on(STATIC)).wired
    assert (one.mac, one.addresses, one.gateways) == (
        "a8:a1:59:01:02:03",
        ("192.168.1.20/24",),
        ("192.168.1.1",),
    )


def test_dhcp_is_dhcp() -> None:
    assert _decided(_on(WIRED)).wired[0].is_dhcp


def test_wifi_needs_consent() -> None:
    without = _decided(_on(WIRED, WIFI))
    assert without.wireless == ()
    assert any("--with-wifi-secret" in one for one in without.warnings)
    with_secret = _decided(_on(WIRED, WIFI), replace(DEBIAN, wifi_secret="long enough"))
    assert with_secret.wireless[0].ssid == "Attic 5 GHz"
    assert with_secret.has_secret
    with pytest.raises(UsageError, match="no captured network interface"):
        _decided(_on(WIFI))


@pytest.mark.parametrize("secret", ["short", "", "a" * 65, "with a\nbreak", "naïve password"])
def test_what_is_no_wpa_passphrase_is_refused(secret: str) -> None:
    with pytest.raises(UsageError, match="WPA passphrase"):
        _decided(_on(WIRED, WIFI), replace(DEBIAN, wifi_secret=secret))


@pytest.mark.parametrize("secret", [" 12345678", "12345678 ", "12345678\\"])
def test_a_secret_that_needs_quotes_is_refused(secret: str) -> None:
    with pytest.raises(UsageError, match="cannot write"):
        _decided(_on(WIRED, WIFI), replace(DEBIAN, wifi_secret=secret))


def test_consent_where_there_is_no_wifi_is_refused() -> None:
    with pytest.raises(UsageError, match="no Wi-Fi"):
        _decided(_on(WIRED), replace(DEBIAN, wifi_secret="long enough"))


def test_the_address_of_a_bridge_goes_to_its_card() -> None:
    card = replace(WIRED, addresses=(), gateways=(), is_dhcp=None)
    bridge = replace(STATIC, name="br0", kind="bridge", permanent_mac=None)
    made = _decided(_on(card, bridge))
    assert made.wired[0].name == "enp5s0"
    assert made.wired[0].addresses == ("192.168.1.20/24",)
    assert any("br0" in one for one in made.warnings)


def test_bridges_of_containers_are_nobodys() -> None:
    docker = Interface(
        name="docker0", mac="02:42:00:00:00:01", kind="bridge", addresses=("172.17.0.1/16",)
    )
    made = _decided(_on(WIRED, docker))
    assert [one.name for one in made.wired] == ["enp5s0"]
    assert made.warnings == ()


def test_an_address_of_ipv6_stays_only_with_a_gateway_of_its_own() -> None:
    both = ("192.168.1.20/24", "2001:db8::20/64")
    by_router = replace(STATIC, addresses=both, gateways=("192.168.1.1", "fe80::1"))
    given = replace(STATIC, addresses=both, gateways=("192.168.1.1", "2001:db8::1"))
    assert _decided(_on(by_router)).wired[0].addresses == ("192.168.1.20/24",)
    assert _decided(_on(given)).wired[0].addresses == both
    assert _decided(_on(given)).wired[0].gateways == ("192.168.1.1", "2001:db8::1")
