"""Results of preflight in lines: a matrix for each host, then the pairs that failed."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from rigops.hostside.p2p.verdict import (
    ALONE,
    FAIL,
    GRAVEST_FIRST,
    HIGHEST,
    OK,
    REFUSED,
    SKIPPED,
    STATUS_OF,
    UNKNOWN,
    WARN,
)
from rigops.preflight.environment import environment
from rigops.preflight.found import HostFound, PairFound
from rigops.preflight.headline import failure_of_pairs, failure_text, in_a_word, paragraph
from rigops.probe.lost_cards import ADVICE
from rigops.record.proven import no_access
from rigops.report.closing import Row, Step, step_after
from rigops.report.terminal import styled, visible
from rigops.report.words import MARGIN, grouped, without_place, wrapped

_COLORS = {"fail": "red", "unknown": "magenta", "warn": "yellow", "ok": "green", "skipped": "cyan"}
_ONE_PAIR = 2
_NAMED = 3  # pairs with the same evidence

_UNTIL = "; until preflight passes, declare this and run `rigops apply`:"
_UNTIL_INSIDE = "; until preflight passes, start the container with this:"
PROVEN = "Proven for each pair, all at once and between processes: copies, kernels, flags."
ALONE_PROVEN = (
    "Proven for each pair: copies, kernels, flags. "
    "Not proven: all pairs at once or other processes."
)
COPIED = "Copies are proven. Not proven: kernel access, flags."
NOTHING_GRANTED = "No pair has peer access: nothing to test between GPUs."
NOT_PROVEN = "Peer-to-peer is not proven."
_COLLECTIVES = {
    "proven": "Collectives are proven.",
    "not proven": "Collectives are not proven.",
    "failed": "Collectives fail.",
}


def preflight_lines(hosts: Sequence[HostFound], width: int, *, is_brief: bool = False) -> list[str]:
    """Worst first. `is_brief`: without those where nothing is wrong."""
    ordered = sorted(hosts, key=lambda host: GRAVEST_FIRST.index(host.status))
    shown = [one for one in ordered if not is_brief or one.status in {FAIL, UNKNOWN}]
    lines = [line for host in shown for line in (*_host(host, width), "")]
    return [*lines, *([] if is_brief else _last_lines(hosts))]


def preflight_rows(hosts: Sequence[HostFound]) -> list[Row]:
    return [_row(host) for host in hosts]


def _row(host: HostFound) -> Row:
    if host.status == FAIL:
        return Row(host.host, FAIL, "FAIL", failure_text(host), Step("doctor"))
    if host.status == UNKNOWN:
        why = host.error.message if host.error else next(iter(host.reasons), "")
        step = step_after(host.error, "preflight") if host.error else Step("preflight")
        return Row(host.host, UNKNOWN, "unknown", without_place(why, host.host), step)
    if host.nothing_to_prove or host.status == SKIPPED:
        why = host.nothing_to_prove or next(iter(host.reasons), "")
        return Row(host.host, OK, "not tried", why)
    level = f"level {host.level}" if host.level else ""
    if host.status == WARN:
        return Row(host.host, WARN, WARN, next(iter(host.reasons), level), Step("doctor"))
    return Row(host.host, OK, OK, level)


def _last_lines(hosts: Sequence[HostFound]) -> list[str]:
    """One line where all hosts have the same."""
    by_words = grouped(hosts, proven_text)
    if len(by_words) == 1:
        return list(by_words)
    return [
        f"{', '.join(host.host for host in same)}: {words}"
        for words, same in sorted(by_words.items())
    ]


def proven_text(host: HostFound) -> str:
    collectives = _COLLECTIVES[host.collectives.verdict]
    if host.nothing_to_prove and not host.pairs:
        return f"{host.nothing_to_prove}."
    if host.nothing_to_prove:
        return f"{NOTHING_GRANTED} {collectives}"
    if host.level in (None, "L0") or host.status in ("fail", "unknown", "skipped"):
        return f"{NOT_PROVEN} {collectives}"
    proven = PROVEN if host.level == HIGHEST else ALONE_PROVEN
    return f"{COPIED if host.level < ALONE else proven} {collectives}"


def _host(host: HostFound, width: int) -> Iterator[str]:
    yield styled(host.host, bold=True) + "  " + ", ".join(_about(host))
    if host.error is not None:
        yield from wrapped(f"{host.error.kind}: {host.error.message}", width)
    for reason in host.reasons:
        yield from wrapped(reason, width)
    if host.needs_reboot:
        yield from wrapped("a process is stuck in the driver; fix: reboot the host", width)
    if host.lost:
        yield from wrapped(f"fix: {ADVICE}", width)
    elif len(host.gpus) >= _ONE_PAIR:
        yield from _tried(host, width)
        yield from _collectives(host, width)
        if host.status == FAIL:
            yield from _fix(host, width)
            yield from wrapped("to paste into an issue:", width)
            yield from wrapped(paragraph(host), width, MARGIN * 2)


def _about(host: HostFound) -> Iterator[str]:
    if failed := failure_of_pairs(host):
        yield f"{_styled(host.status)}: {failed}"
    else:
        yield host.nothing_to_prove or _styled(host.status)
        if host.level:
            yield f"level {host.level}"
    if host.container is not None:
        yield f"in container {host.container.name} ({host.container.engine})"
    if host.predicted_nccl_transport:
        yield f"NCCL will use {host.predicted_nccl_transport}"


def _fix(host: HostFound, width: int) -> Iterator[str]:
    stopgap, is_inside = environment(host).variables, host.container is not None
    until = (_UNTIL_INSIDE if is_inside else _UNTIL) if stopgap else ""
    yield from wrapped(f"fix: resolve what `rigops doctor {host.host}` finds{until}", width)
    for variable in stopgap:
        named = f'"nccl": {{"{variable.name}": "{variable.value}"}}'
        yield MARGIN * 2 + (f"-e {variable.name}={variable.value}" if is_inside else named)


def _tried(host: HostFound, width: int) -> Iterator[str]:
    if nothing := no_access([pair.verdict for pair in host.pairs]):
        yield from () if host.nothing_to_prove else wrapped(nothing, width)
    else:
        yield from _matrix(host)
        if host.together and len(host.gpus) > _ONE_PAIR:
            yield from wrapped(str(host.together), width)
        yield from _pairs(host, width)


def _matrix(host: HostFound) -> Iterator[str]:
    """Rows send and columns receive: GB/s where all works, else how far it went."""
    names = [gpu.address for gpu in host.gpus]
    pairs = {(pair.source, pair.target): pair for pair in host.pairs}
    cells = [[_cell(pairs, row, column) for column in names] for row in names]
    wide = max(len(text) for text in (*names, *(text for row in cells for text, _ in row)))
    yield MARGIN + "from \\ to".ljust(wide) + "".join(f"  {name:>{wide}}" for name in names)
    for name, row in zip(names, cells, strict=True):
        colored = (styled(f"  {text:>{wide}}", fg=color) for text, color in row)
        yield MARGIN + name.ljust(wide) + "".join(colored)


def _cell(
    pairs: Mapping[tuple[str, str], PairFound], source: str, target: str
) -> tuple[str, str | None]:
    if source == target:
        return "-", None
    pair = pairs.get((source, target))
    if pair is None:
        return "?", _COLORS["unknown"]
    color = _COLORS[_status(pair)]
    if pair.verdict != "ok":
        level = "" if pair.verdict in (*REFUSED, "skipped", "unknown") else f" {pair.level}"
        return f"{_word(pair)}{level}", color
    speed = "" if pair.gb_per_s is None else f"{pair.gb_per_s:.1f} GB/s "
    return f"{speed}{'copied' if pair.is_only_copied else pair.level}", color


def _pairs(host: HostFound, width: int) -> Iterator[str]:
    for status, text, evidence in pairs_to_explain(host):
        word, _, which = text.partition("  ")
        yield MARGIN + styled(word, fg=_COLORS[status]) + f"  {which}"
        for line in evidence:
            yield from wrapped(line, width, MARGIN * 2)


def pairs_to_explain(host: HostFound) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Status, words and evidence of pairs that are not ok; with the same evidence together."""
    wrong = [pair for pair in host.pairs if pair.verdict != "ok" or pair.level != HIGHEST]
    alike = grouped(wrong, lambda pair: (_status(pair), _word(pair), pair.evidence))
    for (status, word, evidence), pairs in sorted(
        alike.items(), key=lambda entry: GRAVEST_FIRST.index(entry[0][0])
    ):
        which = ", ".join(f"{pair.source} to {pair.target}" for pair in pairs[:_NAMED])
        which += f" and {len(pairs) - _NAMED} more" if len(pairs) > _NAMED else ""
        every = len(pairs) == len(host.pairs) and len(pairs) > 1
        yield status, f"{word}  {'every pair' if every else which}", evidence


