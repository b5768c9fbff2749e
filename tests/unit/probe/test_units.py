from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.probe.sections.units import SECTION, parse
from tests.unit.patterns import slow_growth
from tests.unit.probe.snippets import awk_that_gives_up, entered_by_everybody, run, tree
from tests.unit.programs import SHELLS

if TYPE_CHECKING:
    from pathlib import Path

SHOWN = """\
== systemctl show -p Id,LoadState,ActiveState,SubState,UnitFileState,Result,FragmentPath
Result=success
Id=nvidia-persistenced.service
LoadState=loaded
ActiveState=active
SubState=running
FragmentPath=/lib/systemd/system/nvidia-persistenced.service
UnitFileState=enabled

Id=tuned.service
LoadState=not-found
ActiveState=inactive
SubState=dead
FragmentPath=
UnitFileState=

Id=rigops-gpu.service
LoadState=loaded
ActiveState=failed
SubState=failed
Result=exit-code
UnitFileState=enabled
== grep nvidia-smi
/etc/systemd/system/cap.service:ExecStart=/usr/bin/nvidia-smi -pl 250.5
/etc/systemd/system/cap.service.d/more.conf:ExecStartPost=nvidia-smi -i 1 -lgc 210,1410
/etc/cron.d/gpu:@reboot root nvidia-smi --persistence-mode=1; nvidia-smi --power-limit=200
/usr/local/bin/old:# nvidia-smi -pl 100
/usr/local/bin/show:nvidia-smi --query-gpu=power.limit
find: '/var/spool/cron/crontabs': Permission denied
"""
PLACES = ("/etc/", "/usr/local/", "/var/spool/cron", "/run/systemd/system")


def test_units_and_their_states() -> None:
    found = parse(SHOWN)

    one = found.unit("nvidia-persistenced.service")
    assert one is not None
    assert (one.active, one.enabled, one.exists) == ("active", "enabled", True)
    gone, failed = found.unit("tuned.service"), found.unit("rigops-gpu.service")
    assert gone is not None
    assert (gone.exists, gone.enabled, gone.file) == (False, None, None)
    assert failed is not None
    assert (failed.active, failed.result) == ("failed", "exit-code")
    assert found.unit("thermald.service") is None
    assert not found.unparsed


def test_what_sets_the_cards() -> None:
    found = parse(SHOWN)

    assert found.setters is not None
    first, second, third = found.setters
    assert (first.unit, first.sets, first.watts) == ("cap.service", frozenset({"power"}), 250.5)
    assert (second.unit, second.sets, second.names_cards) == (
        "cap.service",
        frozenset({"clocks"}),
        True,
    )
    assert (third.unit, third.sets, third.watts) == (None, frozenset({"power", "persistence"}), 200)
    assert not third.names_cards
    assert first.line in SHOWN
    assert found.unreadable == ("/var/spool/cron/crontabs",)


def test_dcgmi_sets_cards_too_and_programs_are_known_by_their_names() -> None:
    found = parse(
        "== programs that set cards\npid=812 comm=gwe\npid=813 comm=gwe\n== grep nvidia-smi\n"
        "/etc/cron.d/dcgm:@reboot root dcgmi config -g 1 --set -P 250\n"
        "/usr/local/bin/clocks:dcgmi config -g 1 --set -a 877,1005\n"
    )

    assert found.programs == ("gwe",)
    assert found.setters is not None
    first, second = found.setters
    assert (first.sets, first.watts) == (frozenset({"power"}), 250.0)
    assert (second.sets, second.watts) == (frozenset({"clocks"}), None)
    assert not found.unparsed


@pytest.mark.parametrize("shell", SHELLS)
def test_a_program_that_runs_without_a_unit_is_found(shell: str, tmp_path: Path) -> None:
    stat = "1 (sh) R 1 1 1 0"
    tree(
        tmp_path,
        {
            "/proc/self/stat": stat,
            "/proc/712/comm": "gwe\n",
            "/proc/1/comm": "systemd\n",
            "/proc/x/comm": "gwe",
        },
    )

    _, text = run(SECTION, shell, tmp_path, *PLACES, "/proc/")

    assert "pid=712 comm=gwe" in text
    assert parse(text).programs == ("gwe",)


@pytest.mark.parametrize(("times", "code"), [(1, 0), (9, 1)])
def test_programs_are_looked_for_again_where_one_ends_meanwhile(
    tmp_path: Path, times: int, code: int
) -> None:
    tree(tmp_path, {"/proc/self/stat": "1 (sh) R 1 1 1 0", "/proc/712/comm": "gwe\n"})
    commands = awk_that_gives_up(tmp_path, times)

    ended, text = run(SECTION, "dash", tmp_path, *PLACES, "/proc/", commands=commands)

    assert ended == code
    assert parse(text).programs == (() if code else ("gwe",))


def test_a_list_of_states_alone_says_nothing_of_setters() -> None:
    assert parse("Id=tuned.service\r\nLoadState=loaded\r\n").setters is None
    assert parse("== grep nvidia-smi\n").setters == ()


