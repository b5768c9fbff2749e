"""Copied texts: which outputs are in them, and what of them is certain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rigops.probe.bundle import MOST_LINES
from rigops.probe.pastes.reading import read, read_apart
from rigops.probe.sections import kernel_log, nvidia_smi_p2p, nvidia_smi_topo, proc_cmdline
from rigops.probe.snapshot import HostSnapshot

if TYPE_CHECKING:
    from rigops.probe.bundle import Bundle

SMI = Path(__file__).resolve().parents[3] / "fixtures/smi"
FIXTURES = Path(__file__).parents[3] / "fixtures"
XID = "NVRM: Xid (PCI:0000:41:00): 79, pid=4711, name=python, GPU has fallen off the bus."
LOG = f"[   11.000000] nvidia: loading out-of-tree module taints kernel.\n[  812.500000] {XID}\n"
COMMAND_LINE = "BOOT_IMAGE=/vmlinuz-6.1.0-18-amd64 root=UUID=1c0a ro quiet iommu=pt\n"
TABLE = """\
+---------------------------------------------------------------------------------------+
| NVIDIA-SMI 535.183.01             Driver Version: 535.183.01   CUDA Version: 12.2     |
|-----------------------------------------+----------------------+----------------------+
|   0  NVIDIA GeForce RTX 3090        On  | 00000000:41:00.0 Off |                  N/A |
+-----------------------------------------+----------------------+----------------------+
"""
P2P = """\
 \tGPU0\tGPU1\t
 GPU0\tX\tOK\t
 GPU1\tOK\tX\t

Legend:

  X    = Self
  OK   = Status Ok
"""
TOPOLOGY = """\
\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity
GPU0\t X \tPHB\t0-31\t0
GPU1\tPHB\t X \t0-31\t0

