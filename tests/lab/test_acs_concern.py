"""The acs concern on a booted host: what is cleared, what stays, and what comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.lab import hosts
from tests.lab.applying import INVENTORY
from tests.lab.laptop import Laptop
from tests.lab.tended import Tended
from tests.shards import LAB_CONCERNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

pytestmark = pytest.mark.shard(LAB_CONCERNS)

NAME = "acs-concern"
PORTS = ("0000:00:03.1", "0000:40:01.3", "0000:40:03.1")  # above the three cards
ELSEWHERE = "0000:00:01.0"  # above the disk
SET, CLEARED = "001d", "0011"
UNIT = "/etc/systemd/system/rigops-acs.service"
PROGRAM = "/usr/local/libexec/rigops/acs"
RECORD = "/var/lib/rigops/acs.json"
OFF: Final[Mapping[str, Any]] = {"acs_redirect": "off"}
JOB = """
touch /dev/nvidia9
setsid sh -c 'echo $$ >/run/job; exec sleep 600 9</dev/nvidia9' </dev/null >/dev/null 2>&1 &
until [ -s /run/job ]; do sleep 0.1; done
"""


class Rig(Tended):
    def words(self) -> dict[str, str]:
        """As pciutils reads them, which knows nothing of our program."""
        return {port: self.does(f"setpci -s {port} ECAP_ACS+6.w") for port in PORTS}


def _settings(host: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """From and to which word each port is to be brought."""
    return {
        one["subject"]: (one["before"].split()[1], one["after"].split()[1])
        for one in host["changes"]
        if one["kind"] == "setting"
    }


def every(word: str) -> dict[str, str]:
    return dict.fromkeys(PORTS, word)


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with hosts.running([f"threadripper-3x3090={NAME}"]) as (host,):
        yield Rig(Laptop(tmp_path_factory.mktemp("laptop")), host)


def test_doctor_names_the_ports_and_that_apply_clears_them(rig: Rig) -> None:
    finding = rig.finding("acs.path", **OFF)

    assert finding["status"] == "fail"
    assert (finding["remedy"]["kind"], finding["remedy"]["concern"]) == ("apply", "acs")
    evidence = "\n".join(one["line"] for one in finding["evidence"])
    assert all(port in evidence for port in PORTS)


def test_the_plan_says_which_word_each_port_has_and_gets_and_touches_nothing(rig: Rig) -> None:
    host = rig.plan(**OFF)

    assert _settings(host) == dict.fromkeys(PORTS, (SET, CLEARED))
    assert {UNIT, PROGRAM} < {one["subject"] for one in host["changes"]}
    assert rig.words() == every(SET)


@pytest.mark.story
def test_it_is_cleared_at_once_and_only_between_the_cards(rig: Rig) -> None:
    assert rig.apply(**OFF)["outcome"] == "changed"

    assert rig.words() == every(CLEARED)
    assert rig.does(f"setpci -s {ELSEWHERE} ECAP_ACS+6.w") == SET
    assert rig.does(f"stat -c '%a %U' {PROGRAM}") == "755 root"
    assert rig.does("systemctl is-enabled rigops-acs; systemctl is-active rigops-acs") == (
        "enabled\nactive"
    )
    assert rig.finding("acs.path", **OFF)["status"] == "ok"


@pytest.mark.story
def test_a_second_apply_changes_nothing(rig: Rig) -> None:
    host = rig.apply(**OFF)

    assert (host["outcome"], host["changes"]) == ("converged", [])


def test_a_bit_that_somebody_sets_again_is_found_and_cleared(rig: Rig) -> None:
    rig.does(f"setpci -s {PORTS[1]} ECAP_ACS+6.w=007f")

    assert rig.finding("acs.path", **OFF)["status"] == "fail"
    host = rig.apply(**OFF)
    assert [one["subject"] for one in host["changes"]] == [PORTS[1]]
    assert rig.words() == {**every(CLEARED), PORTS[1]: "0053"}
    rig.does(f"setpci -s {PORTS[1]} ECAP_ACS+6.w={CLEARED}")


def test_it_is_cleared_again_at_every_boot(rig: Rig) -> None:
    rig.reboot()

    assert rig.words() == every(CLEARED)
    assert rig.does("systemctl is-active rigops-acs") == "active"
    assert rig.apply(**OFF)["outcome"] == "converged"


def test_a_port_that_does_not_take_it_fails_with_its_name_and_word(rig: Rig) -> None:
    config = f"/sys/bus/pci/devices/{PORTS[0]}/config"
    rig.does(f"setpci -s {PORTS[0]} ECAP_ACS+6.w={SET}")
    rig.does(f"mount --bind {config} {config} && mount -o remount,bind,ro {config}")

    host = rig.apply(1, **OFF)
    assert host["outcome"] == "failed"
    assert f"{PORTS[0]}: ACSCtl stays {SET} instead of {CLEARED}" in host["error"]["message"]
    rig.does(f"umount {config}")
    assert rig.apply(**OFF)["outcome"] == "changed"
    assert rig.words() == every(CLEARED)


def test_to_keep_it_sets_back_what_was_set_and_leaves_nothing_behind(rig: Rig) -> None:
    host = rig.apply(acs_redirect="keep")

    assert host["outcome"] == "changed"
    assert _settings(host) == dict.fromkeys(PORTS, (CLEARED, SET))
    assert rig.words() == every(SET)
    left = f"ls {UNIT} {PROGRAM} {RECORD} /etc/systemd/system/*/rigops-acs.service"
    assert rig.host.run(left).stdout == ""
    assert rig.host.run("systemctl is-active rigops-acs").stdout == "inactive\n"
    assert rig.apply(acs_redirect="keep")["outcome"] == "converged"


def test_a_declaration_that_is_lost_takes_nothing_back_without_consent(rig: Rig) -> None:
    rig.apply(**OFF)

    host = rig.apply(1)
    assert [one["concern"] for one in host["withheld"]] == ["acs"]
    assert rig.words() == every(CLEARED)
    rig.apply(0, "--prune")
    assert rig.words() == every(SET)
    assert rig.host.run(f"ls {UNIT} {PROGRAM} {RECORD}").stdout == ""


def test_jobs_on_the_cards_are_waited_for(rig: Rig) -> None:
    rig.does(JOB)

    host = rig.apply(1, **OFF)
    assert "GPU jobs run (sleep" in host["blocked"][0]["reason"]
    assert rig.words() == every(SET)
    assert rig.apply(0, "--allow-busy", **OFF)["outcome"] == "changed"
    assert rig.words() == every(CLEARED)
    rig.does("kill $(cat /run/job); rm /dev/nvidia9")
    rig.apply(acs_redirect="keep")


def test_the_same_deploy_runs_under_plain_pyinfra(rig: Rig) -> None:
    rig.declare(**OFF)
    rig.pyinfra_twice("acs.py")

    assert rig.words() == every(CLEARED)
    assert rig.apply(**OFF)["outcome"] == "converged"


def test_a_release_sets_back_what_was_set(rig: Rig) -> None:
    said = rig.laptop.rigops("release", NAME, "--yes", "--json", *INVENTORY)

    assert said.code == 0, said.out + said.err
    assert rig.words() == every(SET)
    assert rig.host.run(f"ls -d {UNIT} {PROGRAM} /var/lib/rigops").stdout == ""
