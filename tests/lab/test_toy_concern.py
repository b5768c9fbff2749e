"""A concern that only the tests know goes through everything that rigops does with concerns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.lab import hosts
from tests.lab.applying import INVENTORY, QUIETLY, only
from tests.lab.laptop import Laptop
from tests.lab.tended import Tended
from tests.lab.toy.concern import FILE, LIVE, UNIT
from tests.shards import LAB_CONCERNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.lab.laptop import Said

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.shard(LAB_CONCERNS)

WITH_THE_TOY = (
    "-c",
    (
        f"import runpy, sys; sys.path.insert(0, {str(ROOT)!r}); "
        "runpy.run_module('tests.lab.toy', run_name='__main__')"
    ),
)


class Rig(Tended):
    def rigops(self, *arguments: str) -> Said:
        return self.laptop.start(*arguments, program=WITH_THE_TOY).wait()

    def applied(self, *options: str, code: int = 0, **declared: object) -> Mapping[str, Any]:
        self.declare(**declared)
        said = self.rigops("apply", "--json", *options, *QUIETLY)
        assert said.code == code, said.out + said.err
        return only(said)

    def subjects(self, **declared: object) -> set[str]:
        """What a plan would change."""
        self.declare(**declared)
        said = self.rigops("plan", "--json", *INVENTORY)
        return {change["subject"] for change in only(said)["changes"]}

    def level(self) -> Mapping[str, Any]:
        """What doctor says of the level that is declared."""
        said = self.rigops("doctor", "--json", *INVENTORY)
        return next(one for one in only(said)["findings"] if one["id"] == "toy.level")

    def says(self, command: str) -> str:
        return self.host.run(command).stdout.strip()


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with hosts.running(["threadripper-3x3090=toy-concern"]) as (host,):
        yield Rig(Laptop(tmp_path_factory.mktemp("laptop")), host)


def test_without_it_the_key_belongs_to_the_user(rig: Rig) -> None:
    rig.declare(toy_level=4)

    assert only(rig.laptop.rigops("plan", "--json", *INVENTORY))["changes"] == []


def test_a_wrong_value_is_refused_with_what_is_accepted(rig: Rig) -> None:
    rig.declare(toy_level=12)

    said = rig.rigops("plan", *INVENTORY)

    assert said.code == 2
    assert "toy_level" in said.err
    assert "1 to 9" in said.err


def test_the_plan_shows_all_of_it(rig: Rig) -> None:
    rig.declare(toy_level=4)

    host = only(rig.rigops("plan", "--json", *INVENTORY))

    assert {(one["concern"], one["subject"]) for one in host["changes"]} == {
        ("toy", FILE), ("toy", f"/etc/systemd/system/{UNIT}"), ("toy", LIVE)
    }  # fmt: skip
    assert host["reboot_reasons"] == ["this boot did not begin with level 4"]


def test_apply_changes_and_verifies_it_and_leaves_the_reboot_to_a_person(rig: Rig) -> None:
    host = rig.applied("--reboot", "never", toy_level=4)

    assert host["outcome"] == "reboot_owed"
    assert rig.says(f"cat {FILE} {LIVE}") == "level=4\n4"
    assert rig.says(f"systemctl is-enabled {UNIT}") == "enabled"


def test_apply_brings_what_only_a_reboot_can(rig: Rig) -> None:
    host = rig.applied("--reboot", "auto", toy_level=4)

    assert host["outcome"] == "changed"
    assert rig.applied(toy_level=4)["outcome"] == "converged"


def test_drift_of_file_and_live_value_is_planned_and_repaired(rig: Rig) -> None:
    assert rig.level()["status"] == "ok"
    rig.says(f"echo 9 >{LIVE}; rm {FILE}")

    assert rig.subjects(toy_level=4) == {FILE, LIVE}
    found = rig.level()
    assert found["summary"] == "the live level is 9, declared 4"
    assert (found["remedy"]["kind"], found["remedy"]["concern"]) == ("apply", "toy")
    assert rig.applied(toy_level=4)["outcome"] == "changed"
    assert rig.says(f"cat {FILE} {LIVE}") == "level=4\n4"


def test_a_lost_declaration_undoes_nothing_without_consent(rig: Rig) -> None:
    host = rig.applied(code=1)

    assert [one["concern"] for one in host["withheld"]] == ["toy"]
    assert rig.says(f"cat {LIVE}") == "4"


def test_with_consent_it_is_undone(rig: Rig) -> None:
    assert rig.applied("--prune")["outcome"] == "changed"
    assert rig.says(f"ls {FILE} {LIVE} /etc/systemd/system/{UNIT} 2>/dev/null") == ""


def test_release_undoes_it_and_forgets_the_host(rig: Rig) -> None:
    rig.applied("--reboot", "never", toy_level=2)

    said = rig.rigops("release", rig.host.name, "--yes", *INVENTORY)

    assert said.code == 0, said.out + said.err
    assert rig.says(f"ls {FILE} {LIVE} /var/lib/rigops 2>/dev/null") == ""
