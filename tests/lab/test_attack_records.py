"""Records of rigops on a host, damaged as power cuts, disks and people do it, or lost.

Whatever the damage: no traceback, never "all is well", nothing is destroyed, and the text names the
file and what helps.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.lab.applying import INVENTORY, QUIETLY, only
from tests.lab.laptop import Laptop
from tests.shards import ATTACK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.lab.conftest import Lab
    from tests.lab.hosts import Host
    from tests.lab.laptop import Said

pytestmark = pytest.mark.shard(ATTACK)

NEVER: Final = ("--preflight", "never", "--reboot", "never")
STATE: Final = "/var/lib/rigops"
OWNED: Final = f"{STATE}/owned.json"
JOURNAL: Final = f"{STATE}/journal.jsonl"
LIMITS: Final = "/etc/security/limits.d/90-rigops.conf"
NCCL: Final = "/etc/nccl.conf"
DECLARED: Final[Mapping[str, object]] = {
    "driver": "535",
    "limits": {"nofile": 8192},
    "nccl": {"NCCL_P2P_LEVEL": "PHB"},
    "notify": "https://rig:invented-secret@notify.example.org/rigs",
    "kernel_args": ["planned=1"],
    "kernel_trial": "off",
    "acs_redirect": "off",
}
# Of a user, before rigops came.
THEIRS: Final[Mapping[str, str]] = {LIMITS: "* - nofile 4096\n", NCCL: "NCCL_DEBUG=WARN\n"}
SAVE: Final = f"""
set -e
[ -e {STATE}/kernel_args.json ] || echo '{{"schema": "rigops.kernel_args/1", "trying": [], \
"written": [], "armed_in": "", "unsettled": false, "cards": []}}' >{STATE}/kernel_args.json
apt-mark showhold >/root/holds
tar -C / -cpf /root/saved.tar etc usr/local boot/grub {STATE[1:]}
"""
RESET: Final = f"""
set -e
systemctl stop rigops-mine.service 2>/dev/null || :
apt-mark showhold | grep -vxFf /root/holds | xargs -r apt-mark unhold
xargs apt-mark hold </root/holds
rm -rf {STATE} /usr/local/libexec/rigops
tar -C / -xpf /root/saved.tar
systemctl daemon-reload
systemctl start rigops-acs.service rigops-self-check.timer
"""

FILES: Final = "find /etc /usr/local /boot /var/lib/rigops -type f -exec sha256sum {} + | sort"
DAMAGES: Final[Mapping[str, str]] = {
    "cut by 5 bytes": "truncate -s -5 F",
    "cut in half": "truncate -s $(($(stat -c %s F) / 2)) F",
    "emptied": ": >F",
    "filled with NUL": "s=$(stat -c %s F); : >F; truncate -s $s F",
    "garbage": "head -c 4096 /dev/urandom >F",
    "folder": "rm F; mkdir F; : >F/x",
    "pipe": "rm F; mkfifo F",
    "link to nothing": "rm F; ln -s nothing F",
    "link to a device": "rm F; ln -s /dev/zero F",
    "other schema": """sed -i 's#"rigops[.][a-z_]*/1"#"else/1"#' F""",
    "endless": "truncate -s 1T F",
    "lost": "rm F",
}


@dataclass(frozen=True)
class Rig:
    host: Host
    laptop: Laptop

    def does(self, command: str) -> str:
        done = self.host.run(command)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def damage(self, path: str, damage: str) -> None:
        self.does(DAMAGES[damage].replace("F", path))

    def says(self, *words: str) -> Said:
        said = self.laptop.rigops(*words, *INVENTORY)
        assert "Traceback" not in said.out + said.err
        assert "Error: " not in said.err or "fix: " in said.err
        return said

    def planned(self) -> Mapping[str, Any]:
        said = self.says("plan", "--json")
        return only(said)

    def found(self) -> list[tuple[str, str]]:
        """What doctor says of the records."""
        seen = self.says("doctor", "--only", "rigops.records", "--json", self.host.name).seen()
        return [(one["status"], one["subject"]) for one in seen.of("rigops.records")]


@pytest.fixture(scope="module")
def rig(module_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Rig:
    host = module_lab.one("threadripper-3x3090")
    for path, text in THEIRS.items():
        assert host.run(f"printf '%s' '{text}' >{path}").returncode == 0
    host.run("update-grub")
    rig = Rig(host, Laptop(tmp_path_factory.mktemp("laptop")))
    rig.laptop.declare({host.name: dict(DECLARED)})
    said = rig.laptop.rigops("apply", "--reboot", "never", *QUIETLY)
    assert said.code == 0, said.out + said.err
    rig.does(SAVE)
    return rig


@pytest.fixture(autouse=True)
def mended(rig: Rig) -> Iterator[None]:
    yield
    rig.does(RESET)


def test_a_whole_record_is_said_to_be_whole(rig: Rig) -> None:
    assert rig.found() == [("ok", "host")]
    assert rig.planned()["changes"] == []


@pytest.mark.parametrize(
    "damage",
    [
        "cut by 5 bytes", "cut in half", "filled with NUL", "folder", "pipe", "link to nothing",
        "other schema", "lost",
    ],
)  # fmt: skip
def test_without_the_ownership_record_nothing_is_done(rig: Rig, damage: str) -> None:
    rig.damage(OWNED, damage)
    before = rig.does(FILES)

    assert rig.found() == [("fail", OWNED)]
    for words in (("plan",), ("apply", "--yes", *NEVER), ("release", rig.host.name, "--yes")):
        said = rig.says(*words, "--json")

        error = only(said)["error"]
        assert said.code == 1, said.out + said.err
        assert OWNED in error["message"]
        assert f"put {OWNED} back from a backup" in error["cure"]
    assert rig.does(FILES) == before


def test_without_the_files_of_a_lost_ownership_record_apply_begins_again(rig: Rig) -> None:
    rig.damage(OWNED, "lost")
    named = only(rig.says("plan", "--json"))["error"]["message"].partition("wrote: ")[2].split(", ")
    assert {LIMITS, NCCL} < {*named}

    rig.does(f"rm {' '.join(named)}")
    said = rig.says("apply", "--yes", *NEVER, "--json")

    assert said.code == 0, said.out + said.err
    recorded = {entry["path"] for entry in json.loads(rig.does(f"cat {OWNED}"))["files"]}
    assert {*named} - {NCCL} <= recorded
    assert rig.planned()["changes"] == []


# What of the records: a file, and what doctor says of its damage.
RECORDS: Final[Mapping[str, str]] = {
    "holds.json": "fail",
    "kernel_args.json": "fail",
    "driver.json": "warn",
    "acs.json": "warn",
}


BY_TURNS: Final = [
    (record, damage)
    for line, damage in enumerate(sorted({*DAMAGES} - {"lost", "link to nothing", "endless"}))
    for column, record in enumerate(RECORDS)
    if (line + column) % 2 == 0
]


@pytest.mark.parametrize(("record", "damage"), BY_TURNS)
def test_damage_of_another_record_is_said_and_changes_nothing_silently(
    rig: Rig, record: str, damage: str
) -> None:
    path = f"{STATE}/{record}"
    rig.damage(path, damage)

    found, planned = rig.found(), rig.planned()

    assert found == [(RECORDS[record], path)]
    assert path in json.dumps([planned["notices"], planned["blocked"], planned.get("error")])


@pytest.mark.parametrize(
    ("record", "code"),
    [("holds.json", 1), ("kernel_args.json", 1), ("driver.json", 0), ("acs.json", 0)],
)
def test_apply_writes_a_damaged_record_anew_or_leaves_it_and_is_refused(
    rig: Rig, record: str, code: int
) -> None:
    path = f"{STATE}/{record}"
    rig.damage(path, "cut in half")

    said = rig.says("apply", "--yes", *NEVER, "--json")

    host = only(said)
    assert said.code == code, said.out + said.err
    assert path in json.dumps(
        [host["notices"], host["blocked"], host["changes"], host.get("error")]
    )
    if code:
        assert rig.found() == [("fail", path)]


@pytest.mark.parametrize("record", ["holds.json", "kernel_args.json"])
def test_a_release_with_a_damaged_record_forgets_nothing(rig: Rig, record: str) -> None:
    path = f"{STATE}/{record}"
    rig.damage(path, "filled with NUL")

    said = rig.says("release", rig.host.name, "--yes", "--json")

    assert said.code == 1
    assert path in json.dumps(only(said))
    assert rig.does(f"ls {JOURNAL} {STATE}/previous {path}")


JOURNALS: Final[Mapping[str, tuple[str, int]]] = {  # what doctor says, the exit code of an apply
    "cut by 5 bytes": ("info", 0),
    "filled with NUL": ("info", 0),
    "lost": ("ok", 0),
    "endless": ("info", 0),
    "pipe": ("fail", 1),
    "link to a device": ("fail", 1),
}


@pytest.mark.parametrize("damage", JOURNALS)
def test_the_journal_is_mended_by_the_next_run_or_named(rig: Rig, damage: str) -> None:
    status, code = JOURNALS[damage]
    rig.damage(JOURNAL, damage)

    assert [one[0] for one in rig.found()] == [status]
    assert rig.planned()["changes"] == []
    history = rig.says("history", rig.host.name, "--json")
    rig.does(f"rm {NCCL}")
    said = rig.says("apply", "--yes", *NEVER, "--json")

    assert (history.code, said.code) == (0, code), said.out + said.err
    assert ("cannot be read" in history.err or "regular file" in history.err) == (status != "ok")
    if code:
        assert JOURNAL in only(said)["error"]["message"]
        assert "away" in only(said)["error"]["cure"]
    else:
        at = json.loads(rig.does(f"tail -n 1 {JOURNAL}"))["at"]
        runs = rig.says("history", rig.host.name, "--json").json()["runs"]
        assert runs[0]["at"] == at


def test_a_release_undoes_all_of_it_and_gives_back_what_was_there(rig: Rig) -> None:
    rig.damage(JOURNAL, "cut by 5 bytes")

    said = rig.says("release", rig.host.name, "--yes", "--drop-holds", "--json")

    assert said.code == 0, said.out + said.err
    assert {path: rig.does(f"cat {path}") for path in THEIRS} == THEIRS
    assert rig.host.run("grep -rls 'Made by rigops' /etc /usr/local /boot").stdout == ""
    assert rig.host.run(f"ls -d {STATE} /usr/local/libexec/rigops /etc/rigops").stdout == ""
    assert rig.does("apt-mark showhold") == ""


@pytest.mark.parametrize(
    ("lost", "left"),
    [
        (f"rm {STATE}/holds.json", "the hold of "),
        (
            "install -m 755 /bin/true /usr/local/libexec/rigops/mine",
            "/usr/local/libexec/rigops/mine",
        ),
        (
            "systemd-run --quiet --unit rigops-mine.service sleep 3600",
            "the unit rigops-mine.service",
        ),
    ],
    ids=["holds", "an unknown program", "a unit"],
)
def test_a_release_that_leaves_something_names_it_and_forgets_nothing(
    rig: Rig, lost: str, left: str
) -> None:
    rig.does(lost)

    said = rig.says("release", rig.host.name, "--yes", "--json")

    assert said.code == 1
    error = only(said)["error"]
    assert left in error["message"]
    assert "release the host again" in error["cure"]
    assert rig.does(f"ls {JOURNAL} {STATE}/previous")
