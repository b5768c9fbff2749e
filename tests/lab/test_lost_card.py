"""Four V100 and two laptops: from a bad driver to a proof, a limit raised by mistake, a lost card.

A goal begins with a command of `rigops --help`; those after it are named by the screen before.
"""

from __future__ import annotations

import re
import shlex
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest

from rigops.probe.lost_cards import ADVICE
from tests import first_hour
from tests.lab.applying import only
from tests.lab.tended import Tended
from tests.lab.terminal import Person
from tests.shards import LAB_DOCTOR

if TYPE_CHECKING:
    from tests.lab.conftest import Lab
    from tests.lab.hosts import Host
    from tests.lab.laptop import Laptop

pytestmark = pytest.mark.shard(LAB_DOCTOR)

SENTENCE: Final = "card 86:00.0 is lost since "


@dataclass
class Owner:
    """At a laptop of their own, with the screen before them."""

    name: str
    laptop: Laptop
    host: Host
    typed: str = ""
    screen: str = ""

    def begins(self, line: str, *, code: int = 0, answer: str = "") -> str:
        command, *_ = line.split()
        assert f"\n  {command} " in self.laptop.rigops("--help").out
        return self._types(line, code, answer)

    def goes_on(self, *, code: int = 0, answer: str = "") -> str:
        (line,) = re.findall(r"^Next: rigops (.*?)(?: {4}|$)", self.screen, re.MULTILINE)
        return self._types(line, code, answer)

    def applies(self, *, code: int = 0, answer: str = "") -> str:
        named = "(apply)" in self.screen or "rigops apply" in self.screen
        assert named or self.typed == "apply"
        return self._types("apply", code, answer)

    def again(self, *, code: int = 0) -> str:
        return self._types(self.typed, code, "")

    def declares(self, entry: str) -> None:
        self.edits("        },\n    ),", f"            {entry},\n        }},\n    ),")

    def edits(self, before: str, after: str) -> None:
        path = self.laptop.folder / "inventory.py"
        text = path.read_text()
        assert text.count(before) == 1
        path.write_text(text.replace(before, after))

    def _types(self, line: str, code: int, answer: str) -> str:
        person = Person({"N]": answer} if answer else {}, sees_all=True, columns=100)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LOGNAME", self.name)
            said = person.rigops(self.laptop, shlex.split(line), timeout=600)
        self.typed, self.screen = line, first_hour.seen(said)
        assert said.code == code, self.screen
        return " ".join(self.screen.split())


@pytest.fixture(scope="module")
def me(module_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Owner:
    host = module_lab.one("t180-4xv100=four-v100", "driver=545.29.06", "iommu=translated")
    done = host.run("mkdir -p /var/log/journal && systemctl restart systemd-journald")
    assert done.returncode == 0, done.stderr
    return Owner("me", first_hour.laptop(tmp_path_factory.mktemp("desktop")), host)


@pytest.fixture(scope="module")
def kim(me: Owner, tmp_path_factory: pytest.TempPathFactory) -> Owner:
    return Owner("kim", first_hour.laptop(tmp_path_factory.mktemp("laptop")), me.host)


def test_a_bad_driver_is_replaced_and_the_cards_are_proven(me: Owner, kim: Owner) -> None:
    me.begins(f"init --host {me.host.name}")
    assert "driver 545.29.06 is known to be bad" in " ".join(me.screen.split())
    assert "rigops fix" in me.goes_on()  # hasty: the suggestions are comments still
    me.goes_on(answer="y")
    shown = me.goes_on(answer="y")

    assert "driver 545.29.06 -> 535" in shown
    assert "level L" in shown
    for name in ("inventory.py", "inventory.lock.json"):
        shutil.copy(me.laptop.folder / name, kim.laptop.folder)


def test_a_power_limit_that_is_declared_with_mistakes(me: Owner) -> None:
    assert '"psus": [' in me.begins("power")
    me.declares('"psus": "2x1600"')
    assert "inventory.py:" in me.again(code=2)
    assert "fix: write [750, 750]" in me.screen
    me.edits('"2x1600"', "[1600]")
    assert 'fix: "gpu_power_limit": 225' in me.again(code=1)

    me.declares('"gpu_power_limit": {"A100": 240}')
    (named,) = set(re.findall(r'fix: write ("V100.*?")', me.applies(code=1)))
    me.edits('"A100"', named)
    shown = me.applies(answer="y")

    assert "power limit 300 W -> 240 W on 4 cards" in shown
    assert 'fix: declare "gpu_power_limit": 225' in shown


def test_a_second_laptop_is_shown_whose_limit_it_raises(me: Owner, kim: Owner) -> None:
    shown = kim.begins("apply", answer="y")

    assert "power limit 240 W -> 300 W on 4 cards" in shown
    assert re.search(r"gpu_power_limit = \{.*: 240\}, declared by me@\S+ on 20[0-9-]{8}", shown)
    me.host.set("load=step")  # throws a card off the bus, which is lost until a reboot


def test_doctor_has_one_advice_and_no_fix_that_apply_refuses(me: Owner) -> None:
    me.begins("doctor", code=1)

    assert re.findall(r"^  (?:fail|warn) +(\S+)", me.screen, re.MULTILINE) == ["xid"]
    assert re.search(r"^ +explains: gpu\.lost, gpu\.count$", me.screen, re.MULTILINE)
    (fix,) = re.findall(r"^ +fix: (.*)", me.screen, re.MULTILINE)
    assert ADVICE.startswith(fix)


@pytest.mark.parametrize(
    ("command", "code"), [("plan", 1), ("apply", 1), ("power", 3), ("preflight", 1)]
)
def test_every_command_says_the_same_of_it(me: Owner, command: str, code: int) -> None:
    shown = me.begins(command, code=code, answer="y")

    assert SENTENCE in shown
    assert f"fix: {ADVICE}" in shown
    assert set(re.findall(r"fix: (\w+)", shown)) == {"reboot"}
    assert "at least 250 of 1440 W" in shown or command != "power"


@pytest.mark.parametrize("command", ["preflight", "apply --preflight always"])
def test_nothing_is_copied_and_nothing_is_blamed(kim: Owner, command: str) -> None:
    assert f"fix: {ADVICE}" in kim.begins("plan")
    said = kim.laptop.rigops(*command.split(), "--yes", "--json")

    found = only(said)["preflight"] if command != "preflight" else said.json()["hosts"][0]
    (reason,) = [one for one in found["reasons"] if "86:00.0" in one]
    assert reason.startswith(SENTENCE)
    assert found["changes"] is None
    assert {pair["verdict"] for pair in found["pairs"]} <= {"skipped", "not_granted"}
    assert kim.laptop.doctor().seen().of("p2p.proof")[0]["status"] != "fail"


def test_after_the_reboot_screens_lead_to_a_limit_that_fits_and_a_proof(me: Owner) -> None:
    assert ADVICE.startswith("reboot the host")
    me.host.set("load=idle")
    Tended(me.laptop, me.host).reboot()

    assert "Xid 79" in me.begins("doctor", code=1)
    by_hand = me.goes_on(code=1)
    assert 'write in its data: "gpu_power_limit": 225' in by_hand  # a limit by model is there
    me.edits('{"V100 16GB": 240}', "225")
    assert "power limit 300 W -> 225 W on 4 cards" in me.applies(answer="y")
    assert "1 host: ok. Nothing to fix." in me.begins("doctor")
    proven = me.begins("preflight", answer="y")
    assert proven.count(" GB/s L5") == 12
    assert "Collectives are proven." in proven
