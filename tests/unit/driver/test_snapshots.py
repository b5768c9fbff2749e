"""A snapshot by its date alone: the line that names the service is what is answered."""

from __future__ import annotations

import pytest

from rigops.driver.absence import of_a_snapshot
from rigops.driver.machine import Machine

DAY = "20240401T000000Z"


@pytest.mark.parametrize(
    ("machine", "codename", "suite", "components"),
    [
        (Machine("debian", "12", "apt"), "bookworm", "bookworm", "main contrib non-free"),
        (Machine("ubuntu", "24.04", "apt"), "noble", "noble-updates", "main restricted"),
    ],
    ids=["debian", "ubuntu"],
)
def test_the_line_has_the_suite_and_the_components_of_drivers(
    machine: Machine, codename: str, suite: str, components: str
) -> None:
    refusal = of_a_snapshot(DAY, machine, codename)

    assert f'"URIs": "<your snapshot service>/{DAY}"' in refusal.cure
    assert f'"Suites": "{suite}"' in refusal.cure
    assert f'"Components": "{components}' in refusal.cure
    assert "which brings" not in refusal.cure
