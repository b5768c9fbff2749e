"""Looks for damage that a reader cannot stand.

It tries the same inputs each time and on each machine, so that main stays green.
RIGOPS_FUZZ_MINUTES=30 goes on for that long on all cores, RIGOPS_FUZZ_SEED=$RANDOM looks elsewhere.
Each finding is written into tests/fixtures/fuzz, whose files `make test` tries ever after.
"""

from __future__ import annotations

import hashlib
import os
import time
from random import Random

import pytest

from tests.shards import FUZZ
from tests.unit.fuzz.mutations import mutated
from tests.unit.fuzz.targets import FIXTURES, targets, trouble
from tests.unit.patterns import growing_texts, slow_growth, uses

pytestmark = pytest.mark.shard(FUZZ)

MINUTES = float(os.environ.get("RIGOPS_FUZZ_MINUTES", "0"))
SEED = int(os.environ.get("RIGOPS_FUZZ_SEED", "1"))
WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
NAMES = tuple(targets())
SECONDS_EACH = MINUTES * 60 * WORKERS / (len(NAMES) + 1)
LEAST_INPUTS = 400
LEAST_PATTERNS = 100
MOST_FINDINGS = 5


@pytest.mark.parametrize("name", NAMES)
def test_no_damage_makes_a_reader_raise(name: str) -> None:
    random = Random(f"{SEED} {name}")  # noqa: S311 - no secret
    target = targets()[name]
    others = [example for one in targets().values() for example in one.examples]
    found: dict[str, str] = {}
    end = time.monotonic() + SECONDS_EACH
    tried = 0
    while (tried < LEAST_INPUTS or time.monotonic() < end) and len(found) < MOST_FINDINGS:
        tried += 1
        data = mutated(random, random.choice(target.examples), others)
        how = trouble(target, data)
        if how and how.split(":")[0] not in found:
            found[how.split(":")[0]] = how
            folder = FIXTURES / "fuzz" / name
            folder.mkdir(parents=True, exist_ok=True)
            (folder / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)

    assert found == {}, f"RIGOPS_FUZZ_SEED={SEED}"


def test_no_text_makes_a_pattern_slow() -> None:
    """Others than `make test` tries."""
    end = time.monotonic() + SECONDS_EACH
    every = list(uses().values())
    Random(SEED).shuffle(every)  # noqa: S311 - by the seed that is printed
    for tried, use in enumerate(every):
        if tried >= LEAST_PATTERNS and time.monotonic() > end:
            break
        for text in growing_texts(use.pattern, SEED, 60):
            assert slow_growth(use.run, text) is None, f"{use.place}, RIGOPS_FUZZ_SEED={SEED}"
