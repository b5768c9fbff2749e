"""What the program on the host reads around the copies, on a machine where it changes meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.shards import PREFLIGHT
from tests.unit.hostside.trees import oldest_python
from tests.unit.preflight.rigs import ADDRESSES, TOPOLOGY

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.preflight.rigs import Rig

pytestmark = pytest.mark.shard(PREFLIGHT)

PORT = "0000:00:03.1"
CURSOR = "s=6a0f;i=19;b=1c;m=2;t=3;x=4"
OLD = "2026-01-31T18:00:00.000001+0000 rig kernel: NVRM: loading NVIDIA UNIX x86_64 Kernel Module"
NEW = "2026-01-31T18:00:09.000001+0000 rig kernel: NVRM: Xid (PCI:0000:0b:00): 79, GPU has fallen"
NOISE = "2026-01-31T18:00:09.000002+0000 rig kernel: usb 1-1: new high-speed USB device"
JOURNAL = f"""
case "$*" in
*--after-cursor=*) printf '%s\\n' "$*" >$0.asked; cat $0.new ;;
*) printf '%s\\n-- cursor: {CURSOR}\\n' '{OLD}' ;;
esac
"""


def counters(total: str, *, bad: int) -> str:
    return f"RxErr 0\nBadTLP {bad}\nTOTAL_ERR_{total} {bad}\n"


def write_function(folder: Path, *, bad: int = 0, lanes: int = 16, speed: str = "2.5") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "aer_dev_correctable").write_text(counters("COR", bad=bad))
    (folder / "aer_dev_nonfatal").write_text(counters("NONFATAL", bad=0))
    (folder / "aer_dev_fatal").write_text(counters("FATAL", bad=0))
    (folder / "current_link_width").write_text(f"{lanes}\n")
    (folder / "current_link_speed").write_text(f"{speed} GT/s PCIe\n")


def put_behind_port(rig: Rig) -> dict[str, Path]:
    """The functions by address: two cards, each behind the same port."""
    above = rig.folder / "sys/devices/pci0000:00" / PORT
    found = {PORT: above, **{card: above / card for card in ADDRESSES[:2]}}
    devices = rig.folder / "sys/bus/pci/devices"
    devices.mkdir(parents=True)
    for address, folder in found.items():
        write_function(folder)
        (devices / address).symlink_to(folder)
    return found


def with_smi(rig: Rig, then: str) -> None:
    """Commands that run once the machine was looked at, before anything is copied."""
    rig.program(
        "nvidia-smi", f"case $1 in topo) printf '{TOPOLOGY}' ;; *) echo GPU seen; {then} ;; esac"
    )


def meanwhile(rig: Rig, **how: Any) -> dict[str, Any]:
    found: dict[str, Any] = rig.run(**how).result["meanwhile"]
    return found


def test_nothing_changes_on_a_good_rig(rig: Rig) -> None:
    rig.write()
    put_behind_port(rig)
    rig.program("journalctl", JOURNAL)
    (rig.folder / "journalctl.new").touch()
    with_smi(rig, ":")

    assert meanwhile(rig) == {
        "changes": [],
        "links": [{"gpu": card, "gt_per_s": 2.5, "lanes": 16} for card in ADDRESSES[:2]],
        "functions": [ADDRESSES[0], PORT, ADDRESSES[1]],
        "kernel_log": [],
        "smi": ["GPU seen\n", "GPU seen\n"],
        "unread": [],
    }
    assert f"--after-cursor={CURSOR}" in (rig.folder / "journalctl.asked").read_text()


def test_a_link_wakes_up_as_bytes_move(rig: Rig) -> None:
    rig.write()
    speed = put_behind_port(rig)[ADDRESSES[0]] / "current_link_speed"
    with_smi(
        rig,
        f"[ -e $0.seen ] && echo '2.5 GT/s PCIe' >{speed} || echo '8.0 GT/s PCIe' >{speed}; "
        ": >$0.seen",
    )

    found = meanwhile(rig)

    assert found["changes"] == []
    assert [link["gt_per_s"] for link in found["links"]] == [8.0, 2.5]


def test_a_link_that_slows_down_as_bytes_move(rig: Rig) -> None:
    rig.write()
    functions = put_behind_port(rig)
    write_function(functions[ADDRESSES[1]], speed="8.0")
    with_smi(rig, f"echo '2.5 GT/s PCIe' >{functions[ADDRESSES[1]]}/current_link_speed")

    (change,) = meanwhile(rig)["changes"]

    assert change == {"kind": "link_speed", "subject": ADDRESSES[1], "before": 8, "after": 2.5}


def test_a_card_that_nothing_was_copied_with_may_go_to_sleep(rig: Rig) -> None:
    rig.write(3, refused=frozenset({(0, 2), (2, 0), (1, 2), (2, 1)}))
    functions = put_behind_port(rig)
    idle = rig.folder / "sys/bus/pci/devices" / ADDRESSES[2]
    write_function(idle, speed="8.0")
    with_smi(rig, f"echo '2.5 GT/s PCIe' >{idle}/current_link_speed")

    found = meanwhile(rig)

    assert found["changes"] == []
    assert found["links"][-1] == {"gpu": ADDRESSES[2], "gt_per_s": None, "lanes": None}
    assert set(functions) < set(found["functions"])


def test_a_card_that_answers_nothing_has_no_lanes(rig: Rig) -> None:
    rig.write()
    functions = put_behind_port(rig)
    with_smi(rig, f"echo 63 >{functions[ADDRESSES[1]]}/current_link_width")

    (change,) = meanwhile(rig)["changes"]

    assert change == {"kind": "link_width", "subject": ADDRESSES[1], "before": 16, "after": 0}


@pytest.mark.parametrize("python", ["", "oldest"])
def test_what_changes_meanwhile_is_found(rig: Rig, python: str) -> None:
    rig.write()
    functions = put_behind_port(rig)
    rig.program("journalctl", JOURNAL)
    (rig.folder / "journalctl.new").write_text(f"{NEW}\n{NOISE}\n")
    (rig.folder / "errors").write_text(counters("COR", bad=250))
    with_smi(
        rig,
        f"cp {rig.folder}/errors {functions[PORT]}/aer_dev_correctable; "
        f"echo 8 >{functions[ADDRESSES[1]]}/current_link_width",
    )

    found = meanwhile(rig, **({"python": oldest_python()} if python else {}))

    assert found["changes"] == [
        {"kind": "aer_corrected", "subject": PORT, "before": 0, "after": 250},
        {"kind": "link_width", "subject": ADDRESSES[1], "before": 16, "after": 8},
    ]
    assert found["kernel_log"] == [NEW]
    assert found["unread"] == []


def test_lanes_that_are_lost_only_while_bytes_move(rig: Rig) -> None:
    """The card has them again when the copies have ended."""
    rig.write()
    functions = put_behind_port(rig)
    lanes = functions[ADDRESSES[0]] / "current_link_width"
    with_smi(rig, f"[ -e $0.seen ] && echo 16 >{lanes} || echo 4 >{lanes}; : >$0.seen")

    (change,) = meanwhile(rig)["changes"]

    assert change == {"kind": "link_width", "subject": ADDRESSES[0], "before": 16, "after": 4}


def test_a_login_without_a_journal_has_the_lines_of_dmesg(rig: Rig) -> None:
    rig.write()
    put_behind_port(rig)
    rig.program(
        "dmesg", "echo '[ 1.0] NVRM: old'; [ ! -e $0.seen ] || echo '[ 9.0] NVRM: new'; : >$0.seen"
    )

    found = meanwhile(rig)

    assert found["kernel_log"] == ["[ 9.0] NVRM: new"]
    assert found["unread"] == []


@pytest.mark.parametrize(
    ("journal", "why"),
    [
        ("echo 'No journal files were opened' >&2; exit 1", "No journal files were opened"),
        ("exit 3", "journalctl: exit code 3"),
        (":", "not permitted"),
    ],
)
def test_a_log_that_nobody_may_read_is_no_clean_one(rig: Rig, journal: str, why: str) -> None:
    rig.write()
    put_behind_port(rig)
    rig.program("journalctl", journal)

    assert meanwhile(rig)["unread"] == [f"the kernel log ({why})"]


def test_a_log_that_goes_meanwhile_is_no_clean_one(rig: Rig) -> None:
    rig.write()
    put_behind_port(rig)
    rig.program("journalctl", JOURNAL.replace("cat $0.new", "echo gone >&2; exit 1"))

    assert meanwhile(rig)["unread"] == ["the kernel log (gone)"]


def test_a_flood_of_lines_is_cut_and_counted(rig: Rig) -> None:
    rig.write()
    put_behind_port(rig)
    rig.program("journalctl", JOURNAL)
    (rig.folder / "journalctl.new").write_text(f"{NEW}\n" * 1000)

    found = meanwhile(rig)

    assert found["kernel_log"] == [NEW] * 400
    assert found["unread"] == ["600 more lines of the kernel log"]


def test_what_a_machine_does_not_count_is_unread(rig: Rig) -> None:
    rig.write()

    both = ", ".join(ADDRESSES[:2])
    assert meanwhile(rig)["unread"] == [
        f"bus errors of {both}",
        f"link width of {both}",
        "the kernel log (not permitted)",
    ]


def test_programs_that_do_not_end_cost_their_time_and_no_more(rig: Rig) -> None:
    rig.write()
    put_behind_port(rig)
    rig.program("journalctl", "sleep 60")
    with_smi(rig, "exec sleep 60")

    run = rig.run(changes={"_AROUND_S: Final = 10.0": "_AROUND_S: Final = 0.5"})

    assert run.verdicts() == ["ok", "ok"]
    assert run.result["meanwhile"]["unread"] == ["the kernel log (no answer in time)"]
    assert run.seconds < 20


@pytest.mark.parametrize("how", [{"level": "quick"}, {}], ids=["quick", "refused"])
def test_nothing_is_compared_where_nothing_is_copied(rig: Rig, how: dict[str, Any]) -> None:
    rig.write(granted=bool(how))

    assert meanwhile(rig, **how) is None


def test_a_driver_that_hung_is_left_alone(rig: Rig) -> None:
    rig.write(copy="hang")
    put_behind_port(rig)
    with_smi(rig, "echo >>$0.asked")

    assert meanwhile(rig, pair_s=1)["smi"] == ["GPU seen\n", ""]
    assert (rig.folder / "nvidia-smi.asked").read_text() == "\n"
