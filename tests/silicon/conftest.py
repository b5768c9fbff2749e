"""The first card, taken for two, and its block for docs/reference/verified-on.md."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections import Counter
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rigops.hostside import preflight
from rigops.hostside.p2p.card import Gpu, Pair
from rigops.hostside.p2p.census import take_census
from rigops.hostside.p2p.kernels import Kernels
from tests.silicon import cards
from tests.silicon.requirements import lacks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rigops.hostside.p2p.watched import Say

    Prove = Callable[..., list[dict[str, Any]]]

HERE = Path(__file__).parent
SIZES = (4 << 10, 1 << 20)
AGAIN = " again"
GRANTED = {"granted": 1, "rank": 0, "atomics": 1}


@pytest.fixture(scope="session")
def gpus() -> list[Gpu]:
    found = cards.census()["gpus"]
    assert found
    return [Gpu(index, one["address"]) for index, one in enumerate(found)]


@pytest.fixture
def gpu(gpus: list[Gpu]) -> Gpu:
    return gpus[0]


@pytest.fixture
def prove(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Prove:
    """Run preflight's program in this process, where the first card is two that reach each other.

    What it tries runs in forks of this process, so that they have all that is changed here.
    """

    def enable(pair: Pair) -> None:
        pair.is_open_back = True

    monkeypatch.setattr(preflight, "take_census", take_census_of_one_as_two)
    monkeypatch.setattr(
        preflight, "Gpu", lambda index, address: Gpu(index, address.removesuffix(AGAIN))
    )
    monkeypatch.setattr(Pair, "enable", enable)
    for name in ("CUDA_DEVICE_ORDER", "CUDA_CACHE_DISABLE", "CUDA_VISIBLE_DEVICES"):
        # The program changes them; this has them put back.
        monkeypatch.setenv(name, os.environ.get(name, ""))

    def run(
        *pairs: str, sizes: Sequence[int] = SIZES, ptx: str | None = None
    ) -> list[dict[str, Any]]:
        if ptx is not None:
            monkeypatch.setattr(Kernels.__init__, "__defaults__", (ptx,))
        words = ["--level", "p2p", "--passes", "3", "--sizes", *map(str, sizes)]
        words += ["--pairs", *pairs, "--init-s", "60", "--pair-s", "60", "--all-s", "180"]
        monkeypatch.setattr(sys, "argv", ["preflight", *words, "--dead-s", "3"])
        preflight.main()
        result = json.loads(capsys.readouterr().out.splitlines()[-1])["result"]
        assert [one for one in result["troubles"] if one["kind"] != "note"] == []
        found: list[dict[str, Any]] = result["pairs"]
        assert len(found) == len(pairs)
        return found

    return run


def take_census_of_one_as_two(say: Say) -> None:
    def say_twice(**words: Any) -> None:
        found = words.get("answer", {})
        if "gpus" in found:
            one = found["gpus"][0]
            found["gpus"] = [one, {**one, "address": one["address"] + AGAIN}]
            found["peers"] = [[None, GRANTED], [GRANTED, None]]
        say(**words)

    take_census(say_twice)


# ---- what was seen


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lines = list(_seen(terminalreporter))
    if lines:
        terminalreporter.section("for docs/reference/verified-on.md, or to send")
        for line in (f"**{_machine()}**", *lines):
            terminalreporter.write_line(line)


def _seen(terminalreporter: pytest.TerminalReporter) -> Iterator[str]:
    """Each figure by its name, and each test that has none, and why."""
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in terminalreporter.stats.get(outcome, []):
            if not report.nodeid.startswith(f"tests/{HERE.name}/"):
                continue
            if outcome == "passed":
                yield from (f"- {name}: {figure}" for name, figure in report.user_properties)
            elif outcome == "skipped":
                yield f"- left out: {report.longrepr[2].removeprefix('Skipped: ')}"
            else:
                yield f"- FAILED: {report.nodeid}"


def _machine() -> str:
    system = platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    head = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(head, cwd=HERE, check=False, capture_output=True, text=True).stdout
    day = f"{datetime.now(timezone.utc):%Y-%m-%d}"
    words = [*_cards(), system, day, f"commit {commit.strip()}"]
    return ", ".join([f"NOT A REAL CARD ({lacks()})", *words] if lacks() else words)


def _cards() -> Iterator[str]:
    try:
        found = cards.query("name", "memory.total", "driver_version")
    except (OSError, subprocess.SubprocessError) as error:
        yield f"cards unknown ({error})"
        return
    names = Counter(f"{one['name']} ({one['memory.total']} MiB)" for one in found)
    yield from (f"{count} {name}" for name, count in names.items())
    yield from dict.fromkeys(f"driver {one['driver_version']}" for one in found)
