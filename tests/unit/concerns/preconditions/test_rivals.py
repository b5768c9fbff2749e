from __future__ import annotations

import pytest

from rigops.concerns.preconditions.rivals import Setting, rivalry
from rigops.probe.sections import units

SHOW = "== systemctl show"
GREP = "== grep nvidia-smi"


def shown(name: str, *, active: str, enabled: str, load: str = "loaded") -> str:
    return f"Id={name}\nLoadState={load}\nActiveState={active}\nUnitFileState={enabled}\n"


def host(*services: str, lines: tuple[str, ...] = ()) -> units.Units:
    return units.parse("\n".join([SHOW, *services, GREP, *lines, ""]))


@pytest.mark.parametrize(
    "name",
    [
        "tuned.service",
        "power-profiles-daemon.service",
        "tlp.service",
        "auto-cpufreq.service",
        "cpupower.service",
    ],
)
def test_a_service_that_sets_the_governor_at_each_start_blocks_and_the_way_out_is_told(
    name: str,
) -> None:
    found = rivalry(host(shown(name, active="active", enabled="enabled")), {"governor"})

    (reason,) = found.blocking
    assert reason.startswith(f"{name} sets the CPU's governor whenever")
    assert f"`systemctl disable --now {name}`" in reason
    assert not found.notices


@pytest.mark.parametrize(
    ("active", "enabled", "load", "blocks"),
    [
        ("active", "disabled", "loaded", True),
        ("inactive", "enabled", "loaded", True),  # it will be back after the next boot
        ("inactive", "disabled", "loaded", False),
        ("inactive", "masked", "masked", False),
        ("inactive", "", "not-found", False),
    ],
)
def test_what_neither_runs_nor_will_run_is_nobodys_rival(
    *, active: str, enabled: str, load: str, blocks: bool
) -> None:
    seen = host(shown("tuned.service", active=active, enabled=enabled, load=load))

    assert bool(rivalry(seen, {"governor"}).blocking) == blocks


def test_what_only_brakes_a_hot_cpu_is_told_and_blocks_nothing() -> None:
    found = rivalry(
        host(shown("thermald.service", active="active", enabled="enabled")), {"governor"}
    )

    assert not found.blocking
    assert "thermald.service" in found.notices[0]


def test_a_rival_of_another_setting_is_none() -> None:
    seen = host(
        shown("tuned.service", active="active", enabled="enabled"),
        lines=("/etc/cron.d/gpu:@reboot root nvidia-smi -pl 200",),
    )

    assert rivalry(seen, {"clocks"}).blocking == rivalry(seen, {"clocks"}).notices == ()


CAP = "/etc/systemd/system/cap.service:ExecStart=nvidia-smi -pm 1 -pl 250"


@pytest.mark.parametrize(
    ("line", "sets", "words"),
    [
        (CAP, {"power"}, "cap.service sets the power limit of cards too"),
        (CAP, {"power", "persistence"}, "the power limit of cards and the persistence mode of"),
        (CAP, {"power"}, "`systemctl disable --now cap.service`"),
        ("/etc/cron.d/gpu:@reboot root nvidia-smi -lgc 210", {"clocks"}, "delete that line"),
        ("/etc/rc.local:nvidia-smi -pl 200", {"power"}, "nvidia-smi -pl 200"),
    ],
)
def test_a_line_of_somebody_elses_that_runs_by_itself_blocks(
    line: str, sets: set[Setting], words: str
) -> None:
    (reason,) = rivalry(host(lines=(line,)), sets).blocking

    assert words in reason


def test_a_script_that_nothing_is_known_to_run_is_only_told() -> None:
    found = rivalry(host(lines=("/usr/local/bin/quiet:nvidia-smi -pl 200",)), {"power"})

    assert not found.blocking
    assert "/usr/local/bin/quiet" in found.notices[0]


def test_units_of_ours_and_units_that_are_off_are_no_rivals() -> None:
    seen = host(
        shown("cap.service", active="inactive", enabled="disabled"),
        shown("cap.timer", active="inactive", enabled="", load="not-found"),
        lines=(CAP, "/etc/systemd/system/rigops-gpu.service:ExecStart=nvidia-smi -pl 200"),
    )

    assert rivalry(seen, {"power"}).blocking == ()


def test_control_characters_of_a_host_do_not_get_into_a_sentence() -> None:
    seen = host(lines=("/etc/rc.local:nvidia-smi -pl 200 # \x07\x9b31mred",))

    (reason,) = rivalry(seen, {"power"}).blocking
    assert reason.isprintable()
