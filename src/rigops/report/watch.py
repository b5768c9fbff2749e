"""What is watched, as lines, as JSON, and as the summary at the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from rigops.doctor.finding import Finding
from rigops.report.doctor_details import colored
from rigops.report.terminal import styled, visible
from rigops.report.words import minutes, without_place, wrapped

if TYPE_CHECKING:
    from rigops.doctor.host_report import HostStatus
    from rigops.doctor.watch.seen import CardSeen, HostSeen

SCHEMA: Final = "rigops.watch/1"
# Head and width of each column.
COLUMNS: Final = (
    ("card", 12), ("°C", 4), ("mem°C", 5), ("W/limit", 8), ("MHz", 5), ("memMHz", 6),
    ("load", 5), ("VRAM GiB", 9), ("clocks limited by", 17), ("new", 0),
)  # fmt: skip
LEFT: Final = frozenset({"card", "clocks limited by", "new"})
# In this order: what slows a card down comes first.
_REASONS: Final = {
    "hw_thermal_slowdown": "too hot",
    "hw_power_brake": "power brake",
    "hw_slowdown": "hw slowdown",
    "sw_thermal_slowdown": "warm",
    "sw_power_cap": "power limit",
    "applications_clocks": "app clocks",
    "sync_boost": "sync boost",
    "display_clocks": "display",
    "gpu_idle": "idle",
}
_MIB: Final = 1024


def cells(address: str, card: CardSeen) -> tuple[str, ...]:
    now = card.now
    if now is None:
        return (address, *["-"] * (len(COLUMNS) - 2), _news(card))
    return (
        address,
        _number(now.celsius),
        _number(now.memory_celsius),
        f"{_number(now.watts)}/{_number(now.watts_limit)}",
        _number(now.mhz_sm),
        _number(now.mhz_memory),
        _number(now.utilization_percent) + "%" * (now.utilization_percent is not None),
        f"{_gib(now.memory_used_mib)}/{_gib(now.memory_total_mib)}",
        _limited_by(now.throttle),
        _news(card),
    )


def head_line(widest: int) -> str:
    return _joined("UTC", "host", widest, [name for name, _ in COLUMNS])


def sample_lines(seen: HostSeen, at: str, widest: int) -> Iterator[str]:
    if trouble := trouble_of(seen):
        yield f"{_clock(at)}  {visible(seen.host):{widest}}  {visible(trouble)}"
    if seen.error is None:
        for address, card in sorted(seen.cards.items()):
            yield _joined(_clock(at), seen.host, widest, cells(address, card))


def trouble_of(seen: HostSeen) -> str:
    if seen.error is None:
        return seen.trouble
    return without_place(seen.error.message, seen.host) + ("" if seen.is_over else "; trying again")


def news_line(host: str, at: str, finding: Finding) -> str:
    about = "" if finding.subject == "host" else f"{finding.subject}: "
    return f"{_clock(at)}  {host}: {finding.status}: {about}{finding.summary}"


def sample_document(seen: HostSeen, at: str) -> dict[str, object]:
    cards = [_card_document(address, card) for address, card in sorted(seen.cards.items())]
    found = [_finding_document(one) for one in seen.now]
    host: dict[str, object] = {"host": seen.host, "status": seen.status, "driver": seen.driver}
    host |= {"trouble": seen.trouble or None, "cards": cards, "findings": found}
    if seen.error:
        host |= {"status": "unknown", "cards": [], "findings": []}
        host["error"] = {"kind": seen.error.kind, "message": seen.error.message}
    return {"schema": SCHEMA, "at": at, "hosts": [host]}


def summary_document(
    hosts: Sequence[HostSeen], at: str, seconds: float, status: HostStatus
) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "at": at,
        "status": status,
        "seconds": round(seconds, 1),
        "hosts": [_host_summary(one) for one in hosts],
    }


def summary_lines(hosts: Sequence[HostSeen], seconds: float, width: int) -> Iterator[str]:
    count = f"{len(hosts)} host{'s' * (len(hosts) != 1)}"
    yield f"Watched {count} for {minutes(seconds)}."
    for seen in hosts:
        yield ""
        status = colored(seen.status, seen.status, bold=True)
        yield f"{styled(seen.host, bold=True)}  {status}, {seen.samples} samples"
        if seen.error:
            yield from wrapped(f"Error: {seen.error.message}", width, "  ")
            if seen.error.fix:
                yield from wrapped(f"fix: {seen.error.fix}", width)
        for address, card in sorted(seen.cards.items()):
            about = f"{address}  {card.name}: {_extremes(card)}"
            yield from wrapped(about, width, "  ", hanging="    ")
        if not seen.has_log:
            yield "  Xids were not seen: the kernel log cannot be read without root."
        yield from _finding_lines(seen, width)


def _finding_lines(seen: HostSeen, width: int) -> Iterator[str]:
    for status in ("fail", "warn", "info"):
        for finding, since in seen.findings.values():
            if finding.status != status:
                continue
            about = "" if finding.subject == "host" else f"{finding.subject}: "
            yield from wrapped(
                f"{status}  {_clock(since)} UTC  {about}{finding.summary}",
                width,
                "  ",
                hanging="    ",
            )
            if finding.fix:
                yield from wrapped(f"fix: {finding.fix.text}", width)


def _extremes(card: CardSeen) -> str:
    limit = card.now.watts_limit if card.now else None
    parts = [
        f"up to {_number(card.celsius)} °C",
        *([f"memory {_number(card.memory_celsius)} °C"] if card.memory_celsius else []),
        f"{_number(card.watts)} W" + (f" of {_number(limit)} W" if limit else ""),
        *_held(card),
        *([f"{card.corrected} new corrected errors"] if card.corrected else []),
        *([f"{card.uncorrected} new uncorrected errors"] if card.uncorrected else []),
        *([f"Xid {', '.join(map(str, card.xids))}"] if card.xids else []),
    ]
    return ", ".join(parts)


def _held(card: CardSeen) -> Iterable[str]:
    """Shares of the time. The bit of a hardware slowdown comes with that of its cause."""
    causes = card.held["hw_thermal_slowdown"] + card.held["hw_power_brake"]
    left_out = {"gpu_idle", *(["hw_slowdown"] if causes else [])}
    for reason, words in _REASONS.items():
        if (count := card.held[reason]) and reason not in left_out:
            yield f"{words} {max(1, round(100 * count / card.samples))}%"


def _limited_by(reasons: frozenset[str] | None) -> str:
    if reasons is None:
        return "-"
    return next((words for reason, words in _REASONS.items() if reason in reasons), "nothing")


def _news(card: CardSeen) -> str:
    words = [
        *([f"aer+{card.corrected}"] if card.corrected else []),
        *([f"fatal+{card.uncorrected}"] if card.uncorrected else []),
        *(f"xid{number}" for number in card.xids),
    ]
    return " ".join(words)


def _clock(at: str) -> str:
    """Of RFC 3339."""
    return at[11:19]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def _gib(mebibytes: int | None) -> str:
    return "-" if mebibytes is None else f"{mebibytes / _MIB:.1f}"


def _joined(at: str, host: str, widest: int, row: Sequence[str]) -> str:
    parts = [
        f"{text:<{width}}" if name in LEFT else f"{text:>{width}}"
        for (name, width), text in zip(COLUMNS, row, strict=True)
    ]
    return "  ".join([f"{at:8}", f"{visible(host):{widest}}", *parts]).rstrip()


def _card_document(address: str, card: CardSeen) -> dict[str, object]:
    now = card.now
    return {
        "address": address,
        "name": card.name,
        "reported": now is not None,
        "celsius": now and now.celsius,
        "memory_celsius": now and now.memory_celsius,
        "fan_percent": now and now.fan_percent,
        "watts": now and now.watts,
        "watts_limit": now and now.watts_limit,
        "mhz_sm": now and now.mhz_sm,
        "mhz_memory": now and now.mhz_memory,
        "utilization_percent": now and now.utilization_percent,
        "memory_used_mib": now and now.memory_used_mib,
        "memory_total_mib": now and now.memory_total_mib,
        "limited_by": sorted(now.throttle) if now and now.throttle is not None else None,
        **_new(card),
    }


def _new(card: CardSeen) -> Mapping[str, object]:
    """Since it is watched."""
    return {
        "new_corrected": card.corrected,
        "new_uncorrected": card.uncorrected,
        "new_xids": dict(card.xids),
    }


def _finding_document(finding: Finding) -> dict[str, object]:
    document = finding.as_json()
    return {name: document[name] for name in ("id", "status", "subject", "summary", "remedy")}


def _host_summary(seen: HostSeen) -> dict[str, object]:
    document: dict[str, object] = {
        "host": seen.host,
        "status": seen.status,
        "samples": seen.samples,
        "cards": [
            {
                "address": address,
                "name": card.name,
                "samples": card.samples,
                "max_celsius": card.celsius,
                "max_memory_celsius": card.memory_celsius,
                "max_watts": card.watts,
                "limited_by": dict(card.held),
                **_new(card),
            }
            for address, card in sorted(seen.cards.items())
        ],
        "findings": [
            {**_finding_document(one), "since": since} for one, since in seen.findings.values()
        ],
    }
    if seen.error:
        document["error"] = {"kind": seen.error.kind, "message": seen.error.message}
    return document
