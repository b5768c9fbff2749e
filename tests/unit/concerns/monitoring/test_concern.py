"""What may be declared of notifications and metrics, and what no error shows."""

from __future__ import annotations

from typing import Any, Final

import pytest

from rigops.concerns import registry
from rigops.concerns.concern import Concern
from rigops.inventory.spec import RigSpec, examine
from rigops.inventory.spec.model import Notify
from rigops.ownership.ownership import Ownership
from tests import version_0_1

SECRET: Final = "hush-hush"
URL: Final = f"https://ntfy.example/{SECRET}"


def declared(**data: object) -> RigSpec:
    spec, problems = examine(data, registry.keys())
    assert problems == []
    return spec


@pytest.mark.parametrize(
    ("value", "notify"),
    [
        (URL, Notify(url=URL)),
        ("mail -s rig root", Notify(command="mail -s rig root")),
        ({"url": URL}, Notify(url=URL)),
        ({"url": URL, "ping": f"{URL}/p"}, Notify(url=URL, ping=f"{URL}/p")),
        ({"command": "true", "ping": URL}, Notify(command="true", ping=URL)),
        ({"ping": URL}, Notify(ping=URL)),
    ],
)
def test_a_string_or_a_dict_says_whom_to_notify(value: object, notify: Notify) -> None:
    assert declared(notify=value).notify == notify


@pytest.mark.parametrize(
    "value",
    [
        f"ftp://{SECRET}",
        f"{URL}\nsecond",
        f"{SECRET}\x1b",
        [SECRET],
        7,
        "",
        " ",
        {},
        {"ping": None},
        {"ping": SECRET},
        {"url": f"gopher://{SECRET}"},
        {"url": f"{URL} {SECRET}"},
        {"url": URL, "command": SECRET},
        {"command": URL},
        {"command": f"{SECRET}\n"},
        {"pings": URL},
        {7: URL},
    ],
)
def test_any_other_value_is_refused_and_never_shown(value: object) -> None:
    _, problems = examine({"notify": value}, registry.keys())

    assert problems
    assert all('a command, a URL, or {"url": …, "ping": …}' in one.accepted for one in problems)
    assert SECRET not in str(problems)


def test_no_record_on_a_host_has_it() -> None:
    assert registry.keys()["notify"].stays_here


@pytest.mark.parametrize("value", ["auto", "/var/lib/node_exporter/textfile"])
def test_metrics_are_auto_or_a_directory(value: str) -> None:
    assert declared(metrics=value).metrics == value


@pytest.mark.parametrize(
    "value",
    [True, "yes", "textfile", "/", "/a/../b", "/a/", "//a", "/a b", "/a%h", "/a\n", "/a;b", ""],
)
def test_any_other_directory_is_refused(value: object) -> None:
    assert examine({"metrics": value}, registry.keys())[1]


DECLARED: Final[dict[str, Any]] = {
    "driver": "535", "gpu_power_limit": 285, "cpu_governor": "performance", "thermal_limit": 83,
}  # fmt: skip


def test_each_concern_that_is_declared_checks_its_own_things() -> None:
    found = registry.self_checks(declared(**DECLARED, limits={"nofile": 4096}))

    assert found.commands == {
        "nvidia_driver": ("/usr/local/libexec/rigops/kernel_hook", "check"),
        "gpu_tuning": ("/usr/local/libexec/rigops/gpu_tuning", "check"),
        "cpu_tuning": ("/usr/local/libexec/rigops/cpu_tuning", "check", "performance", "-"),
        "thermal_guard": ("/usr/local/libexec/rigops/thermal_guard", "check"),
    }
    assert registry.self_checks(declared()).commands == {}


def test_a_new_concern_is_checked_without_being_known_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    toy = Concern(
        name="toy", keys=(), deploy=lambda _: None, self_check=lambda _: ("/bin/toy", "it's")
    )
    monkeypatch.setattr(registry, "CONCERNS", [toy])

    assert registry.self_checks(RigSpec()).commands == {"toy": ("/bin/toy", "it's")}


def test_files_of_notify_that_base_had_belong_to_it() -> None:
    owned = Ownership.parse(version_0_1.text("host/var/lib/rigops/owned.json"))
    paths = {"/etc/rigops/notify", "/usr/local/libexec/rigops/notify"}

    assert set(owned.paths_of("monitoring")) == paths
    assert owned.paths_of("base")
    assert not paths & set(owned.paths_of("base"))
    assert Ownership.parse(owned.to_json()) == owned