Legend:

  X    = Self
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge
"""


def pasted(text: str) -> Bundle:
    bundle = read([("post.txt", text.encode())], host="post")
    assert bundle is not None
    return bundle


def recognized(bundle: Bundle) -> list[str]:
    assert bundle.paste is not None
    return list(bundle.paste.recognized)


def xids(bundle: Bundle) -> list[int]:
    return [one.number for one in HostSnapshot(bundle)[kernel_log.SECTION].or_empty.xids]


def test_outputs_in_any_order_are_recognized_without_their_commands() -> None:
    bundle = pasted(f"{P2P}\n{LOG}\nIt hangs!\n{TABLE}\n{COMMAND_LINE}\n{TOPOLOGY}")

    assert recognized(bundle) == [
        "nvidia-smi topo", "kernel log", "nvidia-smi", "/proc/cmdline"
    ]  # fmt: skip
    assert bundle.paste is not None
    assert bundle.paste.others == 1


@pytest.mark.parametrize(
    "dressed",
    [
        "".join(f"> {line}\n" for line in LOG.splitlines()),
        f"```\n{LOG}```\n",
        f"```console\n$ sudo dmesg\n{LOG}```\n",
        f"<details><summary>dmesg</summary>\n\n```\n{LOG}```\n</details>\n",
        f"me@rig:~$ sudo dmesg | grep -i nvrm\n{LOG}me@rig:~$ \n",
        f"[me@rig ~]$ dmesg\n{LOG}[me@rig ~]$\n",
        f"root@pve:~# dmesg\r\n{LOG.replace(chr(10), chr(13) + chr(10))}",
        LOG.replace("NVRM", "\x1b[1m\x1b[31mNVRM\x1b[0m"),
        "".join(f"    {line}\n" for line in LOG.splitlines()),
        f"\ufeff{LOG}",
    ],
)
def test_what_copying_adds_is_taken_off(dressed: str) -> None:
    bundle = pasted(dressed)

    assert recognized(bundle) == ["kernel log"]
    assert xids(bundle) == [79]
    assert bundle.paste is not None
    assert bundle.paste.others == 0


@pytest.mark.parametrize(
    "prompt",
    [
        "me@rig ~> ",
        "(base) me@rig:~/a folder$ ",
        "rig:~ # ",
        "root@3f2a9c0d1e2f:/workspace# ",
        "\u250c\u2500\u2500(me\u327fkali)-[~]\n\u2514\u2500$ ",
        "\u279c  src git:(main) \u2717 ",
        "PS C:\\Users\\me> ",
        "sh-5.1# ",
        "1 me\u00b7rig ~ \u00bb ",
        "Every 2.0s: ",
        "Alle 2,0s: ",
    ],
)
def test_a_prompt_parts_outputs(prompt: str) -> None:
    bundle = pasted(f"{prompt}nvidia-smi topo -p2p w\n{P2P}{prompt}cat /proc/cmdline\nquiet\n")

    assert list(bundle.sections) == ["nvidia-smi-p2p-write", "proc-cmdline", "pasted"]
    assert bundle.paste is not None
    assert bundle.paste.others == 0


def test_what_was_left_out_may_hold_cards() -> None:
    xml = (FIXTURES / "smi/two-3090-525.xml").read_text()
    whole = pasted(xml)
    with_gap = pasted(xml.replace("</gpu>\n", "</gpu>\n[...]\n", 1))

    assert whole.sections["nvidia-smi-xml"].is_complete
    assert not with_gap.sections["nvidia-smi-xml"].is_complete


def test_powershell_writes_utf_16() -> None:
    bundle = read([("log.txt", LOG.encode("utf-16"))], host="post")

    assert bundle is not None
    assert xids(bundle) == [79]


def entries(**more: object) -> list[dict[str, object]]:
    common: dict[str, object] = {"__REALTIME_TIMESTAMP": "1700000000000000", "_BOOT_ID": "0b"}
    kernels = {**common, "_TRANSPORT": "kernel", "SYSLOG_IDENTIFIER": "kernel", **more}
    return [{**kernels, "MESSAGE": one.partition("] ")[2]} for one in LOG.splitlines()]


def fields(entry: dict[str, object], indent: str = "") -> str:
    return "".join(f"{indent}{name}={value}\n" for name, value in entry.items())


JOURNALS = {
    "json": "".join(f"{json.dumps(one)}\n" for one in entries()),
    "json of bytes": "".join(
        f"{json.dumps({**one, 'MESSAGE': list(str(one['MESSAGE']).encode())})}\n"
        for one in entries()
    ),
    "json-pretty": "".join(f"{json.dumps(one, indent=chr(9))}\n" for one in entries()),
    "json-sse": "".join(f"data: {json.dumps(one)}\n\n" for one in entries()),
    "json-seq": "".join(f"\x1e{json.dumps(one)}\n" for one in entries()),
    "export": "\n".join(f"__CURSOR=s=1\n{fields(one)}" for one in entries()),
    "verbose": "".join(
        f"Tue 2023-11-14 22:13:20.000000 UTC [s=8a1b2c3d4e;i={number}f;b=0b;m=1;t=2;x=3]\n"
        + fields(one, "    ")
        for number, one in enumerate(entries())
    ),
    "cat": "".join(f"{one['MESSAGE']}\n" for one in entries()),
    "short": "".join(f"Nov 14 22:13:20 rig kernel: {one['MESSAGE']}\n" for one in entries()),
    "short-full": "".join(
        f"Tue 2023-11-14 22:13:20 UTC rig kernel: {one['MESSAGE']}\n" for one in entries()
    ),
    "short-iso-precise": "".join(
        f"2023-11-14T22:13:20.123456+0100 rig kernel: {one['MESSAGE']}\n" for one in entries()
    ),
    "short-monotonic": "".join(
        f"[   12.345678] rig kernel: {one['MESSAGE']}\n" for one in entries()
    ),
    "short-delta": "".join(
        f"[   12.345678 <    0.000012 >] rig kernel: {one['MESSAGE']}\n" for one in entries()
    ),
    "short-unix": "".join(
        f"1700000000.123456 rig kernel: {one['MESSAGE']}\n" for one in entries()
    ),
    "dmesg --json": json.dumps(
        {"dmesg": [{"pri": 4, "time": 8.5, "msg": one["MESSAGE"]} for one in entries()]}, indent=3
    )
    + "\n",
}  # fmt: skip


@pytest.mark.parametrize("layout", JOURNALS)
def test_every_layout_of_the_journal_is_read(layout: str) -> None:
    bundle = pasted(f"My log:\n\n{JOURNALS[layout]}")

    assert recognized(bundle) == ["kernel log"]
    assert xids(bundle) == [79]


def test_the_boot_before_is_not_this_one() -> None:
    earlier = "".join(f"{json.dumps(one)}\n" for one in entries(_BOOT_ID="0a"))
    now = json.dumps(
        {"_BOOT_ID": "0b", "_TRANSPORT": "kernel", "MESSAGE": "Linux version 6.1.0-18-amd64"}
    )
    bundle = pasted(f"{earlier}{now}\n")
    asked_for = pasted(f"$ journalctl -k -b -1\n{LOG}")

    found = HostSnapshot(bundle)[kernel_log.SECTION].or_empty.xids
    assert [one.entry.boot for one in found] == [-1]
    assert list(asked_for.sections) == ["kernel-log-previous", "pasted"]


def test_only_what_shows_its_end_is_complete() -> None:
    whole = pasted(f"{COMMAND_LINE}\n{TOPOLOGY}\n{LOG}")
    cut = pasted(TOPOLOGY.partition("GPU1\tPHB")[0])

    complete = {name: one.is_complete for name, one in whole.sections.items()}
    assert complete == {
        "proc-cmdline": True, "nvidia-smi-topo": True, "kernel-log": False, "pasted": True
    }  # fmt: skip
    assert not cut.sections["nvidia-smi-topo"].is_complete


@pytest.mark.parametrize(
    ("text", "section"),
    [
        (f"$ nvidia-smi topo -p2p r\n{P2P}", "nvidia-smi-p2p-read"),
        (f"me@rig:~$ nvidia-smi topo -p2p w\n{P2P}", "nvidia-smi-p2p-write"),
        (f"nvidia-smi topo -p2p n\n{P2P}", "nvidia-smi-p2p-nvlink"),
        (f"### nvidia-smi topo -p2p w\n```\n{P2P}```\n", "nvidia-smi-p2p-write"),
        (f"Output of `nvidia-smi topo -p2p w`:\n\n{P2P}", "nvidia-smi-p2p-write"),
        (P2P.replace("OK", "CNS"), "nvidia-smi-p2p-read"),
        (TOPOLOGY, "nvidia-smi-topo"),
    ],
)
def test_a_matrix_is_what_was_asked_for(text: str, section: str) -> None:
    bundle = pasted(text)
    answers = HostSnapshot(bundle)

    assert list(bundle.sections) == [section, "pasted"]
    assert answers[nvidia_smi_topo.SECTION].or_empty.gpus == (
        (0, 1) * (section == "nvidia-smi-topo")
    )
    if section == "nvidia-smi-p2p-read":
        assert len(answers[nvidia_smi_p2p.READ].or_empty.cells) == len(["0-1", "1-0"])


@pytest.mark.parametrize(
    "before", ["", "Run nvidia-smi topo -p2p r|w|n|a", "topo -p2p r, and then topo -p2p w"]
)
def test_grants_of_an_unknown_kind_are_not_judged(before: str) -> None:
    bundle = pasted(f"{before}\n{P2P}")

    assert list(bundle.sections) == ["pasted"]
    assert bundle.paste is not None
    assert "of reads, writes or NVLink?" in bundle.paste.recognized["nvidia-smi topo"][0]


def test_an_error_of_nvidia_smi_is_kept_beside_what_it_said_before() -> None:
    error = "Unable to determine the device handle for GPU0000:41:00.0: Unknown Error\n"

    smi = pasted(f"{error}\n{TABLE}").sections["nvidia-smi-xml"].text

    assert error in smi
    assert "RTX 3090" in smi


def test_the_text_of_nvidia_smi_is_complete_where_all_cards_are_in_it() -> None:
    whole = (SMI / "v100-384.txt").read_text(encoding="utf-8")

    assert pasted(f"$ nvidia-smi -q\n{whole}").sections["nvidia-smi-xml"].is_complete
    assert not pasted(whole[: len(whole) // 2]).sections["nvidia-smi-xml"].is_complete


def test_a_number_at_the_cut_is_not_taken_for_whole() -> None:
    bundle = pasted("01:00.0 VGA compatible controller: NVIDIA Corporation GA102 (rev a1)\n"
                    "\t\tLnkSta:\tSpeed 8GT/s, Width x1")  # fmt: skip

    assert not bundle.sections["lspci"].text.endswith("\n")


def test_a_command_line_is_known_by_its_command_too() -> None:
    bundle = pasted("$ cat /proc/cmdline\nquiet splash pcie_acs_override=downstream\n")

    assert HostSnapshot(bundle)[proc_cmdline.SECTION].or_empty.arguments[0] == "quiet"


def test_lines_left_out_end_no_output() -> None:
    first, second = LOG.splitlines()
    bundle = pasted(f"{first}\n[...]\n{second}\n...\n")

    assert recognized(bundle) == ["kernel log"]
    assert xids(bundle) == [79]


def test_of_a_text_without_end_the_last_lines_are_read() -> None:
    bundle = pasted("x\n" * MOST_LINES + LOG)

    assert xids(bundle) == [79]
    assert bundle.paste is not None
    assert bundle.paste.left_out == len(["loading", "Xid", "after the last end of line"])
    assert bundle.paste.others == MOST_LINES - 3


def test_nothing_is_made_of_prose() -> None:
    text = (
        "I have 2 GPUs: GPU0 and GPU1, and | a table |\n| - | - |\n"
        "See 2024-01-02 for more.\n> quoted\n# A heading\n- a list\n"
    )

    assert recognized(pasted(text)) == []


def test_the_journal_as_objects_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = 0
    decode = json.JSONDecoder.raw_decode

    def counted(self: json.JSONDecoder, text: str, idx: int = 0) -> tuple[object, int]:
        nonlocal decoded
        decoded += len(text) - idx
        return decode(self, text, idx)

    monkeypatch.setattr(json.JSONDecoder, "raw_decode", counted)
    for line in ('{"MESSAGE": "a"\n', '{"MESSAGE":{"a":[\n', "{\n", '{"MESSAGE":"a","x":{'):
        decoded = 0
        text = line * 1_000
        read([("log.json", text.encode())], host="post")
        assert decoded <= len(text)


def test_what_is_whole_in_a_cut_log_of_objects_is_read() -> None:
    whole = JOURNALS["dmesg --json"]

    cut = pasted(whole[: whole.rindex('"time"')] + '"ti')
    without_beginning = pasted(whole.partition("[\n")[2])

    assert "nvidia: loading" in cut.sections["kernel-log"].text
    assert xids(without_beginning) == [79]


LIST_WITH_MIG = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-11111111-2222-3333-4444-555555555555)
  MIG 1g.5gb      Device  0: (UUID: MIG-11111111-2222-3333-4444-555555555555)
"""


