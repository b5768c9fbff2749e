from __future__ import annotations

from pathlib import Path

import pytest

from rigops.packages.apt_simulated import Room, parse
from rigops.plan.change import Package

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures/apt"

# A transitional package as in the newest Ubuntu, with another architecture and a package that
# leaves and comes again.
UBUNTU = """\
== lists
44
== age
1760003000
1760000000
1760001000
== simulated
Reading package lists...
The following held packages will be changed:
  nvidia-driver-535 libnvidia-compute-535
  libnvidia-compute-535:i386
Remv libnvidia-cfg1-535 [535.171.04-0ubuntu2] [nvidia-driver-535:amd64 ]
Inst libnvidia-compute-535:i386 [535.171.04-0ubuntu2] (535.309.01-0ubuntu0.24.04.2 Ubuntu:24.04/noble-updates, Ubuntu:24.04/noble-security [i386])
Inst libnvidia-compute-580 (580.178.04-0ubuntu0.24.04.1 Ubuntu:24.04/noble-updates [amd64]) []
Remv screen-resolution-extra [0.18.3]
Inst screen-resolution-extra (0.18.3 Ubuntu:24.04/noble [all])
Purg old-config [1:2.0]
Conf libnvidia-compute-580 (580.178.04-0ubuntu0.24.04.1 Ubuntu:24.04/noble-updates [amd64])
== code
0
== sizes
Need to get 300 MB of archives.
After this operation, 1,228 MB of additional disk space will be used.
'http://archive/pool/a.deb' a.deb 299000000 SHA512:00
'http://archive/pool/b.deb' b.deb 1000000 SHA512:00
'file:/var/lib/rigops/vault/c.deb' c.deb 7000000 SHA512:00
== room
archives /dev/nvme0n1p3 100 50 40 56% /var
boot /dev/nvme0n1p2 1000 990 10 99% /boot
== boot
71000000 /boot/initrd.img-6.8.0-31-generic
72000000 /boot/initrd.img-6.8.0-45-generic
14000000 /boot/vmlinuz-6.8.0-45-generic
"""  # noqa: E501 - apt's own lines


def fixture(name: str) -> str:
    return (FIXTURES / f"{name}.txt").read_text()


def test_what_comes_goes_and_changes_is_read_from_a_real_answer() -> None:
    found = parse(fixture("downgrade-and-rival"))

    assert found.done
    assert set(found.steps) == {
        Package("rigdemo-rival", "1.0", None),
        Package("rigdemo", "10.0", "1.0"),
        Package("rigdemo-lib", None, "1.5"),
        Package("rigdemo-new", None, "1.0"),
    }
    assert found.held_changed == ("rigdemo",)
    assert found.download == 2 * 20672
    assert found.room["usr"] == Room("/", 82439280 * 1024)
    assert found.printed == tuple(sorted(found.printed))
    assert len(found.printed) == 4
    assert found.unparsed == ()


def test_an_answer_of_ubuntu_with_two_architectures_is_read() -> None:
    found = parse(UBUNTU)

    assert set(found.steps) == {
        Package("libnvidia-cfg1-535", "535.171.04-0ubuntu2", None),
        Package("libnvidia-compute-535:i386", "535.171.04-0ubuntu2", "535.309.01-0ubuntu0.24.04.2"),
        Package("libnvidia-compute-580", None, "580.178.04-0ubuntu0.24.04.1"),
        Package("old-config", "1:2.0", None),
    }
    assert found.held_changed == (
        "nvidia-driver-535", "libnvidia-compute-535", "libnvidia-compute-535:i386"
    )  # fmt: skip
    assert found.lists_age_s == 2000
    assert (found.download, found.growth) == (300_000_000, 1_228_000_000)
    assert found.boot_files == {"initrd": 72_000_000, "vmlinuz": 14_000_000}
    assert len(found.printed) == 6


def test_the_sizes_of_a_newer_apt_are_read() -> None:
    text = "== sizes\n  Download size: 1 MB / 2 MB\n  Space needed: 5,632 kB / 3 GB available\n"

    assert parse(text).growth == 5_632_000


def test_why_apt_would_not_is_read() -> None:
    missing = parse(fixture("no-such-version"))
    tied = parse(fixture("driver-in-another-version"))

    assert not missing.done
    assert missing.errors == ("Version '3.0' for 'rigdemo' was not found",)
    assert missing.known == {"rigdemo": ("10.0", "2.0", "1.0")}
    assert len(tied.unmet) == 6
    assert tied.unmet[0] == (
        "nvidia-driver: Depends: nvidia-driver-libs (= 535.183.01-1) but 545.29.06-1 is to be "
        "installed"
    )
    assert tied.unmet[-1].endswith("nvidia-open-kernel-535.183.01 but it is not installable")


def test_nothing_to_do_is_no_step_and_no_failure() -> None:
    found = parse(fixture("nothing"))

    assert found.done
    assert found.printed == ()
    assert found.steps == ()


def test_lists_that_are_not_there_are_seen() -> None:
    assert not parse(fixture("no-lists")).has_lists
    assert parse(fixture("nothing")).has_lists


@pytest.mark.parametrize("text", ["", "\0", "== simulated\nInst\nInst ?? (\n", "== room\nusr\n"])
def test_any_text_is_read_without_raising_and_is_no_success(text: str) -> None:
    found = parse(text)

    assert not found.done
    assert found.steps == ()


def test_a_step_that_cannot_be_read_is_kept_as_unparsed() -> None:
    assert parse("== simulated\nInst ?? (1)\n").unparsed == ("Inst ?? (1)",)


LONG = "9" * 5000


@pytest.mark.parametrize(
    "text",
    [
        f"== sizes\n'http://a/b.deb' b.deb {LONG} SHA256:0\n",
        f"== sizes\nAfter this operation, {LONG} kB of additional disk space will be used.\n",
        "== sizes\nAfter this operation, 1.2.3 kB of additional disk space will be used.\n",
        f"== room\nusr /dev/a 1 2 {LONG} 3% /usr\n",
        f"== boot\n{LONG} /boot/initrd.img\n",
        f"== age\n{LONG}\n1\n",
        "== age\n\u0665\n\u0664\n",
    ],
)
def test_numbers_that_are_none_count_as_missing(text: str) -> None:
    found = parse(text)

    assert (found.download, found.growth, found.lists_age_s) == (0, 0, None)
    assert (found.room, found.boot_files) == ({}, {})
