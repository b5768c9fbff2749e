from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.probe.bundle import Bundle, Collected
from rigops.probe.bundles.redaction import Redaction
from rigops.probe.sections import ups
from tests.unit.probe.snippets import run, tree
from tests.unit.programs import SHELLS

if TYPE_CHECKING:
    from pathlib import Path

SAID = """\
== upsc main@localhost
ups.load: 31
ups.realpower: 312
ups.realpower.nominal: 900
ups.status: OL CHRG
"""
# As NUT prints it, with a line about TLS on stderr.
UPSC = """
timeout() { shift; "$@"; }
upsc() {
    echo "$*" >>ROOT/asked
    echo 'Init SSL without certificate database' >&2
    case $1 in
        -l) echo main ;;
        gone*) echo 'Error: Data stale' >&2; return 1 ;;
        *) printf '%s\\n' 'battery.charge: 100' 'device.serial: AS1234567890' 'ups.load: 31' \\
            'ups.realpower: 312' 'ups.realpower.nominal: 900' 'ups.serial: AS1234567890' \\
            'ups.status: OL CHRG' ;;
    esac
}
"""
MONITORS = """\
# MONITOR other@localhost 1 user secret1 primary
RUN_AS_USER root
MONITOR main@localhost 1 upsmon secret2 primary
MONITOR watched@nas 0 upsmon secret3 secondary
MONITOR -l 1 upsmon secret4 secondary
MONITOR
"""


@pytest.mark.parametrize(
    ("lines", "watts", "cited"),
    [
        ("ups.realpower: 312\nups.load: 31", 312, ("ups.realpower: 312",)),
        (
            "ups.load: 31\nups.realpower.nominal: 900",
            279,
            ("ups.load: 31", "ups.realpower.nominal: 900"),
        ),
        ("ups.realpower: 0.0", 0, ("ups.realpower: 0.0",)),
        ("ups.load: 31", None, ()),
        ("ups.realpower: N/A\nups.load: much", None, ()),
        ("ups.realpower: -3", None, ()),
        ("Error: Driver not connected", None, ("Error: Driver not connected",)),
        ("", None, ()),
    ],
)
def test_what_it_measures(lines: str, watts: float | None, cited: tuple[str, ...]) -> None:
    (found,) = ups.parse(f"== upsc main\n{lines}\n").readings

    assert (found.name, found.watts, found.lines) == ("main", watts, cited)


def test_no_upsc_is_nothing() -> None:
    assert ups.parse("") == ups.Ups()


def test_what_it_cannot_read_it_says() -> None:
    assert ups.parse("== rubbish\nups.load: 3\n").unparsed == ("rubbish",)


def asked(root: Path) -> list[str]:
    path = root / "asked"
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.parametrize("shell", SHELLS)
def test_those_that_feed_the_host_are_asked_and_no_password_is_shown(
    shell: str, tmp_path: Path
) -> None:
    tree(tmp_path, {"/etc/nut/upsmon.conf": MONITORS})

    code, text = run(
        ups.SECTION, shell, tmp_path, "/etc/", commands=UPSC.replace("ROOT", str(tmp_path))
    )

    assert code == 0
    assert asked(tmp_path) == ["main@localhost"]
    assert text.strip() == SAID.strip()
    (found,) = ups.parse(text).readings
    assert (found.watts, found.status) == (312, "OL CHRG")


@pytest.mark.parametrize("shell", SHELLS)
def test_without_a_configuration_those_of_this_host_are_asked(shell: str, tmp_path: Path) -> None:
    code, text = run(
        ups.SECTION, shell, tmp_path, "/etc/", commands=UPSC.replace("ROOT", str(tmp_path))
    )

    assert code == 0
    assert asked(tmp_path) == ["-l", "main"]
    assert ups.parse(text).watts == 312
    assert "AS1234567890" not in text


@pytest.mark.parametrize("shell", SHELLS)
def test_one_that_does_not_answer_is_named(shell: str, tmp_path: Path) -> None:
    monitors = "MONITOR gone@localhost 1 u p primary\nMONITOR main@localhost 1 u p primary\n"
    tree(tmp_path, {"/etc/nut/upsmon.conf": monitors})

    _, text = run(
        ups.SECTION, shell, tmp_path, "/etc/", commands=UPSC.replace("ROOT", str(tmp_path))
    )

    found = ups.parse(text)
    assert [one.lines for one in found.readings] == [
        ("Error: Data stale",),
        ("ups.realpower: 312",),
    ]
    assert found.watts == 312


@pytest.mark.parametrize("shell", SHELLS)
def test_no_more_than_four_are_asked(shell: str, tmp_path: Path) -> None:
    monitors = "".join(f"MONITOR ups{at}@nas 1 u p primary\n" for at in range(9))
    tree(tmp_path, {"/etc/nut/upsmon.conf": monitors})

    run(ups.SECTION, shell, tmp_path, "/etc/", commands=UPSC.replace("ROOT", str(tmp_path)))

    assert len(asked(tmp_path)) == 4


@pytest.mark.parametrize("shell", SHELLS)
def test_a_host_without_upsc_starts_nothing(shell: str, tmp_path: Path) -> None:
    tree(tmp_path, {"/etc/nut/upsmon.conf": MONITORS})

    assert run(ups.SECTION, shell, tmp_path, "/etc/") == (0, "")


def test_a_saved_bundle_does_not_name_the_server() -> None:
    text = SAID.replace("main@localhost", "main@nas.example.org")
    bundle = Bundle("rig", None, root=True, sections={"ups": Collected(text)})

    redacted = Redaction([bundle]).bundle(bundle).sections["ups"].text

    assert "example" not in redacted
    assert ups.parse(redacted).watts == 312
