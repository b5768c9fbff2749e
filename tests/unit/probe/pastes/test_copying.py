"""Each form of copying on outputs of each kind, and pieces of outputs after a grep or a cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.probe.pastes.reading import read
from rigops.probe.sections import (
    gpu_burn,
    kernel_log,
    lspci,
    nccl_tests,
    nvidia_smi_p2p,
    nvidia_smi_topo,
    nvidia_smi_xml,
    p2p_bandwidth_test,
)
from rigops.probe.snapshot import HostSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from rigops.probe.bundle import Paste
    from rigops.probe.smi.report import SmiReport

XID = "NVRM: Xid (PCI:0000:41:00): 79, pid=4711, name=python, GPU has fallen off the bus."
VALUE = "Verification error @ element 0: val = nan, ref = 0.000000"
CARD = "62:00.0 VGA compatible controller: NVIDIA Corporation GA102 [GeForce RTX 3090] (rev a1)"
ACS = "ACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-"
UUID = "GPU-11111111-2222-3333-4444-555555555555"


def snapshot(text: str) -> HostSnapshot:
    return HostSnapshot(read([("post.txt", text.encode())], host="post"))


def paste(text: str) -> Paste:
    found = snapshot(text).bundle.paste
    assert found is not None
    return found


def smi(text: str) -> SmiReport:
    return snapshot(text)[nvidia_smi_xml.SECTION].or_empty


# An output, and one fact of it.
LINES: dict[str, tuple[str, Callable[[str], object]]] = {
    "an error of nvidia-smi": (
        "Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost.",
        lambda text: smi(text).lost,
    ),
    "attached cards": ("Attached GPUs                             : 0", lambda t: smi(t).attached),
    "a list of cards": (
        f"GPU 0: NVIDIA GeForce RTX 3090 (UUID: {UUID})",
        lambda text: [one.name for one in smi(text).gpus],
    ),
    "a stamped line of a log": (
        f"[  812.500000] {XID}",
        lambda text: [
            one.entry.seconds for one in snapshot(text)[kernel_log.SECTION].or_empty.xids
        ],
    ),
    "a line of a log": (
        XID,
        lambda text: [one.detail for one in snapshot(text)[kernel_log.SECTION].or_empty.xids],
    ),
    "a card of lspci": (
        CARD,
        lambda text: [one.line for one in snapshot(text)[lspci.SECTION].or_empty.functions],
    ),
    "a link": (
        "LnkSta:\tSpeed 2.5GT/s (downgraded), Width x8 (downgraded)",
        lambda text: snapshot(text)[lspci.SECTION].or_empty.unparsed,
    ),
    "a grep for ACS": (ACS, lambda text: snapshot(text)[lspci.SECTION].or_empty.unparsed),
    "a wrong value": (
        VALUE,
        lambda text: [
            one.wrong for one in snapshot(text)[p2p_bandwidth_test.SECTION].or_empty.runs
        ],
    ),
    "refused access": (
        "Device=0 CANNOT Access Peer Device=1",
        lambda text: [
            one.access for one in snapshot(text)[p2p_bandwidth_test.SECTION].or_empty.runs
        ],
    ),
    "progress of gpu_burn": (
        "30.0%  proc'd: -1 (0 Gflop/s) - 1240 (9850 Gflop/s)   errors: -1  (DIED!)- 0   temps: -- ",
        lambda text: [one.idle for one in snapshot(text)[gpu_burn.SECTION].or_empty.progress],
    ),
    "the end of gpu_burn": (
        "No clients are alive!  Aborting",
        lambda text: snapshot(text)[gpu_burn.SECTION].or_empty.failures,
    ),
    "a row of nccl-tests": (
        "    67108864      16777216     float     sum      -1    996.0   67.38  126.33      7",
        lambda text: [
            row.wrong
            for run in snapshot(text)[nccl_tests.SECTION].or_empty.runs
            for row in run.rows
        ],
    ),
}
TABLES: dict[str, tuple[str, Callable[[str], object]]] = {
    "topo -m": (
        "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPHB\t0-31\nGPU1\tPHB\t X \t0-31",
        lambda text: snapshot(text)[nvidia_smi_topo.SECTION].or_empty.links,
    ),
    "topo -p2p": (
        " \tGPU0\tGPU1\n GPU0\tX\tCNS\n GPU1\tCNS\tX",
        lambda text: snapshot(text)[nvidia_smi_p2p.READ].or_empty.cells,
    ),
    "BAR1": (
        "    BAR1 Memory Usage\n        Total      : 256 MiB\n        Used : 3 MiB",
        lambda text: [one.bar1_total_mib for one in smi(text).gpus],
    ),
}


def each(dress: Callable[[int, str], str]) -> Callable[[str], str]:
    return lambda text: "\n".join(dress(at, line) for at, line in enumerate(text.split("\n"), 1))


def numbered(form: str) -> Callable[[str], str]:
    dress = each(form.format)
    return lambda text: dress(f"My rig\n{text}\nhangs\n")


OF_ALL = {
    "bold": each(lambda _, line: f"**{line}**"),
    "quoted": each(lambda _, line: f"> {line}"),
    "a diff of quotes": each(lambda _, line: f"+> {line}"),
    "in back-ticks": each(lambda _, line: f"`{line}`"),
    "a list": each(lambda _, line: f"- {line}"),
    "a numbered list": each(lambda at, line: f"{at}. {line}"),
    "a list of back-ticks": each(lambda _, line: f"* `{line}`"),
    "numbers of cat -n": numbered("{:6}\t{}"),
    "numbers of a paste site": numbered("{:3} | {}"),
    "colored": each(lambda _, line: f"\x1b[31m{line}\x1b[0m"),
    "preformatted": "<p>Look:</p><pre><code>{}\n</code></pre>\n".format,
    "preformatted to its end": "<pre>{}</pre>".format,
    "of a tracker": "{{noformat}}\n{}\n{{noformat}}\n".format,
}
OF_LINES = {
    "in prose": "I see `{}` and then it hangs".format,
    "cited": 'It says "{}" since Monday'.format,
    "bold and cited": '**"{}"**'.format,
    "a heading": "#### {}".format,
}


def test_each_begins_an_output_without_what_was_before_it() -> None:
    for name, (text, fact) in (LINES | TABLES).items():
        assert paste(f"{text}\n").others == 0, name
        assert fact(f"{text}\n") not in (None, [], (), {}), name


@pytest.mark.parametrize("form", OF_ALL)
def test_marks_around_each_line_of_an_output_change_no_fact(form: str) -> None:
    for name, (text, fact) in (LINES | TABLES).items():
        assert fact(OF_ALL[form](text)) == fact(f"{text}\n"), name


@pytest.mark.parametrize("form", OF_LINES)
def test_a_line_within_prose_is_one_of_its_own(form: str) -> None:
    for name, (text, fact) in LINES.items():
        plain = text.strip()
        assert fact(OF_LINES[form](plain)) == fact(f"{plain}\n"), name


@pytest.mark.parametrize("name", ["topo -m", "topo -p2p"])
def test_a_matrix_may_be_a_table_of_markdown(name: str) -> None:
    text, fact = TABLES[name]
    head, *rows = (f"| {line.replace(chr(9), ' | ')} |" for line in text.split("\n"))

    assert fact("\n".join([head, "|---|:---:|---|", *rows, ""])) == fact(f"{text}\n")


def test_ranks_of_mpirun_are_no_part_of_their_lines() -> None:
    text, fact = LINES["a row of nccl-tests"]

    assert fact(f"  [1,0]<stdout>:{text}\n  [1,0]<stdout>:# Out of bounds values : 7 FAILED\n") == [
        ("7",)
    ]


@pytest.mark.parametrize(
    "prefix",
    [
        "kern:     err: [2024-05-20T02:46:53.856596762Z]: ",
        " kernel:[  316.593422] ",
        "kernel: [ 2478.486780] ",
    ],
)
def test_words_of_log_programs_are_before_a_stamp(prefix: str) -> None:
    (xid,) = snapshot(f"{prefix}{XID}\n")[kernel_log.SECTION].or_empty.xids

    assert xid.entry.form


@pytest.mark.parametrize(
    "name",
    ["a card of lspci", "a list of cards", "a line of a log", "a stamped line of a log",
     "a wrong value"],
)  # fmt: skip
@pytest.mark.parametrize(
    "words", ["here it is: {}", "- my card: {}", "node12: {}", "worker-0  | {}"]
)
def test_words_before_an_output_are_no_part_of_it(name: str, words: str) -> None:
    text, fact = LINES[name]

    assert fact(words.format(f"{text}\n")) == fact(f"{text}\n")


def test_prose_after_a_marked_line_is_no_part_of_it() -> None:
    found = paste(f"- {XID}\nIt hangs since Monday\n")

    assert found.recognized == {"kernel log": ("line 1",)}
    assert found.others == 1


def test_rows_of_a_matrix_are_no_numbered_lines() -> None:
    text = (
        "Bidirectional P2P=Enabled Bandwidth Matrix (GB/s)\n   D\\D     0      1      2\n"
        "     0 831.20  nan  18.11\n     1  18.02 833.10  18.40\n     2  18.11  18.40 831.90\n"
    )

    (run,) = snapshot(text)[p2p_bandwidth_test.SECTION].or_empty.runs

    assert run.matrices[0].cells[1, 2] == 18.40


def test_attributes_of_a_disk_keep_their_numbers() -> None:
    text = "  1 Raw_Read_Error 0\n  3 Spin_Up_Time 0\n  4 Start_Stop_Count 7\n  5 Reallocated 8\n"

    assert snapshot(text).bundle.sections["pasted"].text == text


@pytest.mark.parametrize(
    ("line", "after", "is_joined"),
    [
        ("[    6.176462] nouveau 0000:01:00.0: can't change power state", "from D3cold to", False),
        ("[    6.176462] nouveau 0000:01:00.0: can't change power state from", "D3cold to", True),
        ("[    6.176462] nouveau 0000:01:00.0: timer: stalled at ffffffffff.", "It hangs", False),
        (f"[    6.176462] {XID}\n[    6.2] nouveau 0000:01:00.0: can't change power state from",
         "D3cold to", False),
    ],
)  # fmt: skip
def test_a_line_that_a_mail_broke_is_joined(line: str, after: str, *, is_joined: bool) -> None:
    log = snapshot(f"{line}\n{after}\n").bundle.sections["kernel-log"].text

    assert log == (f"{line} {after}\n" if is_joined else f"{line}\n")


def test_broken_lines_are_counted_where_they_were() -> None:
    broken = "01:00.0 VGA compatible controller [0300]: NVIDIA Corporation GA104M\n"

    found = paste(f"{broken}[GeForce RTX 3070 Mobile] [10de:24dd] (rev a1)\n\tKernel modules: x\n")

    assert found.recognized == {"lspci": ("line 1 to 3",)}


@pytest.mark.parametrize(
    ("text", "read_as"),
    [
        ("Remapped Rows\n    Correctable Error : 0\n    Pending : Yes\n", "remap_pending=True"),
        ("BAR1 Memory Usage\nTotal : 256 MiB\nUsed : 3 MiB\n", "bar1_total_mib=256"),
        ("Remapping Failure Occurred : Yes\n", "remap_failed=True"),
        ("    ECC Errors\n        Volatile\n            DRAM Uncorrectable : 301\n", "=301"),
        ("        Aggregate\n            DRAM Uncorrectable : 7\n", "ecc_aggregate_uncorrected=7"),
        ("    Clocks Event Reasons\n        HW Slowdown : Active\n", "frozenset({'hw_slowdown'})"),
        ("        HW Thermal Slowdown           : Active\n", "frozenset({'hw_thermal_slowdown'})"),
        ("    GPU Power Readings\n        Average Power Draw : 31.5 W\n", "watts=31.5"),
        ("        Enforced Power Limit              : 285.00 W\n", "watts_limit=285.0"),
        ("    Temperature\n        GPU Current Temp : 83 C\n", "celsius=83.0"),
        ("    Product Name                          : NVIDIA RTX A6000\n", "'NVIDIA RTX A6000'"),
        ("        Sync Boost    : Active\n    Fan Speed     : 30 %\n", "fan_percent=30"),
    ],
)
def test_a_piece_of_a_query_begins_at_any_block_and_any_certain_field(
    text: str, read_as: str
) -> None:
    assert read_as in repr(smi(text).gpus), text


def test_each_card_of_a_grep_is_one() -> None:
    text, _ = TABLES["BAR1"]
    other = text.replace("256 MiB", "32768 MiB")

    found = smi(f"{text}\n--\n{other}\n--\n{text}\n")

    assert [one.bar1_total_mib for one in found.gpus] == [256, 32768, 256]
    assert not found.unparsed
    assert not found.is_complete


def test_a_piece_does_not_hide_a_whole_answer() -> None:
    text, _ = TABLES["BAR1"]

    found = smi(f"GPU 0: NVIDIA GeForce RTX 3090 (UUID: {UUID})\n\n{text}")

    assert [one.uuid for one in found.gpus] == [UUID]


def test_a_list_that_is_printed_twice_is_of_the_same_cards() -> None:
    text = f"GPU 0: NVIDIA A100-SXM4-40GB (UUID: {UUID})\n"

    assert len(smi(text + text).gpus) == 1


@pytest.mark.parametrize(
    "text",
    [
        'Set `GRUB_CMDLINE_LINUX="iommu=pt"`, or boot with `root=/dev/sda1 ro pcie_aspm=off`.',
        "1. Setting up the driver\n2. Building module trees\n3. Done",
        "- nouveau: the open driver\n* `vfio-pci.ids=10de:2204` binds the card",
        '## GPU0\n\n## Temperature\n\nIt is `0000:41:00.0` that gets hot, see "the table below".',
        "| card | temperature |\n|---|---|\n| GPU0 | 83 |",
        "Name        : nvidia-driver\nVersion     : 535",
        "NAME is **important: read it** and `ID=debian` too",
    ],
)
def test_prose_with_marks_has_no_output(text: str) -> None:
    assert paste(f"{text}\n").recognized == {}


@pytest.mark.parametrize(
    "line",
    ["Sat Jan 31 18:00:00 2026", "PS C:\\Users\\me>", "\u276f ~", "[sudo] password for me: "],
)
def test_what_a_terminal_shows_around_an_output_is_no_line_to_judge(line: str) -> None:
    assert paste(f"{line}\n{XID}\n").others == 0
