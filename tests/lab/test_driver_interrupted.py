"""A driver's change that is broken off anywhere, with who asked for it or with its host.

Points are the starts of programs on the host: from the first look at it to the end of the record.
"""

from __future__ import annotations

import json
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pytest

from tests.lab.applying import INVENTORY, QUIETLY, half_written, only
from tests.lab.driver_rig import ALL, AUTO, GOOD, NEVER, OLD, THE_535, Rig, tended
from tests.lab.points import Points
from tests.lab.sshd import until
from tests.shards import LAB_DRIVER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab.laptop import Said

RIG = "threadripper-3x3090"
PARTS = 11
STARTED = "systemctl is-system-running --wait"

Broken = Literal["who asked for it", "the host"]

pytestmark = pytest.mark.shard(LAB_DRIVER)


@dataclass(frozen=True)
class Story:
    """What was done to one host."""

    rig: Rig
    said: Said  # by who was interrupted
    runs: str  # when it was over
    doctor: Said
    half: list[str]
    next: Said


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> int:
    """How many the host starts for a change that nobody disturbs."""
    with tended(tmp_path_factory, f"{RIG}=driver-whole") as rig:
        points = Points(rig.host)
        points.watch()
        assert rig.apply(0, *NEVER, **THE_535)["outcome"] == "reboot_owed"
        return points.count


@pytest.fixture(scope="module", params=range(1, PARTS))
def part(request: pytest.FixtureRequest) -> int:
    found: int = request.param
    return found


