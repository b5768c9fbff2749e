"""Which tests belong to a run: everything but the heavy shards, or one shard."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests import shards
from tests.corpus import CORPUS
from tests.tiers import NOTHING_SKIPPED, ROOT

if TYPE_CHECKING:
    from collections.abc import Generator

# Without bytecode each worker rewrites every module anew, and each start of rigops compiles it.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# The same examples every time, so that main stays green; the shard looks for new ones, but not
# where it decides whether a change is taken.
settings.register_profile("fixed", max_examples=30, derandomize=True, deadline=None, database=None)
settings.register_profile(
    "thorough",
    max_examples=3000,
    derandomize=NOTHING_SKIPPED in os.environ,
    deadline=None,
    database=None,
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--shard", choices=shards.NAMES, help="run this heavy shard instead of the rest"
    )


def pytest_configure(config: pytest.Config) -> None:
    thorough = config.getoption("--shard") == shards.PROPERTIES
    settings.load_profile("thorough" if thorough else "fixed")
    # A shell that starts them in the background has its children ignore Ctrl-C, which tests send.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """What converges has gevent replace the threads of its process: later tests would hang."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is not None and monkey.is_module_patched("threading"):
        pytest.exit(f"{item.nodeid} runs in this process what belongs into one of its own", 1)


@pytest.hookimpl(trylast=True)  # after hypothesis has marked its own
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    shard = config.getoption("--shard")
    kept, left_out = list[pytest.Item](), list[pytest.Item]()
    for item in items:
        (kept if _belongs(item, shard) and _is_fed(item) else left_out).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept
    gc.freeze()  # what was collected stays to the end: it need not be looked through again


def _belongs(item: pytest.Item, shard: str | None) -> bool:
    marker = item.get_closest_marker("shard")
    own = marker.args[0] if marker else None
    if own is not None and not _is_run_by(item, own):
        raise pytest.UsageError(f"{item.nodeid}: no shard {own!r} of tests/shards.py runs this")
    if shard is None and item.get_closest_marker("story"):
        return True
    if shard == shards.PROPERTIES:
        return own == shard or item.get_closest_marker("hypothesis") is not None
    return bool(own == shard)


def _is_run_by(item: pytest.Item, name: str) -> bool:
    folders = [folder for shard in shards.SHARDS if shard.name == name for folder in shard.folders]
    return any(item.path.is_relative_to(ROOT / folder) for folder in folders)


def _is_fed(item: pytest.Item) -> bool:
    """Each test on the corpus has a counterpart on our own fixtures, which runs everywhere."""
    return CORPUS.is_dir() or item.get_closest_marker("corpus") is None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", [])
    )
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count} tests left out: {reason}")
    if not CORPUS.is_dir():
        terminalreporter.write_line(
            "the corpus of real outputs is not here: its tests are left out"
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and os.environ.get(NOTHING_SKIPPED):
        report.outcome = "failed"
        report.longrepr = f"skipped, where nothing may be skipped: {report.longrepr}"
    return report
