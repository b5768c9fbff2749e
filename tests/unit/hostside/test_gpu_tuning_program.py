"""The program that sets the cards, with an nvidia-smi that refuses as the real one does."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

import pytest

from rigops.concerns.gpu_tuning import record
from rigops.concerns.gpu_tuning.state import Shown, Wanted, WasSet, judge_cards
from rigops.concerns.state import AS_DECLARED
from tests.unit.hostside.small_host import SmallHost
from tests.unit.programs import SHELLS_WHERE_SLOW

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping
    from pathlib import Path

A: Final = "GPU-3d5bdb46-1111-5b0e-bf7a-4b3f2a1b0c0d"
B: Final = "GPU-3d5bdb46-2222-5b0e-bf7a-4b3f2a1b0c0d"
BUSES: Final = {A: "00000000:0A:00.0", B: "00000000:42:00.0"}
BOOT: Final = "7b2f6d0e-54e1-4d3c-9a65-2f3f8d3e5b11"
RECORD: Final = "var/lib/rigops/gpu_tuning.json"
SLEEP: Final = str(shutil.which("sleep"))
# Files of a card: its values, `least` of its power, and `refuses` with options and what it says.
NVIDIA_SMI: Final = r"""
root=@ROOT@
echo "$*" >>"$root/calls"
[ ! -e "$root/hangs" ] || exec @SLEEP@ 600
card=$root/cards/$2
[ -d "$card" ] || { echo 'No devices were found'; exit 6; }
[ ! -e "$card/lost" ] || { echo "Unable to determine the device handle for GPU: GPU is lost."; exit 15; }
option=$3
if [ -e "$card/refuses$option" ]; then
    read -r refusal <"$card/refuses$option"; echo "$refusal"; echo 'Treating as warning and moving on.'; echo 'All done.'; exit 0
fi
case $option in
    --query-gpu=*)
        row= IFS=,
        for field in ${option#*=}; do
            case $field in
                enforced.power.limit) [ -e "$card/$field" ] || field=power.limit ;;
                clocks.applications.*) [ ! -e "$card/gone" ] || {
                    echo "Field \"$field\" is not a valid field to query."; exit 2; } ;;
            esac
            value='[N/A]'
            [ ! -e "$card/$field" ] || read -r value <"$card/$field"
            row="$row${row:+, }$value"
        done
        [ ! -e "$card/warns" ] || echo 'WARNING: infoROM is corrupted at gpu 0000:0A:00.0'
        echo "$row" ;;
    -pm) [ "$4" = 1 ] && echo Enabled >"$card/persistence_mode" || echo Disabled >"$card/persistence_mode" ;;
    -pl)
        read -r least <"$card/least"
        if [ "${4%.*}" -lt "$least" ]; then
            echo "Provided power limit $4 W is not a valid power limit which should be between 400"
            echo 'Terminating early due to previous errors.'; exit 2
        fi
        [ -e "$card/deaf" ] || printf '%.2f\n' "$4" >"$card/power.limit" ;;
    -lgc) echo "$4" >"$card/lock"; echo "${4%,*}" >"$card/clocks.gr" ;;
    -rgc) rm "$card/lock" ;;
    -lmc) echo "$4" >"$card/memory-lock" ;;
    -rmc) rm "$card/memory-lock" ;;
    -ac) echo "${4%,*}" >"$card/clocks.applications.mem"; echo "${4#*,}" >"$card/clocks.applications.gr" ;;
    -rac) echo reset >"$card/reset" ;;
    *) exit 2 ;;
