"""Findings that one cause explains: the rules, and what becomes of findings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rigops.catalog import load
from rigops.doctor.finding import Finding
from rigops.doctor.registry import CHECKS, examine
from rigops.doctor.stories import put_together, tell
from rigops.probe.snapshot import HostSnapshot
from rigops.record.proven import Pair
from tests.unit.doctor import test_peer_proof
from tests.unit.doctor.examining import EVERY_CONCERN, catalog, snapshot_of
from tests.unit.doctor.test_instructive_machines import (
    BOOTED,
    FAULT,
    MACHINES,
    OPEN,
    TRANSLATED,
    cards,
)
from tests.unit.probe import answers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rigops.doctor.stories import Story

A, B = "gpu 0000:41:00.0", "gpu 0000:61:00.0"
# Both cards of one switch, whose upper port is 40:01.1.
PORTS: Mapping[str, tuple[str, ...]] = {
    A[4:]: ("0000:40:01.1", "0000:42:00.0"),
    B[4:]: ("0000:40:01.1", "0000:42:01.0"),
}


def finding(line: str) -> Finding:
    """As `fail xid gpu 0000:41:00.0 xid=79`; of the host where no card is named."""
    status, check, *rest = line.split()
    facts: dict[str, object] = {}
    for name, _, value in (one.partition("=") for one in rest if "=" in one):
        facts[name] = value.split(",") if name in {"devices", "verdicts"} else value
    subject = " ".join(one for one in rest if "=" not in one) or "host"
    assert status in {"fail", "warn", "unknown"}
    return Finding(status, line, id=check, subject=subject, data=facts)  # type: ignore[arg-type]  # asserted


# An example, of which the first line is the cause and all others are its effects, and an example
# that is much like it and no such story.
EXAMPLES: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "xid-moves-with-card": (
        (
            f"fail xid {A} xid=62 follows=card devices={A[4:]},{B[4:]}",
            f"fail xid {B} xid=62 follows=card devices={A[4:]},{B[4:]}",
        ),
        (f"fail xid {A} xid=62", f"fail xid {B} xid=62"),
    ),
    "bad-riser": (
        (
            f"warn pci.aer.corr {A} devices=0000:42:00.0",
            f"fail xid {A} xid=79",
            f"fail pci.aer.uncorr {A} devices=0000:42:00.0",
            f"warn pci.width {A}",
        ),
        (f"warn pci.aer.corr {A} devices=0000:42:00.0", f"fail xid {B} xid=79"),
    ),
    "lost-over-power-budget": (
        (
            "fail pwr.budget",
            f"fail xid {A} xid=79",
            f"fail gpu.lost {A}",
            f"fail gpu.count devices={A[4:]}",
        ),
        ("warn pwr.budget", f"fail xid {A} xid=62", f"fail gpu.lost {B}"),
    ),
    "xid-stays-in-slot": (
        (
            f"fail xid {A} xid=79 follows=slot devices={A[4:]}",
            f"fail xid {A} xid=79 follows=slot",
        ),
        (f"fail xid {A} xid=13", f"warn xid {A} xid=31"),
    ),
    "link-lost": (
        ("fail pci.aer.uncorr devices=0000:40:01.1", f"fail xid {A} xid=79"),
        ("fail pci.aer.uncorr devices=0000:00:02.0", f"fail xid {A} xid=79"),
    ),
    "peer-access-not-supported": (
        ("fail drv.pin p2p=none", f"fail iommu.fault {A}", f"fail gpu.init {A}"),
        ("fail drv.pin", f"fail iommu.fault {A}"),
    ),
    "page-faults-under-translation": (
        ("fail iommu.mode", f"fail iommu.fault {A}", f"warn xid {A} xid=154"),
        ("fail iommu.mode", f"warn xid {A} xid=154"),
    ),
    "peer-copies-detoured": (
        ("fail acs.path", "unknown nccl.log hang=True"),
        ("fail acs.path", "unknown nccl.log"),
    ),
    "peer-memory-is-a-mirror": (
        ("fail p2p.proof verdicts=mirror", "fail bench.nccl"),
        ("fail p2p.proof verdicts=hang", "fail bench.nccl"),
    ),
    "firmware-of-the-card-silent": (
        (f"fail drv.gsp {A}", f"fail xid {A} xid=119 cause=drv.gsp", "fail drv.hang"),
        (f"fail drv.gsp {A}", f"fail xid {A} xid=119", f"fail xid {B} xid=119 cause=drv.gsp"),
    ),
    "card-fell-off-the-bus": (
        (f"fail xid {A} xid=79", f"fail gpu.lost {A}", f"fail gpu.count devices={A[4:]}"),
        (f"fail xid {A} xid=79", f"fail gpu.count devices={A[4:]},{B[4:]}"),
    ),
    "driver-replaced-while-loaded": (
        (
            "fail drv.mismatch package=libcuda1 from=535.104.05 to=535.113.01 at=2023-10-02",
            "warn drv.reboot_pending",
            "unknown gpu.count",
        ),
        ("fail drv.mismatch", "warn drv.reboot_pending"),
    ),
    "module-not-built": (
        (
            "fail pkg.errors known_line=compile-error",
            "fail drv.dkms",
            "fail drv.loaded cause=drv.dkms",
        ),
        ("fail pkg.errors known_line=dkms-build-failed", "fail drv.dkms"),
    ),
    "no-driver-for-a-reason": (
        ("fail drv.dkms", "fail drv.loaded cause=drv.dkms"),
        ("fail drv.dkms", "fail drv.loaded cause=drv.nouveau"),
    ),
    "card-not-started-for-a-reason": (
        (f"fail bar1.size {A}", f"fail gpu.init {A} cause=bar1.size"),
        (f"fail bar1.size {A}", f"fail gpu.init {A}"),
    ),
}


def told(lines: Sequence[str]) -> tuple[Story, ...]:
    rules = load().stories_by_causes
    return tell([*map(finding, lines)], rules, lambda card: PORTS.get(card, ()))


@pytest.mark.parametrize("name", [one.id for one in load().stories])
def test_a_rule_has_its_example_and_what_is_not_one(name: str) -> None:
    example, counter = EXAMPLES[name]

    (story,) = told(example)

    assert (story.id, story.cause) == (name, 0)
    assert story.effects == tuple(range(1, len(example)))
    assert "?" not in story.text
    assert name not in {one.id for one in told(counter)}


def test_rules_are_over_checks_that_exist_and_have_a_cause_on_one_line() -> None:
    ids = {check.id for check in CHECKS}

    for rule in load().stories:
        assert {one for part in rule.parts for one in part.ids} <= ids, rule.id
        for part in rule.cause:
            for check in part.ids:
                assert rule in load().stories_by_causes({check})


def test_a_page_tells_what_happens_when_it_is_one_and_what_to_do() -> None:
    for rule in load().stories:
        assert len(rule.page) == 3, rule.id
        assert rule.page[1].startswith("It is a story where"), rule.id
        assert len(rule.title) <= 60, rule.id


def test_a_count_of_lost_cards_is_explained_by_each_that_is_known() -> None:
    lines = (f"fail xid {A} xid=79", f"fail xid {B} xid=79", f"fail gpu.lost {A}",
             f"fail gpu.count devices={A[4:]},{B[4:]}")  # fmt: skip

    assert [(one.cause, one.effects) for one in told(lines)] == [(0, (2, 3)), (1, (3,))]


def test_errors_of_a_port_that_cards_share_explain_each_of_them() -> None:
    lines = ("warn pci.aer.corr devices=0000:40:01.1", f"warn pci.width {A}", f"fail gpu.lost {B}")

    (story,) = told(lines)

    assert story.effects == (1, 2)


def test_the_poor_link_of_the_lost_card_is_a_better_cause_than_the_budget() -> None:
    lines = ("fail pwr.budget", f"warn pci.aer.corr {A} devices={A[4:]}", f"fail xid {A} xid=79")

    (story,) = told(lines)

    assert story.id == "bad-riser"


def test_a_cause_comes_before_its_effects_and_nothing_is_dropped() -> None:
    lines = (f"fail xid {A} xid=79", "fail drv.dkms", f"warn pci.aer.corr {A} devices={A[4:]}")
    found = [finding(one) for one in lines]

    findings, (story,) = put_together(found, snapshot_of(), catalog())

    assert [one.id for one in findings] == ["pci.aer.corr", "xid", "drv.dkms"]
    assert (story.cause, story.effects) == (0, (1,))


NAMED = "NVRM: GPU at PCI:0000:{}:00: GPU-{}-0000-4000-8000-000000000000\n"
XID = "NVRM: Xid (PCI:0000:{}:00): {}, pid='<unknown>', name=<unknown>, GPU has trouble.\n"


def log(bus: str, card: str, number: int = 79) -> str:
    return f"{BOOTED}[    9.0] {NAMED.format(bus, card * 8)}[    9.1] {XID.format(bus, number)}"


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (log("41", "a"), log("61", "a"), "xid-moves-with-card"),
        (log("41", "a"), log("41", "b"), "xid-stays-in-slot"),
        (log("41", "a"), log("61", "b"), None),
        (log("41", "a"), log("41", "a"), None),
        (log("41", "a", 13), log("61", "a", 13), None),
        (log("41", "a"), f"{BOOTED}[    9.1] {XID.format('61', 79)}", None),
    ],
)
def test_an_xid_of_two_boots_follows_the_card_or_the_slot(
    before: str, now: str, expected: str | None
) -> None:
    texts = {
        "lspci": cards("GA102 [GeForce RTX 3090]", "2204", "0000:41:00.0", "0000:61:00.0"),
        "kernel-log-previous": before,
        "kernel-log": now,
    }

    findings, stories = machine(texts)

    assert [one.id for one in stories] == ([expected] if expected else [])
    if expected:
        cause = findings[stories[0].cause]
        assert (cause.id, cause.data["boot"]) == ("xid", "current")
        assert cause.fix is not None
        assert "likely" in cause.fix.text
        assert findings[stories[0].effects[0]].data["boot"] == "previous"


TESTS_HANG = """\
# nThread 1 nGpus 2 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20
# Using devices
#  Rank  0 Group  0 Pid 100 on rig device  0 [0x41] NVIDIA GPU
#  Rank  1 Group  0 Pid 100 on rig device  1 [0x61] NVIDIA GPU
"""
SLOW = """\
[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]
Device: 0, NVIDIA CMP 170HX, pciBusID: 1, pciDeviceID: 0, pciDomainID:0
Device: 1, NVIDIA CMP 170HX, pciBusID: 2, pciDeviceID: 0, pciDomainID:0
Device=0 CAN Access Peer Device=1
Device=1 CAN Access Peer Device=0
Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)
   D\\D     0      1
     0 1671.12   5.91
     1   5.90 1718.92
Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)
   D\\D     0      1
     0 1671.12   0.29
     1   0.29 1718.92
