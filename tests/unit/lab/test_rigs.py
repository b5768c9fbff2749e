"""The data of the simulated rigs, and the words that change them."""

from __future__ import annotations

import json
import re

import pytest

from tests.lab import hosts, rigs, settings
from tests.lab.errors import LabError
from tests.lab.silicon.rigsim import models
from tests.shards import LAB_ITSELF

pytestmark = pytest.mark.shard(LAB_ITSELF)

ADDRESS = re.compile(r"0000:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


@pytest.mark.parametrize("name", rigs.names())
def test_every_rig_is_whole(name: str) -> None:
    rig = rigs.load(name)

    known = models.load()
    for gpu in rig.gpus:
        assert ADDRESS.fullmatch(gpu.address)
        assert all(ADDRESS.fullmatch(port) for port in gpu.port.split("/"))
        assert gpu.model in known
        assert gpu.width in {1, 2, 4, 8, 16}
    assert rig.iommu in {"translated", "passthrough", "off"}
    assert rig.p2p_by_default in {"granted", "not-granted", "nvlink"}
    assert all(max(first, second) < len(rig.gpus) for first, second, _ in rig.nvlinks)
    for kind in ("address", "port", "uuid", "serial"):
        assert len({getattr(gpu, kind) for gpu in rig.gpus}) == len(rig.gpus), kind


def test_the_rigs_of_the_lab() -> None:
    assert {name: (len(rig.gpus), rig.driver) for name, rig in _all().items()} == {
        "desktop-3060-1060": (2, "535.261.03"),
        "desktop-5090": (1, "580.178.04"),
        "epyc-4xa6000": (4, "535.261.03"),
        "epyc-8x4090": (8, "535.261.03"),
        "fresh-install": (2, None),
        "nvlink-2x3090": (2, "535.261.03"),
        "t180-4xv100": (4, "535.261.03"),
        "threadripper-3x3090": (3, "545.29.06"),
        "ubuntu-trap": (2, None),
    }


def _all() -> dict[str, rigs.Rig]:
    return {name: rigs.load(name) for name in rigs.names()}


def test_cards_keep_their_identity_and_share_it_with_no_other_host() -> None:
    first, again = (rigs.load("t180-4xv100", owner="a") for _ in range(2))
    other = rigs.load("t180-4xv100", owner="b")

    assert first == again
    assert not {gpu.uuid for gpu in first.gpus} & {gpu.uuid for gpu in other.gpus}


def test_settings_lie_over_what_the_rig_says() -> None:
    rig = rigs.load("threadripper-3x3090")

    changed = rig.with_settings(
        settings.parse(["p2p=granted", "iommu=passthrough", "driver=none", "lost=0000:42:00.0"])
    )

    hardware = json.loads(changed.hardware())
    assert (hardware["p2p"], hardware["iommu"]) == ("granted", "passthrough")
    assert hardware["lost"] == ["0000:42:00.0"]
    assert changed.driver is None
    assert hardware["gpus"] == json.loads(rig.hardware())["gpus"]


def test_an_empty_value_is_the_rigs_own() -> None:
    rig = rigs.load("threadripper-3x3090")

    assert rig.with_settings(settings.parse(["p2p=", "iommu=", "driver=", "lost=", "cut="])) == rig


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("p2p=maybe", "p2p takes default, granted, refused, hang"),
        ("iommu=on", "iommu takes translated, passthrough, off"),
        ("driver=535", "driver takes a version such as 535.261.03, or none"),
        ("smi=hung", "smi takes ok, wedged"),
        ("lost=0", "lost takes addresses of the rig's cards such as 0000:0a:00.0"),
        ("load=full", "load takes idle, step"),
        ("latency=5ms", "latency takes milliseconds"),
        ("cut=0", "cut takes bytes"),
        ("pocket=yes", "pocket takes on, off"),
        ("speed=9", "not KEY=VALUE with a KEY of p2p, iommu"),
        ("p2p", "not KEY=VALUE"),
    ],
)
def test_a_wrong_setting_is_told_what_is_accepted(word: str, said: str) -> None:
    with pytest.raises(LabError, match=re.escape(said)):
        settings.parse([word])


def test_a_card_that_is_not_there_cannot_be_lost() -> None:
    with pytest.raises(LabError, match=r"no card at 0000:99:00\.0, only 0000:04:00\.0, "):
        rigs.load("t180-4xv100").with_settings(settings.parse(["lost=0000:99:00.0"]))


def test_only_the_trap_has_a_pocket() -> None:
    assert rigs.load("ubuntu-trap").with_settings({"pocket": "off"}).pocket == "off"
    with pytest.raises(LabError, match="t180-4xv100 has no older pocket"):
        rigs.load("t180-4xv100").with_settings({"pocket": "off"})


def test_words_of_up() -> None:
    wishes = hosts.wishes(["t180-4xv100=a", "ubuntu-trap", "p2p=hang", "latency=3"])

    laid_over = {"p2p": "hang", "latency": "3"}
    assert [(wish.rig, wish.name, wish.settings) for wish in wishes] == [
        ("t180-4xv100", "a", laid_over),
        ("ubuntu-trap", "ubuntu-trap", laid_over),
    ]


def test_several_hosts_of_one_rig_are_numbered() -> None:
    wishes = hosts.wishes(["t180-4xv100", "t180-4xv100=own", "t180-4xv100"])

    assert [wish.name for wish in wishes] == ["t180-4xv100-1", "own", "t180-4xv100-2"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["t180"], "there is no rig 't180'; there are desktop-3060-1060, "),
        (["t180=a"], "and no KEY=VALUE, whose keys are p2p, "),
        (["p2p=hang"], "no rig named"),
        (["t180-4xv100=a", "ubuntu-trap=a"], "two hosts named 'a'"),
        (["t180-4xv100=A_b"], "a name is letters a-z"),
    ],
)
def test_wrong_words_of_up(words: list[str], said: str) -> None:
    with pytest.raises(LabError, match=re.escape(said)):
        hosts.wishes(words)
