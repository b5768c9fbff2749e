"""What apply asks for, at a terminal: values, differences, risky copies."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.lab import hosts
from tests.lab.applying import INVENTORY, only
from tests.lab.laptop import Laptop
from tests.lab.tended import Tended
from tests.lab.terminal import Person
from tests.shards import LAB_CONCERNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.lab.laptop import Said

pytestmark = pytest.mark.shard(LAB_CONCERNS)

NAME = "asked"
TABLE = "/etc/rigops/gpu_tuning"
BEFORE = {"gpu_persistence": True, "gpu_power_limit": 240}
AFTER = {"gpu_persistence": True}


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tended]:
    with hosts.running([f"t180-4xv100={NAME}"]) as (host,):
        yield Tended(Laptop(tmp_path_factory.mktemp("laptop")), host)


def apply(rig: Tended, answers: Mapping[str, str], *options: str) -> Said:
    said = ["apply", *options, *INVENTORY]
    return Person(answers, columns=100).rigops(rig.laptop, said, timeout=300)


def words(said: Said) -> str:
    """On one line, without colors."""
    return " ".join(re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", said.err).split())


def test_of_ones_own_declaration_nobody_is_named(
    rig: Tended, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "me")
    rig.apply(**BEFORE)
    rig.declare(**AFTER)

    said = apply(rig, {"Change asked?": "n"}, "--preflight", "never")

    assert "240 W -> 300 W" in words(said)
    assert "declared by" not in words(said)


def test_an_edit_by_hand_is_shown_and_named_before_it_is_overwritten(rig: Tended) -> None:
    rig.does(f"echo '# mine' >>{TABLE}")
    rig.declare(**BEFORE)
    fix = rig.finding("rigops.files", **BEFORE)["remedy"]["text"]
    assert "`rigops plan -v` shows the difference" in fix

    plan = words(Person({}, columns=100, sees_all=True).rigops(rig.laptop, ["plan", *INVENTORY]))
    assert f"change {TABLE} (changed by hand since rigops wrote it)" in plan
    full = Person({}, columns=100, sees_all=True).rigops(rig.laptop, ["plan", "-v", *INVENTORY])
    assert "-# mine" in words(full)
    said = apply(rig, {"[y]es, [d]iff, [N]o": "d", "Change asked?": "y"}, "--preflight", "never")

    assert said.code == 0, said.err
    asked, _, again = words(said).partition("[N]o: d")
    assert f"{TABLE}, changed by hand since rigops wrote it" in asked
    assert "-# mine" in again
    assert rig.host.run(f"grep mine {TABLE}").returncode == 1
    rig.does("grep mine /var/lib/rigops/previous/gpu_tuning.*")


def test_copies_that_can_hang_the_host_are_asked_for_where_nothing_else_is_to_do(
    rig: Tended,
) -> None:
    rig.declare(**BEFORE)

    refused = apply(rig, {"Copy between the GPUs of asked?": "n"})
    assert refused.code == 130
    assert "no preflight passed yet" in words(refused)
    unasked = rig.laptop.rigops("apply", *INVENTORY)
    assert unasked.code == 130
    assert "pass --yes" in unasked.err
    assert rig.host.run("ls /var/lib/rigops/proven.json").returncode != 0

    proven = apply(rig, {"Copy between the GPUs of asked?": "y"}, "--json")
    assert proven.code == 0, proven.err
    assert only(proven)["preflight"]["status"] == "ok"
    again = apply(rig, {})
    assert (again.code, "Copy between" in again.err) == (0, False)
