from __future__ import annotations

import pytest

from rigops.concerns.nvidia_driver.resolver.host_facts import parse
from rigops.concerns.nvidia_driver.resolver.machine import RunFile

DIGEST = "a" * 64
LOG = "log 1.0-5505414 (550.54.14)"
UNINSTALL, INSTALLER = "/usr/bin/nvidia-uninstall", "/usr/bin/nvidia-installer"


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("", None),
        (f"{UNINSTALL}\n{INSTALLER}\n{LOG}", RunFile(UNINSTALL, "550.54.14")),
        (f"{INSTALLER}\n{LOG}", RunFile(INSTALLER, "550.54.14")),
        (LOG, RunFile("", "550.54.14")),
        ("log ", RunFile("")),
        ("log 1.0-7185", RunFile("")),
        (UNINSTALL, RunFile(UNINSTALL)),
        ("/opt/nvidia-uninstall", None),
        (
            f"{UNINSTALL}\n{LOG}\ndigest {DIGEST}\nmark whole 550.54.14 open desktop {DIGEST}",
            RunFile(UNINSTALL, "550.54.14", "whole", "open", "desktop"),
        ),
        (
            "mark begun 550.54.14 proprietary compute -",
            RunFile("", "550.54.14", "begun by rigops"),
        ),
        # Somebody was at it since, or took it away.
        (
            f"{UNINSTALL}\n{LOG}\ndigest {'b' * 64}\nmark whole 550.54.14 open compute {DIGEST}",
            RunFile(UNINSTALL, "550.54.14"),
        ),
        (f"mark whole 550.54.14 open compute {DIGEST}", None),
        (f"{UNINSTALL}\nmark rubbish", RunFile(UNINSTALL)),
    ],
)
def test_a_driver_of_nvidias_own_installer(said: str, found: RunFile | None) -> None:
    assert parse(f"== kernels\n== run-file\n{said}\n").run_file == found