"""
MIRROR = replace(
    test_peer_proof.FAILURE, pairs=(Pair(test_peer_proof.A, test_peer_proof.B, "mirror", None),)
)
TWO_1080 = {
    "lspci": cards("GP102 [GeForce GTX 1080 Ti]", "1b06", "0000:41:00.0", "0000:61:00.0"),
    "iommu-groups": TRANSLATED,
}

# Of corpus machines that the table of them has without these outputs, or not at all.
MORE_MACHINES: Mapping[str, tuple[str, str, Mapping[str, str]]] = {
    "4: NCCL hangs where root ports redirect": (
        "acs.path",
        "bench.nccl",
        {**MACHINES["4: root ports that redirect between professional cards"][1],
         "nccl-tests": TESTS_HANG},
    ),
    "5: NCCL hangs although copies pass": ("iommu.mode", "bench.nccl",
                                           {**TWO_1080, "nccl-tests": TESTS_HANG}),
    "2: a mirror in a virtual machine": (
        "p2p.proof",
        "bench.nccl",
        {**test_peer_proof.PAIR, "rigops-state": test_peer_proof.state(failed=MIRROR.to_json()),
         "nccl-tests": TESTS_HANG},
    ),
    "7: far slower than without P2P": (
        "iommu.mode",
        "bench.p2p",
        {"lspci": cards("GA100 [CMP 170HX]", "20c2", "0000:01:00.0", "0000:02:00.0"),
         "iommu-groups": TRANSLATED.replace("41:", "01:").replace("61:", "02:"),
         "p2p-bandwidth-test": SLOW},
    ),
    "10: replaced in place, without a reboot": (
        "drv.mismatch",
        "drv.reboot_pending",
        {
            "lspci": cards("GA102 [GeForce RTX 3090]", "2204", "0000:41:00.0"),
            "nvidia-version": OPEN.format("535.104.05"),
            "packages": "libnvidia-compute-535\t535.113.01-0ubuntu1\tamd64\tii \tx\n",
            "package-history": "== /var/log/dpkg.log\n2023-10-02 06:12:11 upgrade "
            "libnvidia-compute-535:amd64 535.104.05-0ubuntu1 535.113.01-0ubuntu1\n",
        },
    ),
}  # fmt: skip


def machine(texts: Mapping[str, str]) -> tuple[tuple[Finding, ...], tuple[Story, ...]]:
    known = HostSnapshot(answers.bundle(dict(texts)))
    found = examine(known, None, catalog(), concerns=EVERY_CONCERN)
    findings, stories = put_together(found, known, catalog())
    assert sorted(map(id, findings)) == sorted(map(id, found))
    return findings, stories


@pytest.mark.parametrize("name", MORE_MACHINES)
def test_more_machines_end_in_the_stated_cause(name: str) -> None:
    cause, effect, texts = MORE_MACHINES[name]

    findings, stories = machine(texts)

    (story,) = stories
    assert findings[0].id == findings[story.cause].id == cause
    assert effect in {findings[at].id for at in story.effects}


def test_page_faults_of_a_disk_are_no_story_of_the_cards() -> None:
    texts = {
        **MACHINES["3: page faults under load"][1],
        "kernel-log": f"{BOOTED}{FAULT.replace('nvidia 0000:41:00.0', 'nvme 0000:01:00.0')}\n",
    }

    assert machine(texts)[1] == ()


PAGES = Path(__file__).resolve().parents[3] / "docs/reference/stories"