esac
"""  # noqa: E501 - a program


class Rig(SmallHost):
    def __init__(self, root: Path, shell_name: str) -> None:
        super().__init__(root, shell_name)
        self.tool("nvidia-smi", NVIDIA_SMI.replace("@ROOT@", str(root)).replace("@SLEEP@", SLEEP))
        self.tool("sleep", f"exec {SLEEP} 0.005")  # between two looks for an answer
        self.boot(BOOT)
        for card, bus in BUSES.items():
            for name, value in {
                "pci.bus_id": bus,
                "persistence_mode": "Disabled",
                "power.limit": "350.00",
                "power.default_limit": "350.00",
                "clocks.gr": "210",
                "clocks.mem": "405",
                "least": "100",
            }.items():
                self.put(card, name, value)

    def boot(self, boot_id: str) -> None:
        self.write("proc/sys/kernel/random/boot_id", f"{boot_id}\n")

    def put(self, card: str, name: str, value: str = "") -> None:
        self.write(f"cards/{card}/{name}", f"{value}\n")

    def has(self, card: str, name: str) -> str:
        file = self.root / "cards" / card / name
        return file.read_text().strip() if file.exists() else ""

    def declare(self, *lines: str) -> None:
        self.write("etc/rigops/gpu_tuning", "# CARD SETTING VALUE\n" + "\n".join(lines) + "\n")

    def does(self, what: str, **limits: int) -> subprocess.CompletedProcess[bytes]:
        return self.run(self.text("gpu_tuning", limits), what)

    def sets(self, *lines: str) -> subprocess.CompletedProcess[bytes]:
        self.declare(*lines)
        return self.does("set")

    @property
    def was_set(self) -> tuple[WasSet, ...]:
        file = self.root / RECORD
        return record.in_this_boot(file.read_text(), BOOT) if file.exists() else ()

    def orders(self) -> list[str]:
        """What changes a card."""
        file = self.root / "calls"
        calls = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return [call.partition(" ")[2] for call in calls if "--query" not in call]


@pytest.fixture(params=SHELLS_WHERE_SLOW)
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Rig:
    return Rig(tmp_path, request.param)


@pytest.fixture
def one(tmp_path: Path) -> Rig:
    return Rig(tmp_path, "dash")


def test_every_card_gets_what_the_table_says_and_nothing_else(rig: Rig) -> None:
    done = rig.sets(
        f"{A} persistence 1", f"{A} power 285", f"{A} graphics 210,1410", f"{B} power 300"
    )

    assert (done.returncode, done.stderr) == (0, b"")
    assert rig.orders() == [f"{A} -pm 1", f"{A} -pl 285", f"{A} -lgc 210,1410", f"{B} -pl 300"]
    assert rig.was_set == (
        WasSet(A, "0000:0a:00.0", "persistence", "1", "0"),
        WasSet(A, "0000:0a:00.0", "power", "285", "350.00"),
        WasSet(A, "0000:0a:00.0", "graphics", "210,1410", ""),
        WasSet(B, "0000:42:00.0", "power", "300", "350.00"),
    )


def test_undoing_takes_back_exactly_that_and_persistence_last(rig: Rig) -> None:
    rig.put(A, "power.limit", "340.00")
    rig.sets(
        f"{A} persistence 1", f"{A} power 285", f"{A} graphics 210,1410", f"{B} memory 405,810"
    )
    rig.orders()

    done = rig.does("undo")

    assert (done.returncode, done.stderr) == (0, b"")
    assert rig.orders() == [f"{B} -rmc", f"{A} -rgc", f"{A} -pl 340.00", f"{A} -pm 0"]
    assert not (rig.root / RECORD).exists()


def test_what_the_table_no_longer_has_is_undone_and_the_rest_stays(rig: Rig) -> None:
    rig.sets(f"{A} power 285", f"{A} graphics 210,1410", f"{B} power 285")
    rig.orders()

    rig.sets(f"{A} power 285")

    assert rig.orders() == [f"{B} -pl 350.00", f"{A} -rgc"]
    assert [one.value for one in rig.was_set] == ["285"]


def test_application_clocks_get_back_what_they_were(one: Rig) -> None:
    one.put(A, "clocks.applications.mem", "877")
    one.put(A, "clocks.applications.gr", "1290")
    one.sets(f"{A} application 877,1005")

    assert (one.has(A, "clocks.applications.gr"), one.orders()) == ("1005", [f"{A} -ac 877,1005"])
    one.does("undo")
    assert one.orders() == [f"{A} -ac 877,1290"]


def test_application_clocks_that_a_new_driver_does_not_report_are_set_and_reset(one: Rig) -> None:
    one.put(A, "gone")

    assert one.sets(f"{A} application 877,1005").returncode == 0
    one.does("undo")
    assert one.orders() == [f"{A} -ac 877,1005", f"{A} -rac"]


def test_what_a_card_has_already_is_not_ours_to_undo(one: Rig) -> None:
    one.put(A, "power.limit", "285.00")

    assert one.sets(f"{A} power 285").returncode == 0
    one.does("undo")
    assert (one.orders(), one.has(A, "power.limit")) == ([], "285.00")


def test_what_somebody_set_meanwhile_is_repaired_and_undone_to_what_was_before_us(one: Rig) -> None:
    one.sets(f"{A} power 285")
    one.put(A, "power.limit", "320.00")

    assert one.sets(f"{A} power 285").returncode == 0
    assert one.has(A, "power.limit") == "285.00"
    one.does("undo")
    assert one.has(A, "power.limit") == "350.00"


def test_what_somebody_set_after_us_stays_when_ours_is_undone(one: Rig) -> None:
    one.sets(f"{A} power 285")
    one.put(A, "power.limit", "320.00")

    one.does("undo")
    assert one.has(A, "power.limit") == "320.00"


def test_another_boot_has_nothing_to_undo(one: Rig) -> None:
    one.sets(f"{A} graphics 210,1410")
    one.boot("00000000-54e1-4d3c-9a65-2f3f8d3e5b11")
    one.orders()

    one.does("undo")
    assert one.orders() == []


REFUSALS: Final[Mapping[str, tuple[str, str, str]]] = {
    "a limit out of range": ("least", "400", "not a valid power limit which should be"),
    "a laptop": (
        "refuses-pl",
        "Changing power management limit is not supported for GPU: 00000000:0A:00.0.",
        "cap its clocks instead, by gpu_clocks",
    ),
    "silence": ("deaf", "", "is 350.00 after it was set"),
    "a lost card": ("lost", "", "GPU is lost"),
}


@pytest.mark.parametrize("why", REFUSALS)
def test_a_card_that_does_not_take_it_fails_by_name_and_the_others_get_theirs(
    rig: Rig, why: str
) -> None:
    name, value, words = REFUSALS[why]
    rig.put(A, name, value)

    done = rig.sets(f"{A} power 285", f"{B} power 285")

    (line,) = done.stderr.decode().splitlines()
    assert done.returncode == 1
    assert line.startswith(A)
    assert words in line
    assert rig.has(B, "power.limit") == "285.00"
    assert [one.card for one in rig.was_set] == [B]


def test_a_lost_card_is_named_once_however_much_it_should_have(one: Rig) -> None:
    one.put(A, "lost")

    done = one.sets(f"{A} persistence 1", f"{A} power 285", f"{A} graphics 210,1410")
    assert len(done.stderr.splitlines()) == 1


def test_a_card_that_has_gone_is_named(one: Rig) -> None:
    done = one.sets("GPU-00000000-2222-5b0e-bf7a-4b3f2a1b0c0d power 285", f"{B} power 285")

    assert (done.returncode, one.has(B, "power.limit")) == (1, "285.00")
    assert b"No devices were found" in done.stderr


def test_a_refused_lock_is_never_reset(one: Rig) -> None:
    one.put(A, "refuses-lgc", "Setting locked GPU clocks is not supported for GPU 0000:0A:00.0.")

    assert one.sets(f"{A} graphics 210,1410").returncode == 1
    one.orders()
    one.does("undo")
    assert one.orders() == []


def test_a_clock_that_stays_above_its_lock_fails_and_is_undone_all_the_same(one: Rig) -> None:
    one.tool(
        "nvidia-smi",
        (one.bin / "nvidia-smi").read_text().replace('echo "${4%,*}" >"$card/clocks.gr"', ":"),
    )
    one.put(A, "clocks.gr", "1980")

    done = one.sets(f"{A} graphics 210,1410")
    assert (done.returncode, b"is 1980 after it was set" in done.stderr) == (1, True)
    one.orders()
    one.does("undo")
    assert one.orders() == [f"{A} -rgc"]


def test_a_corrupted_inforom_hides_no_value(one: Rig) -> None:
    one.put(A, "warns")

    assert one.sets(f"{A} power 285").returncode == 0


def test_a_driver_that_hangs_is_waited_for_once(rig: Rig) -> None:
    rig.write("hangs", "")
    rig.declare(f"{A} power 285", f"{B} power 285", f"{B} graphics 210,1410")

    done = rig.does("set", answer_s=1)

    assert (done.returncode, done.stderr.count(b"does not answer")) == (1, 2)
    assert len((rig.root / "calls").read_text().splitlines()) == 1
    assert rig.was_set == ()


def test_nothing_is_set_that_could_not_be_recorded(one: Rig) -> None:
    one.write("var/lib/rigops", "a file")

    done = one.sets(f"{A} power 285")
    assert (done.returncode, one.orders()) == (1, [])


def shown(rig: Rig, verb: str = "check", **limits: int) -> list[list[str]]:
    done = rig.does(verb, **limits)
    assert (done.returncode, done.stderr) == (0, b"")
    return [line.split("\t") for line in done.stdout.decode().splitlines()]


@pytest.mark.parametrize("verb", ["show", "check"])
def test_it_prints_what_the_table_has_what_the_card_reports_and_what_was_set(
    rig: Rig, verb: str
) -> None:
    rig.put(B, "enforced.power.limit", "250.00")
    rig.put(B, "clocks.mem", "[N/A]")
    rig.sets(f"{A} persistence 1", f"{A} graphics 210,1410", f"{B} power 285")
    rig.declare(f"{A} persistence 1", f"{A} graphics 210,1410", f"{B} power 285", f"{B} memory 405")
    rig.orders()

    assert shown(rig, verb) == [
        ["metric", "gpu_settings", "4"],
        ["setting", A, "0000:0a:00.0", "persistence", "1", "1", "", ""],
        ["setting", A, "0000:0a:00.0", "graphics", "210,1410", "", "210", ""],
        ["setting", B, "0000:42:00.0", "power", "285", "285.00", "250.00", ""],
        ["setting", B, "0000:42:00.0", "memory", "405", "", "", ""],
        ["was_set", A, "0000:0a:00.0", "persistence", "1", "0"],
        ["was_set", A, "0000:0a:00.0", "graphics", "210,1410", "-"],
        ["was_set", B, "0000:42:00.0", "power", "285", "350.00"],
    ]
    assert rig.orders() == []


def test_a_card_that_is_lost_is_asked_once_and_the_other_too(rig: Rig) -> None:
    rig.sets(f"{A} persistence 1", f"{A} power 285", f"{B} power 285")
    rig.put(A, "lost")
    (rig.root / "calls").unlink()

    _, lost, again, other, *_ = shown(rig)

    assert lost[:3] == ["setting", A, ""]
    assert "GPU is lost" in lost[-1]
    assert again[-1] == "it did not answer"
    assert (other[1], other[5], other[-1]) == (B, "285.00", "")
    assert len((rig.root / "calls").read_text().splitlines()) == 2


def test_an_nvidia_smi_that_says_nothing_is_no_answer(one: Rig) -> None:
    one.declare(f"{A} application 877,1005")
    one.tool("nvidia-smi", "exit 0")

    assert shown(one)[1][-1] == "it did not answer"


def test_with_a_driver_that_hangs_it_ends_and_says_nothing_of_the_cards(rig: Rig) -> None:
    rig.sets(f"{A} power 285", f"{B} power 285")
    rig.write("hangs", "")

    assert shown(rig, answer_s=1) == [
        ["metric", "gpu_settings", "2"],
        ["finding", "unknown", "drv.hang", "host", "nvidia-smi does not answer"],
    ]


def test_without_a_table_nothing_is_known(rig: Rig) -> None:
    (line,) = shown(rig)
    assert line[:4] == ["finding", "unknown", "pwr.limit", "host"]


@pytest.mark.parametrize(
    ("setting", "value", "field", "after"),
    [
        ("power", "285", "power.limit", "285.9"),
        ("power", "285", "power.limit", "286.1"),
        ("power", "285", "enforced.power.limit", "285.9"),
        ("power", "285", "enforced.power.limit", "286.1"),
        ("graphics", "210,1410", "clocks.gr", "1425"),
        ("graphics", "210,1410", "clocks.gr", "1426"),
        ("memory", "405,5001", "clocks.mem", "5051"),
        ("memory", "405,5001", "clocks.mem", "5052"),
    ],
)
def test_it_takes_for_set_what_the_judge_takes_for_as_declared(
    one: Rig, setting: str, value: str, field: str, after: str
) -> None:
    """Else apply would set it again and again, or fail where nothing is to be done."""
    program = (one.bin / "nvidia-smi").read_text()
    for order in ("-pl", "-lgc", "-lmc"):
        program = program.replace(f"    {order})", f"    {order}-not)")
    orders = f'-pl | -lgc | -lmc) echo {after} >"$card/{field}" ;;\n    *) exit 2'
    one.tool("nvidia-smi", program.replace("*) exit 2", orders).partition("\n")[2])

    number = {"power.limit": after, "enforced.power.limit": value}.get(field, "")
    one.put(A, "power.limit", number)
    one.put(A, field, after)

    done = one.sets(f"{A} {setting} {value}")

    values = Shown(number, after)
    recorded = [WasSet(A, "", setting, value, "")]
    (state,) = judge_cards([(Wanted(A, "", setting, value), values)], recorded, {})
    assert (done.returncode == 0) is (state.status == AS_DECLARED), done.stderr
