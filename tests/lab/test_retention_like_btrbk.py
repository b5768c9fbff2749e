"""Which snapshots stay: the same as with Debian's btrbk, whose own schedule decides here."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest

from rigops.backup.retention import Rule, reasons_to_keep

if TYPE_CHECKING:
    from collections.abc import Iterator

HISTORIES = 200
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe")
# In place of btrbk's MAIN. A line is: now, then h=, d=, w=, m= and y=, then times.
_ASKS = r"""
while(my $line = <STDIN>) {
  chomp($line);
  my ($now, $rule, @times) = split(/\t/, $line);
  @tm_now = localtime($now);
  my %preserve = (dow => 'sunday', hod => 0, min => 'latest', min_q => 'latest');
  %preserve = (%preserve, split(/[ =]/, $rule));
  my @results;
  schedule(schedule => [ map { { value => $_, btrbk_date => [ $_, 0, 1 ] } } @times ],
           preserve => \%preserve, preserve_date_in_future => 1, results => \@results,
           result_preserve_action_text => 'preserve');
  my @kept = grep { $_->{action} eq 'preserve' } @results;
  print join("\t", map { "$_->{value} $_->{reason}" } @kept), "\n";
}
"""
_REASONS = {
    "preserve min: latest": "newest",
    "preserve forced": "in the future",
    **{f"preserve {unit}:": unit for unit in Rule._fields},
}


@dataclass(frozen=True)
class History:
    times: tuple[datetime, ...]
    rule: Rule
    now: datetime

    @property
    def line(self) -> str:
        counts = zip("hdwmy", self.rule, strict=True)
        rule = " ".join(f"{unit}={count}" for unit, count in counts)
        return "\t".join((seconds(self.now), rule, *map(seconds, self.times)))


def seconds(time: datetime) -> str:
    return str(int(time.timestamp()))


def histories(chance: Random) -> Iterator[History]:
    """Hourly to monthly ones with gaps, and many around a change of the clock."""
    for number in range(HISTORIES // len(ZONES)):
        month, day = chance.choice([(3, 29), (4, 5), (10, 4), (10, 25), (11, 1), (1, 3), (6, 15)])
        end = datetime(2026, month, day, tzinfo=timezone.utc) + timedelta(
            minutes=chance.randrange(3 * 24 * 60)
        )
        step = timedelta(minutes=chance.choice([20, 60, 240, 24 * 60, 5 * 24 * 60]))
        ages = [step * n * chance.uniform(0.9, 1.1) for n in range(chance.randrange(1, 400))]
        held = [age for age in ages if chance.random() < (0.5 if number % 2 else 1)]
        rule = Rule(*(chance.choice([0, 1, 4, 24]) for _ in Rule._fields))
        off = timedelta(days=chance.choice([0, 0, 20]))
        yield History(
            tuple((end - age).replace(microsecond=0) for age in held),
            rule if any(rule) else Rule(daily=7),
            end + off,
        )


@pytest.fixture(scope="module")
def schedule(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The installed program up to MAIN, which would look for subvolumes."""
    installed = shutil.which("btrbk")
    if installed is None and os.geteuid() != 0:
        pytest.skip("lab tier: btrbk is not installed")
    assert installed, "btrbk is not installed; run `make system`"
    program, main, _ = Path(installed).read_text().partition("\nMAIN:\n")
    assert main, f"{installed} is made in another way than btrbk 0.32"
    path = tmp_path_factory.mktemp("btrbk") / "schedule"
    path.write_text(program + _ASKS)
    return path


def as_btrbk_does(schedule: Path, zone: str, asked: list[History]) -> list[dict[datetime, str]]:
    """Which it keeps, and the last of its reasons."""
    done = subprocess.run(
        ["perl", schedule],
        input="".join(f"{one.line}\n" for one in asked),
        env=os.environ | {"TZ": zone},
        text=True,
        capture_output=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert len(lines) == len(asked), done.stderr
    return [
        {
            datetime.fromtimestamp(int(time), timezone.utc): reason_of(why)
            for time, _, why in (item.partition(" ") for item in filter(None, line.split("\t")))
        }
        for line in lines
    ]


def reason_of(text: str) -> str:
    (found,) = (reason for start, reason in _REASONS.items() if text.startswith(start))
    return found


@pytest.mark.parametrize("zone", ZONES)
def test_the_same_stay_for_the_same_reasons(schedule: Path, zone: str) -> None:
    asked = list(histories(Random(zone)))  # noqa: S311 - the same each time

    found = as_btrbk_does(schedule, zone, asked)

    for history, wanted in zip(asked, found, strict=True):
        kept = reasons_to_keep(history.times, history.rule, history.now, zone=ZoneInfo(zone))
        assert {time: why[-1] for time, why in kept.items()} == wanted, history
    assert any(len(wanted) < len(one.times) for one, wanted in zip(asked, found, strict=True))


@pytest.mark.parametrize("zone", ZONES)
def test_with_times_of_the_future_at_least_the_same_stay(schedule: Path, zone: str) -> None:
    asked = [
        History(one.times, one.rule, one.now - timedelta(days=3, hours=5))
        for one in histories(Random(zone))  # noqa: S311 - the same each time
    ]

    for history, wanted in zip(asked, as_btrbk_does(schedule, zone, asked), strict=True):
        kept = reasons_to_keep(history.times, history.rule, history.now, zone=ZoneInfo(zone))
        assert wanted.keys() <= kept.keys(), history