def test_every_line_of_it_is_recognized() -> None:
    bundle = pasted(LIST_WITH_MIG)

    assert recognized(bundle) == ["nvidia-smi -L"]
    assert bundle.paste is not None
    assert bundle.paste.others == 0


def test_a_log_line_below_collect_env_is_of_the_kernel_log() -> None:
    bundle = pasted(
        f"GPU models and configuration:\nGPU 0: NVIDIA RTX A6000\nIt hangs: see\n{XID}\n"
    )

    assert xids(bundle) == [79]


@pytest.mark.parametrize("line", ["3.14.1", "6.8.0-45-generic"])
def test_a_number_alone_is_no_kernel(line: str) -> None:
    assert recognized(pasted(f"{line}\n")) == []


def test_a_log_of_a_build_service_is_read_without_its_stamps() -> None:
    stamped = "".join(f"2022-05-14T00:01:33.4285614Z {line}\n" for line in LOG.splitlines())

    assert pasted(stamped).sections["kernel-log"].text == LOG


def test_a_container_and_an_endless_list_of_hosts_are_one_machine() -> None:
    inside = "me@rig:~$ uname -r\n6.1.0-18-amd64\nroot@3f9a0c5d7e21:/# uname -r\n6.1.0-18-amd64\n"
    many = "".join(f"me@rig{at}:~$ uname -r\n6.1.{at}-amd64\n" for at in range(200))

    assert [one.host for one in read_apart(inside.encode(), host="post")] == ["post"]
    assert [one.host for one in read_apart(many.encode(), host="post")] == ["post"]