@pytest.fixture(scope="module", params=["who asked for it", "the host"])
def story(
    request: pytest.FixtureRequest,
    part: int,
    programs: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Story]:
    broken: Broken = request.param
    name = f"driver-{broken.split()[-1]}-{part}"
    with tended(tmp_path_factory, f"{RIG}={name}") as rig:
        rig.declare(**THE_535)
        said = _interrupted(rig, programs * part // PARTS, broken)
        doctor = rig.laptop.doctor(*INVENTORY)
        runs, half = rig.runs, half_written(rig.host)
        following = _apply(rig)
        yield Story(rig, said, runs, doctor, half, following)


# dpkg was putting its files in place, and apt could have its old version once more.
UNPACKING = r"""
import re
from pathlib import Path

status = Path("/var/lib/dpkg/status")
every = status.read_text().split("\n\n")
(at,) = (i for i, one in enumerate(every) if one.startswith("Package: nvidia-driver\n"))
every[at] = re.sub(r"(?m)^Status: .*", "Status: hold reinstreq half-installed", every[at])
every[at] = re.sub(r"(?m)^Version: .*", "Version: 545.29.06-1", every[at])
status.write_text("\n\n".join(every))
Path("/var/lib/rigops/package_work.json").write_text(
    '{"schema": "rigops.package_work/1", "packages": '
    '[{"name": "nvidia-driver", "before": "545.29.06-1", "after": "535.261.03-1"}]}'
)
"""
# All packages of the driver are there, and the initramfs was being made.
IN_TRIGGER = r"""
import re
from pathlib import Path

status = Path("/var/lib/dpkg/status")
every = status.read_text().split("\n\n")
(at,) = (i for i, one in enumerate(every) if one.startswith("Package: initramfs-tools\n"))
every[at] = re.sub(r"(?m)^Status: .*", "Status: install ok half-configured", every[at])
every[at] = re.sub(r"(?m)^Version: (.*)", r"Version: \1\nConfig-Version: \1", every[at])
status.write_text("\n\n".join(every))
Path("/var/lib/rigops/package_work.json").write_text(
    '{"schema": "rigops.package_work/1", "packages": '
    '[{"name": "nvidia-driver", "before": "545.29.06-1", "after": "535.261.03-1"}]}'
)
"""
# Somebody upgraded a package that has nothing to do with the driver, and was cut off: in its
# scripts, or while dpkg wrote down that it is installed.
OF_SOMEBODY = {
    "hostname (unpacked and not configured)": (
        r"sed -i '/^Package: hostname$/,/^$/s/^Status: .*/Status: install ok unpacked/' $STATUS",
        "dpkg-query -W -f '${db:Status-Abbrev}' hostname | grep -q iU",
    ),
    "dpkg was interrupted": (
        "dpkg --configure -a && dpkg-query -s hostname >/var/lib/dpkg/updates/0001",
        "test -e /var/lib/dpkg/updates/0001",
    ),
}


def test_a_package_that_was_cut_off_while_it_was_unpacked_is_unpacked_again(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with tended(tmp_path_factory, f"{RIG}=driver-unpacking") as rig:
        rig.apply(0, *AUTO, **THE_535)
        assert rig.host.run("python3 -", given=UNPACKING).returncode == 0
        assert rig.does("dpkg-query -W -f '${db:Status-Abbrev}' nvidia-driver") == "hHR"

        rig.apply(0, *AUTO, **THE_535)

        assert rig.does("dpkg-query -W -f '${db:Status-Abbrev}' nvidia-driver") == "hi"
        assert (rig.drivers(), rig.runs) == ({GOOD}, GOOD)
        assert rig.does("dpkg --audit; apt-get -q check >/dev/null") == ""


def test_a_trigger_that_was_cut_off_runs_again_where_every_package_is_as_declared(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with tended(tmp_path_factory, f"{RIG}=driver-trigger") as rig:
        rig.apply(0, *AUTO, **THE_535)
        assert rig.host.run("python3 -", given=IN_TRIGGER).returncode == 0
        assert "initramfs-tools" in rig.does("dpkg --audit")

        rig.apply(0, *AUTO, **THE_535)

        assert rig.does("dpkg --audit; apt-get -q check >/dev/null") == ""
        assert rig.does("ls /var/lib/rigops/package_work.json 2>&1 || :").startswith("ls: cannot")
        assert rig.apply(0, *AUTO, **THE_535)["outcome"] == "converged"


def test_what_somebody_else_was_cut_off_in_is_not_finished_by_a_yes(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with tended(tmp_path_factory, f"{RIG}=driver-foreign") as rig:
        rig.apply(0, *NEVER, driver=OLD, driver_allow_bad=True)
        assert rig.does("ls /var/lib/rigops/package_work.json 2>&1 || :").startswith("ls: cannot")
        for named, (broken_off, is_still_so) in OF_SOMEBODY.items():
            rig.does(f"STATUS=/var/lib/dpkg/status; {broken_off}")

            host = rig.apply(1, *NEVER, **THE_535)

            (blocked,) = host["blocked"]
            assert f"{named}: sudo dpkg --conf" in blocked["reason"]
            rig.does(is_still_so)
            assert rig.drivers() == {OLD}


def _interrupted(rig: Rig, program: int, broken: Broken) -> Said:
    points = Points(rig.host)
    points.watch(program)
    running = rig.laptop.start("apply", *NEVER, *QUIETLY, "--json")
    try:
        points.wait()
        if broken == "the host":
            points.cut()
        else:
            running.process.kill()
            points.go_on()
    finally:
        said = running.wait()
    until(lambda: rig.host.answers, "the host's next boot")
    assert rig.does(STARTED) == "running"
    return said


def _apply(rig: Rig) -> Said:
    return rig.laptop.rigops("apply", *AUTO, *QUIETLY, "--json")


def test_it_was_broken_off(story: Story) -> None:
    assert story.said.code in {1, 3, -signal.SIGKILL}, story.said.err


def test_no_file_is_half_written(story: Story) -> None:
    # An interrupted file has a name of its own, which the next apply writes anew or takes away.
    for path in story.half:
        assert path.endswith(".rigops-new")
    assert half_written(story.rig.host) == []


def test_a_machine_without_a_driver_that_runs_is_told_of(story: Story) -> None:
    seen = story.doctor.seen()
    if not story.runs:
        assert story.doctor.code == 1
        assert {one for one in seen.ids("fail") if one.startswith("drv.")}


def test_the_next_apply_converges(story: Story) -> None:
    assert story.next.code == 0, story.next.out + story.next.err
    assert only(story.next)["outcome"] in {"changed", "converged"}
    rig = story.rig
    assert (rig.drivers(), rig.loaded, rig.runs) == ({GOOD}, GOOD, GOOD)
    assert rig.holds() == set(rig.versions())
    assert rig.there(*ALL) == sorted(ALL)
    assert rig.does("dpkg --audit; apt-get -q check >/dev/null") == ""


def test_after_that_nothing_is_left_to_do(story: Story) -> None:
    said = _apply(story.rig)

    assert (said.code, only(said)["outcome"], only(said)["changes"]) == (0, "converged", [])


def test_records_are_whole(story: Story) -> None:
    for name in story.rig.does("ls /var/lib/rigops/*.json").split():
        found: dict[str, Any] = json.loads(story.rig.does(f"cat {name}"))
        assert found["schema"].startswith("rigops.")