def _collectives(host: HostFound, width: int) -> Iterator[str]:
    found, text = host.collectives, collectives_text(host)
    if found.verdict == "proven":
        yield from wrapped(text, width)
    elif found.evidence:
        yield MARGIN + styled(text, fg="red" if found.verdict == "failed" else None)
        for line in found.evidence:
            yield from wrapped(line, width, MARGIN * 2)


def collectives_text(host: HostFound) -> str:
    found = host.collectives
    by = f" by NCCL {found.version}" if found.version else ""
    if found.verdict != "proven":
        return f"collectives{by}: {found.verdict}"
    arms = [(" with P2P", found.p2p_gb_per_s), (" without P2P", found.control_gb_per_s)]
    proven = found.verdict
    if no_access([pair.verdict for pair in host.pairs]):  # both arms take the same way
        arms = [("", found.control_gb_per_s)]
        proven = f"{proven} through host memory"
    speeds = [f"{speed:.1f} GB/s{how}" for how, speed in arms if speed is not None]
    return f"collectives{by}: {', '.join([proven, *speeds])}"


def _word(pair: PairFound) -> str:
    if pair.is_only_copied:
        return "copied"
    return "no access" if pair.verdict == "not_granted" else pair.verdict.replace("_", " ")


def _status(pair: PairFound) -> str:
    return WARN if pair.is_only_copied else STATUS_OF[pair.verdict]


def _styled(status: str) -> str:
    return styled(status, fg=_COLORS[status])


def environment_lines(found: HostFound) -> list[str]:
    """Only comments and exports, each line printable."""
    return [visible(line) for line in _environment_lines(found)]


def _environment_lines(found: HostFound) -> Iterator[str]:
    advice = environment(found)
    day = f", {found.at[:10]}" if found.at else ""
    yield f"# rigops preflight {found.host}{day}: {in_a_word(found)}"
    for variable in advice.variables:
        yield f"# why: {variable.why}"
        yield f"# until when: {variable.until}"
        yield f"export {variable.name}={shlex.quote(variable.value)}"
    for note in advice.notes:
        yield f"# {note}"
