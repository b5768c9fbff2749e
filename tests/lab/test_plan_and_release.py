"""What a host would become, what became of it, and how it is as it was before rigops came."""

from __future__ import annotations

import getpass
import json
import re
from typing import TYPE_CHECKING, Final

import pytest

from tests.lab.applying import DROP_IN, INVENTORY, QUIETLY, by_host, outcomes
from tests.lab.laptop import Laptop
from tests.lab.terminal import Person
from tests.lab.tree import Tree
from tests.shards import LAB_CONCERNS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab.conftest import Lab
    from tests.lab.hosts import Host

pytestmark = pytest.mark.shard(LAB_CONCERNS)

ARGUMENT = "planned=1"
BORG: Final = {"repository": "/backup", "paths": ["/home"]}  # which no host here can do
GONE = {"ssh_hostname": "127.0.0.1", "ssh_port": 1}
# What a login leaves, and what the journal writes all the time.
ALWAYS_CHANGES = ("/var/log/", "/run/")
BACK = "unless it is confirmed, the host goes back to the old ones 900 s after its start"
POWER_CYCLE = "it takes a power cycle to end it: no hardware watchdog"
COPIES = "copies between GPUs follow: broken P2P can hang the host (no preflight passed yet)"
MORE = "All of it: rigops plan -v"
BOOT = "cat /proc/sys/kernel/random/boot_id"


@pytest.fixture(scope="module")
def rigs(module_lab: Lab) -> list[Host]:
    rigs = module_lab.up(*["threadripper-3x3090"] * 3)
    for rig in rigs:
        rig.run("update-grub")  # by the host's own tools, as ours is going to be
    return rigs


@pytest.fixture(scope="module")
def fresh(rigs: list[Host]) -> list[Tree]:
    return [Tree(rig) for rig in rigs]


@pytest.fixture(scope="module")
def laptop(tmp_path_factory: pytest.TempPathFactory) -> Laptop:
    return Laptop(tmp_path_factory.mktemp("laptop"))


def declare(
    laptop: Laptop, rigs: list[Host], *arguments: str, trial: str = "off", **more: object
) -> None:
    declared = {"kernel_args": list(arguments), "kernel_trial": trial, **more}
    laptop.declare({rig.name: declared for rig in rigs})


def changed(before: Tree, host: Host) -> set[str]:
    found = before.differences(Tree(host))
    return {path for path in found if not path.startswith(ALWAYS_CHANGES)}


# ---- plan


def test_a_plan_tells_once_what_is_the_same_on_several_hosts_and_touches_nothing(
    rigs: list[Host], fresh: list[Tree], laptop: Laptop
) -> None:
    declare(laptop, rigs, ARGUMENT, trial="required")

    said = laptop.rigops("plan", *INVENTORY)

    assert said.code == 0, said.err
    names = ", ".join(rig.name for rig in rigs)
    assert said.out.splitlines() == [
        f"{names} (same on 3 hosts)  kernel argument {ARGUMENT}, 1 reboot",
        f"  kernel_args    add to the kernel command line: {ARGUMENT}",
        "                 after the boot that tries it: /etc/default/grub.d/99-rigops.cfg",
        f"  reboot         the kernel does not run with {ARGUMENT} yet",
        f"  preflight      {COPIES}",
        f"  note           new kernel arguments are tried by one boot first; {BACK}",
        f"  note           should that boot hang, {POWER_CYCLE}",
        "",
        *said.out.splitlines()[-3:-1],
        f"3 hosts would change, 3 reboots. Nothing was touched.    {MORE}",
    ]
    assert re.split(" {2,}", said.out.splitlines()[-2]) == [
        f"{rigs[0].name}, {rigs[1].name} and 1 more",
        "changes",
        f"kernel argument {ARGUMENT}, 1 reboot",
        "rigops apply -i inventory.py",
    ]
    assert [changed(tree, rig) for tree, rig in zip(fresh, rigs, strict=True)] == [set()] * 3
    assert not (laptop.folder / "state/rigops/journal.jsonl").exists()


