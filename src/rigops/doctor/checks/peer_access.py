"""Peer access between the cards: advertised, against what is declared, and proven."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rigops.doctor import views
from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding, Fix, fix_by_hand
from rigops.doctor.views import peers, proof
from rigops.doctor.views.peers import Grants
from rigops.doctor.views.proof import LastProof
from rigops.hostside.p2p.verdict import HIGHEST, REFUSED
from rigops.inventory.spec.model import P2PDemand
from rigops.probe.sections.boot import SECTION as BOOT
from rigops.probe.sections.nvidia_smi_p2p import READ as P2P_READ
from rigops.probe.sections.nvidia_smi_p2p import WRITE as P2P_WRITE
from rigops.probe.sections.nvidia_smi_p2p import PeerMatrix
from rigops.probe.sections.nvidia_smi_topo import SECTION as TOPOLOGY
from rigops.record import Pair
from rigops.record.proven import FailedProof

_UNPROVEN: Final = "advertised, not proven: run preflight"
_PROVEN: Final = "advertised, and proven"
_ONLY_A_CLAIM = (
    "A grant of peer access is a claim about chips and drivers. It looks neither at "
    "the IOMMU nor at ACS, so copies may still hang or arrive wrong: `rigops preflight` moves data "
    "between every two cards and looks at what came."
)
_WITHOUT: Final = (
    "That is normal for GeForce cards without NVLink: data goes through the host's memory, which "
    "is slower, and right."
)
_REMEDIES: Final = {
    "DR": "take the P2P setting out of NVreg_RegistryDwords in /etc/modprobe.d, renew the "
    "initramfs (`update-initramfs -u`) and reboot",
    "TNS": "move the cards to slots of one processor (`nvidia-smi topo -m` should not say SYS)",
    "CNS": "move the cards below one PCIe switch or one root port, or pass them through with a "
    "clique id if this is a virtual machine",
}

_SHOWN_PAIRS: Final = 1
_NOT_TOLD: Final = "U"
_WHY_FAILED_PROOF: Final = (
    "Training that copies between these cards hangs or reads wrong data, whatever the driver "
    "advertises. No earlier proof counts until a preflight has passed."
)
_FIX_FAILED_PROOF: Final = fix_by_hand(
    'until a preflight passes declare "nccl": {"NCCL_P2P_DISABLE": "1"}; resolve what the '
    "other findings name, then run `rigops apply`, which proves it again"
)
_ACCEPT_FAILED_PROOF: Final = fix_by_hand(
    'to stay without P2P declare "p2p": "skip"; to have it, resolve what the other findings '
    "name, then run `rigops apply`, which proves it again"
)
_STOPGAPS: Final = {"NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL"}


@Check(
    "p2p.grant",
    needs=(BOOT, TOPOLOGY, P2P_READ, P2P_WRITE, *proof.NEEDS),
    fixes=("hands", "accept"),
    keys=frozenset({"p2p"}),
)
def grant(examined: Examined) -> Finding:
    """The driver grants the declared access between the cards.

    Reads the matrices of `nvidia-smi topo -p2p r` and `w`. A grant is never taken for working peer
    access: the driver looks neither at the IOMMU nor at ACS, so only preflight can prove it. With
    p2p = "required" a refused pair fails, with "nvlink" one that NVLink connects. Without a
    declaration a refusal is information: on GeForce cards without NVLink the stock driver offers no
    peer access, and that is not a fault.
    """
    demand = examined.spec.p2p
    nothing = peers.no_pairs(examined)
    if nothing is not None:
        return nothing
    if demand == "skip":
        return Finding("skipped", 'p2p = "skip" is declared')
    found = peers.classify_pairs(examined)
    if unmet := _unmet(examined, found, demand):
        return unmet
    if found.undetermined or not found.total:
        return _pasted(examined) or _unknown(examined, found)
    if peers.write_refused(examined.snapshot):
        return _read_only(examined)
    return _advertised(examined, found) if found.granted else _absent(examined, found)


def _unmet(examined: Examined, found: Grants, demand: P2PDemand | None) -> Finding | None:
    """Declared access that is certainly or possibly absent."""
    if demand not in {"required", "nvlink"}:
        return None
    declared = f'p2p = "{demand}" is declared'
    wired = demand == "nvlink"
    refused = [pair for pair in found.refused if not wired or pair.has_nvlink]
    if refused or (not wired and peers.write_refused(examined.snapshot)):
        which = "pairs that NVLink connects" if wired else "pairs"
        many = f"{len(refused)} {which}" if refused else f"writing between some {which}"
        return _refused_grant(examined, found, f"{declared}, and the driver refuses {many}")
    if not wired:
        return None
    pairs = (*found.granted, *found.refused, *found.undetermined)
    if not pairs or any(pair.has_nvlink is None for pair in pairs):
        summary = f"{declared}, and how the cards are connected was not collected"
        return Finding("unknown", summary)
    if found.all_seen and not any(pair.has_nvlink for pair in pairs):
        return _refused_grant(examined, found, f"{declared}, and no NVLink connects any two cards")
    return None


def _refused_grant(examined: Examined, found: Grants, summary: str) -> Finding:
    snapshot = examined.snapshot
    return Finding(
        "fail",
        summary,
        peers.rows(snapshot, P2P_WRITE, TOPOLOGY),
        why=_why_refused(examined, found),
        fix=_fix_grant(examined, found),
    )


def _fix_grant(examined: Examined, found: Grants) -> Fix:
    if examined.spec.p2p == "nvlink":
        return fix_by_hand(
            "switch the machine off, seat the NVLink bridge firmly on both cards, boot, and "
            "look at `nvidia-smi nvlink -s`: every link should show its rate (on a board with "
            "NVSwitch the fabric manager of the driver's own version must run)"
        )
    offered = [model.p2p in {"pcie", "nvlink"} for model in views.models(examined) if model]
    never = bool(offered) and not any(offered)
    if never or any(peers.is_mixed(pair) for pair in found.refused):
        return Fix(
            kind="accept",
            declare={"p2p": "measure"},
            text='the stock driver offers no peer access between these cards: declare "p2p": '
            '"measure", or buy cards that have it (NVLink, or a professional line)',
        )
    texts = [_REMEDIES[letter] for letter in found.letters if letter in _REMEDIES]
    return fix_by_hand("; or ".join(texts) or _LOOK)


_LOOK: Final = (
    "look at the letters with `nvidia-smi topo -p2p r` and `nvidia-smi topo -p2p w`, try a driver "
    "that `rigops drivers` knows to be good for these cards, and boot it"
)


def _unknown(examined: Examined, found: Grants) -> Finding:
    snapshot = examined.snapshot
    matrix = snapshot[P2P_READ].value
    unparsed: tuple[Evidence, ...] = ()
    if matrix is None:
        late = snapshot[P2P_READ].timed_out
        summary = "the driver's grants were not " + ("reported in time" if late else "collected")
    elif not matrix.cells:
        summary = "the driver did not report its grants"
        unparsed = tuple(Evidence(P2P_READ.name, line) for line in matrix.unparsed[:3])
    elif not found.total:
        summary = "which cards the driver's grants are about is not known"
    else:
        known = found.total - len(found.undetermined)
        summary = f"what the driver grants is known for {known} of {found.total} pairs only"
    return Finding("unknown", summary, (*unparsed, *peers.rows(snapshot)))


def _pasted(examined: Examined) -> Finding | None:
    """Of a matrix alone, whose cards nothing names."""
    matrix = examined.snapshot[P2P_READ].value
    if not (examined.snapshot.bundle.paste and matrix and matrix.cells):
        return None
    if matrix.refuses_all and examined.spec.p2p is None:
        return _refused_whole(matrix)
    cells = [cell for (one, other), cell in matrix.cells.items() if one != other]
    if _NOT_TOLD in cells:
        return None
    granted = cells.count(peers.GRANTED)
    return Finding(
        "info",
        f"peer access is granted for {granted} of {len(cells)} ordered pairs, and not proven",
        peers.rows(examined.snapshot),
        why=_ONLY_A_CLAIM,
    )


def _read_only(examined: Examined) -> Finding:
    snapshot = examined.snapshot
    return Finding(
        "warn",
        "the driver grants reading between cards and refuses writing between the same two",
        peers.rows(snapshot, P2P_WRITE),
        why="NCCL wants both and then uses neither; other programs may try what is refused. "
        + _ONLY_A_CLAIM,
        fix=fix_by_hand(
            "run `rigops preflight` to learn what works between these cards; until then keep "
            "programs from trying: export NCCL_P2P_DISABLE=1 for them"
        ),
    )


def _advertised(examined: Examined, found: Grants) -> Finding:
    snapshot, refused = examined.snapshot, len(found.refused)
    kinds = {pair.has_nvlink for pair in found.granted}
    over = " over NVLink" if kinds == {True} else " over PCIe" if kinds == {False} else ""
    rest = f"; {refused} of {found.total} pairs are refused" if refused else ""
    last = proof.last_proof(examined)
    how = f"{_PROVEN if last and last.holds else _UNPROVEN}{rest}"
    return Finding(
        "info",
        f"peer access for {len(found.granted)} of {found.total} pairs{over} is {how}",
        peers.rows(snapshot, TOPOLOGY),
        why=_ONLY_A_CLAIM + (f" {_why_refused(examined, found)}" if refused else ""),
        data={"granted": len(found.granted), "refused": refused},
    )


def _absent(examined: Examined, found: Grants) -> Finding:
    letters = "/".join(found.letters)
    return Finding(
        "info",
        f"the driver offers no peer access between these cards ({letters})",
        peers.rows(examined.snapshot),
        why=_why_refused(examined, found),
        data={"granted": 0, "refused": len(found.refused)},
    )


def _refused_whole(matrix: PeerMatrix) -> Finding:
    """Of cards that no other output names."""
    letters = [letter for letter in peers.LETTERS if letter in matrix.cells.values()]
    return Finding(
        "info",
        f"the driver offers no peer access between its {len(matrix.gpus)} cards "
        f"({'/'.join(letters)})",
        tuple(Evidence(P2P_READ.name, row) for row in matrix.rows),
        why=" ".join((*(f"{peers.LETTERS[letter]}." for letter in letters), _WITHOUT)),
    )


def _why_refused(examined: Examined, found: Grants) -> str:
    """The letters, the cards, and what else makes a refusal expected."""
    parts = [f"{peers.LETTERS[letter]}." for letter in found.letters]
    if any(peers.is_mixed(pair) for pair in found.refused):
        parts.append(peers.MIXED_WHY)
    parts += [
        f"{model.name}: {model.p2p_why}"
        for model in views.models(examined)
        if model is not None and found.refused
    ]
    boot = examined.snapshot[BOOT].value
    machine = boot.virtualization if boot else None
    if found.refused and machine not in {None, "none"}:
        parts.append(f"This is a virtual machine ({machine}), where a refusal is usual.")
    return " ".join(parts)


@Check("p2p.proof", needs=proof.NEEDS, fixes=("hands",))
def last_preflight(examined: Examined) -> Finding:
    """The last preflight has passed, and the state that it depends on is unchanged.

    Reads the records that `rigops apply` and `rigops preflight` left on the host. One that failed
    or was interrupted fails until the next has passed. A proof depends on the driver, the kernel
    and its arguments, the board's firmware and the cards; where one of them changed, this is
    information, since the next apply proves it again; so is one of an earlier version that tried
    less, such as copies only. Where the driver grants no pair access, nothing is proven, and this
    is skipped. The firmware is not compared here.
    """
    nothing = peers.no_pairs(examined)
    if nothing is not None:
        return nothing
    if examined.spec.p2p == "skip":
        return Finding("skipped", 'p2p = "skip" is declared')
    last = proof.last_proof(examined)
    if last is None:
        return Finding("unknown", "the result of the last preflight was not collected")
    if last.has_failed:
        is_off = not _STOPGAPS.isdisjoint(dict(examined.spec.nccl or ()))
        fix = _ACCEPT_FAILED_PROOF if is_off else _FIX_FAILED_PROOF
        pairs = last.failed.pairs if last.failed else ()
        return Finding(
            "fail",
            _failure_of_proof(last.failed),
            why=_WHY_FAILED_PROOF,
            fix=fix,
            data={"verdicts": sorted({one.verdict for one in pairs})},
        )
    return _judge_passed_proof(last)


def _judge_passed_proof(last: LastProof) -> Finding:
    if last.proven is None:
        return Finding("skipped", "no preflight is recorded on the host")
    was_tried = any(one.verdict not in REFUSED for one in last.proven.pairs)
    proven = (
        f"{'proven' if was_tried else 'preflight of'} {last.proven.at[:10]}, {last.proven.reach}"
    )
    if last.changed:
        return Finding("info", f"{proven}; since then changed: {', '.join(last.changed)}")
    if not was_tried:
        return Finding("skipped", f"nothing to prove: {proven}")
    if last.proven.level < HIGHEST:
        return Finding("info", f"{proven}; rigops preflight can go on to {HIGHEST}")
    return Finding("ok", proven)


def _failure_of_proof(failed: FailedProof | None) -> str:
    if failed is None:
        return "the last preflight failed"
    day = failed.at[:10]
    if not failed.has_ended:
        return (
            f"the preflight of {day} was interrupted, or the machine hung: {_named(failed.pairs)}"
        )
    what = failed.failure or "; ".join(failed.reasons) or "no details"
    if failed.pairs and not failed.failure:  # as some versions recorded it
        what = f"{failed.pairs[0].verdict}, {_named(failed.pairs)}"
    return f"the preflight of {day} failed: {what}"


def _named(pairs: Sequence[Pair]) -> str:
    named = ", ".join(f"{one.source} to {one.target}" for one in pairs[:_SHOWN_PAIRS])
    more = len(pairs) - _SHOWN_PAIRS
    return f"{named} and {more} more pair{'s' * (more != 1)}" if more > 0 else named
