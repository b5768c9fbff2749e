"""What the simulated tools print, read by the product's own parsers: the right facts."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING

import pytest

from rigops.probe.sections import (
    nvidia_smi_p2p,
    nvidia_smi_topo,
    nvidia_smi_xml,
)
from tests.lab import rigs
from tests.lab.silicon.rigsim import models
from tests.shards import LAB_ITSELF
from tests.unit.lab.rigsim_tree import Tree, booted

if TYPE_CHECKING:
    from pathlib import Path

    from rigops.probe.section import Section

pytestmark = pytest.mark.shard(LAB_ITSELF)

DRIVERS = ("535.261.03", "545.29.06", "550.163.01", "580.178.04")


@pytest.fixture(scope="module", params=rigs.names())
def tree(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tree:
    return booted(tmp_path_factory.mktemp("rig"), request.param)


@pytest.fixture
def rig(tree: Tree) -> rigs.Rig:
    """With its cards in the order of their addresses, in which drivers count them."""
    found = rigs.load(json.loads(tree.read("etc/rigsim/rig.json"))["name"])
    return replace(found, gpus=tuple(sorted(found.gpus, key=lambda gpu: gpu.address)))


def test_cards(tree: Tree, rig: rigs.Rig) -> None:
    found = nvidia_smi_xml.parse(tree.smi("-q", "-x"))

    known = models.load()
    assert (found.unparsed, found.failure, found.is_complete) == ((), None, True)
    assert (found.driver, found.attached) == ("535.261.03", len(rig.gpus))
    for card, gpu in zip(found.gpus, rig.gpus, strict=True):
        watts = known[gpu.model].watts
        assert (card.address, card.uuid) == (gpu.address, gpu.uuid)
        assert (card.watts_limit, card.watts_min, card.watts_max) == (
            watts.default, watts.min, watts.max,
        )  # fmt: skip
        assert (card.width, card.persistence) == (gpu.width, rig.persistence)
        assert card.troubles == {}


@pytest.mark.parametrize("driver", DRIVERS)
def test_cards_as_every_branch_tells_of_them(tmp_path: Path, driver: str) -> None:
    found = nvidia_smi_xml.parse(booted(tmp_path, "epyc-8x4090", driver).smi("-q", "-x"))

    assert (found.unparsed, found.driver, len(found.gpus)) == ((), driver, 8)
    assert {card.remap_pending for card in found.gpus} == {False}


def test_topology(tree: Tree, rig: rigs.Rig) -> None:
    found = nvidia_smi_topo.parse(tree.smi("topo", "-m"))

    assert found.unparsed == ()
    assert found.gpus == tuple(range(len(rig.gpus)))
    assert set(found.links) == set(permutations(found.gpus, 2))
    wired = {(a, b): f"NV{count}" for a, b, count in rig.nvlinks}
    assert {pair: found.links[pair] for pair in wired} == wired
    far = {
        (a, b)
        for a, b in permutations(found.gpus, 2)
        if rig.gpus[a].numa != rig.gpus[b].numa and not rig.nvlinks
    }
    assert {found.links[pair] for pair in far} <= {"SYS"}


@pytest.mark.parametrize(
    ("kind", "section"),
    [
        ("r", nvidia_smi_p2p.READ),
        ("w", nvidia_smi_p2p.WRITE),
        ("n", nvidia_smi_p2p.NVLINK),
        ("a", nvidia_smi_p2p.ATOMICS),
    ],
)
def test_grants(
    tree: Tree, rig: rigs.Rig, kind: str, section: Section[nvidia_smi_p2p.PeerMatrix]
) -> None:
    found = section.parse(tree.smi("topo", "-p2p", kind))

    pairs = set(permutations(range(len(rig.gpus)), 2))
    wired = {pair for a, b, _ in rig.nvlinks for pair in ((a, b), (b, a))}
    everywhere = kind in "rw" and rig.p2p_by_default == "granted"
    assert found.unparsed == ()
    assert set(found.cells) == pairs
    assert set(found.granted) == (pairs if everywhere else wired)
