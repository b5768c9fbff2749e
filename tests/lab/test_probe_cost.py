"""A fleet is asked at once, so a probe has to cost its host little: counted, and never timed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.probe.registry import SECTIONS
from rigops.probe.script import script
from tests.lab import cost
from tests.shards import LAB_DOCTOR

if TYPE_CHECKING:
    from tests.lab.conftest import Lab

pytestmark = pytest.mark.shard(LAB_DOCTOR)


@pytest.mark.parametrize("rig", ["fresh-install", "threadripper-3x3090"])
def test_a_probe_starts_few_processes(module_lab: Lab, rig: str) -> None:
    host = module_lab.one(rig)

    # The first one after a boot may wake services.
    counts = [cost.of_script(host, script(SECTIONS)).processes for _ in range(3)]

    assert min(counts) <= 150
