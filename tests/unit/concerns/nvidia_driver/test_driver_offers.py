"""The question itself, asked by every shell of this machine of stand-ins for apt's programs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rigops.concerns.nvidia_driver import apt_offers
from rigops.concerns.nvidia_driver.apt_offers import offers_section
from rigops.packages.facts import AptWould, simulated_section
from rigops.packages.sources import FILE
from tests.unit.probe.snippets import called, run, tree
from tests.unit.programs import SHELLS

if TYPE_CHECKING:
    from rigops.concerns.nvidia_driver.apt_offers import Offered

SOURCE = "Types: deb\nURIs: http://new.example.org/debian\nSuites: bookworm\nComponents: non-free\n"
PLACES = ("/etc/apt", "/var/lib/dpkg", "/var/lib/apt")
HOST = {
    "var/lib/dpkg/status": "Package: x\n",
    "var/lib/apt/lists/deb.example.org_debian_dists_bookworm_InRelease": "signed",
    "var/lib/apt/lists/deb.example.org_debian_dists_bookworm_main_binary-amd64_Packages": "main",
    "var/lib/apt/lists/lock": "",
    "etc/apt/sources.list": "deb http://me:secret@deb.example.org/debian bookworm main\n",
    "etc/apt/sources.list.d/more.list": "deb http://more.example.org/debian bookworm main\n",
    "etc/apt/sources.list.d/off.save": "deb http://off.example.org/debian bookworm main\n",
    f"{FILE[1:]}": "Types: deb\nURIs: http://before.example.org\nSuites: x\nComponents: y\n",
}
KNOWN = """\
nvidia-driver nvidia-driver-535-server libnvidia-compute-535 libcuda1 libegl-nvidia0
cuda-drivers-580 firmware-nvidia-gsp xserver-xorg-video-nvidia nvidia-cuda-mps
linux-headers-6.1.0-50-amd64
linux-modules-nvidia-580-server-open-generic-hwe-24.04 linux-modules-nvidia-535-generic
"""
APART = """\
linux-modules-nvidia-535-6.8.0-31-generic linux-objects-nvidia-535-6.8.0-31-generic
linux-signatures-nvidia-6.8.0-31-generic nvidia-container-toolkit libnvidia-container1
nvidia-docker2 nvidia-cuda-toolkit nvidia-cuda-toolkit-gcc nvidia-cuda-dev nvidia-nsight-compute
nvidia-cudnn nvidia-visual-profiler linux-headers-6x1.0-50-amd64 linux-headers-6.1.0-47-amd64 bash
"""
# It says what it was asked, and what it would have read.
APT_CACHE = """\
case " $* " in
    *" pkgnames "*) cat "$ROOT/known" ;;
    *" policy "*) echo ' 500 http://deb.example.org/debian bookworm/main amd64 Packages'
        echo '     release v=12,o=Debian,n=bookworm,c=main,b=amd64'
        echo ' 600 http://me:secret@n.example.org/x86_64  Packages'
        echo '     release o=NVIDIA,l=NVIDIA CUDA,c=' ;;
    *" madison "*)
        while [ "$1" != madison ]; do shift; done; shift
        for name; do
            echo "$name | 1:5-1 | http://deb.example.org/debian bookworm/main amd64 Packages"
            echo "   $name |   1:5-1 | cdrom:[Debian 12 _x_]/ bookworm/main amd64 Packages"
            echo "   $name |   1:5-1 | file:/var/x ./ Packages"
            echo "   $name |   1:5-1 | http://me:secret@n.example.org/x86_64  Packages"
            echo "$name | 1:5-1 | http://deb.example.org/debian bookworm/main Sources"
        done ;;
    *" show "*)
        while [ "$1" != show ]; do shift; done; shift 2
        for name; do
            printf '%s\\n' "Package: $name" 'Version: 1:5-1' 'Maintainer: Depends: nobody' \\
                'Depends: a (= 1),' '  b' 'Conffiles:' ' /etc/Depends: x' \\
                'Description-en: a driver' ' that was tested up to' '  Linux 6.15.' ' .' ' 6.16' ''
        done ;;
