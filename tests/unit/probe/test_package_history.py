from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from rigops.probe.sections import package_history
from tests.unit.probe.asking import ask
from tests.unit.programs import SHELLS

if TYPE_CHECKING:
    from pathlib import Path

APT = """\
== /var/log/apt/history.log
Start-Date: 2024-06-21  06:13:12
Commandline: /usr/bin/unattended-upgrade
Upgrade: libnvidia-compute-535:amd64 (535.171.04-0ubuntu1, 535.183.01-0ubuntu1), \
bash:amd64 (5.1-6, 5.1-7), nvidia-driver-535:amd64 (535.171.04-0ubuntu1, 535.183.01-0ubuntu1)
Install: linux-image-5.15.0-113-generic:amd64 (5.15.0-113.123, automatic)
Remove: nvidia-settings:amd64 (510.47.03-0ubuntu1)
End-Date: 2024-06-21  06:14:40
"""
BY_ROLE = """\
Start-Date: 2020-10-16  09:11:17
Commandline: aptdaemon role='role-commit-packages' sender=':1.93'
Install: nvidia-driver-455:amd64 (455.28-0ubuntu0.20.04.1, automatic)
Upgrade: nvidia-driver-435:amd64 (435.21-0ubuntu7, 455.28-0ubuntu0.20.04.1)
End-Date: 2020-10-16  09:12:54
"""


def test_stanzas_of_apt() -> None:
    found = package_history.parse(APT)

    assert [(one.package, one.before, one.after) for one in found.changes] == [
        ("libnvidia-compute-535", "535.171.04-0ubuntu1", "535.183.01-0ubuntu1"),
        ("nvidia-driver-535", "535.171.04-0ubuntu1", "535.183.01-0ubuntu1"),
        ("linux-image-5.15.0-113-generic", None, "5.15.0-113.123"),
        ("nvidia-settings", "510.47.03-0ubuntu1", None),
    ]
    assert {one.at for one in found.changes} == {"2024-06-21 06:13:12"}
    assert not found.unparsed


def test_a_copy_that_lost_the_ends_of_its_lines() -> None:
    whole = package_history.parse(BY_ROLE).changes
    joined = package_history.parse(BY_ROLE.replace("\n", " ")).changes

    assert [(one.package, one.before, one.after) for one in whole] == [
        ("nvidia-driver-455", None, "455.28-0ubuntu0.20.04.1"),
        ("nvidia-driver-435", "435.21-0ubuntu7", "455.28-0ubuntu0.20.04.1"),
    ]
    assert [(one.at, one.package, one.after) for one in joined] == [
        (one.at, one.package, one.after) for one in whole
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "2024-06-21 06:13:20 upgrade nvidia-utils-535:amd64 535.171.04-1 535.183.01-1",
            ("2024-06-21 06:13:20", "nvidia-utils-535", "535.171.04-1", "535.183.01-1"),
        ),
        (
            "2024-06-21 06:13:20 install nvidia-dkms-535:amd64 <none> 535.183.01-1",
            ("2024-06-21 06:13:20", "nvidia-dkms-535", None, "535.183.01-1"),
        ),
        (
            "[2024-06-21T10:00:00+0200] [ALPM] upgraded nvidia-utils (550.78-1 -> 550.90.07-1)",
            ("2024-06-21T10:00:00+0200", "nvidia-utils", "550.78-1", "550.90.07-1"),
        ),
        (
            "[2024-06-21 10:00] [ALPM] removed nvidia-dkms (550.78-1)",
            ("2024-06-21 10:00", "nvidia-dkms", "550.78-1", None),
        ),
        (
            "2024-06-21T06:13:20+0200 SUBDEBUG Installed: akmod-nvidia-3:550.78-1.fc40.x86_64",
            ("2024-06-21T06:13:20+0200", "akmod-nvidia", None, "3:550.78-1.fc40"),
        ),
    ],
)
def test_lines_of_other_logs(line: str, expected: tuple[object, ...]) -> None:
    (one,) = package_history.parse(f"== /var/log/some.log\r\n{line}\r\n").changes

    assert (one.at, one.package, one.before, one.after) == expected


def test_other_packages_are_left_out_and_the_last_change_is_found() -> None:
    found = package_history.parse(
        "2024-06-21 06:13:20 upgrade bash:amd64 1 2\n"
        "2024-06-22 06:13:20 upgrade libcuda1:amd64 535.1-1 535.2-1\n"
        "2024-06-20 06:13:20 upgrade libcuda1:amd64 535.0-1 535.1-1\n"
    )

    assert [one.package for one in found.changes] == ["libcuda1", "libcuda1"]
    last = found.last("libcuda1")
    assert last is not None
    assert last.after == "535.2-1"
    assert found.last("nvidia-utils") is None


def test_rubbish_is_unparsed() -> None:
    assert package_history.parse("\x00rubbish \ud7ff").unparsed


@pytest.mark.parametrize("shell", SHELLS)
def test_of_long_logs_only_what_matters_leaves_the_host(shell: str, tmp_path: Path) -> None:
    logs = tmp_path / "var/log/apt"
    logs.mkdir(parents=True)
    many = ", ".join(f"lib{number}:amd64 (1.0-1, 1.1-1)" for number in range(4000))
    other = f"Start-Date: 2024-06-22  06:13:12\nUpgrade: {many}\nEnd-Date: 2024-06-22  06:14:00\n\n"
    mixed = APT.partition("\n")[2].replace("bash:amd64", f"{many}, bash:amd64")
    (logs / "history.log").write_text(
        other * 3 + mixed.replace("/usr/bin/un", "get http://me:secret@host /usr/bin/un")
    )
    (logs / "history.log.1.gz").write_bytes(gzip.compress(BY_ROLE.encode()))
    (tmp_path / "var/log/dpkg.log").write_text(
        "2024-06-21 06:13:20 status installed nvidia-utils-535:amd64 535.183.01-1\n"
        "2024-06-21 06:13:20 upgrade bash:amd64 1 2\n"
        + "2024-06-21 06:13:20 upgrade nvidia-utils-535:amd64 535.1-1 535.2-1\n"
        * 400
    )

    answer = ask(package_history.SECTION, shell, tmp_path)

    assert answer.is_complete
    assert len(answer.text) < 20000
    assert "secret" not in answer.text
    assert "lib17:" not in answer.text
    found = package_history.parse(answer.text)
    assert not found.unparsed
    assert [one.package for one in found.changes] == [
        "nvidia-driver-455",
        "nvidia-driver-435",
        "libnvidia-compute-535",
        "nvidia-driver-535",
        "linux-image-5.15.0-113-generic",
        "nvidia-settings",
        "nvidia-utils-535",
    ]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_host_without_logs(shell: str, tmp_path: Path) -> None:
    answer = ask(package_history.SECTION, shell, tmp_path)

    assert answer.is_complete
    assert package_history.parse(answer.text) == package_history.PackageHistory()