@pytest.mark.parametrize("shell", SHELLS)
def test_what_a_host_has(shell: str, tmp_path: Path) -> None:
    unit = (
        "[Service]\nExecStart=/usr/bin/nvidia-smi -pl 250\nEnvironment=TOKEN=hush nvidia-smi -pm 1"
    )
    tree(
        tmp_path,
        {
            "/etc/systemd/system/cap.service": unit,
            "/etc/systemd/system/rigops-gpu.service": "[Service]\n",
            "/etc/systemd/system/rigops-gpu.service.d/more.conf": "[Service]\n",
            "/etc/systemd/system/rigops-failed@.service": "[Service]\n",
            "/etc/systemd/system/tuned.service": "[Service]\n",
            "/etc/systemd/system/multi-user.target.wants/cap.service": unit,
            "/etc/cron.d/gpu": "@reboot root nvidia-smi -i 0 -lgc 210,1410\n",
            "/usr/local/bin/large": "nvidia-smi -pl 1\n" + "x" * 70_000,
            "/usr/local/bin/watch": "nvidia-smi -l 1\n",
            "/usr/local/sbin/with blank": "nvidia-smi --power-limit 99",
            "/run/systemd/system/x": "",
        },
    )
    commands = 'systemctl() { printf "%s\\n" "$*" >&3; }'

    code, text = run(
        SECTION, shell, tmp_path, *PLACES, commands=f"exec 3>{tmp_path}/asked; {commands}"
    )
    found = parse(text)

    assert code == 0
    assert found.setters is not None
    assert {(one.file.rpartition("/")[2], one.watts) for one in found.setters} == {
        ("cap.service", 250.0), ("cap.service", None), ("gpu", None), ("with blank", 99.0)
    }  # fmt: skip
    assert not any("wants" in one.file for one in found.setters)
    assert "hush" not in text
    asked = {*(tmp_path / "asked").read_text().split()}
    assert {"tuned.service", "rigops-gpu.service", "cap.service", "cap.timer"} <= asked
    assert not asked & {"tlp.service", "rigops-gpu.service.d", "rigops-failed@.service"}
    absent = found.unit("tlp.service")
    assert absent is not None
    assert (absent.exists, absent.active) == (False, "inactive")


@pytest.mark.parametrize("shell", SHELLS)
def test_a_host_without_systemd_and_without_any_of_the_places(shell: str, tmp_path: Path) -> None:
    code, text = run(SECTION, shell, tmp_path, *PLACES)
    found = parse(text)

    assert (code, found.units, found.setters, found.unparsed) == (0, (), (), ())


@pytest.mark.parametrize("shell", SHELLS)
def test_a_systemd_that_does_not_answer_is_told_of(shell: str, tmp_path: Path) -> None:
    tree(tmp_path, {"/run/systemd/system/x": ""})
    commands = "systemctl() { echo Failed to connect to bus; return 1; }"

    code, text = run(SECTION, shell, tmp_path, *PLACES, commands=commands)

    assert code == 1
    assert parse(text).unparsed == ("Failed to connect to bus",)
    assert parse(text).setters == ()


@pytest.mark.skipif(os.getuid() != 0, reason="only root reads what others may not")
@pytest.mark.parametrize("shell", SHELLS)
def test_where_others_may_put_links_only_what_everybody_may_read_is_read(
    shell: str,
) -> None:
    with entered_by_everybody() as top:
        secret = "ExecStart=nvidia-smi -pl 1 # geheim"
        tree(top, {"root/secret": secret, "home/tool": "nvidia-smi -pl 2", "etc/cron.d/x": secret})
        (top / "root").chmod(0o700)
        (top / "etc/cron.d/x").chmod(0o600)  # root's own, and no link
        bin_folder, shared = top / "usr/local/bin", top / "usr/local/sbin/shared"
        bin_folder.mkdir(parents=True)
        (bin_folder / "tool").symlink_to(top / "home/tool")
        (bin_folder / "hidden").symlink_to(top / "root/secret")
        shared.mkdir(parents=True)
        (shared / "hidden").symlink_to(top / "root/secret")
        os.chown(shared, 64123, 64123)

        _, text = run(SECTION, shell, top, *PLACES)

        found = parse(text)
        assert [(one.file, one.watts) for one in found.setters or ()] == [
            ("/etc/cron.d/x", 1),
            ("/usr/local/bin/tool", 2),
        ]
        assert set(found.unreadable) == {"/usr/local/bin/hidden", "/usr/local/sbin/shared/hidden"}


@given(
    text=st.one_of(
        st.text(), st.lists(st.sampled_from(SHOWN.splitlines()), max_size=30).map("\n".join)
    ),
    cut=st.integers(0, 900),
    letter=st.characters(),
)
def test_any_text_is_read_or_named(text: str, cut: int, letter: str) -> None:
    for damaged in (text, SHOWN[:cut] + letter + SHOWN[cut:], SHOWN[cut:] + text):
        parse(damaged)
    assert parse("\x00rubbish " + text).unparsed


@pytest.mark.parametrize(
    ("head", "unit"),
    [
        ("", "A="),
        ("== grep nvidia-smi\n/a:", " -pl"),
        ("== grep nvidia-smi\n", "/a:nvidia-smi -pl 1\n"),
        ("== grep nvidia-smi\nfind: ", "'/"),
    ],
)
def test_twice_the_text_takes_twice_the_time(head: str, unit: str) -> None:
    assert slow_growth(parse, lambda size: head + unit * (size // len(unit)), 64 * 1024) is None
