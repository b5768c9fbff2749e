from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING

import pytest

from rigops.cli.hosts import choose_host, choose_hosts, host_key_policy
from rigops.errors import UsageError
from rigops.hosts.parallel import for_each

if TYPE_CHECKING:
    from pathlib import Path

INVENTORY = """
rigs = [("threadripper", {"ssh_hostname": "10.0.0.5", "driver": "535"}), "t180", "@docker/x"]
"""


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RIGOPS_INVENTORY", raising=False)
    path = tmp_path / "inventory.py"
    path.write_text(INVENTORY)
    return path


@pytest.mark.usefixtures("inventory")
def test_a_name_of_the_inventory_brings_its_address_and_declarations() -> None:
    (chosen,) = choose_hosts(["threadripper"], None)

    assert chosen.target.hostname == "10.0.0.5"
    assert chosen.spec is not None
    assert chosen.spec.driver is not None


@pytest.mark.usefixtures("inventory")
@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["rigs"], ["threadripper", "t180"]),
        (["t*", "t180"], ["threadripper", "t180"]),
        (["other", "t1?0"], ["other", "t180"]),
    ],
)
def test_a_group_or_a_glob_is_each_of_its_hosts_once(words: list[str], names: list[str]) -> None:
    assert [one.name for one in choose_hosts(words, None)] == names


@pytest.mark.usefixtures("inventory")
def test_a_glob_of_no_host_and_a_group_where_one_is_meant_are_refused() -> None:
    with pytest.raises(UsageError, match="no such host or group"):
        choose_hosts(["x*"], None)
    with pytest.raises(UsageError, match="takes one host, and 2 are chosen"):
        choose_host("rigs", None)
    assert choose_host("t180", None).name == "t180"


@pytest.mark.usefixtures("inventory")
def test_any_other_word_is_an_ssh_host_and_a_likely_slip_is_pointed_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (chosen,) = choose_hosts(["threadriper"], None)

    assert chosen.spec is None
    assert "did you mean 'threadripper'?" in capsys.readouterr().err


@pytest.mark.parametrize("needs_inventory", [True, False])
def test_without_names_every_host_of_the_inventory_is_meant(
    inventory: Path, capsys: pytest.CaptureFixture[str], *, needs_inventory: bool
) -> None:
    for path, shown in ((inventory, str(inventory)), (None, "inventory.py")):
        chosen = choose_hosts([], path, needs_inventory=needs_inventory)

        assert [one.name for one in chosen] == ["threadripper", "t180"]
        assert capsys.readouterr().err == f"{shown}: 2 hosts\n"


@pytest.mark.usefixtures("inventory")
def test_this_machine_can_be_named_beside_an_inventory() -> None:
    (chosen,) = choose_hosts(["@local"], None)

    assert chosen.target.local


def test_without_an_inventory_this_machine_is_meant(
    inventory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inventory.unlink()

    (chosen,) = choose_hosts([], None, needs_inventory=False)

    assert chosen.target.local
    assert capsys.readouterr().err == "this machine\n"


def test_a_broken_default_inventory_is_no_reason_to_go_on_without_it(inventory: Path) -> None:
    inventory.write_text("rigs = [")

    with pytest.raises(UsageError):
        choose_hosts(["threadripper"], None)


def test_an_absent_default_inventory_is_no_error(inventory: Path) -> None:
    inventory.unlink()

    assert [c.name for c in choose_hosts(["box"], None)] == ["box"]
    with pytest.raises(UsageError) as refused:
        choose_hosts([], None)
    assert refused.value.problems[0].fix.startswith("run `rigops init`")


@pytest.mark.usefixtures("inventory")
def test_a_host_of_another_connector_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="docker"):
        choose_hosts(["@docker/x"], None)


def test_only_a_fingerprint_can_be_accepted_beforehand() -> None:
    assert host_key_policy(["SHA256:abc"]).accepts("SHA256:abc")
    with pytest.raises(UsageError, match="fingerprint"):
        host_key_policy(["yes"])


def test_what_can_be_done_meanwhile_is_done_while_the_hosts_answer() -> None:
    asked, done = Event(), Event()

    def answer(_: str) -> bool:
        asked.set()
        return done.wait(60)

    def meanwhile() -> None:
        assert asked.wait(60)
        done.set()

    assert for_each(["threadripper"], answer, meanwhile) == [True]
