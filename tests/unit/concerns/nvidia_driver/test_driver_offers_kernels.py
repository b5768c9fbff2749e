"""Asking for the headers of kernels before anybody knows which ones there are."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from rigops.concerns.nvidia_driver import apt_offers
from rigops.concerns.nvidia_driver.apt_offers import offers_section
from tests.unit.concerns.nvidia_driver.test_driver_offers import (
    APART,
    HOST,
    KNOWN,
    PLACES,
    SOURCE,
    programs,
)
from tests.unit.probe.snippets import called, run, tree
from tests.unit.programs import SHELLS

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("images", "names"),
    [
        ((), set()),
        (("vmlinuz-6.1.0-50-AMD64", "vmlinuz-6.9.0-none"), {"linux-headers-6.1.0-50-amd64"}),
        (
            ("vmlinux-6.1.0-47-amd64", "vmlinuz-6.1.0-50-amd64"),
            {"linux-headers-6.1.0-47-amd64", "linux-headers-6.1.0-50-amd64"},
        ),
    ],
    ids=["none", "one of two", "both"],
)
def test_the_headers_of_every_kernel_in_boot_are_asked_for(
    shell: str, images: tuple[str, ...], names: set[str], tmp_path: Path
) -> None:
    files = {f"boot/{image}": "" for image in images}
    tree(tmp_path, {**HOST, **files, "known": "\n".join((KNOWN + APART).split()) + "\n"})
    section = offers_section(headers=None)

    code, text = run(section, shell, tmp_path, *PLACES, "/boot", commands=programs(tmp_path, shell))

    assert code == 0
    offers = apt_offers.parse(text).offers
    assert {one.name for one in offers.every if one.name.startswith("linux-headers-")} == names
    assert offers.named("libcuda1")


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_shellcheck_has_nothing_to_say() -> None:
    done = subprocess.run(
        ["shellcheck", "--shell=sh", "-"],
        input=called(offers_section(SOURCE, None).snippet),
        text=True,
        capture_output=True,
        check=False,
    )

    assert done.stdout == ""
