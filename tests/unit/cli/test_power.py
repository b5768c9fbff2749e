"""`rigops power` on rigs that answer with texts. Every number here is worked out by hand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rigops.probe.lost_cards import ADVICE
from tests.unit.cli import power_rigs
from tests.unit.cli.power_rigs import (
    DESKTOP,
    LAPTOP,
    RTX3090,
    T180,
    THREADRIPPER,
    UPS,
    Rigs,
    card,
    texts,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.unit.cli.conftest import Rigops
    from tests.unit.forks import Said

rigs = power_rigs.rigs

PAGE = Path(__file__).resolve().parents[3] / "docs/how-to/power.md"
PAGE_JSON = PAGE.read_text(encoding="utf-8").split("## `--json`")[1]
ONE, TWO, THREE = "0000:0a:00.0", "0000:42:00.0", "0000:43:00.0"
# The board and one card on the first supply, two cards on the second.
SPLIT = [
    {"watts": 750, "host": True, "gpus": [ONE]},
    {"watts": 750, "gpus": [TWO, THREE]},
]
BY_UUID = "gpu_power_limit names cards by UUID, and which is this one is not known"
UNREACHED = "not reached: from the inventory"
PAIR = {"gpus": {"3090": 2}, "gpu_power_limit": 300}


DROPPED_AT = "2026-01-30 17:01 UTC"
DROPPED = (
    "== journalctl -k -b\n2026-01-30T17:01:40.000000+0000 rig kernel: NVRM: Xid (PCI:{}): 79, "
    "GPU has fallen off the bus.\n"
)


def _gone(pci: str, address: str) -> tuple[str, str]:
    """The line of that card, and what it is once it has left the bus."""
    (line,) = (one for one in pci.splitlines() if one.startswith(address))
    return line, line.replace("link=8.0,16", "link=Unknown,63")


class Power:
    def __init__(self, rigops: Rigops, folder: Path) -> None:
        self._rigops = rigops
        self._folder = folder

    def declare(self, **hosts: Mapping[str, object]) -> None:
        (self._folder / "inventory.py").write_text(f"rigs = {list(hosts.items())!r}\n")

    def __call__(self, *words: str) -> Said:
        return self._rigops("power", *words)

    def document(self, code: int, *words: str) -> Any:
        said = self("--json", *words)
        assert said.code == code, said.out + said.err
        return said.json()

    def host(self, code: int, *words: str) -> Any:
        (host,) = self.document(code, *words)["hosts"]
        return host


@pytest.fixture
def power(rigops: Rigops, tmp_path: Path) -> Power:
    return Power(rigops, tmp_path)


def test_three_3090_at_285_watts_on_two_750_watt_supplies(power: Power, rigs: Rigs) -> None:
    rigs.texts["threadripper"] = texts(*THREADRIPPER)
    power.declare(
        threadripper={
            "gpu_power_limit": 285,
            "psus": SPLIT,
            "circuits": "230V/16A",
            "electricity_price": 0.31,
        }
    )

    host = power.host(1)

    first, second = host["psus"]
    # 250 for the board and the CPU, which nobody declared, and 285
    assert (first["steady_watts"], first["steady_allowed"]) == (535, 675)
    # 250 + 285 x 1.71 = 250 + 487.35, in a float that is a little less
    assert (first["peak_watts"], first["peak_allowed"]) == (737.3, 750)
    # 2 x 285: 180 less than the supply has, as its owner counts; 2 x 285 x 1.71 in peaks
    assert (second["steady_watts"], second["peak_watts"]) == (570, 974.7)
    assert host["excesses"] == [
        {"kind": "peak", "where": "PSU 2", "watts": 974.7, "allowed": 750},
    ]
    (circuit,) = host["circuits"]
    # (3 x 285 + 250) / 0.9 of 230 x 16 x 0.8
    assert (circuit["watts"], circuit["allowed_watts"]) == (1227.8, 2944)
    # 750 / (2 x 1.71) = 219.3
    assert host["equal_limit"] == {"watts": 219, "unknown": False, "range_known": True}
    # idle: (3 x 21 + 250 / 2) / 0.9
    assert (host["wall"]["busy_watts"], host["wall"]["idle_watts"]) == (1227.8, 208.9)
    # (1227.78 + 208.89) / 2 x 24 h = 17.24 kWh; x 30; x 0.31
    assert host["energy"] == {
        "duty_percent": 50,
        "price_per_kwh": 0.31,
        "kwh_per_day": 17.24,
        "kwh_per_month": 517.2,
        "cost_per_day": 5.34,
        "cost_per_month": 160.33,
    }
    assert [one["watts"] for one in host["gpus"]] == [285] * 3
    assert {(one["from"], one["watts_in_force"]) for one in host["gpus"]} == {("declared", 350)}


@pytest.mark.parametrize(
    ("supplies", "rated", "steady"),
    [(2, 2200, 1980), (3, 3300, 2970)],
)
def test_four_v100_on_supplies_in_parallel(
    power: Power, rigs: Rigs, supplies: int, rated: float, steady: float
) -> None:
    rigs.texts["t180"] = texts(*T180)
    power.declare(
        t180={
            "psus": [{"watts": 1100, "count": supplies}],
            "circuits": "120V/20A",
            "other_watts": 400,
        }
    )

    host = power.host(0)

    (psu,) = host["psus"]
    assert (psu["rated_watts"], psu["steady_allowed"]) == (rated, steady)
    # 4 x 300 + 400, and 4 x 300 x 1.5 + 400
    assert (psu["steady_watts"], psu["peak_watts"]) == (1600, 2200)
    (circuit,) = host["circuits"]
    # 1600 / 0.9 of 120 x 20 x 0.8
    assert (circuit["watts"], circuit["allowed_watts"]) == (1777.8, 1920)
    # as much as they take
    assert host["equal_limit"]["watts"] == 300
    # idle: (4 x 40 + 400 / 2) / 0.9
    assert host["wall"]["idle_watts"] == 400


def test_four_v100_on_a_15_ampere_circuit(power: Power, rigs: Rigs) -> None:
    rigs.texts["t180"] = texts(*T180)
    power.declare(t180={"circuits": "120V/15A", "other_watts": 400})

    host = power.host(1)

    # 120 x 15 x 0.8 = 1440; of that 90 % arrive: (1296 - 400) / 4
    assert host["equal_limit"]["watts"] == 224
    assert host["excesses"] == [
        {"kind": "circuit", "where": "the circuit", "watts": 1777.8, "allowed": 1440}
    ]


@pytest.mark.parametrize(("watts", "code"), [(750, 0), (650, 1)])
def test_a_desktop_with_two_different_cards(
    power: Power, rigs: Rigs, watts: int, code: int
) -> None:
    rigs.texts["desktop"] = texts(*DESKTOP)
    power.declare(desktop={"psus": [watts]})

    host = power.host(code)

    (psu,) = host["psus"]
    # 170 + 120 + 250, and 170 x 1.71 + 120 x 1.5 + 250
    assert (psu["steady_watts"], psu["peak_watts"]) == (540, 720.7)
    # 140 is the most that the GTX 1060 takes; 140 x 3.21 + 250 = 699.4; (650 - 250) / 3.21 = 124.6
    assert host["equal_limit"]["watts"] == (140 if watts == 750 else 124)


@pytest.mark.parametrize(
    ("cards", "watts", "equal"),
    [
        # (3 x 300 + 250) / 0.9, and all that they take: (3 x 366 + 250) / 0.9 = 1497.8
        (3, 1277.8, 366),
        # (4 x 300 + 250) / 0.9, and (1536 x 0.9 - 250) / 4 = 283.1
        (4, 1611.1, 283),
    ],
)
def test_a_circuit_that_carries_1536_watts(
    power: Power, rigs: Rigs, cards: int, watts: float, equal: int
) -> None:
    rigs.texts["rig"] = texts(*(card(RTX3090, f"0000:0{at}:00.0") for at in range(1, cards + 1)))
    power.declare(rig={"gpu_power_limit": 300, "circuits": "120V/16A"})

    host = power.host(1 if watts > 1536 else 0)

    (circuit,) = host["circuits"]
    assert (circuit["watts"], circuit["allowed_watts"]) == (watts, 1536)
    assert host["equal_limit"]["watts"] == equal
    (note,) = host["notes"]
    assert "15 A (1440 W for hours) or 20 A (1920 W for hours)" in note


def test_the_document_has_its_schema_first_and_the_same_keys_for_every_host(
    power: Power, rigs: Rigs
) -> None:
    rigs.texts["rig"] = texts(*THREADRIPPER)
    power.declare(rig={"psus": [3000]}, away={})

    document = power.document(3)

    assert list(document) == ["schema", "status", "hosts", "circuits"]
    assert (document["schema"], document["status"]) == ("rigops.power/1", "unknown")
    rig, away = document["hosts"]
    keys = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`[^|]*`) \|", PAGE_JSON, re.MULTILINE)))
    assert list(rig) == keys
    assert list(away) == [*keys, "error"]
    assert list(away["error"]) == ["kind", "message"]


def test_two_supplies_on_two_circuits(power: Power, rigs: Rigs) -> None:
    every = [f"0000:0{at}:00.0" for at in range(1, 5)]
    rigs.texts["rig"] = texts(*(card(RTX3090, one) for one in every))
    power.declare(
        rig={
            "gpu_power_limit": 300,
            "psus": [
                {"watts": 1650, "gpus": every[:2], "host": True, "circuit": "left"},
                {"watts": 1650, "gpus": every[2:], "circuit": "right"},
            ],
            "circuits": {"left": "120V/15A", "right": "120V/15A"},
        }
    )

    host = power.host(0)

    # (2 x 300 + 250) / 0.9 and 2 x 300 / 0.9 of 120 x 15 x 0.8
    assert [(one["name"], one["watts"], one["allowed_watts"]) for one in host["circuits"]] == [
        ("left", 944.4, 1440),
        ("right", 666.7, 1440),
    ]


def test_a_circuit_of_several_hosts_is_summed(power: Power, rigs: Rigs) -> None:
    rigs.texts["one"] = rigs.texts["two"] = texts(*THREADRIPPER[:2])
    shared = {"circuits": {"A": "120V/15A"}, "gpu_power_limit": 300}
    power.declare(one=shared, two={**shared, "other_watts": 150})

    document = power.document(1)

    # (2 x 300 + 250) / 0.9, and (2 x 300 + 150) / 0.9: neither alone is over 1440
    assert document["circuits"] == [
        {
            "name": "A",
            "status": "fail",
            "volts": 120,
            "amperes": 15,
            "watts": 1777.8,
            "allowed_watts": 1440,
            "hosts": [
                {"host": "one", "watts": 944.4, "from": "host"},
                {"host": "two", "watts": 833.3, "from": "host"},
            ],
        }
    ]
    one, two = document["hosts"]
    assert one["excesses"] == [
        {"kind": "circuit", "where": "circuit A (with two)", "watts": 1777.8, "allowed": 1440}
    ]
    # ((1440 - 833.33) x 0.9 - 250) / 2, and ((1440 - 944.44) x 0.9 - 150) / 2
    assert [one["equal_limit"]["watts"], two["equal_limit"]["watts"]] == [148, 148]
    out = power().out
    assert "circuit A  OVER BUDGET" in out
    assert "OVER 1778 of 1440 W (120 V x 15 A x 80 %), with two" in out


def test_a_circuit_without_a_name_is_the_hosts_own(power: Power, rigs: Rigs) -> None:
    rigs.texts["one"] = rigs.texts["two"] = texts(*THREADRIPPER[:2])
    own = {"circuits": "120V/15A", "gpu_power_limit": 300}
    power.declare(one=own, two=own)

    document = power.document(0)

    assert [one["status"] for one in document["hosts"]] == ["ok", "ok"]
    assert document["circuits"] == []


def test_a_circuit_is_the_same_in_all_hosts(power: Power) -> None:
    power.declare(one={"circuits": {"A": "120V/15A"}}, two={"circuits": {"A": "120V/20A"}})

    said = power()

    assert said.code == 2
    assert "host two: circuits['A'] = '120V/20A': one declares 120V/15A for this" in said.err
    assert "fix: give it the same value in both, or another name" in said.err


def test_a_host_that_is_not_reached_is_computed_from_inventory_and_catalog(
    power: Power, rigs: Rigs
) -> None:
    power.declare(away={"gpus": {"3090": 2}, "gpu_power_limit": "80%", "psus": [1300]})

    host = power.host(3)

    assert rigs.texts == {}
    assert (host["status"], host["source"]) == ("unknown", "inventory")
    assert host["error"]["kind"] == "timeout"
    # 80 % of the catalog's 350: 2 x 280 + 250, and 2 x 280 x 1.71 + 250
    (psu,) = host["psus"]
    assert (psu["steady_watts"], psu["peak_watts"]) == (810, 1207.6)


def test_a_host_that_is_not_reached_may_be_over(power: Power, rigs: Rigs) -> None:
    assert rigs.texts == {}
    power.declare(away={"gpus": {"3090": 2}, "psus": [850]})

    assert power.host(1)["status"] == "fail"
    assert "not reached (no answer within 20 s): from the inventory and the catalog" in power().out


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        ({}, "gpus names no models"),
        ({"gpus": 2}, "gpus names no models"),
        ({"gpus": {"Voodoo": 2}}, "the catalog has no Voodoo"),
        (
            {"gpus": {"3090": 2}, "gpu_power_limit": {ONE: 285, "default": 300}},
            "gpu_power_limit names addresses, and which card is where is not known",
        ),
        (
            {
                "gpus": {"3090": 2},
                "gpu_power_limit": {f"GPU-{'1' * 8}-1111-1111-1111-{'1' * 12}": 285},
            },
            f"the limit of 3090 1, 3090 2 is not known ({BY_UUID})",
        ),
    ],
)
def test_a_host_of_which_neither_is_known(
    power: Power, rigs: Rigs, declared: dict[str, object], why: str
) -> None:
    assert rigs.texts == {}
    power.declare(away={**declared, "psus": [850]})

    host = power.host(3)

    assert (host["status"], host["unknown"]) == ("unknown", [why])
    assert host["energy"]["kwh_per_day"] is None


def test_a_shared_circuit_with_an_unknown_host_is_unknown(power: Power, rigs: Rigs) -> None:
    rigs.texts["one"] = texts(*THREADRIPPER[:2])
    shared = {"circuits": {"A": "120V/20A"}}
    power.declare(one={**shared, "gpu_power_limit": 300}, away={**shared, "gpus": 2})

    document = power.document(3)

    one, away = document["hosts"]
    assert one["unknown"] == [
        "what away draws from circuit A is not known (declare gpus there, by model)"
    ]
    assert away["unknown"] == ["gpus names no models"]
    assert document["circuits"][0]["status"] == "unknown"
    assert document["circuits"][0]["watts"] is None
    assert "at least 1222 of 1920 W" in power().out


def test_what_is_known_of_a_circuit_may_be_too_much_already(power: Power, rigs: Rigs) -> None:
    rigs.texts["one"] = texts(*THREADRIPPER[:2])
    shared = {"circuits": {"A": "120V/10A"}}
    power.declare(one={**shared, "gpu_power_limit": 330}, away={**shared, "gpus": 2})

    # (2 x 330 + 250) / 0.9 = 1011 of 960, and more
    one, away = power.document(1)["hosts"]
    assert (one["status"], away["status"]) == ("fail", "fail")


def test_others_on_the_circuit_of_a_named_host_are_counted_and_not_asked(
    power: Power, rigs: Rigs
) -> None:
    rigs.texts["one"] = rigs.texts["two"] = texts(*THREADRIPPER[:2])
    shared = {"circuits": {"A": "120V/15A"}, **PAIR}
    power.declare(one=shared, two=shared, three={**shared, "circuits": {"B": "120V/15A"}})

    document = power.document(1, "one")

    assert list(rigs.asked) == ["one"]
    assert [host["host"] for host in document["hosts"]] == ["one"]
    assert document["circuits"][0]["hosts"] == [
        {"host": "one", "watts": 944.4, "from": "host"},
        {"host": "two", "watts": 944.4, "from": "inventory"},
    ]


def test_a_limit_that_is_declared_and_not_applied_yet(power: Power, rigs: Rigs) -> None:
    """350 W now: 2 x 350 x 1.71 + 250 = 1447 of 1300; declared 250: 2 x 250 x 1.71 + 250 = 1105."""
    rigs.texts["rig"] = texts(*THREADRIPPER[:2])
    power.declare(rig={"gpu_power_limit": 250, "psus": [1300]})

    host = power.host(0)

    assert (host["status"], host["excesses"]) == ("warn", [])
    assert host["excesses_now"] == [
        {"kind": "peak", "where": "PSU 1", "watts": 1447, "allowed": 1300}
    ]
    out = power().out
    assert "rig  OVER UNTIL APPLIED  2x GeForce RTX 3090 at 250 W (declared, 350 W now)" in out
    assert "now 950 of 1170 W, peaks OVER 1447 of 1300 W" in out
    assert "fix: rigops apply" in out


def test_a_limit_that_the_card_refuses_does_not_count(power: Power, rigs: Rigs) -> None:
    rigs.texts["rig"] = texts(*THREADRIPPER[:2])
    power.declare(rig={"gpu_power_limit": 90, "psus": [850]})

    host = power.host(1)

    assert {(one["watts"], one["from"]) for one in host["gpus"]} == {(350, "in_force")}
    assert host["notes"] == [f"{ONE}, {TWO}: declared 90 W, and the card accepts 100 to 366 W"]


LIMIT = f"the limit of {ONE} is not known"
WITHOUT_DEFAULT = card((*RTX3090[:2], "N/A", *RTX3090[3:]), ONE, "350.00 W")
TWO_CIRCUITS = {"A": "120V/15A", "B": "120V/15A"}


@pytest.mark.parametrize(
    ("cards", "declared", "why"),
    [
        ([card(LAPTOP, ONE)], {}, f"{LIMIT} (the card does not report its limit)"),
        (
            [card(LAPTOP, ONE)],
            {"gpu_power_limit": 100},
            f"{LIMIT} (the card takes no power limit)",
        ),
        (
            [WITHOUT_DEFAULT],
            {"gpu_power_limit": "80%"},
            f"{LIMIT} (declared 80% of its default, which is not known)",
        ),
        (THREADRIPPER[:2], {"gpus": {"3090": 3}}, "nvidia-smi reports 2 of 3 cards"),
        (
            THREADRIPPER[:2],
            {
                "psus": [
                    {"watts": 850, "gpus": [ONE], "host": True},
                    {"watts": 850, "gpus": [THREE]},
                ]
            },
            f"psus does not say what feeds {TWO}",
        ),
        (
            THREADRIPPER[:2],
            {"circuits": TWO_CIRCUITS},
            "on which circuit PSU 1 hangs is not declared",
        ),
    ],
)
def test_what_neither_the_host_nor_the_inventory_says_leaves_the_budget_unknown(
    power: Power, rigs: Rigs, cards: Sequence[Any], declared: dict[str, object], why: str
) -> None:
    rigs.texts["rig"] = texts(*cards)
    power.declare(rig={"psus": [1600], **declared})

    assert why in power.host(3)["unknown"]


def test_no_equal_limit_fits(power: Power, rigs: Rigs) -> None:
    rigs.texts["rig"] = texts(*THREADRIPPER)
    power.declare(rig={"psus": [500]})

    # 3 x 100 + 250 is more than 450
    assert power.host(1)["equal_limit"]["watts"] is None
    out = power().out
    assert "no equal limit fits: the cards take no less than 100 W" in out
    assert "fix: larger supplies" in out


def test_without_supplies_and_circuits_there_is_the_cost_alone(power: Power, rigs: Rigs) -> None:
    rigs.texts["rig"] = texts(*THREADRIPPER[:2])
    power.declare(rig={"other_watts": 180, "electricity_price": 0.3})

    host = power.host(0, "--duty", "100")

    assert host["status"] == "skipped"
    # (2 x 350 + 180) / 0.9 x 24 h
    assert (host["energy"]["kwh_per_day"], host["energy"]["cost_per_day"]) == (23.47, 7.04)
    # (2 x 21 + 180 / 2) / 0.9 x 24 h
    assert power.host(0, "--duty", "0")["energy"]["kwh_per_day"] == 3.52
    assert '"psus": [750, 750]' in power().out  # the form of what to declare


def test_what_a_ups_measures_stands_beside_what_is_computed(power: Power, rigs: Rigs) -> None:
    rigs.texts["rig"] = texts(*THREADRIPPER[:2], ups=UPS.format(312))
    power.declare(rig={"psus": [1600]})

    wall = power.host(0)["wall"]

    assert (wall["busy_watts"], wall["measured_watts"]) == (1055.6, 312)
    assert wall["measured"] == [
        {"ups": "myups@localhost", "watts": 312, "lines": ["ups.realpower: 312"]}
    ]
    assert "1056 W at these limits, 186 W idle; the UPS measures 312 W now" in power().out
    assert rigs.asked["rig"][0] == ["pci", "nvidia-smi-xml", "kernel-log", "ups"]


def test_a_lost_card_is_said_and_what_is_drawn_is_at_least_the_rest(
    power: Power, rigs: Rigs
) -> None:
    bus = {**texts(*THREADRIPPER), "kernel-log": DROPPED.format(TWO)}
    line = f"Unable to determine the device handle for GPU{TWO}: GPU is lost.\n"
    rigs.texts["rig"] = {**bus, "nvidia-smi-xml": line}
    power.declare(rig={"psus": [1600]})

    shown = " ".join(power().out.split())

    assert f"card 42:00.0 is lost since {DROPPED_AT}" in shown
    assert "at least 250 of 1440 W" in shown
    assert f"fix: {ADVICE}" in shown
    (unknown,) = power.host(3)["unknown"]
    assert "card 42:00.0 is lost" in unknown


def test_a_lost_card_that_nvidia_smi_leaves_out_is_said_too(power: Power, rigs: Rigs) -> None:
    rest = texts(*THREADRIPPER[:1], *THREADRIPPER[2:])
    pci = texts(*THREADRIPPER)["pci"]
    rigs.texts["rig"] = {**rest, "pci": pci.replace(*_gone(pci, TWO), 1)}
    power.declare(rig={"psus": [1600]})

    shown = " ".join(power().out.split())

    assert "card 42:00.0 is lost" in shown
    assert "at least 950 of 1440 W" in shown


def test_declared_clocks_are_said_not_to_count(power: Power, rigs: Rigs) -> None:
    rigs.texts["rig"] = texts(*THREADRIPPER)
    power.declare(rig={"psus": [1600, 1600]})
    assert power.host(0)["notes"] == []

    power.declare(rig={"psus": [1600, 1600], "gpu_clocks": "graphics=210,1410"})

    (note,) = power.host(0)["notes"]
    assert note.startswith("gpu_clocks is declared and not counted")


def test_a_host_that_no_inventory_has(power: Power, rigs: Rigs) -> None:
    rigs.texts["rig"] = texts(*THREADRIPPER[:2])

    assert power.host(0, "rig")["status"] == "skipped"
    assert power.host(3, "elsewhere")["unknown"] == ["gpus names no models"]


@pytest.mark.parametrize("words", [["--duty", "101"], ["--duty", "nan"], []])
def test_usage(power: Power, words: list[str]) -> None:
    assert power(*words).code == 2


def test_more_than_three_hosts_are_a_line_each(power: Power, rigs: Rigs) -> None:
    for name in ("one", "two", "three"):
        rigs.texts[name] = texts(*THREADRIPPER[:2])
    every = {name: {"psus": [1600]} for name in ("one", "two", "three")}
    power.declare(**every, four={"psus": [1600]}, five={**PAIR, "psus": [850]})

    said = power()

    assert said.code == 1
    assert said.out.splitlines() == [
        "host   budget         wall      a day  worst",
        "one    FITS         1056 W   14.9 kWh  -",
        "two    FITS         1056 W   14.9 kWh  -",
        "three  FITS         1056 W   14.9 kWh  -",
        f"four   UNKNOWN           ?          ?  {UNREACHED}; gpus names no models",
        "five   OVER BUDGET   944 W   13.7 kWh  PSU 1 1276 of 850 W",
        "",
        "4 hosts: 4111 W at these limits, 58.3 kWh a day; 1 unknown",
    ]


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_report_fits_the_terminal(
    power: Power, rigs: Rigs, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setattr("rigops.report.terminal._Stream.isatty", lambda _: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    rigs.texts["threadripper"] = texts(*THREADRIPPER, ups=UPS.format(312))
    power.declare(
        threadripper={"psus": SPLIT, "circuits": {"A": "120V/16A"}, "gpu_power_limit": 285},
        away={**PAIR, "circuits": {"A": "120V/16A"}},
    )

    for words in ((), ("-v",)):
        lines = power("--no-color", *words).out.splitlines()
        assert max(map(len, lines)) <= columns
        bars = [line for line in lines if "[" in line]
        assert len(bars) == 5
        assert len({line.index("[") for line in bars[:3]}) == 1


def test_a_terminal_without_utf_8_gets_bars_of_ascii(
    power: Power, rigs: Rigs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rigops.report.terminal.locale.setlocale", lambda *_: "C")
    rigs.texts["rig"] = texts(*THREADRIPPER[:2])
    power.declare(rig={"gpu_power_limit": 250, "psus": [1300]})

    out = power().out

    # 20 cells for 1300 W: 750 for hours, 1105 in peaks
    assert "[############+++++...]  750 of 1170 W, peaks 1105 of 1300 W" in out
    assert out.isascii()


def test_doctor_has_the_same_numbers(power: Power, rigops: Rigops, rigs: Rigs) -> None:
    shared = {"circuits": {"A": "120V/15A"}, **PAIR, "psus": [1600], "other_watts": 150}
    rigs.texts["one"] = texts(*THREADRIPPER[:2], ups=UPS.format(312))
    power.declare(one=shared, two=shared)

    said = rigops("doctor", "--json", "--only", "pwr.budget", "one")

    (found,) = said.json()["hosts"][0]["findings"]
    assert found["status"] == "warn"
    (excess,) = power.host(1, "one")["excesses"]
    (same,) = found["data"]["excesses"]
    assert (same["where"], same["watts"], same["allowed"]) == ("circuit A (with two)", 1667, 1440)
    assert (excess["where"], round(excess["watts"]), excess["allowed"]) == tuple(same.values())[1:]
    assert found["evidence"] == [{"section": "ups", "line": "ups.realpower: 312"}]
    # ((1440 - 833.33) x 0.9 - 150) / 2
    assert found["remedy"]["declare"] == {"gpu_power_limit": 198}
    assert power.host(1, "one")["equal_limit"]["watts"] == 198


def test_the_page_shows_what_is_printed(
    power: Power, rigs: Rigs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rigops.report.terminal._Stream.isatty", lambda _: True)
    monkeypatch.setenv("COLUMNS", "80")
    rigs.texts["threadripper"] = texts(*THREADRIPPER, ups=UPS.format(312))
    power.declare(
        threadripper={
            "gpu_power_limit": 285,
            "psus": SPLIT,
            "circuits": "120V/15A",
            "electricity_price": 0.31,
        }
    )

    screen = PAGE.read_text(encoding="utf-8").split("```text\n$ rigops power\n")[1].split("```")[0]

    assert power("--no-color").out == screen
