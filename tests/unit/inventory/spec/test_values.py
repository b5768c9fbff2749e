"""What each key takes, and what it becomes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from rigops.concerns.registry import keys, read
from rigops.errors import UsageError
from rigops.inventory.spec import RigSpec, examine
from rigops.inventory.spec.model import (
    Borg,
    Circuit,
    Clocks,
    DriverSource,
    ExpectedGpus,
    GpuSelector,
    Limits,
    PerGpu,
    PowerLimit,
    Psu,
    Retention,
    Snapshots,
    ThermalLimit,
)

UUID = "GPU-0f7a6b0a-9c1e-4d55-8b3e-0123456789ab"
EVERY_CARD = GpuSelector("default", "default")
BACKUP = {"repository": "/b/rig", "paths": ["/home", "/srv"]}


@pytest.mark.parametrize(
    ("value", "inside", "outside"),
    [
        (535, ["535.54.03", "535.309.01"], ["545.23.06", "525.147.05", "536.1"]),
        ("535", ["535.54.03"], ["545.23.06"]),
        ("535.261.03", ["535.261.03"], ["535.261.04", "535.54.03"]),
        ("535.54.3", ["535.54.03"], ["535.54.30"]),
        (">=535,<536", ["535.309.01"], ["545.23.06"]),
        ("570.144", ["570.144"], ["570.153.02"]),
    ],
)
def test_a_driver_is_a_branch_a_version_or_a_range(
    value: object, inside: list[str], outside: list[str]
) -> None:
    wish = read({"driver": value}).driver

    assert wish is not None
    assert all(Version(version) in wish.versions for version in inside)
    assert not any(Version(version) in wish.versions for version in outside)


@pytest.mark.parametrize(
    ("key", "value", "becomes"),
    [
        ("driver_source", "auto", DriverSource("auto")),
        ("driver_source", "snapshot:20240401T000000Z",
         DriverSource("snapshot", snapshot="20240401T000000Z")),
        ("driver_source", "dir:/srv/debs", DriverSource("dir", directory="/srv/debs")),
        ("driver_source", {"uris": "file:/srv", "Suites": ["a", "b"]},
         DriverSource("deb822", fields=(("URIs", "file:/srv"), ("Suites", "a b")))),
        ("kernel_args", ["iommu=pt", "pci=realloc"], ("iommu=pt", "pci=realloc")),
        ("module_options", {"nvidia": {"NVreg_EnableGpuFirmware": 0}},
         (("nvidia", (("NVreg_EnableGpuFirmware", "0"),)),)),
        ("module_options", {"nvidia": "a=1 b=x;y=2"}, (("nvidia", (("a", "1"), ("b", "x;y=2"))),)),
        ("gpus", 4, ExpectedGpus(total=4)),
        ("gpus", {"V100": 4}, ExpectedGpus(models=(("V100", 4),))),
        ("gpus", [UUID.upper()], ExpectedGpus(uuids=(UUID,))),
        ("gpu_power_limit", 285, PerGpu(((EVERY_CARD, PowerLimit(watts=285)),))),
        ("gpu_power_limit", "285W", PerGpu(((EVERY_CARD, PowerLimit(watts=285)),))),
        ("gpu_power_limit", "80%", PerGpu(((EVERY_CARD, PowerLimit(percent=80)),))),
        ("gpu_power_limit", {UUID: 285, "0A:00.0": 250, "3090": 300, "default": "90%"},
         PerGpu((
             (GpuSelector("uuid", UUID), PowerLimit(watts=285)),
             (GpuSelector("address", "0000:0a:00.0"), PowerLimit(watts=250)),
             (GpuSelector("model", "3090"), PowerLimit(watts=300)),
             (EVERY_CARD, PowerLimit(percent=90)),
         ))),
        ("gpu_clocks", "graphics=210,1410 memory=5001",
         PerGpu(((EVERY_CARD, Clocks((210, 1410), (5001, 5001))),))),
        ("gpu_clocks", "application=877,1005",
         PerGpu(((EVERY_CARD, Clocks(application_mhz=(877, 1005))),))),
        ("cpu_max_freq", "3.2GHz", 3_200_000),
        ("cpu_max_freq", "3200 MHz", 3_200_000),
        ("thermal_limit", 83, ThermalLimit(gpu_celsius=83)),
        ("thermal_limit", {"gpu": 83, "memory": 100}, ThermalLimit(83, 100)),
        ("thermal_limit", {"margin": 5}, ThermalLimit(margin_celsius=5)),
        ("psus", [750, 1600], (Psu(750), Psu(1600))),
        ("psus", [{"watts": 750, "gpus": ["0a:00.0"], "host": True}],
         (Psu(750, gpus=("0000:0a:00.0",), host=True),)),
        ("circuits", "120V/16A", (Circuit("", 120, 16),)),
        ("circuits", {"A": "230V / 10A"}, (Circuit("A", 230, 10),)),
        ("snapshots", {"subvolumes": ["/", "/home"], "keep": "24h 7d 4w"},
         Snapshots(("/", "/home"), Retention(24, 7, 4))),
        ("borg", {"managed": False, "unit": "borgmatic.service"},
         Borg(managed=False, unit="borgmatic.service")),
        ("borg", {"repository": "ssh://nas/./rig", "paths": ["/home"], "check_every": "4w",
                  "passphrase_command": "pass show rig", "host_keys": True},
         Borg(repository="ssh://nas/./rig", paths=("/home",), check_every_days=28,
              passphrase_command="pass show rig", host_keys=True)),
        ("borg", {**BACKUP, "checkpoints": {"/srv/runs/": 3, "/home": 1}},
         Borg(repository="/b/rig", paths=("/home", "/srv"),
              checkpoints=(("/srv/runs", 3), ("/home", 1)))),
        ("limits", {"shm": "50%", "memlock": "unlimited", "nofile": 65536, "removeipc": False},
         Limits("50%", "unlimited", 65536, removeipc=False)),
        ("nccl", {"NCCL_P2P_LEVEL": "SYS", "NCCL_DEBUG": "INFO"},
         (("NCCL_P2P_LEVEL", "SYS"), ("NCCL_DEBUG", "INFO"))),
    ],
)  # fmt: skip
def test_a_value_becomes_what_it_says(key: str, value: object, becomes: object) -> None:
    spec, problems = examine({key: value}, keys())

    assert problems == []
    assert getattr(spec, key) == becomes
    assert spec.declared == {key}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("kernel_args", []), ("module_options", {}), ("limits", {}), ("nccl", {}), ("borg", {}),
        ("snapshots", {}), ("psus", []), ("gpus", 0), ("gpu_persistence", False),
    ],
)  # fmt: skip
def test_an_empty_value_is_a_declaration(key: str, value: object) -> None:
    assert read({key: value}).declared == {key}


def test_none_takes_a_declaration_back() -> None:
    for key in keys():
        assert read({key: None}) == RigSpec(), key


@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.integers(), inner)
        ),
        max_leaves=5,
    )
)
def test_no_value_of_any_kind_escapes_as_an_exception(value: object) -> None:
    for key in keys():
        spec, problems = examine({key: value}, keys())

        assert all(problem.key == key and problem.accepted for problem in problems), key
        assert problems == [] or getattr(spec, key) is None, key


def test_every_key_refuses_what_it_cannot_be() -> None:
    for key in keys():
        _, problems = examine({key: object()}, keys())

        assert [problem.key for problem in problems] == [key]


@pytest.mark.parametrize(
    "argument", ["a b", "a;b", "a$b", "a`b", 'a"b', "a'b", "a\nb", "a\\b", "a|b", "a&b", "ä", ""]
)
def test_a_kernel_argument_that_a_shell_could_read_otherwise_is_refused(argument: str) -> None:
    with pytest.raises(UsageError):
        read({"kernel_args": [argument]})


@pytest.mark.parametrize(
    ("argument", "fix"),
    [
        ("root=/dev/sda1", "/etc/fstab"),
        ("ro", "bootloader"),
        ("rw", "bootloader"),
        ("init=/bin/sh", "bootloader"),
        ("resume=UUID=1234", "conf.d/resume"),
        ("rd.luks.uuid=1234", "/etc/crypttab"),
        ("iommu=passthrough", '"iommu=pt"'),
    ],
)
def test_a_kernel_argument_of_somebody_elses_is_refused_with_its_place(
    argument: str, fix: str
) -> None:
    with pytest.raises(UsageError) as error:
        read({"kernel_args": ["quiet", argument]})

    (problem,) = error.value.problems
    assert fix in problem.fix


def test_a_range_that_spans_nothing_is_impossible_however_it_is_written() -> None:
    for impossible in (">536,<535", "==535.1,==535.2", ">=535,<535", "!=535.1,==535.1"):
        with pytest.raises(UsageError):
            read({"driver": impossible})


def test_an_apply_of_its_own_backup_takes_no_other_setting() -> None:
    _, problems = examine(
        {"borg": {"managed": False, "unit": "b.service", "paths": ["/home"]}}, keys()
    )

    assert [problem.within for problem in problems] == ["['paths']"]


def test_host_keys_are_wanted_or_not() -> None:
    _, problems = examine({"borg": {**BACKUP, "host_keys": "ssh_host_ed25519_key"}}, keys())

    assert [(one.within, one.message) for one in problems] == [
        ("['host_keys']", "not True or False")
    ]


@pytest.mark.parametrize(
    ("checkpoints", "within", "message", "fix"),
    [
        (3, "['checkpoints']", "not a dict of paths and numbers", 'write {"/srv/runs": 3}'),
        (["/srv"], "['checkpoints']", "not a dict of paths and numbers", 'write {"/srv/runs": 3}'),
        ({"srv": 3}, "['checkpoints']['srv']", "not an absolute path", 'write "/srv"'),
        *(
            ({"/srv": number}, "['checkpoints']['/srv']", "not a whole number from 1 on",
             "write how many stay, such as 3")
            for number in (0, -1, True, "3", 2.0, None)
        ),
        ({"/srv": 3, "/srv/": 2}, "['checkpoints']['/srv/']", "the path is given twice", ""),
        *(
            ({path: 3}, "['checkpoints']", "the path is not backed up",
             'add it to "paths", or write a path that lies in one: /home, /srv')
            for path in ("/data/runs", "/srv2", "/")
        ),
    ],
)  # fmt: skip
def test_checkpoints_name_paths_that_are_backed_up_and_how_many_stay(
    checkpoints: object, *, within: str, message: str, fix: str
) -> None:
    _, problems = examine({"borg": {**BACKUP, "checkpoints": checkpoints}}, keys())

    assert [(one.within, one.message, one.fix) for one in problems] == [(within, message, fix)]


def test_two_supplies_cannot_feed_one_card() -> None:
    _, problems = examine({"psus": [{"watts": 750, "gpus": ["0a:00.0"]}] * 2}, keys())

    assert "two power supplies" in problems[0].message


def test_every_key_of_the_spec_is_in_the_table_and_the_other_way_round() -> None:
    assert set(RigSpec.FIELDS) == set(keys())