def test_a_plan_of_a_driver_and_a_kernel_argument_fits_a_screen(
    rigs: list[Host], laptop: Laptop, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = {"driver": "535", "gpus": {"3090": 3}, "borg": BORG}
    declare(laptop, rigs[:1], "iommu=pt", trial="required", **wanted)
    monkeypatch.setenv("COLUMNS", "100")

    said = Person({}, sees_all=True).rigops(laptop, ["plan", *INVENTORY])

    shown = re.sub(r"\x1b\[[0-9;]*m|.*\x1b\[K", "", said.err).rstrip().split("\r\n")
    assert said.code == 1
    assert shown[0].startswith(
        f"{rigs[0].name}  driver 545.29.06 -> 535.261.03, kernel argument iommu=pt, 1 reboot"
    )
    assert len(shown) <= 32
    assert max(map(len, shown)) <= 100


def test_a_plan_has_the_fields_of_its_schema_and_an_exit_code_for_scripts(
    rigs: list[Host], laptop: Laptop
) -> None:
    declare(laptop, rigs[:1], ARGUMENT, trial="required")

    said = laptop.rigops("plan", "--exit-code", "--json", *INVENTORY)

    document = said.json()
    assert said.code == 4
    assert next(iter(document)) == "schema"
    assert document["schema"] == "rigops.plan/1"
    (host,) = document["hosts"]
    (change,) = host["changes"]
    assert (change["concern"], change["kind"]) == ("kernel_args", "argument")
    assert (change["before"], change["after"]) == (None, ARGUMENT)
    assert (
        "kernel_args: after the boot that tries it: /etc/default/grub.d/99-rigops.cfg"
        in host["notices"]
    )
    assert host["trial"] == {"arguments": [ARGUMENT], "not_possible": ""}
    assert set(host["packages"]) == {"install", "remove", "upgrade", "downgrade"}
    assert host["reboot"] is True
    assert host["reboot_reasons"] == [f"the kernel does not run with {ARGUMENT} yet"]
    assert host["blocked"] == []


@pytest.mark.parametrize(
    ("more", "code"),
    [({"borg": BORG}, 1), ({}, 3)],
    ids=["in the way", "not reached"],
)
def test_a_plan_that_could_not_be_made_whole_is_told_by_its_exit_code(
    rigs: list[Host], laptop: Laptop, more: dict[str, object], code: int
) -> None:
    entries = {rigs[0].name: {"kernel_args": [ARGUMENT], **more}, "gone": dict(GONE)}
    if more:
        del entries["gone"]
    laptop.declare(entries)

    said = laptop.rigops("plan", "--exit-code", "--json", *INVENTORY)

    assert said.code == code
    found = by_host(said)
    if more:
        blocked = found[rigs[0].name]["blocked"]
        assert {(one["concern"], *one["keys"]) for one in blocked} == {("borg", "borg")}
        assert found[rigs[0].name]["status"] == "refused"
        return
    assert found[rigs[0].name]["status"] == "pending"
    assert found["gone"]["status"] == "unknown"
    assert found["gone"]["error"]["kind"] == "refused"


# ---- history


def test_history_has_what_the_host_knows_and_this_machine_and_tells_of_a_silent_host(
    rigs: list[Host], laptop: Laptop, tmp_path: Path
) -> None:
    rig = rigs[0]
    declare(laptop, [rig], ARGUMENT)
    for _ in range(2):  # the second changes nothing, so that only this machine knows of it
        assert laptop.rigops("apply", "--reboot", "never", *QUIETLY).code == 0
    laptop.declare({rig.name: {}, "gone": dict(GONE)})
    other = Laptop(tmp_path)
    other.declare({rig.name: {}})

    said = laptop.rigops("history", "--json", *INVENTORY)
    elsewhere = other.rigops("history", "--json", *INVENTORY)

    document = said.json()
    assert document["schema"] == "rigops.history/1"
    assert [run["outcome"] for run in document["runs"]] == ["reboot_owed", "reboot_owed"]
    assert {run["host"] for run in document["runs"]} == {rig.name}
    assert {run["command"] for run in document["runs"]} == {"apply"}
    assert [run["changes"] for run in document["runs"]] == [[], [f"kernel argument {ARGUMENT}"]]
    (silent,) = document["hosts"]
    assert (silent["host"], silent["status"], silent["error"]["kind"]) == (
        "gone",
        "unknown",
        "refused",
    )
    assert "gone" in said.err
    assert "this machine's records only" in said.err
    assert [run["outcome"] for run in elsewhere.json()["runs"]] == ["reboot_owed"]
    assert elsewhere.json()["runs"][0]["run"] == document["runs"][1]["run"]
    assert document["runs"][0]["who"].startswith(f"{getpass.getuser()}@")
    assert document["runs"][0]["inventory"] == str(laptop.folder / "inventory.py")
    assert f"reboot pending: the kernel does not run with {ARGUMENT} yet" in [
        run["reason"] for run in document["runs"]
    ]


# ---- release


def test_a_release_without_a_yes_shows_what_would_go_and_takes_nothing(
    rigs: list[Host], laptop: Laptop
) -> None:
    said = laptop.rigops("release", rigs[0].name, *INVENTORY)

    assert said.code == 130
    assert f"remove {DROP_IN}" in said.err
    assert "--yes" in said.err
    assert rigs[0].run(f"cat {DROP_IN}").returncode == 0


def test_a_dry_run_of_a_release_names_what_would_go_and_takes_nothing(
    rigs: list[Host], laptop: Laptop
) -> None:
    before = rigs[0].run("find /var/lib/rigops /etc -type f | sort | xargs md5sum").stdout

    said = laptop.rigops("release", rigs[0].name, "--dry-run", *INVENTORY)
    document = laptop.rigops("release", rigs[0].name, "--dry-run", "--json", *INVENTORY).json()

    assert said.code == 0, said.err
    assert f"remove {DROP_IN}" in said.out
    assert "then rigops is removed from it: /var/lib/rigops" in said.out
    assert said.out.endswith("Nothing was touched.\n")
    (host,) = document["hosts"]
    assert (document["schema"], host["status"]) == ("rigops.plan/1", "pending")
    assert rigs[0].run("find /var/lib/rigops /etc -type f | sort | xargs md5sum").stdout == before


def test_a_released_host_is_as_it_was_and_its_journal_is_kept_here(
    rigs: list[Host], fresh: list[Tree], tmp_path: Path
) -> None:
    rig = rigs[0]
    journal = rig.run("cat /var/lib/rigops/journal.jsonl").stdout.splitlines()
    another = Laptop(tmp_path)  # which has never seen this host
    another.declare({rig.name: {}})

    said = another.rigops("release", rig.name, "--yes", "--reboot", "auto", "--json", *INVENTORY)

    assert said.code == 0, said.out + said.err
    assert rig.run("ls -d /var/lib/rigops /usr/local/libexec/rigops /run/rigops").stdout == ""
    assert changed(fresh[0], rig) == set()
    assert ARGUMENT not in rig.run("cat /proc/cmdline /boot/grub/grub.cfg").stdout
    text = (tmp_path / "state/rigops/journal.jsonl").read_text()
    *kept, release = map(json.loads, text.splitlines())
    ended = [one for one in map(json.loads, journal) if one["outcome"] != "begun"]
    assert kept == ended
    assert (release["command"], release["outcome"]) == ("release", "changed")


def test_lines_that_somebody_changed_are_left_and_named_and_the_host_is_not_forgotten(
    rigs: list[Host], laptop: Laptop
) -> None:
    rig = rigs[0]
    laptop.declare({rig.name: {"nccl": {"NCCL_P2P_LEVEL": "PHB"}}})
    assert laptop.rigops("apply", *QUIETLY).code == 0
    rig.run("sed -i s/PHB/SYS/ /etc/nccl.conf")

    said = laptop.rigops("release", rig.name, "--yes", "--json", *INVENTORY)

    (host,) = said.json()["hosts"]
    assert "remove /etc/nccl.conf" not in said.err
    assert "NCCL_P2P_LEVEL=SYS" in rig.run("cat /etc/nccl.conf").stdout
    assert said.code == 1
    assert "/etc/nccl.conf" in host["error"]["message"]
    assert rig.run("ls -d /var/lib/rigops").returncode == 0


def test_a_file_that_somebody_changed_is_left_and_named_and_no_reboot_is_made_in_vain(
    rigs: list[Host], laptop: Laptop
) -> None:
    rig = rigs[1]
    declare(laptop, [rig], ARGUMENT)
    assert laptop.rigops("apply", "--reboot", "auto", *QUIETLY).code == 0
    rig.run(f"cp {DROP_IN} /root/ours; echo '# mine' >>{DROP_IN}")
    try:
        boot = rig.run(BOOT).stdout

        said = laptop.rigops("release", rig.name, "--yes", "--reboot", "auto", "--json", *INVENTORY)

        assert said.code == 1
        (host,) = said.json()["hosts"]
        assert DROP_IN in host["error"]["message"]
        assert "left alone" in said.err  # in the plan, before anybody agrees
        assert rig.run(f"tail -n 1 {DROP_IN}; {BOOT}").stdout == f"# mine\n{boot}"
        assert DROP_IN in rig.run("cat /var/lib/rigops/owned.json").stdout
    finally:
        rig.run(f"cat /root/ours >{DROP_IN}")


def test_a_reboot_that_taking_back_owes_stays_owed_and_no_host_is_forgotten_before_it(
    rigs: list[Host], laptop: Laptop
) -> None:
    """The host runs with the argument, from the test before."""
    rig = rigs[1]
    assert ARGUMENT in rig.run("cat /proc/cmdline").stdout
    declare(laptop, [rig])
    apply = ("apply", "--preflight", "never")

    for command in (apply, apply, ("release", rig.name)):
        said = laptop.rigops(*command, "--reboot", "never", "--yes", "--json", *INVENTORY)

        assert outcomes(said) == {rig.name: "reboot_owed"}, command
    assert rig.run("ls -d /var/lib/rigops").returncode == 0
    released = laptop.rigops("release", rig.name, "--yes", "--reboot", "auto", *INVENTORY)

    assert released.code == 0, released.out + released.err
    assert rig.run("ls -d /var/lib/rigops").returncode != 0
    assert ARGUMENT not in rig.run("cat /proc/cmdline").stdout
