"""The shipped catalog against what was known of the world on 2026-11-27, fact by fact."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pytest

from rigops.catalog import find_branch, find_gpu, find_xid, judge, load, runs_on
from rigops.catalog.kernels import broken_from, newest_kernel, series
from rigops.catalog.lookup import good_branches, last_cuda, recommended

if TYPE_CHECKING:
    from rigops.catalog.model import DriverBranch, Gpu, ModuleFlavor, Verdict


def _branch(name: str) -> DriverBranch:
    found = find_branch(load(), name)
    assert found is not None
    return found


def _gpu(name: str) -> Gpu:
    found = find_gpu(load(), name).only
    assert found is not None
    return found


def _of(version: str, card: str) -> list[Verdict]:
    return judge(load(), version, _gpu(card))


def _sources(verdict: Verdict) -> str:
    return " ".join(one.where for one in verdict.evidence)


def test_the_catalog_is_of_that_week() -> None:
    assert load().as_of >= date(2026, 11, 27)


@pytest.mark.parametrize(
    ("branch", "kind", "end", "cuda"),
    [
        ("535", "LTSB", "2026-06", "12.2"),
        ("580", "LTSB", "2028-06", "13.0"),
        ("595", "production", "2027-03", "13.2"),
        ("610", "new-feature", "2026-08", "13.3"),
        ("615", "new-feature", "", "13.4"),
        ("620", "LTSB", "2029-09", "13.5"),
    ],
)
def test_a_branch_has_its_term_and_its_cuda(branch: str, kind: str, end: str, cuda: str) -> None:
    found = _branch(branch)

    assert (found.kind, found.end_of_life, found.cuda) == (kind, end, cuda)


@pytest.mark.parametrize(
    ("branch", "where"),
    [
        ("620", "drivers/620/supported-drivers-and-cuda-toolkit-versions.html"),
        ("620", "redistrib_620.70.06.json"),
        ("620", "driver installation guide for 620"),
        ("595", "org.freedesktop.Platform.GL.nvidia#428, #432, #446"),
        ("615", "cupy/cupy#10295"),
    ],
)
def test_what_is_said_of_a_branch_names_its_source(branch: str, where: str) -> None:
    assert any(where in one.where for one in _branch(branch).evidence)


@pytest.mark.parametrize("branch", ["615", "620"])
def test_newest_branches_have_open_modules_only(branch: str) -> None:
    assert _branch(branch).architectures == ()
    assert _branch(branch).open_architectures == (
        "Turing", "Ampere", "Ada", "Hopper", "Blackwell",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("version", "day"),
    [
        ("580.82.09", "2025-09"),
        ("580.119.02", "2025-12"),
        ("580.126.16", "2026-02"),
        ("580.126.18", "2026-02"),
        ("580.126.20", "2026-02"),
        ("580.159.04", "2026-05-14"),
        ("580.167.08", "2026-06-16"),
        ("580.178.04", "2026-08-03"),
        ("595.71.05", "2026-04-28"),
        ("595.80", "2026-05-27"),
        ("595.84", "2026-06-17"),
        ("595.91.07", "2026-08-03"),
        ("595.99.02", "2026-08-27"),
        ("595.104.02", "2026-09-22"),
        ("595.112.07", "2026-10-22"),
        ("615.71.09", "2026-09-09"),
        ("610.43.03", "2026-07-07"),
        ("610.57.04", "2026-08-03"),
        ("620.70.06", "2026-11-04"),
    ],
)
def test_a_release_is_listed_with_its_day(version: str, day: str) -> None:
    dates = {one.version: one.date for one in _branch(version[:3]).releases}

    assert dates[version].startswith(day)


@pytest.mark.parametrize(
    ("version", "kernel", "builds"),
    [
        ("580.126.09", "7.0.4", False),
        ("580.126.20", "7.0.4", False),
        ("580.142", "7.0.4", True),
        ("580.142", "7.1.0", False),
        ("580.159.04", "7.1.0", True),
        ("580.173.02", "7.2.6", False),
        ("580.178.04", "7.2.6", True),
        ("590.48.01", "6.18.9", True),
        ("590.48.01", "6.19.10", False),
        ("590.48.01", "7.0.0-1011-gcp", False),
        ("595.45.04", "7.0.4", False),
        ("595.58.03", "7.0.4", True),
        ("595.84", "7.1.9", False),
        ("595.91.07", "7.2.4", True),
        ("595.112.07", "7.3.0", False),
        ("610.43.02", "7.2.0", False),
        ("610.43.03", "7.2.0", False),
        ("610.57.04", "7.2.0", True),
    ],
)
@pytest.mark.parametrize("flavor", ["proprietary", "open"])
def test_the_kernel_limit_belongs_to_the_release(
    version: str, kernel: str, flavor: ModuleFlavor, *, builds: bool
) -> None:
    limit = newest_kernel(_branch(version[:3]), version)
    above = bool(limit) and series(kernel) > series(limit)

    assert (not above and not broken_from(load(), version, flavor, kernel)) == builds


def test_590_ends_with_6_18_by_two_reports() -> None:
    (limit,) = _branch("590").kernels

    assert (limit.versions, limit.newest) == ("", "6.18")
    assert {one.where for one in limit.evidence} == {
        "NVIDIA/open-gpu-kernel-modules#1021",
        "GoogleCloudPlatform/ops-agent#2426",
    }


@pytest.mark.parametrize("kernel", ["6.1.187-1", "6.12.118-1"])
@pytest.mark.parametrize(
    ("version", "builds"),
    [
        ("535.288.01", False),
        ("535.261.03", False),
        ("570.86.16", False),
        ("570.211.01", False),
        ("580.119.02", False),
        ("580.126.09", True),
        ("590.44.01", False),
        ("590.48.01", True),
        ("595.45.04", True),
    ],
)
def test_a_stable_kernel_s_update_ends_open_modules_that_lack_its_change(
    version: str, kernel: str, *, builds: bool
) -> None:
    assert bool(broken_from(load(), version, "open", kernel)) != builds
    assert not broken_from(load(), version, "proprietary", kernel)


@pytest.mark.parametrize(
    ("kernels", "where", "said"),
    [
        ("7.0", "open-gpu-kernel-modules#1113", "one user still fails with 595.58.03"),
        ("7.0", "start-technologies#3226", "580.126.20"),
        ("7.1", "void-packages#61087", "580.159.04"),
        ("7.2", "open-gpu-kernel-modules#1224", "610.43.02 and 610.43.03 fail"),
    ],
)
def test_a_change_of_the_kernel_names_who_saw_it(kernels: str, where: str, said: str) -> None:
    (change,) = [one for one in load().kernel_changes if one.kernels == (kernels,)]

    assert any(one.where.endswith(where) and said in one.hardware for one in change.evidence)


def test_535_says_that_default_wheels_are_too_new_for_it() -> None:
    (good,) = [one for one in _branch("535").verdicts if one.status == "known-good"]

    assert "CUDA 13" in good.short
    assert "cu129" in good.why
    assert {"vllm-project/vllm#39878", "eullm/eullm#428"} <= {one.where for one in good.evidence}


def test_a_v100_ends_with_580_and_cuda_12() -> None:
    assert _gpu("V100-SXM2-16GB").last_branch == "580"
    assert last_cuda(load(), _gpu("V100-SXM2-16GB")) == "12"


@pytest.mark.parametrize(
    ("version", "card", "status"),
    [
        ("580.178.04", "3090", "known-good"),
        ("580.178.04", "5090", "known-good"),
        ("580.178.04", "V100-SXM2-16GB", "known-good"),
        ("580.159.04", "5090", "caution"),
        ("595.58.03", "5090", "caution"),
        ("595.91.07", "5070 Ti", "caution"),
        ("595.71.05", "RTX PRO 6000", "caution"),
        ("595.71.05", "3090", "caution"),
        ("610.57.04", "5080", "caution"),
        ("615.71.09", "3090", "caution"),
        ("620.70.06", "3090", "caution"),
    ],
)
def test_a_release_is_judged_by_reports(version: str, card: str, status: str) -> None:
    assert _of(version, card)[0].status == status


@pytest.mark.parametrize(
    ("version", "card", "thread"),
    [
        ("580.159.04", "5090", "#1151"),
        ("595.58.03", "5090", "#1080"),
        ("595.71.05", "RTX PRO 6000", "#1159"),
        ("595.71.05", "3090", "#1134"),
        ("595.91.07", "5070 Ti", "#1146"),
        ("610.43.03", "5060 Ti", "#1243"),
    ],
)
def test_a_caution_on_a_card_names_its_thread(version: str, card: str, thread: str) -> None:
    named = [_sources(one) for one in _of(version, card) if one.purpose == "stability"]

    assert any(f"NVIDIA/open-gpu-kernel-modules{thread}" in one for one in named)


@pytest.mark.parametrize(("card", "last"), [("3090", "595.71.05"), ("5090", "595.91.07")])
def test_no_report_speaks_of_newer_595(card: str, last: str) -> None:
    versions = [one.version for one in _branch("595").releases]
    first_without = versions[versions.index(last) + 1]

    assert _of(last, card)
    assert _of(first_without, card) == _of(versions[-1], card) == []


@pytest.mark.parametrize(
    ("card", "of_580", "of_595"),
    [
        ("V100-SXM2-16GB", ("proprietary",), ()),
        ("3090", ("proprietary", "open"), ("proprietary", "open")),
        ("4090", ("proprietary", "open"), ("proprietary", "open")),
        ("5090", ("open",), ("open",)),
        ("RTX PRO 6000 Blackwell Workstation Edition", ("open",), ("open",)),
    ],
)
def test_580_is_what_to_run_by_the_modules_that_the_card_needs(
    card: str, of_580: tuple[str, ...], of_595: tuple[str, ...]
) -> None:
    best = recommended(load(), [_gpu(card)])

    assert best is not None
    assert best.branch == "580"
    assert runs_on(best, _gpu(card)).flavors == of_580
    assert runs_on(_branch("595"), _gpu(card)).flavors == of_595


@pytest.mark.parametrize("card", ["V100-SXM2-16GB", "3090", "4090"])
def test_535_is_good_for_frozen_stacks_of_cuda_12_and_ended(card: str) -> None:
    assert "535" in {one.branch for one in good_branches(load(), [_gpu(card)])}
    (good,) = [one for one in _of("535.309.01", card) if one.status == "known-good"]
    assert "programs of CUDA 12 run" in good.why
    assert "no more fixes" in good.why


def test_pairs_of_3090_were_reported_to_serve_on_595() -> None:
    (good,) = [one for one in _of("595.71.05", "3090") if one.status == "known-good"]

    assert "club-3090" in _sources(good)
    assert "reports of home rigs" in good.why


def test_p2p_on_linux_7_0_is_one_report_and_has_a_counterexample() -> None:
    (found,) = [one for one in _of("595.58.03", "3090") if one.purpose == "p2p"]

    assert "one report" in found.short
    assert {"#24", "#39"} <= {one.where.partition("modules")[2] for one in found.evidence}
    assert not any(one.purpose == "p2p" for one in _of("595.58.03", "4090"))


@pytest.mark.parametrize("card", ["5060 Ti", "5070", "5070 Ti", "5080", "5090"])
def test_a_blackwell_card_names_both_keys_their_cost_and_when(card: str) -> None:
    own = _gpu(card).p2p_own

    assert "RMForceStaticBar1=1;PeerMappingOverride=1" in own
    assert "Only if it is granted and NCCL still hangs" in own
    assert "3.2 %" in own
    assert "1.8 %" in own
    assert any("club-3090#873" in one.where for one in _gpu(card).evidence)


@pytest.mark.parametrize(
    ("card", "said"),
    [
        ("3090", "595.71.05"),
        ("3090", "NVLink stays the path"),
        ("3090", "libcuda refuses"),
        ("4090", "595.71.05"),
        ("4090", "RTX 6000 Ada"),
        ("4090", "48 GB"),
        ("5090", "55 to 56 GB/s one way"),
        ("5060 Ti", "595.91.07"),
        ("5060 Ti", "610.57.04 on Linux 7.0"),
        ("5080", "no report of a pair"),
    ],
)
def test_own_modules_give_a_card_what_was_reported(card: str, said: str) -> None:
    assert said in _gpu(card).p2p_own


@pytest.mark.parametrize(
    ("card", "where"),
    [
        ("3090", "aikitoria/open-gpu-kernel-modules: README at 08dc345"),
        ("3090", "aikitoria/open-gpu-kernel-modules#40"),
        ("4090", "aikitoria/open-gpu-kernel-modules: README at 08dc345"),
        ("4090", "aikitoria/open-gpu-kernel-modules#25, #38"),
        ("5060 Ti", "aikitoria/open-gpu-kernel-modules#39"),
        ("5090", "aikitoria/open-gpu-kernel-modules: README at 08dc345"),
    ],
)
def test_what_own_modules_give_names_its_source(card: str, where: str) -> None:
    assert where in {one.where for one in _gpu(card).evidence}


def test_peers_of_a_virtual_machine_s_clique_were_a_mirror() -> None:
    (found,) = [one for one in _of("610.57.04", "3090") if one.purpose == "p2p"]

    assert found.short == "in a virtual machine P2P copies read zeros"
    assert "x-nv-gpudirect-clique" in found.why
    assert "NVIDIA/nccl#2335" in _sources(found)


@pytest.mark.parametrize("branch", ["615", "620"])
def test_nothing_is_said_of_peers_where_there_is_no_report(branch: str) -> None:
    assert not any(one.purpose == "p2p" for one in _branch(branch).verdicts)


@pytest.mark.parametrize("card", ["3090", "4090", "5060 Ti", "5070", "5080", "5090"])
def test_stock_modules_are_judged_apart_from_own_ones(card: str) -> None:
    assert _gpu(card).p2p in {"none", "nvlink-or-none"}
    assert "atched" not in _gpu(card).p2p_why


def test_xid_79_is_not_blamed_on_one_circuit_or_one_branch() -> None:
    xid = find_xid(load(), 79)
    assert xid is not None
    (thread,) = [one for one in xid.evidence if one.where.endswith("#1151")]

    assert "no driver branch cures them" in xid.reading
    assert all(one in thread.hardware for one in ("580.159.04", "595.71.05", "610.57.04"))
    assert "the others found no cause" in thread.hardware


@pytest.mark.parametrize(
    ("card", "watts"),
    [
        ("RTX PRO 6000 Blackwell Workstation Edition", (150, 600)),
        ("RTX PRO 6000 Blackwell Server Edition", (300, 600)),
        ("RTX PRO 6000 Blackwell Max-Q Workstation Edition", (250, 325)),
    ],
)
def test_an_rtx_pro_6000_has_its_limits_of_power(card: str, watts: tuple[int, int]) -> None:
    assert (_gpu(card).watts_min, _gpu(card).watts_max) == watts
    assert any("blackwell-power-limit-sweep" in one.where for one in _gpu(card).evidence)


@pytest.mark.parametrize(
    ("typed", "name", "memory"),
    [
        ("10de:2c34", "RTX PRO 4000 Blackwell", 24),
        ("10de:2c31", "RTX PRO 4500 Blackwell", 32),
        ("NVIDIA RTX PRO 5000 Blackwell", "RTX PRO 5000 Blackwell", 48),
        ("NVIDIA RTX PRO 5000 72GB Blackwell", "RTX PRO 5000 72GB Blackwell", 72),
        ("10de:2685", "GeForce RTX 4090 D", 24),
        ("10de:2b87", "GeForce RTX 5090 D", 32),
        ("10de:2b8c", "GeForce RTX 5090 D v2", 24),
        ("NVIDIA GB10", "GB10", 128),
        ("RTX 4090 48GB", "GeForce RTX 4090", 24),  # has no identity of its own
    ],
)
def test_a_card_that_was_missing_is_known(typed: str, name: str, memory: int) -> None:
    assert (_gpu(typed).name, _gpu(typed).memory_gib) == (name, memory)


def test_two_cards_of_one_device_id_are_told_apart_by_their_names_alone() -> None:
    assert find_gpu(load(), "10de:2bb3").found == ()


def test_a_borrowed_spike_factor_says_so() -> None:
    measured = {"GeForce RTX 3090", "GeForce RTX 5090"}
    for gpu in load().gpus:
        marked = any(
            "spike factor: " in one.where and ("borrowed" in one.where or "taken over" in one.where)
            for one in gpu.evidence
        )
        assert marked or gpu.name in measured or "V100" in gpu.name, gpu.name


def test_every_setting_of_the_firmware_has_an_address_or_says_that_none_is_known() -> None:
    rows = [
        one for setting in load().firmware for board in setting.boards for one in board.evidence
    ]

    assert not [one.where for one in rows if "found by" in one.where]
    assert all("address not known" in one.where for one in rows if "public notes" in one.where)
