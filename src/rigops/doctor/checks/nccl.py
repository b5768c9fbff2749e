"""NCCL: which transport it will choose, and what was left behind that changes its mind."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Final

from rigops.catalog.links import (
    CHANGED_IN,
    NEAR_TO_FAR,
    SHARED_MEMORY,
    Transports,
    predict,
)
from rigops.doctor.check import Check
from rigops.doctor.examined import Examined
from rigops.doctor.finding import Evidence, Finding, Fix, fix_by_hand
from rigops.doctor.views import peers, proof
from rigops.doctor.views.peers import Grants
from rigops.probe.sections.nccl import SECTION as NCCL
from rigops.probe.sections.nccl import Nccl, Setting
from rigops.probe.sections.nvidia_smi_p2p import READ as P2P_READ
from rigops.probe.sections.nvidia_smi_topo import SECTION as TOPOLOGY
from rigops.record import Proven

_PROCESSORS: Final = ("AuthenticAMD", "GenuineIntel")
_OLD_NAMES: Final = {"SOC": "SYS"}
_OFF: Final = frozenset({"", "0"})
_TRUSTED_LEVEL: Final = "L3"  # copies alone do not prove what NCCL does
_SHOWN_LIBRARIES: Final = 4
_SHOWN_FILES: Final = 3
_SLOW = (
    "Such a setting is often set against a hang and forgotten. NCCL then avoids the direct way "
    "between the cards for every program, and training may be several times slower without any "
    "message."
)


@Check("nccl.level", needs=(NCCL, TOPOLOGY, P2P_READ))
def level(examined: Examined) -> Finding:
    """Which transport NCCL will choose.

    Computes from the grants, from the links in `nvidia-smi topo -m`, the number of cards and the
    maker of the processor whether NCCL will copy directly (P2P) or through the host's memory (SHM),
    before and since version 2.23.4, which changed the rule. Always information: SHM is slower on
    most rigs and faster on some, so measure.
    """
    nothing = peers.no_pairs(examined)
    if nothing is not None:
        return nothing
    found = peers.classify_pairs(examined)
    if found.undetermined or not found.total or not found.all_seen:
        return _unknown("the driver's grants between the cards are not known")
    known = examined.snapshot[NCCL].value
    predictions = _predictions(examined, found, known.processor if known else None)
    if not predictions:
        return _unknown("how the cards are connected is not known")
    if len(predictions) > 1:
        return _unknown("it depends on the maker of the processor, which was not collected")
    return _predicted(examined, next(iter(predictions)))


def _unknown(reason: str) -> Finding:
    return Finding("unknown", f"NCCL's transport: {reason}")


def _predictions(examined: Examined, found: Grants, processor: str | None) -> set[Transports]:
    """More than one where it depends on what is not known."""
    if not found.granted:
        staged = SHARED_MEMORY
        return {Transports(staged, staged)}
    links: dict[tuple[str, str], str] = {}
    granted: set[tuple[str, str]] = set()
    for pair in (*found.granted, *found.refused):
        link = "NV" if pair.has_nvlink else _OLD_NAMES.get(pair.link or "", pair.link)
        if link not in NEAR_TO_FAR:
            return set()
        both = ((pair.one.address, pair.other.address), (pair.other.address, pair.one.address))
        links.update(dict.fromkeys(both, link))
        if pair in found.granted:
            granted.update(both)
    return {
        predict(links, granted, gpus=len(examined.cards), processor=one)
        for one in ([processor] if processor else _PROCESSORS)
    }


def _predicted(examined: Examined, found: Transports) -> Finding:
    snapshot, known = examined.snapshot, examined.snapshot[NCCL].value
    settings = (
        [
            one
            for one in known.settings
            if one.name.startswith(("NCCL_P2P_", "NCCL_SHM_", "NCCL_IB_"))
        ]
        if known
        else []
    )
    libraries = known.libraries[:_SHOWN_LIBRARIES] if known else ()
    changed = " (settings were found that change this)" if settings else ""
    first = CHANGED_IN
    older = "" if found.before == found.since else f" (before {first}: {found.before})"
    return Finding(
        "info",
        f"NCCL will use {found.since}{older}{changed}",
        (
            *peers.rows(snapshot, TOPOLOGY),
            *(Evidence(NCCL.name, one.line) for one in settings),
            *(Evidence(NCCL.name, one.path) for one in libraries),
        ),
        why="NCCL chooses by what the driver grants and by how far apart the cards are; it never "
        f"tries whether peer copies work. Since {first} it no longer crosses host bridges but for "
        "two cards on an AMD processor, so a new PyTorch can change the transport of a host on "
        "which nothing was changed.",
        data={"before": found.before, "since": found.since},
    )


@Check("nccl.conf_stale", needs=(NCCL, *proof.NEEDS), fixes=("hands",))
def stale(examined: Examined) -> Finding | list[Finding]:
    """No forgotten setting keeps NCCL from P2P.

    Looks into /etc/nccl.conf, ~/.nccl.conf, profiles, environment files and systemd units for
    NCCL_P2P_DISABLE, NCCL_P2P_LEVEL=LOC, NCCL_SHM_DISABLE and NCCL_IB_*. One that the inventory
    does not declare with this value is a warning that names the file and the line. So is one that
    turns P2P off, declared or not, while the last preflight still proves it: a warning where that
    tried more than copies (from level L3 on), else information. Each home is read with its owner's
    rights, and there only regular files of that owner. With other files there, or without root, the
    answer is unknown.
    """
    known = examined.snapshot[NCCL].value
    if known is None:
        late = examined.snapshot[NCCL].timed_out
        summary = "NCCL's settings were not " + ("read in time" if late else "collected")
        return Finding("unknown", summary)
    declared = dict(examined.spec.nccl or ())
    proven = _proven_copies(examined)
    left = [one for one in known.settings if _is_left(one, declared)]
    needless = [one for one in known.settings if proven and one not in left and _turns_p2p_off(one)]
    if left or needless:
        return [
            *(_left_behind(one, proven) for one in left),
            *(_needless(one, proven) for one in needless if proven),
        ]
    gap = _gap(examined, known)
    if gap:
        return Finding("unknown", f"no setting was found, {gap}")
    return Finding("ok", "no setting that was not declared keeps NCCL from P2P")


def _proven_copies(examined: Examined) -> Proven | None:
    """The last preflight, where it passed, speaks for what is there now and proved a pair."""
    last = proof.last_proof(examined)
    proven = last.proven if last is not None and last.holds else None
    has_pair = proven is not None and any(pair.verdict == "ok" for pair in proven.pairs)
    return proven if has_pair else None


def _is_left(setting: Setting, declared: dict[str, str]) -> bool:
    if declared.get(setting.name) == setting.value:
        return False
    if setting.name == "NCCL_SHM_DISABLE":
        return setting.value not in _OFF
    return _turns_p2p_off(setting) or setting.name.startswith("NCCL_IB_")


def _turns_p2p_off(setting: Setting) -> bool:
    if setting.name == "NCCL_P2P_DISABLE":
        return setting.value not in _OFF
    return setting.name == "NCCL_P2P_LEVEL" and setting.value.upper() in {"LOC", "0"}


def _needless(setting: Setting, proven: Proven) -> Finding:
    """Declared, and the reason may be gone."""
    return Finding(
        "warn" if proven.level >= _TRUSTED_LEVEL else "info",
        f"{setting.name}={setting.value} is declared: {_passes(proven)}",
        (Evidence(NCCL.name, setting.line),),
        subject=setting.file,
        why=_SLOW,
        fix=fix_by_hand(
            f"take {setting.name} out of `nccl` in the inventory and run `rigops apply`, then "
            "restart the programs"
        ),
    )


def _passes(proven: Proven) -> str:
    return f"still disabled though preflight passes ({proven.at[:10]}, level {proven.level})"


def _left_behind(setting: Setting, proven: Proven | None) -> Finding:
    place = f"{setting.file} line {setting.number}"
    assignment = f"{setting.name}={setting.value}"
    passes = f": {_passes(proven)}" if proven and _turns_p2p_off(setting) else ""
    return Finding(
        "warn",
        f"{assignment} is set and not declared ({place}){passes}",
        (Evidence(NCCL.name, setting.line),),
        subject=setting.file,
        why=_SLOW,
        fix=Fix(
            kind="hands",
            declare={"nccl": {setting.name: setting.value}},
            text=f"take {assignment} out of {place} and restart the programs (log in again, or "
            "restart the unit); if it is meant to stay, because preflight failed without it, "
            "declare it under `nccl`",
        ),
    )


def _gap(examined: Examined, known: Nccl) -> str:
    """Why what was not found may still be there."""
    if not examined.snapshot[NCCL].is_complete or not known.is_complete:
        return "and the files were not searched to the end"
    if known.closed:
        homes = ", ".join(known.closed)
        how = "without root" if examined.snapshot[NCCL].without_root else "as their owners"
        return f"and {how} {homes} could not be searched"
    if known.unread:
        named = ", ".join(known.unread[:_SHOWN_FILES])
        more = len(known.unread) - _SHOWN_FILES
        more_words = f" and {more} more" if more > 0 else ""
        return f"and only regular files of a home's owner are read, not {named}{more_words}"
    return "and some lines could not be parsed" if known.unparsed else ""


@Check("vllm.cache", needs=(NCCL,))
def cache(examined: Examined) -> Finding | list[Finding]:
    """Cached verdicts of vLLM on P2P.

    Lists ~/.cache/vllm/gpu_p2p_access_cache_for_*.json with their dates. vLLM never renews them, so
    one from before a change of driver, BIOS or slots may be wrong. Information only: changes since
    then are not judged.
    """
    known = examined.snapshot[NCCL].value
    if known is None:
        return Finding("unknown", "vLLM's caches were not collected")
    if known.caches:
        return [_remembered(one.path, one.epoch, one.line) for one in known.caches]
    gap = _gap(examined, known)
    if gap:
        return Finding("unknown", f"no cache of vLLM was found, {gap}")
    return Finding("ok", "vLLM remembers no verdict on P2P")


def _remembered(path: str, modified: int, line: str) -> Finding:
    day = datetime.fromtimestamp(modified, tz=timezone.utc).date().isoformat()
    return Finding(
        "info",
        f"vLLM goes by what it found out about P2P on {day}",
        (Evidence(NCCL.name, line),),
        subject=path,
        why="vLLM tests peer access once and believes the answer ever after. If the driver, the "
        "kernel's arguments, the BIOS or the slots have changed since then, the answer may be "
        "wrong in either direction; the file can be deleted at any time, and vLLM tests again.",
        data={"modified": modified},
    )