def test_outputs_before_any_prompt_are_of_neither_host() -> None:
    text = "6.1.0-18-amd64\nNVRM: Xid (PCI:0000:41:00): 79, x\n" + "".join(
        f"me@{host}:~$ uname -r\n6.1.0-18-amd64\n" for host in ("one", "two")
    )

    assert [one.host for one in read_apart(text.encode(), host="post")] == ["post", "one", "two"]


@pytest.mark.parametrize(
    ("name", "cut"),
    [
        ("smi-table-discourse-cut", ["nvidia-smi"]),
        ("smi-table-row-without-head", ["nvidia-smi"]),
        ("smi-q-throttling-cut", ["nvidia-smi -q"]),
        ("smi-xml-cut", ["nvidia-smi -q -x"]),
        ("topo-cut-in-table", ["nvidia-smi topo"]),
        ("smi-table-watch", []),
        ("smi-table-err", []),
        ("smi-q-of-some-sections", []),
        ("collect-env-pytorch", []),
        ("topo-with-nics", []),
        ("healthy-log", []),
    ],
)
def test_an_output_that_may_lack_cards_is_called_cut(name: str, cut: list[str]) -> None:
    paste = pasted((FIXTURES / f"pastes/{name}.txt").read_text()).paste

    assert paste is not None
    assert list(paste.cut) == cut


def test_the_matrix_of_one_card_is_whole() -> None:
    bundle = pasted("\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-15\t0\n")

    assert bundle.sections["nvidia-smi-topo"].is_complete
