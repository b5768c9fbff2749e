from __future__ import annotations

import pytest

from rigops.concerns.container_toolkit.offers import build_of, parse, why_none
from rigops.concerns.container_toolkit.state import PACKAGES


def offered(*versions: str) -> str:
    return "".join(f"{name} {one}\n" for name in PACKAGES for one in versions)


def test_the_newest_build_of_the_declared_version_is_taken() -> None:
    offers = parse(offered("1.18.2-1", "1.18.2-10", "1.18.2-2", "1.18.3-1", "1.18.2~rc.1-1"))

    assert build_of("1.18.2", offers) == "1.18.2-10"


def test_a_build_that_a_package_lacks_is_not_taken() -> None:
    offers = parse(offered("1.18.2-1") + "libnvidia-container1 1.18.2-2\n")

    assert build_of("1.18.2", offers) == "1.18.2-1"


def test_a_refusal_names_the_versions_that_there_are_the_newest_first() -> None:
    offers = parse(offered("1.9.0-1", "1.17.8-1", "1.18.1-1", "1.18.1-2"))

    assert build_of("1.18.2", offers) is None
    assert "1.18.2; they have 1.18.1, 1.17.8, 1.9.0. fix: " in why_none("1.18.2", offers)


@pytest.mark.parametrize("text", ["", "nvidia-container-toolkit 1.18.2-1\n"])
def test_a_refusal_without_any_version_names_the_repository(text: str) -> None:
    assert "NVIDIA's repository libnvidia-container" in why_none("1.18.2", parse(text))


def test_lines_that_are_no_offer_are_left_out() -> None:
    hostile = "W: Unable to read\nnvidia-driver 535\nnvidia-container-toolkit\n\x00 \n"

    assert parse(hostile + offered("1.18.2-1")) == parse(offered("1.18.2-1"))