esac
"""
APT_GET = """\
[ "$2" = update ] || [ "$1" = update ] || exit 0
. "$ROOT/folders"
echo "E: The file $parts/rigops-driver.sources of http://me:secret@new.example.org is bad"
echo "Get:1 http://new.example.org"
(cd "${APT_CONFIG%/*}" && find . ! -name . | sort && cat sources.list.d/*) >"$ROOT/while"
cat "$APT_CONFIG" "${APT_CONFIG%/*}/apt.conf" >"$ROOT/configuration"
"""
APT_CONFIG = """\
case "$*" in
    shell*) echo "lists='$ROOT/var/lib/apt/lists/'"; echo "one='$ROOT/etc/apt/sources.list'"
        echo "many='$ROOT/etc/apt/sources.list.d/'"; echo "main='$ROOT/etc/apt/apt.conf'" ;;
    dump*) echo 'Acquire::IndexTargets::deb::Packages::MetaKey "x";'
        echo 'Acquire::IndexTargets::deb::DEP-11::MetaKey "x";' ;;
esac
"""


def programs(root: Path, shell: str) -> str:
    """Before all others, and with the tools that come with the shell."""
    folder = root / "programs"
    folder.mkdir()
    bodies = {"apt-cache": APT_CACHE, "apt-get": APT_GET, "apt-config": APT_CONFIG}
    if shell == "busybox":
        for tool in ("awk", "grep", "sed", "find", "head", "mktemp", "cp", "ln"):
            bodies[tool] = f'exec busybox {tool} "$@"\n'
    for name, body in bodies.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}")
        (folder / name).chmod(0o755)
    return f'export ROOT="{root}" PATH="{folder}:/usr/bin:/bin"'


def asked(root: Path, shell: str, source: str = "", headers: tuple[str, ...] = ()) -> Offered:
    tree(root, {**HOST, "known": "\n".join((KNOWN + APART).split()) + "\n"})
    tree(root, {"folders": "parts=${APT_CONFIG%/*}/sources.list.d\n"})
    section = offers_section(source, headers)
    code, text = run(section, shell, root, *PLACES, commands=programs(root, shell))
    assert code == 0
    assert "secret" not in text
    return apt_offers.parse(text)


@pytest.mark.parametrize("shell", SHELLS)
def test_the_packages_of_the_driver_are_asked_for_and_no_others(shell: str, tmp_path: Path) -> None:
    found = asked(tmp_path, shell, headers=("6.1.0-50-amd64", "no such; 'one"))

    assert sorted(one.name for one in found.offers.every) == sorted(KNOWN.split())
    first = found.offers.every[0]
    assert (first.version, first.newest_kernel) == ("1:5-1", "6.15")
    assert first.places == ("bookworm/main", "./", "http://***@n.example.org/x86_64")
    assert [(one.uri, one.maker) for one in first.origins] == [
        ("http://deb.example.org/debian", "Debian"),
        ("cdrom:[Debian 12 _x_]", ""),
        ("file:/var/x", ""),
        ("http://***@n.example.org/x86_64", "NVIDIA"),
    ]
    assert [group[0].name for group in first.depends] == ["a", "b"]
    assert [one.uris[0] for one in found.sources] == [
        "http://***@deb.example.org/debian",
        "http://more.example.org/debian",
        "http://before.example.org",
    ]
    assert found.has_lists


@pytest.mark.parametrize("shell", SHELLS)
def test_a_source_is_tried_beside_the_host_and_nothing_is_left(shell: str, tmp_path: Path) -> None:
    found = asked(tmp_path, shell, SOURCE)
    during = (tmp_path / "while").read_text()
    configuration = (tmp_path / "configuration").read_text()
    scratch = configuration.partition('"')[2].partition("/apt.conf")[0]

    assert found.trouble == (f"E: The file {FILE} of http://***@new.example.org is bad",)
    assert during.endswith(SOURCE + "\n")
    assert "./sources.list.d/rigops-driver.sources" in during
    assert "more.list" not in during
    assert "bookworm_InRelease" in during
    assert "lists/lock" not in during
    assert scratch.startswith("/tmp/rigops-apt.")
    assert not Path(scratch).exists()
    assert "#clear APT::Update::Post-Invoke-Success;" in configuration
    assert 'Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "0";' in configuration
    assert "Packages::DefaultEnabled" not in configuration
    for name, text in HOST.items():
        assert (tmp_path / name).read_text() == text


@pytest.mark.parametrize("shell", SHELLS)
def test_a_machine_without_apt_gives_an_empty_answer(shell: str, tmp_path: Path) -> None:
    tree(tmp_path, {"x": ""})
    code, text = run(offers_section(SOURCE), shell, tmp_path, *PLACES)

    assert (code, text) == (0, "")


def test_apt_is_asked_as_ever_where_there_is_no_other_source() -> None:
    alone = AptWould().command(words=("a=1",)).get_raw_value()
    beside = AptWould().command(words=("a=1",), source=SOURCE).get_raw_value()

    assert "beside 'Types" not in alone
    assert "ask_apt a a=1" in alone
    assert "Types: deb" in beside
    assert simulated_section(("a",), 1, SOURCE).timeout_s > simulated_section(("a",), 1).timeout_s


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
@pytest.mark.parametrize(
    "snippet",
    [offers_section(SOURCE, ("6.1.0",)).snippet, simulated_section(("a=1",), 1, SOURCE).snippet],
    ids=["offers", "would"],
)
def test_shellcheck_has_nothing_to_say(snippet: str) -> None:
    done = subprocess.run(
        ["shellcheck", "--shell=sh", "-"],
        input=called(snippet),
        text=True,
        capture_output=True,
        check=False,
    )

    assert done.stdout == ""
