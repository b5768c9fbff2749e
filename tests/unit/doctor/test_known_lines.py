"""Known lines: each row by its example and its counterexample, and how all are found."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

import pytest

from rigops.catalog import Catalog, load, loader
from rigops.catalog.known_lines import compiled, fault_of
from rigops.doctor.examined import Examined
from rigops.doctor.known_lines import has_known_lines, known_lines
from rigops.doctor.registry import CHECKS, examine
from rigops.doctor.retyped import of_plain, plain, plain_words
from rigops.inventory.spec import RigSpec
from rigops.probe.bundle import Bundle, Collected
from rigops.probe.bundles.reading import read_content
from rigops.probe.snapshot import HostSnapshot
from tests.unit.patterns import every_way

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rigops.catalog.known_lines import KnownLine
    from rigops.doctor.finding import Finding

ROWS: Final = load(None).known_lines
BY_NAME: Final = {row.name: row for row in ROWS}
LONGEST: Final = 90
MISMATCH: Final = "Failed to initialize NVML: Driver/library version mismatch"


def snapshot(text: str) -> HostSnapshot:
    (bundle,) = read_content(text.encode(), place="post", host="post", is_known=lambda _: True)
    return HostSnapshot(bundle)


def told(text: str) -> list[Finding]:
    found = known_lines(Examined(snapshot(text), RigSpec(), load(None)))
    return [one for several in found.values() for one in several]


def log(**texts: str) -> list[Finding]:
    sections = {name.replace("_", "-"): Collected(text, root=True) for name, text in texts.items()}
    found = examine(
        HostSnapshot(Bundle("rig", None, root=True, sections=sections)), None, load(None)
    )
    return [one for one in found if one.status in {"fail", "warn", "info"}]


def test_an_example_is_a_line_of_its_row_and_the_counterexample_is_none() -> None:
    wrong = [
        row.name
        for row in ROWS
        if not compiled(row.pattern).search(row.example)
        or compiled(row.pattern).search(row.counter)
    ]

    assert wrong == []


def test_a_counterexample_that_somebody_retyped_is_no_line_of_its_row_either() -> None:
    retyped = [(row, plain(row.counter)) for row in ROWS]

    assert [row.name for row, line in retyped if of_plain(row.pattern).search(line)] == []


def test_each_retyped_line_of_a_row_has_one_of_its_words() -> None:
    wordless = [
        row.name
        for row in ROWS
        if of_plain(row.pattern).search(said := plain(row.example))
        and not any(word in said.lower() for word in (*row.words, *plain_words(row.words).values()))
    ]

    assert wordless == []


def test_an_example_alone_leads_to_the_finding_of_its_row() -> None:
    assert [row.name for row in ROWS if not _leads_to_its_finding(row)] == []


def _leads_to_its_finding(row: KnownLine) -> bool:
    found = known_lines(Examined(snapshot(row.example), RigSpec(), load(None)))
    causes = {BY_NAME[name].finding for name in row.follows}
    is_filled = all("{" not in one.summary for several in found.values() for one in several)
    return is_filled and not found.keys().isdisjoint({row.finding, *causes})


def test_each_line_of_a_row_has_one_of_its_words() -> None:
    wordless = [
        (row.name, line)
        for row in ROWS
        for line in every_way(compiled(row.pattern))
        if not any(word in line.lower() for word in row.words)
    ]

    assert wordless == []


def test_each_way_of_a_pattern_is_in_a_line() -> None:
    lines = every_way(re.compile(r"(ab|cd)e?(?:[fg] h){2}|i\d+"))

    assert {"abef hf h", "cdef hf h", "abf hf h", "i0"} <= {*lines}


def test_a_row_is_short_linear_and_names_only_its_own_groups() -> None:
    assert {row.name: faults for row in ROWS if (faults := list(_faults(row)))} == {}


def _faults(row: KnownLine) -> Iterator[str]:
    yield from filter(None, map(fault_of, row.patterns))
    yield from {*row.follows} - BY_NAME.keys()
    groups = compiled(row.pattern).groupindex.keys()
    said = [(one.meaning, one.why, one.fix) for one in row.when]
    for meaning, *more in ((row.meaning, row.why, row.fix), *said):
        if len(meaning) > LONGEST:
            yield meaning
        yield from set(re.findall(r"\{([a-z]+)\}", " ".join((meaning, *more)))) - groups
    if not (row.fix or row.declares or row.status == "info"):
        yield "nothing to do"


def test_every_finding_is_that_of_a_check() -> None:
    assert {row.finding for row in ROWS} <= {check.id for check in CHECKS}


def test_each_row_is_sought_without_reading_the_others() -> None:
    sought = load(None).sought_lines
    assert tuple(one.read() for one in sought) == ROWS
    assert [one[:3] for one in sought] == [
        (row.words, row.pattern, row.last_resort) for row in ROWS
    ]


def test_what_rows_and_cards_are_found_by_is_seen_without_reading_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cards = [(one.name, one.aliases, one.pci_ids) for one in load(None).gpus]
    monkeypatch.setattr(loader, "_parsed", None)

    assert len(Catalog().sought_lines) == len(ROWS)
    assert [one[:3] for one in Catalog().named_cards] == cards


@cache
def forms() -> tuple[str, ...]:
    half = len(MISMATCH) // 2
    filler = "It worked until this morning and since then every program says the same to me, that "
    return (
        f"> {MISMATCH}",
        f"```\n{MISMATCH}\n```",
        f"**{MISMATCH}**",
        f"  3. {MISMATCH}",
        f"I get `{MISMATCH}` since this morning",
        f"\x1b[31m{MISMATCH}\x1b[0m",
        MISMATCH.replace(" ", "\u00a0"),
        f"/var/log/syslog:12:{MISMATCH}",
        f"{filler}{MISMATCH[:half]}\n{MISMATCH[half:]}",
        f"{filler}{MISMATCH.replace('library ', chr(10).join(('library', '')))}",
        f"{MISMATCH}\nlines 1-23",
    )


@pytest.mark.parametrize("text", forms())
def test_a_line_is_known_wherever_it_stands(text: str) -> None:
    assert [one.id or one.status for one in told(text)] == ["fail"]


@pytest.mark.parametrize(
    "text", ["", "It hangs when I start it", "NVML library version: 535.183", f"{MISMATCH[:20]}"]
)
def test_prose_without_a_known_line_says_nothing(text: str) -> None:
    (bundle,) = read_content(
        text.encode() or b"\n", place="post", host="post", is_known=lambda _: True
    )
    assert not has_known_lines(HostSnapshot(bundle), load(None))


@cache
def retyped() -> tuple[str, ...]:
    return (
        MISMATCH.lower(),
        MISMATCH.upper(),
        MISMATCH.replace(" ", "  "),
        MISMATCH.replace(": ", ":"),
        MISMATCH.replace("Failed to", "Could not"),
        MISMATCH.replace("Failed to", "Was unable to"),
        f'{{"message": "Error\\n{MISMATCH}\\n"}}',
        MISMATCH.replace("NVML", "**NVML**").replace("library", "<b>library</b>"),
        MISMATCH.replace("NVML", "#033[31mNVML#033[0m"),
        MISMATCH.replace("NVML", "\\u001b[31mNVML\\u001b[0m"),
        "> Failed to initialize NVML: Driver/library\n> version mismatch",
    )


@pytest.mark.parametrize("text", retyped())
def test_a_line_is_known_however_somebody_wrote_it(text: str) -> None:
    assert {one.id or one.status for one in told(text)} == {"fail"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("version `GLIBC_2.34' not found", 'version \\"GLIBC_2.34\\" was not found'),
        ("can't find /dev/nvidia\\_uvm", "Could not find  the /dev//nvidia_uvm"),
        ("the module doesn't load", "Modules do not load"),
        ("name = value: 1", "name=value :\t1"),
        ("it isn&#39;t \\u003cnone\\u003e", "It was not <none>"),
    ],
)
def test_what_says_the_same_has_one_plain_form(one: str, other: str) -> None:
    assert plain(one).lower() == plain(other).lower()


def test_a_name_in_quote_marks_has_no_blanks_where_the_marks_are_away() -> None:
    pattern = of_plain("pool '[^'\\n]{1,60}' is unavailable")
    assert pattern.search("pool tank is unavailable")
    assert not pattern.search("pool can be used, but a feature is unavailable")


def test_two_lines_that_follow_each_other_are_not_one_line() -> None:
    first = f"[   10.1] NVRM: {'x' * 60}"
    assert told(f"{first}\n[   10.2] GPU is missing power") == told(
        "[   10.2] GPU is missing power"
    )


def test_one_line_many_times_is_one_finding_with_its_count() -> None:
    lines = [f"[  {at}.1] Out of memory: EDAC MC0: {at} CE memory read error" for at in (10, 20)]
    (found,) = told("\n".join(lines))
    assert found.summary.endswith(", 2 times")


def test_a_line_of_an_earlier_boot_weighs_less() -> None:
    row = BY_NAME["ram-edac-uncorrected"]
    lines = f"[    3.1] {row.example}\n"
    (now,) = [one for one in log(kernel_log=lines) if one.id == row.finding]
    (before,) = [one for one in log(kernel_log_previous=lines) if one.id == row.finding]
    assert (now.status, before.status) == ("fail", "warn")
    assert before.summary == f"{now.summary} (in an earlier boot)"


def test_of_a_cause_and_its_effect_the_cause_is_told() -> None:
    effect = next(row for row in ROWS if row.follows and row.finding == "drv.mismatch")
    cause = BY_NAME[effect.follows[0]]
    summaries = {one.summary for one in told(f"{effect.example}\n{cause.example}")}
    assert cause.meaning in summaries
    assert effect.meaning not in summaries


def test_a_row_of_last_resort_says_nothing_of_a_line_that_another_row_has() -> None:
    line, other = BY_NAME["slurm-gres"].example, BY_NAME["node-missing-any"]
    assert other.last_resort
    assert compiled(other.pattern).search(line)
    assert [one.data["known_line"] for one in told(line)] == ["slurm-gres"]


NARROW: Final = "LnkSta:\tSpeed 8GT/s, Width x4 (downgraded)"
CARD: Final = "01:00.0 VGA compatible controller: NVIDIA Corporation GA102 (rev a1)"
VFIO: Final = "Kernel driver in use: vfio-pci"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (NARROW, [("warn", "pci.width")]),
        (f"{CARD}\n\t{NARROW}", []),
        (f"{NARROW}\nLnkSta: Speed 8GT/s\nLnkSta: Speed 5GT/s", []),  # of a whole machine
        ("ACSCtl: SrcValid+ TransBlk- ReqRedir+ CmpltRedir+", [("info", "acs.path")]),
        (f"No devices were found\n{VFIO}", [("info", "gpu.init")]),
        ("[<0>] os_acquire_mutex+0x38/0x40 [nvidia]", [("warn", "drv.hang")]),
        (" os_acquire_mutex+0x38/0x40 [nvidia]", [("info", "drv.hang")]),
        ("Oops: 0000 [#1]\nRIP: 0010:_nv0376rm+0x1/0x4 [nvidia]", [("fail", "drv.hang")]),
        (
            "State                 : In Progress\nError 802: system not yet initialized",
            [("fail", "fabric")],
        ),
        ("NCCL WARN Cuda failure 101 'invalid device ordinal'", [("info", "gpu.count")]),
        (
            f"{BY_NAME['gpupv-guest'].example}\n{BY_NAME['nvml-blocked-by-os'].example}",
            [("fail", "drv.loaded")],
        ),
        (
            f"{BY_NAME['module-peermem'].example}\n{BY_NAME['module-peermem-built'].example}",
            [("warn", "drv.loaded")],
        ),
        (
            f"{BY_NAME['dkms-install-failed'].example}\nDKMS module 'vhba-20' failed to build",
            [("warn", "pkg.errors")],
        ),
        (
            f"{BY_NAME['vfio-no-reset'].example}\n{BY_NAME['host-lockup'].example}",
            [("fail", "passthrough")],
        ),
        (f"$ lspci -vvv -s 01:00.0 | grep LnkSta\n{NARROW}", [("warn", "pci.width")]),
        (
            f"{BY_NAME['btrfs-damaged'].example}\n{BY_NAME['disk-readonly'].example}",
            [("fail", "disk.errors")],
        ),
        (
            f"{BY_NAME['btrfs-damaged'].example}\nBTRFS info: read error corrected: ino 0",
            [("warn", "disk.errors")],
        ),
        (
            f"{BY_NAME['gsp-file'].example}\n{BY_NAME['gsp-rpc-limited'].example}",
            [("fail", "drv.gsp")],
        ),
        (
            "[warning] Failed to load libnvidia-ml.so: libnvidia-ml.so.1: cannot open shared",
            [("info", "drv.mismatch")],
        ),
        (
            "NVRM version: 535\nWARNING libnvidia-ml.so.1: cannot open shared object file",
            [("fail", "drv.mismatch")],
        ),
        (
            f"{BY_NAME['libcuda-missing'].example}\nno NVIDIA GPU device is present",
            [("info", "cuda.error")],
        ),
        (
            f"{BY_NAME['k8s-taint'].example}\n3 Insufficient cpu.",
            [("info", "container")],
        ),
        ("This system is not registered with an entitlement server.", [("info", "pkg.errors")]),
        ("Ignoring Xid 48 by configuration", [("info", "xid")]),
        ("postgres: cancelling xid 62", []),
    ],
)
def test_what_stands_beside_a_line_decides_what_it_means(
    text: str, expected: list[tuple[str, str]]
) -> None:
    found = known_lines(Examined(snapshot(text), RigSpec(), load(None)))
    assert [(one.status, check) for check, several in found.items() for one in several] == expected


def test_a_context_changes_a_meaning() -> None:
    row = BY_NAME["nvml-no-cgroups"]
    (found,) = told(f"{row.example}\nFailed to initialize NVML: Unknown Error")
    assert (found.status, found.summary) == ("fail", row.when[0].meaning)
    assert found.fix
    assert found.fix.text == row.fix


def test_a_window_above_4_gb_that_the_driver_cannot_use_asks_for_no_more_of_it() -> None:
    row = BY_NAME["bar-invalid"]
    (found,) = told(f"{row.example}\nNVRM: This is a 64-bit BAR mapped above 4GB by the system")
    assert found.fix
    assert "switch off" in found.fix.text


def test_a_module_of_this_kernel_is_not_called_one_of_another() -> None:
    (found,) = told(BY_NAME["module-version-options"].example)
    assert "compiler" in found.summary


def test_a_line_that_apply_mends_says_what_to_declare() -> None:
    row = BY_NAME["nccl-iommu-pt"]
    found = next(one for one in told(row.example) if one.summary == row.meaning)
    assert found.fix
    assert (found.fix.kind, found.fix.declare) == ("apply+reboot", {"kernel_args": ["iommu=pt"]})
