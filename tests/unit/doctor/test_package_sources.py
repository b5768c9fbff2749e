from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.concerns.nvidia_driver.record import PATH, PinnedDriver, document
from rigops.probe.package_names import RUN_FILE
from tests.unit.doctor import package_rig as rig
from tests.unit.doctor.examining import checks_of

CHECKS = checks_of("pkg.sources")
SOURCES = "pkg.sources"
LOOSE = rig.installed(status="ii")
NEWER = "535.309.01-0ubuntu1"
RUN = "/usr/bin/nvidia-uninstall\n"


@pytest.mark.parametrize(
    ("packages", "held", "origins", "status"),
    [
        (rig.installed(), rig.DRIVER, rig.policy(), "ok"),
        (LOOSE, (), rig.policy(), "ok"),
        (LOOSE, (), rig.policy(NEWER), "ok"),
        (LOOSE, (), rig.policy(NEWER, rig.CUDA), "warn"),
        (rig.installed(), rig.DRIVER, rig.policy(NEWER, rig.CUDA), "ok"),
        (LOOSE, (), "", "unknown"),
        (LOOSE, (), "== apt-cache policy\nE: something is wrong\n", "unknown"),
        (LOOSE, (), rig.policy(here="file:/var/lib/vault ./ Packages"), "ok"),
    ],
)
def test_one_place_is_well(packages: str, held: tuple[str, ...], origins: str, status: str) -> None:
    found = rig.look(SOURCES, packages=packages, package_holds=rig.holds(*held, origins=origins))

    assert found.status == status


def test_packages_of_two_places_side_by_side() -> None:
    first, second = rig.policy().split("libnvidia-compute-535:")
    mixed = f"{first}libnvidia-compute-535:{second.replace(rig.UBUNTU, rig.CUDA)}"

    found = rig.look(SOURCES, package_holds=rig.holds(*rig.DRIVER, origins=mixed))

    assert found.status == "warn"
    assert "the distribution and NVIDIA's repository" in found.summary
    assert any(rig.CUDA in one.line for one in found.evidence)
    assert found.fix is not None
    assert "apt-cache policy" in found.fix.text


def test_a_version_that_both_places_have_is_no_mixture() -> None:
    both = rig.policy().replace(
        f"500 {rig.UBUNTU}\n", f"500 {rig.UBUNTU}\n        500 {rig.CUDA}\n"
    )

    found = rig.look(SOURCES, package_holds=rig.holds(*rig.DRIVER, origins=both))

    assert found.status == "ok"


@pytest.mark.parametrize(
    ("packages", "status"), [(rig.installed(), "warn"), (rig.installed(()), "info")]
)
def test_nvidias_own_installer(packages: str, status: str) -> None:
    found = rig.look(
        SOURCES, packages=packages, package_holds=rig.holds(*rig.DRIVER, run_files=RUN)
    )

    assert found.status == status
    assert found.evidence[0].line == RUN.strip()


@pytest.mark.parametrize(("version", "status"), [(rig.VERSION, "ok"), ("535.171.04", "info")])
def test_one_that_rigops_keeps_is_well_as_long_as_it_runs(version: str, status: str) -> None:
    pinned = PinnedDriver(
        version=version, flavor="proprietary", declared="", packages={RUN_FILE: version}
    )
    state = f"== {PATH}\n{document(pinned)}"

    found = rig.look(
        SOURCES,
        packages=rig.installed(()),
        package_holds=rig.holds(run_files=RUN),
        rigops_state=state,
    )

    assert found.status == status
    assert "NVIDIA's installer (.run)" in found.summary


@given(
    section=st.sampled_from(["packages", "package-holds"]),
    is_lost=st.booleans(),
    share=st.floats(0, 1),
)
def test_a_section_that_is_lost_or_cut_never_makes_a_mixture_well(
    section: str, *, is_lost: bool, share: float
) -> None:
    mixed: dict[str, str | None] = {
        "packages": LOOSE,
        "package-holds": rig.holds(origins=rig.policy(NEWER, rig.CUDA)),
    }
    text = mixed[section] or ""
    damaged = None if is_lost else text[: int(len(text) * share)]

    found = rig.look(SOURCES, cut=[section], sections={**mixed, section: damaged})

    assert found.status not in {"ok", "info"}
