"""The answer of capture as a person reads it."""

from __future__ import annotations

from dataclasses import replace

import click
import pytest

from rigops.capture.describe import describe
from rigops.capture.document import NotCaptured
from rigops.errors import HostError
from rigops.report.capture import capture_lines
from rigops.report.terminal import rendered
from tests.unit.capture.rigs import BORG, MOUNTS, OWN, subject

WIDE = 100


def shown(one: object, *, verbose: bool = False, width: int = WIDE) -> list[str]:
    lines = capture_lines(one, width, verbose=verbose)  # type: ignore[arg-type]  # a fake
    return [rendered(line, color=False) for line in lines]


def test_safe_is_a_head_and_what_has_to_stay() -> None:
    found = replace(describe(subject()), place="/vault/captures/rig/x")

    assert shown(found) == [
        "rig  SAFE TO WIPE  driver 535.261.03, 2 GPUs",
        "  info    in no backup, on other disks, which have to stay: /srv/models, /scratch, /nas",
        "  10 ok, 5 info    All: rigops capture -v",
        "  If there was a break-in, trust neither its packages nor its backups.",
        "  Stored in /vault/captures/rig/x",
    ]


def test_safe_names_what_will_not_come_back() -> None:
    mounts = f"{MOUNTS}/dev/nvme0n1p2 /var/lib/vm btrfs rw,subvol=/@vm 0 0\n"
    undeclared = subject(declared={"borg": BORG}, storage=f"== /proc/self/mounts\n{mounts}")

    lines = shown(describe(replace(undeclared, accepts_no_driver=True)))

    assert lines[0] == "rig  SAFE TO WIPE  driver 535.261.03 (not declared), 2 GPUs"
    gone = "driver 535.261.03 (not declared), /var/lib/vm (in no backup)"
    assert f"  Will not come back: {gone}" in lines


def test_what_is_missing_comes_with_its_fix() -> None:
    mounts = f"{MOUNTS}/dev/nvme0n1p2 /var/lib/vm btrfs rw,subvol=/@vm 0 0\n"
    found = describe(
        subject(
            controller=replace(OWN, missing=("libcuda1 1",)),
            storage=f"== /proc/self/mounts\n{mounts}",
        )
    )

    lines = shown(found)

    assert lines[:5] == [
        "rig  NOT SAFE TO WIPE  driver 535.261.03, 2 GPUs",
        "  fail    vault            /vault is incomplete: 1 missing (libcuda1 1)",
        "                           fix: rigops apply, which fetches them from the host",
        (
            "  warn    coverage         /var/lib/vm: "
            "on the disk of the root and in no backup: it is lost"
        ),
        "                           fix: add it to the paths of borg, or copy it away",
    ]


@pytest.mark.parametrize("width", [60, 80, 100])
def test_it_fits(width: int) -> None:
    found = describe(subject(locked=None, boot=None))

    assert [one for one in shown(found, width=width) if len(one) > width] == []


def test_all_of_it_has_the_evidence() -> None:
    found = describe(subject())

    text = "\n".join(shown(found, verbose=True, width=1000))

    for one in found.requirements:
        assert one.id in text
        assert all(evidence.line in text for evidence in one.evidence)


def test_one_that_was_not_reached_is_an_error() -> None:
    error = HostError("timeout", "no answer", "switch it on")

    assert shown(NotCaptured("rig", error)) == ["Error: rig: no answer", "    fix: switch it on"]


def test_colors_are_not_the_only_sign() -> None:
    colored = rendered(capture_lines(describe(subject()), WIDE, verbose=False)[0], color=True)

    assert click.unstyle(colored) != colored
