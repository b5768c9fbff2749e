"""What doctor says of the last preflight that was recorded on a host."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from rigops.probe.sections.rigops_state import OWNED_FILES, STRAYS
from rigops.record import Driver, Pair
from rigops.record.proven import BEGUN, FailedProof
from rigops.record.shell import FAILED_PROOF, PROVEN
from tests.unit.doctor import peer_rigs as rigs
from tests.unit.record import examples

if TYPE_CHECKING:
    from rigops.doctor.finding import Finding

CHECK = "p2p.proof"
A, B = "0000:41:00.0", "0000:42:00.0"
HANG = Pair(A, B, "hang", None)
WRONG = Pair(B, A, "wrong_data", None)
PROOF = replace(
    examples.PROVEN,
    at="2026-11-20T08:00:00Z",
    driver=Driver("535.261.03", "proprietary"),
    kernel="6.1.0-18-amd64",
    command_line=("ro", "iommu=pt"),
    gpus=tuple(replace(examples.FIRST, address=address) for address in (A, B)),
    level="L5",
)
FAILURE = FailedProof(at="2026-11-21T08:00:00Z", versions={}, pairs=(HANG, WRONG))
PAIR = {
    **rigs.rig(rigs.RTX_3090, rigs.RTX_3090, cell="OK"),
    "uname": "Linux rig 6.1.0-18-amd64 #1 SMP x86_64 GNU/Linux\n",
    "proc-cmdline": "ro iommu=pt\n",
    "nvidia-version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.261.03  Thu 2025\n",
}


def state(**records: str) -> str:
    paths = {"proven": PROVEN, "failed": FAILED_PROOF}
    shown = "".join(f"== {paths[name]}\n{text}\n" for name, text in records.items())
    return f"{shown}== {OWNED_FILES}\n== {STRAYS}\n"


def look(check: str = CHECK, declared: dict[str, Any] | None = None, **records: str) -> Finding:
    return rigs.look(check, {**PAIR, "rigops-state": state(**records)}, **(declared or {}))


def set_to(line: str, *, declared: bool = False, **records: str) -> tuple[str, str]:
    name, _, value = line.partition("=")
    conf = {"nccl": rigs.NCCL.format("AuthenticAMD", f"{line}\n")}
    texts = {**PAIR, **conf, "rigops-state": state(**records)}
    spec: dict[str, Any] = {"nccl": {name: value}} if declared else {}
    one = rigs.look("nccl.conf_stale", texts, **spec)
    return one.status, one.summary


@pytest.mark.parametrize(
    ("level", "declared", "status"),
    [("L1", True, "info"), ("L3", True, "warn"), ("L1", False, "warn"), ("L3", False, "warn")],
)
@pytest.mark.parametrize("line", ["NCCL_P2P_DISABLE=1", "NCCL_P2P_LEVEL=LOC"])
def test_p2p_that_is_still_disabled_though_it_is_proven(
    line: str, level: str, status: str, *, declared: bool
) -> None:
    found = set_to(line, declared=declared, proven=replace(PROOF, level=level).to_json())

    assert found[0] == status
    assert f"still disabled though preflight passes (2026-11-20, level {level})" in found[1]


def test_a_stopgap_is_right_until_a_proof_holds() -> None:
    refused = replace(PROOF, pairs=(Pair(A, B, "not_granted", None),))
    for records in (
        {},
        {"failed": FAILURE.to_json(), "proven": PROOF.to_json()},
        {"proven": replace(PROOF, kernel="6.1.0-17-amd64").to_json()},
        {"proven": refused.to_json()},
    ):
        assert set_to("NCCL_P2P_DISABLE=1", declared=True, **records)[0] == "ok"
    assert set_to("NCCL_P2P_LEVEL=SYS", declared=True, proven=PROOF.to_json())[0] == "ok"


def test_a_proof_that_speaks_for_what_is_there_is_told_with_its_day_and_level() -> None:
    one = look(proven=PROOF.to_json())

    assert (one.status, one.summary) == ("ok", "proven 2026-11-20, level L5")
    grant = look("p2p.grant", proven=PROOF.to_json())
    assert "advertised, and proven" in grant.summary
    assert "run preflight" not in grant.summary


def test_a_proof_of_copies_alone_is_not_all_that_can_be_proven() -> None:
    one = look(proven=replace(PROOF, level="L1").to_json())
    assert (one.status, one.summary) == (
        "info",
        "proven 2026-11-20, level L1; rigops preflight can go on to L5",
    )


@pytest.mark.parametrize("level", ["", "L5"])  # as some versions recorded it
def test_where_no_pair_has_access_nothing_is_called_proven(level: str) -> None:
    refused = tuple(replace(one, verdict="not_granted") for one in PROOF.pairs)
    one = look(proven=replace(PROOF, level=level, pairs=refused).to_json())

    count = len(PROOF.pairs)
    nothing = f"no pair has peer access ({count} of {count})"
    assert (one.status, one.summary) == (
        "skipped",
        f"nothing to prove: preflight of 2026-11-20, {nothing}",
    )


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"driver": Driver("535.183.01", "proprietary")}, "the driver (535.183.01 then)"),
        ({"kernel": "6.1.0-17-amd64"}, "the kernel (6.1.0-17-amd64 then)"),
        ({"command_line": ("ro",)}, "the kernel arguments"),
        ({"gpus": PROOF.gpus[:1]}, "the cards"),
    ],
)
def test_what_changed_since_a_proof_is_named_and_it_counts_no_more(
    changed: dict[str, Any], named: str
) -> None:
    then = replace(PROOF, **changed).to_json()

    one = look(proven=then)

    assert (one.status, one.summary) == (
        "info",
        f"proven 2026-11-20, level L5; since then changed: {named}",
    )
    assert "not proven: run preflight" in look("p2p.grant", proven=then).summary


def test_a_failure_counts_whatever_was_proven_and_names_its_pairs() -> None:
    one = look(failed=FAILURE.to_json(), proven=PROOF.to_json())

    assert one.status == "fail"
    assert one.summary == f"the preflight of 2026-11-21 failed: hang, {A} to {B} and 1 more pair"
    assert one.fix is not None
    assert "rigops apply" in one.fix.text
    assert "not proven" in look("p2p.grant", failed=FAILURE.to_json()).summary


def test_a_failure_is_named_as_preflight_named_it() -> None:
    text = "wrong data on 2 of 2 pairs (L1, 1 MiB)"

    one = look(failed=replace(FAILURE, failure=text).to_json())

    assert one.summary == f"the preflight of 2026-11-21 failed: {text}"
    assert one.fix is not None
    assert one.fix.text.startswith('until a preflight passes declare "nccl": ')


def test_one_whose_end_nobody_saw_names_what_it_was_about() -> None:
    begun = replace(FAILURE, pairs=(Pair(A, B, BEGUN, None),) * 4).to_json()

    one = look(failed=begun)

    assert one.status == "fail"
    assert "was interrupted, or the machine hung" in one.summary
    assert one.summary.endswith(f"{A} to {B} and 3 more pairs")


def test_a_failure_by_what_is_declared_gives_its_reason() -> None:
    one = look(failed=replace(FAILURE, pairs=(), reasons=("2 GPUs are declared",)).to_json())

    assert one.summary == "the preflight of 2026-11-21 failed: 2 GPUs are declared"


def test_a_damaged_record_of_a_failure_is_a_failure() -> None:
    assert look(failed=FAILURE.to_json()[:-9]).status == "fail"


def test_what_is_not_recorded_is_neither_well_nor_a_fault() -> None:
    assert look().status == "skipped"
    assert rigs.look(CHECK, PAIR).status == "unknown"
    assert look(declared={"p2p": "skip"}, failed=FAILURE.to_json()).status == "skipped"


def test_a_failed_proof_asks_for_the_stopgap_and_once_declared_how_to_stay_without() -> None:
    failed = FAILURE.to_json()
    off = {"nccl": {"NCCL_P2P_DISABLE": "1"}}

    first, then = look(failed=failed), look(declared=off, failed=failed)

    assert first.fix
    assert 'declare "nccl"' in first.fix.text
    assert then.fix
    assert then.fix.text.startswith('to stay without P2P declare "p2p": "skip"')
    assert look(declared={**off, "p2p": "skip"}, failed=failed).status == "skipped"
