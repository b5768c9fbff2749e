"""The container_toolkit concern on a booted host: what apt installs there, and what is held."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.lab import hosts
from tests.lab.demo_packages import Demo, publish
from tests.lab.laptop import Laptop
from tests.lab.tended import Tended
from tests.shards import LAB_DRIVER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

pytestmark = pytest.mark.shard(LAB_DRIVER)

OLD, GOOD, NEW = "1.17.8", "1.18.2", "1.99.0"
DECLARED: Final[Mapping[str, Any]] = {"container_toolkit": GOOD}
NAMES: Final = {
    "libnvidia-container-tools", "libnvidia-container1",
    "nvidia-container-toolkit", "nvidia-container-toolkit-base",
}  # fmt: skip
# As NVIDIA's does: new units are read at once, and no engine is touched.
POSTINST: Final = "#!/bin/sh\nset -e\nsystemctl daemon-reload\n"
ENGINE: Final = "/etc/systemd/system/docker.service"


def toolkit(version: str) -> list[Demo]:
    build = f"{version}-1"
    same = f"nvidia-container-toolkit-base (= {build}), libnvidia-container-tools (= {build})"
    return [
        Demo("libnvidia-container1", build),
        Demo("libnvidia-container-tools", build, {"Depends": f"libnvidia-container1 (= {build})"}),
        Demo("nvidia-container-toolkit-base", build, postinst=POSTINST),
        Demo("nvidia-container-toolkit", build, {"Depends": same}),
    ]


class Rig(Tended):
    def versions(self) -> dict[str, str]:
        """Of the toolkit's packages, with the letter that dpkg has for a hold."""
        said = self.does("dpkg-query -W -f '${Package} ${db:Status-Abbrev}${Version}\\n'")
        rows = [line.split(maxsplit=1) for line in said.splitlines()]
        return {name: state for name, state in rows if name in NAMES}

    def engine(self) -> str:
        return self.does("systemctl show -P InvocationID docker")


def each(state: str) -> dict[str, str]:
    return dict.fromkeys(NAMES, state)


def steps(host: Mapping[str, Any], kind: str) -> dict[str, tuple[str | None, str | None]]:
    return {one["name"]: (one["before"], one["after"]) for one in host["packages"][kind]}


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with hosts.running(["fresh-install=toolkit"]) as (host,):
        rig = Rig(Laptop(tmp_path_factory.mktemp("laptop")), host)
        unit = "[Service]\\nExecStart=/bin/sleep infinity\\n"
        rig.does(f"printf '{unit}' >{ENGINE} && systemctl daemon-reload && systemctl start docker")
        yield rig


def test_a_host_whose_sources_have_no_toolkit_is_refused(rig: Rig) -> None:
    (blocked,) = rig.plan(1, **DECLARED)["blocked"]

    assert blocked["concern"] == "container_toolkit"
    assert "no apt source of this host has the NVIDIA container toolkit" in blocked["reason"]


def test_a_version_that_no_source_has_is_refused_with_those_that_there_are(rig: Rig) -> None:
    publish(rig.host, [*toolkit(OLD), *toolkit(NEW)])

    (blocked,) = rig.plan(1, **DECLARED)["blocked"]

    assert f"{GOOD}; they have {NEW}, {OLD}. fix: " in blocked["reason"]
    assert rig.versions() == {}


def test_a_version_that_breaks_containers_is_refused_with_the_evidence(rig: Rig) -> None:
    (blocked,) = rig.plan(1, container_toolkit="1.17.7")["blocked"]

    assert "known to be bad: Containers with cards stop starting" in blocked["reason"]
    assert "NVIDIA/nvidia-container-toolkit#1091" in blocked["reason"]


def test_the_declared_version_comes_among_newer_ones_and_is_held(rig: Rig) -> None:
    publish(rig.host, [*toolkit(OLD), *toolkit(GOOD), *toolkit(NEW)])
    planned, engine = rig.plan(**DECLARED), rig.engine()

    assert steps(planned, "install") == dict.fromkeys(NAMES, (None, f"{GOOD}-1"))
    assert rig.versions() == {}
    assert rig.finding("container.toolkit", **DECLARED)["remedy"]["concern"] == "container_toolkit"
    assert rig.apply(**DECLARED)["outcome"] == "changed"

    assert rig.versions() == each(f"hi {GOOD}-1")
    assert rig.engine() == engine
    host = rig.apply(**DECLARED)
    assert (host["outcome"], host["changes"]) == ("converged", [])
    assert rig.finding("container.toolkit", **DECLARED)["status"] == "ok"


def test_an_upgrade_of_all_packages_leaves_it_alone(rig: Rig) -> None:
    rig.does("DEBIAN_FRONTEND=noninteractive apt-get -q -y full-upgrade")

    assert rig.versions() == each(f"hi {GOOD}-1")


def test_what_somebody_else_upgraded_is_shown_and_brought_back(rig: Rig) -> None:
    rig.does(
        "apt-mark -q unhold libnvidia-container1 nvidia-container-toolkit && "
        "DEBIAN_FRONTEND=noninteractive apt-get -q -y --allow-change-held-packages install "
        + " ".join(f"{name}={NEW}-1" for name in NAMES)
    )

    found = rig.finding("container.toolkit", **DECLARED)
    assert found["status"] == "warn"
    assert f"container toolkit is {NEW}" in found["summary"]
    planned = rig.plan(**DECLARED)
    assert steps(planned, "downgrade") == dict.fromkeys(NAMES, (f"{NEW}-1", f"{GOOD}-1"))
    assert rig.apply(**DECLARED)["outcome"] == "changed"
    assert rig.versions() == each(f"hi {GOOD}-1")


def test_a_hold_that_somebody_else_released_comes_back(rig: Rig) -> None:
    rig.does("apt-mark -q unhold libnvidia-container1")

    assert "not held" in rig.finding("container.toolkit", **DECLARED)["summary"]
    host = rig.apply(**DECLARED)

    assert [(one["concern"], one["kind"]) for one in host["changes"]] == [
        ("container_toolkit", "hold")
    ]
    assert rig.versions() == each(f"hi {GOOD}-1")


def test_another_declared_version_replaces_it(rig: Rig) -> None:
    assert rig.apply(container_toolkit=OLD)["outcome"] == "changed"

    assert rig.versions() == each(f"hi {OLD}-1")


def test_plain_pyinfra_has_it_too(rig: Rig) -> None:
    rig.declare(**DECLARED)

    rig.pyinfra_twice("container_toolkit.py")

    assert rig.versions() == each(f"hi {GOOD}-1")


def test_undeclared_it_is_no_longer_held_and_stays(rig: Rig) -> None:
    kept = rig.apply(1)
    assert kept["withheld"]
    assert rig.versions() == each(f"hi {GOOD}-1")

    assert rig.apply(0, "--prune")["outcome"] == "changed"
    assert rig.versions() == each(f"ii {GOOD}-1")
    assert rig.finding("container.toolkit")["status"] == "ok"
